"""Extraction of a statement's subgraph: its mentioned concepts, the middle nodes of two-hop paths between them, and all facts
among these nodes."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import pairwise, repeat
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.pool import Pool
from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Mentioned, Mentions
from mhgrn.io.stored import in_memory
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.printing import shortened
from mhgrn.subgraphs.hiding import Hiding, Pair, reduced_arrays, without_hidden
from mhgrn.subgraphs.kernels import (
    ANSWER,
    MARKS,
    OTHER,
    QUESTION,
    FactBuffer,
    GraphArrays,
    Guards,
    Scratch,
    count_types,
    extract_statements,
    read_only,
)

__all__ = [
    "ANSWER",
    "DEFAULT_FACTS",
    "DEFAULT_NODES",
    "OTHER",
    "QUESTION",
    "Extractor",
    "Subgraph",
    "SubgraphLimits",
    "Subgraphs",
    "count_sides",
    "extract_all",
]

MOST_NODES = 2**16 - 1  # node numbers are stored in 16 bits
MOST_FACTS = 2**24

# Seven times the largest subgraphs of CommonsenseQA and OpenBookQA with ConceptNet: 1,318 nodes and 38,809 facts
DEFAULT_NODES = 10_000
DEFAULT_FACTS = 250_000


@dataclass(frozen=True)
class Subgraph:
    """The subgraph of one statement.

    Nodes are in the order question, answer, other, and by concept number within each. A node is numbered by its position.

    >>> pair = Subgraph(np.array([7, 3]), np.array([QUESTION, ANSWER]), np.array([0]), np.array([5]), np.array([1]))
    >>> pair.concepts[pair.head].tolist(), pair.relation.tolist(), pair.concepts[pair.tail].tolist()
    ([7], [5], [3])
    """

    concepts: Ints  # [nodes] concept numbers
    types: Ints  # [nodes] QUESTION, ANSWER or OTHER
    head: Ints  # [facts] node numbers
    relation: Ints  # [facts]
    tail: Ints  # [facts]
    cut: int = 0  # nodes that a limit removed


@dataclass(frozen=True)
class SubgraphLimits:
    """Limits on the size of a subgraph. They keep nodes in the order of :class:`Subgraph`, and all facts among these nodes.

    Args:
        max_nodes: Largest number of nodes, 65,535 at most. The published setting is 200. None: ``DEFAULT_NODES``, which no question
            of CommonsenseQA or OpenBookQA reaches.
        max_degree: For graphs with hubs. A mentioned concept with more neighbors is not expanded: it stays, with its facts, but its
            neighbors do not become middle nodes through it. None: all are expanded.
        max_facts: Largest number of facts. None: ``DEFAULT_FACTS``, which no question of these datasets reaches.

    >>> SubgraphLimits(max_nodes=-5)
    Traceback (most recent call last):
    mhgrn.errors.UserError: max_nodes is -5; it should be an integer from 1 to 2,147,483,647.
    """

    max_nodes: int | None = None
    max_degree: int | None = None
    max_facts: int | None = None

    def __post_init__(self) -> None:
        for name, lowest, highest in (("max_nodes", 1, 2**31 - 1), ("max_degree", 0, 2**31 - 1), ("max_facts", 1, MOST_FACTS)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest):
                raise UserError(f"{name} is {shortened(value)}; it should be an integer from {lowest:,} to {highest:,}.")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The limits among the settings of prepared data or of a run."""
        return cls(**{field.name: settings.get(field.name) for field in fields(cls)})

    @property
    def nodes(self) -> int:
        return DEFAULT_NODES if self.max_nodes is None else min(self.max_nodes, MOST_NODES)

    @property
    def facts(self) -> int:
        return DEFAULT_FACTS if self.max_facts is None else self.max_facts

    @property
    def default_limit(self) -> str:
        """What removed nodes that a limit removed, if nobody chose it; "" if ``max_nodes`` was chosen."""
        return f"cut to {self.nodes:,} nodes and {self.facts:,} facts" if self.max_nodes is None else ""

    def note(self, names: Sequence[str], subgraphs: "Sequence[Subgraph]") -> list[str]:
        """A remark on the subgraphs, named ``names``, from which a default limit removed nodes."""
        cut = [f"{name} ({subgraph.cut:,})" for name, subgraph in zip(names, subgraphs, strict=True) if subgraph.cut]
        if not cut or not self.default_limit:
            return []
        return [f"the subgraph of a choice is {self.default_limit}; concepts left out: {', '.join(cut)}."]


class Subgraphs(NamedTuple):
    """Several subgraphs, concatenated."""

    nodes: Ints  # [subgraphs] number of nodes
    facts: Ints  # [subgraphs] number of facts
    cut: Ints  # [subgraphs] number of nodes that a limit removed
    concepts: Ints
    types: Ints
    head: Ints
    relation: Ints
    tail: Ints


def count_sides(subgraphs: Subgraphs, occurs: NDArray[np.bool_]) -> Ints:
    """The numbers of question and of answer concepts of each subgraph [2, subgraphs]. Marks all concepts in ``occurs``."""
    counts: Ints = count_types(subgraphs.nodes, subgraphs.concepts, subgraphs.types, occurs)
    return counts


_MOST_SHARED = 1 << 20  # facts among the nodes of all statements of a question; bounds the memory
_KEPT_FACTS = 1 << 22  # a larger buffer is not kept


class _Workspace:
    """The memory of one thread's extraction."""

    def __init__(self, concepts: int) -> None:
        touched, place = np.zeros(concepts, dtype=np.uint8), np.zeros(concepts, dtype=np.int32)
        self.scratch = Scratch(touched, place, np.zeros(MARKS, dtype=np.uint8))
        self.buffer = FactBuffer(*(np.empty(0, np.uint16) for _ in range(3)))


class Extractor:
    """Extracts subgraphs from a graph. Any number of threads may use one extractor.

    Args:
        graph: The graph.
        limits: Limits on the size of a subgraph.

    >>> facts = [("child", "AtLocation", "school"), ("desk", "AtLocation", "school"), ("desk", "MadeOf", "wood")]
    >>> graph = KnowledgeGraph.from_facts(facts)
    >>> found = Extractor(graph)(Mentions([graph.id("child")], [graph.id("desk")]))
    >>> [graph.name(c) for c in found.concepts], found.types.tolist()
    (['child', 'desk', 'school'], [0, 1, 2])
    """

    def __init__(self, graph: KnowledgeGraph, limits: SubgraphLimits = SubgraphLimits()) -> None:
        self.graph = graph
        self.limits = limits
        stored = [graph.guarded(name) for name in ("neighbour_ptr", "neighbour", "head_ptr", "tail", "relation")]
        self._arrays = GraphArrays(*(read_only(array.values) for array in stored))
        self._guards = Guards(*(array.guard for array in stored))
        self._pool = Pool(lambda: _Workspace(len(graph)))

    def __call__(self, mentions: Mentions) -> Subgraph:
        found = self.several(Mentioned.of([[mentions]]))
        return Subgraph(found.concepts, found.types, found.head, found.relation, found.tail, int(found.cut[0]))

    def several(self, mentioned: Mentioned, hidden: Sequence[Sequence[Pair]] = ()) -> Subgraphs:
        """The subgraphs of the statements of several questions.

        Args:
            mentioned: The mentioned concepts.
            hidden: For each question, pairs of concepts whose facts in either direction are hidden from its subgraphs. The nodes
                and facts are those of the graph without these facts; ``cut`` may count a node that is a middle node only because
                of them.
        """
        if not any(hidden):
            return self._found(mentioned, self.limits.nodes, self._arrays, self._guards)
        most = max(map(len, hidden))  # each pair removes one middle node at most
        found = self._found(mentioned, self.limits.nodes + most, self._arrays, self._guards)
        pairs = np.array([pair for of_question in hidden for pair in of_question], dtype=np.int64).reshape(-1, 2)
        pointer = np.cumsum([0, *map(len, hidden)])
        max_degree = len(self.graph) if self.limits.max_degree is None else self.limits.max_degree
        hiding = Hiding(mentioned.question_ptr, pointer, pairs, self._arrays.neighbor_ptr, max_degree, self.limits.nodes)
        kept = Subgraphs(*without_hidden(found, hiding))
        again = [
            q for q, of_question in enumerate(hidden) if of_question and self._is_limited(q, mentioned, found, of_question, most)
        ]
        return self._with_questions(kept, mentioned, {q: hidden[q] for q in again}) if again else kept

    def _is_limited(self, q: int, mentioned: Mentioned, found: Subgraphs, pairs: Sequence[Pair], most: int) -> bool:
        """Whether limits keep other nodes if these facts are hidden, which removing nodes from ``found`` does not show."""
        of_question = slice(mentioned.question_ptr[q], mentioned.question_ptr[q + 1])
        is_cut = found.cut[of_question] > 0
        is_full = self.limits.nodes + most <= MOST_NODES
        if (is_cut & ~(is_full & (found.nodes[of_question] == self.limits.nodes + most))).any():
            return True
        if self.limits.max_degree is None:
            return False
        start, end = mentioned.statement_ptr[of_question.start], mentioned.statement_ptr[of_question.stop]
        lost = Counter(concept for pair in {frozenset(pair) for pair in pairs} for concept in pair)
        ours = lost.keys() & set(mentioned.concepts[start:end].tolist())
        degrees = {concept: len(self.graph.neighbors(concept)) for concept in ours}
        return any(self.limits.max_degree < degree <= self.limits.max_degree + lost[c] for c, degree in degrees.items())

    def _with_questions(self, found: Subgraphs, mentioned: Mentioned, hidden: Mapping[int, Sequence[Pair]]) -> Subgraphs:
        """``found`` with the subgraphs of some questions extracted from a copy of the graph without the hidden facts."""
        parts: list[Subgraphs] = []
        node_ptr, fact_ptr = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (found.nodes, found.facts))
        for q, (first, last) in enumerate(pairwise(mentioned.question_ptr.tolist())):
            if q in hidden:
                mentions = Mentioned.of([mentioned.mentions()[q]])
                arrays = reduced_arrays(self.graph, hidden[q])
                guards = Guards(*(in_memory(array).guard for array in arrays))
                parts.append(self._found(mentions, self.limits.nodes, arrays, guards))
            else:
                nodes, facts = slice(node_ptr[first], node_ptr[last]), slice(fact_ptr[first], fact_ptr[last])
                sizes = (column[first:last] for column in found[:3])
                parts.append(Subgraphs(*sizes, *(c[nodes] for c in found[3:5]), *(c[facts] for c in found[5:])))
        return Subgraphs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _found(self, mentioned: Mentioned, max_nodes: int, arrays: GraphArrays, guards: Guards) -> Subgraphs:
        concepts = mentioned.concepts
        if len(concepts) and not 0 <= concepts.min() <= concepts.max() < len(self.graph):
            raise UserError(f"the graph has {len(self.graph):,} concepts; a mentioned concept has another number.")
        limits = self.limits
        max_degree = len(self.graph) if limits.max_degree is None else limits.max_degree
        with self._pool.taken() as work:
            asked = arrays, guards, mentioned, min(max_nodes, MOST_NODES), max_degree, limits.facts
            found, buffer = extract_statements(*asked, work.scratch, work.buffer, _MOST_SHARED)
            self.graph.raise_if_damaged()
            if len(buffer.head) <= _KEPT_FACTS:
                work.buffer = buffer
        return Subgraphs(*found)


def extract_all(
    graph: KnowledgeGraph,
    chunks: Iterable[Mentioned],
    limits: SubgraphLimits,
    workers: int,
    hidden: Iterable[Sequence[Sequence[Pair]]] = repeat(()),
) -> Iterator[Subgraphs]:
    """Extract the subgraphs of many questions with several threads; the results are in the order of ``chunks``.

    Args:
        graph: The graph.
        chunks: The mentioned concepts of some questions each.
        limits: Limits on the size of a subgraph.
        workers: Number of threads.
        hidden: For each chunk, the facts that are hidden from its questions; see :meth:`Extractor.several`.
    """
    extractor = Extractor(graph, limits)
    pending: deque[Future[Subgraphs]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for chunk, pairs in zip(chunks, hidden, strict=False):
            pending.append(pool.submit(extractor.several, chunk, pairs))
            if len(pending) > 4 * workers:  # bounds the memory if the consumer is slow
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
