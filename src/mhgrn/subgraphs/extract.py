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

from mhgrn.compiled.guards import readable
from mhgrn.compiled.jit import kernel
from mhgrn.compiled.pool import Pool
from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Mentioned, Mentions
from mhgrn.io.stored import Guard, in_memory
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.printing import shortened

QUESTION, ANSWER, OTHER = 0, 1, 2  # node types
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
    counts: Ints = _count_sides(subgraphs.nodes, subgraphs.concepts, subgraphs.types, occurs)
    return counts


Pair = tuple[int, int]  # of concepts


class _GraphArrays(NamedTuple):
    """The arrays of a graph that extraction reads."""

    neighbor_ptr: Ints
    neighbor: Ints
    head_ptr: Ints
    tail: Ints
    relation: Ints


class _Guards(NamedTuple):
    """What is known of the blocks of these arrays."""

    neighbor_ptr: Guard
    neighbor: Guard
    head_ptr: Guard
    tail: Guard
    relation: Guard


def _read_only(array: Ints) -> Ints:
    """A view that cannot be written to: arrays in memory then have the type of stored ones, and kernels are compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view


class _Scratch(NamedTuple):
    """Arrays that are zero before and after each extraction."""

    touched: NDArray[Any]  # [concepts] flags of a concept and of its mentioned neighbors
    place: NDArray[Any]  # [concepts] the position of a concept among the current nodes, from 1
    marked: NDArray[Any]  # [_MARKS] see _facts_among


class _FactBuffer(NamedTuple):
    """Arrays for heads, relations and tails; they are reused because allocating memory costs more than filling it."""

    head: Ints
    relation: Ints
    tail: Ints


_MOST_SHARED = 1 << 20  # facts among the nodes of all statements of a question; bounds the memory
_KEPT_FACTS = 1 << 22  # a larger buffer is not kept


class _Workspace:
    """The memory of one thread's extraction."""

    def __init__(self, concepts: int) -> None:
        touched, place = np.zeros(concepts, dtype=np.uint8), np.zeros(concepts, dtype=np.int32)
        self.scratch = _Scratch(touched, place, np.zeros(_MARKS, dtype=np.uint8))
        self.buffer = _FactBuffer(*(np.empty(0, np.uint16) for _ in range(3)))


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
        self._arrays = _GraphArrays(*(_read_only(array.values) for array in stored))
        self._guards = _Guards(*(array.guard for array in stored))
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
        hiding = _Hiding(mentioned.question_ptr, pointer, pairs, self._arrays.neighbor_ptr, max_degree, self.limits.nodes)
        kept = Subgraphs(*_without_hidden(found, hiding))
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
                arrays = _reduced(self.graph, hidden[q])
                guards = _Guards(*(in_memory(array).guard for array in arrays))
                parts.append(self._found(mentions, self.limits.nodes, arrays, guards))
            else:
                nodes, facts = slice(node_ptr[first], node_ptr[last]), slice(fact_ptr[first], fact_ptr[last])
                sizes = (column[first:last] for column in found[:3])
                parts.append(Subgraphs(*sizes, *(c[nodes] for c in found[3:5]), *(c[facts] for c in found[5:])))
        return Subgraphs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _found(self, mentioned: Mentioned, max_nodes: int, arrays: _GraphArrays, guards: _Guards) -> Subgraphs:
        concepts = mentioned.concepts
        if len(concepts) and not 0 <= concepts.min() <= concepts.max() < len(self.graph):
            raise UserError(f"the graph has {len(self.graph):,} concepts; a mentioned concept has another number.")
        limits = self.limits
        max_degree = len(self.graph) if limits.max_degree is None else limits.max_degree
        with self._pool.taken() as work:
            asked = arrays, guards, mentioned, min(max_nodes, MOST_NODES), max_degree, limits.facts
            found, buffer = _extract(*asked, work.scratch, work.buffer, _MOST_SHARED)
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


def _reduced(graph: KnowledgeGraph, hidden: Sequence[Pair]) -> _GraphArrays:
    """The arrays of a graph without the facts between some pairs of concepts."""
    size = len(graph)
    hidden_keys = np.array([a * size + b for pair in hidden for a, b in (pair, pair[::-1])], dtype=np.int64)

    def rows(ptr: Ints, others: Ints) -> tuple[Ints, Ints]:
        of = np.repeat(np.arange(size, dtype=np.int64), np.diff(ptr))
        kept = ~np.isin(of * size + others, hidden_keys)
        return np.concatenate([[0], np.cumsum(np.bincount(of[kept], minlength=size))]), kept

    neighbor_ptr, are_neighbors = rows(graph.neighbor_ptr, graph.neighbor)
    head_ptr, kept = rows(graph.head_ptr, graph.tail)
    arrays = neighbor_ptr, graph.neighbor[are_neighbors], head_ptr, graph.tail[kept], graph.relation[kept]
    return _GraphArrays(*map(_read_only, arrays))


class _Hiding(NamedTuple):
    """The pairs of concepts whose facts are hidden, and the limits of subgraphs."""

    question_ptr: Ints  # [questions + 1] pointer to the statements of each question
    pair_ptr: Ints  # [questions + 1]
    pairs: Ints  # [pairs, 2]
    neighbor_ptr: Ints
    max_degree: int
    max_nodes: int


@kernel
def _without_hidden(found, hiding):  # type: ignore[no-untyped-def]
    """The fields of :class:`Subgraphs` without facts between hidden pairs, without middle nodes that are no longer between two
    mentioned concepts, and with ``max_nodes`` nodes at most."""
    nodes, facts, cut, concepts, types = (
        found.nodes.copy(),
        found.facts.copy(),
        found.cut.copy(),
        found.concepts.copy(),
        found.types.copy(),
    )
    head, relation, tail = found.head.copy(), found.relation.copy(), found.tail.copy()
    question_ptr, pair_ptr, pairs, neighbor_ptr, max_degree, max_nodes = hiding
    n0 = f0 = node_count = fact_count = 0
    for q in range(len(question_ptr) - 1):
        hidden = pairs[pair_ptr[q] : pair_ptr[q + 1]]
        for i in range(question_ptr[q], question_ptr[q + 1]):
            ours = concepts[n0 : n0 + nodes[i]].copy()
            is_kept = np.ones(len(ours), np.uint8)
            for j in range(len(ours)):
                if types[n0 + j] != OTHER or not (hidden == ours[j]).any():
                    continue
                ends = np.zeros(len(ours), np.uint8)
                for e in range(f0, f0 + facts[i]):
                    other = int(tail[e]) if head[e] == j else int(head[e])
                    if (head[e] == j or tail[e] == j) and types[n0 + other] != OTHER:
                        c = ours[other]
                        if neighbor_ptr[c + 1] - neighbor_ptr[c] <= max_degree and not _is_hidden(ours[j], c, hidden):
                            ends[other] = 1
                is_kept[j] = ends.sum() >= 2
            number = np.full(len(ours), -1, np.int64)
            count = 0
            for j in range(len(ours)):
                if is_kept[j] and count < max_nodes:
                    number[j] = count
                    concepts[node_count + count], types[node_count + count] = ours[j], types[n0 + j]
                    count += 1
            n0 += nodes[i]
            node_count += count
            cut[i] += is_kept.sum() - count
            nodes[i] = count
            begin = fact_count
            for e in range(f0, f0 + facts[i]):
                a, b = number[head[e]], number[tail[e]]
                if a >= 0 and b >= 0 and not _is_hidden(ours[head[e]], ours[tail[e]], hidden):
                    head[fact_count], relation[fact_count], tail[fact_count] = a, relation[e], b
                    fact_count += 1
            f0 += facts[i]
            facts[i] = fact_count - begin
    of_nodes = concepts[:node_count].copy(), types[:node_count].copy()
    return nodes, facts, cut, *of_nodes, head[:fact_count].copy(), relation[:fact_count].copy(), tail[:fact_count].copy()


@kernel
def _is_hidden(one: int, other: int, hidden: Ints) -> bool:
    for p in range(len(hidden)):
        if (hidden[p, 0] == one and hidden[p, 1] == other) or (hidden[p, 0] == other and hidden[p, 1] == one):
            return True
    return False


@kernel
def _count_sides(nodes: Ints, concepts: Ints, types: Ints, occurs: NDArray[Any]) -> Ints:
    counts = np.zeros((2, len(nodes)), np.int64)
    start = 0
    for i in range(len(nodes)):
        for j in range(start, start + nodes[i]):
            counts[0, i] += types[j] == QUESTION
            counts[1, i] += types[j] == ANSWER
            occurs[concepts[j]] = True
        start += nodes[i]
    return counts


@kernel
def _extract(
    graph: _GraphArrays,
    guards: _Guards,
    asked: Mentioned,
    max_nodes: int,
    max_degree: int,
    max_facts: int,
    scratch: _Scratch,
    buffer: _FactBuffer,
    most_shared: int,
) -> tuple[tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints], _FactBuffer]:
    """The fields of :class:`Subgraphs`, and the buffer, which may have grown.

    The statements of a question share most of their nodes: the question's rows of the graph are read once, and each statement takes
    its facts from the result. If these are more than ``most_shared`` facts, each statement's rows are read on their own. At a
    damaged row of the stored graph it stops; the caller does not use the result.
    """
    touched, place = scratch.touched, scratch.place
    question_ptr, statement_ptr, questions, mentioned = asked.question_ptr, asked.statement_ptr, asked.of_question, asked.concepts
    size = len(questions)
    nodes, facts, cut = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    concepts, types = np.empty(256 * size, np.int32), np.empty(256 * size, np.uint8)
    head, relation, tail = buffer.head, buffer.relation, buffer.tail
    node_count = fact_count = 0
    for q in range(len(question_ptr) - 1):
        first, last = question_ptr[q], question_ptr[q + 1]
        ours = mentioned[statement_ptr[first] : statement_ptr[last]]
        if not _are_neighbors_good(graph, guards, ours, max_degree):
            break
        common = _common(ours, last - first, place)
        between = _between_common(graph.neighbor_ptr, graph.neighbor, common, max_degree, touched)
        begin = node_count
        for i in range(first, last):
            mine = mentioned[statement_ptr[i] : statement_ptr[i + 1]]
            middles = _middles(graph.neighbor_ptr, graph.neighbor, mine, between, max_degree, touched)
            total = len(mine) + len(middles)
            nodes[i] = min(total, max_nodes)
            cut[i] = total - nodes[i]
            if node_count + nodes[i] > len(concepts):
                concepts, types = _grown(concepts, node_count + nodes[i]), _grown(types, node_count + nodes[i])
            for j in range(nodes[i]):
                concepts[node_count + j] = mine[j] if j < len(mine) else middles[j - len(mine)]
                types[node_count + j] = QUESTION if j < questions[i] else ANSWER if j < len(mine) else OTHER
            node_count += nodes[i]
        _forget(graph.neighbor_ptr, graph.neighbor, common, max_degree, touched)
        if not _are_facts_good(graph, guards, concepts[begin:node_count]):
            break
        # number the nodes among all nodes of the question
        room = max(max_facts, most_shared)
        union, which = _union(concepts[begin:node_count], place)
        is_shared, ptr, tail_of, relation_of = _facts_among(
            graph.head_ptr, graph.tail, graph.relation, union, place, scratch.marked, room
        )
        local = np.full(len(union), -1, np.int32)
        start, node_count = begin, begin
        for i in range(first, last):
            count = nodes[i]
            chosen = which[start - begin : start - begin + count]
            if not is_shared:
                count = _fitting(graph.head_ptr, graph.tail, concepts[start : start + count], place, max_facts)
                alone, chosen = _union(concepts[start : start + count], place)
                _, ptr, tail_of, relation_of = _facts_among(
                    graph.head_ptr, graph.tail, graph.relation, alone, place, scratch.marked, room
                )
            most = fact_count
            for j in range(len(chosen)):
                local[chosen[j]] = j
                most += ptr[chosen[j] + 1] - ptr[chosen[j]]
            if is_shared and most - fact_count > max_facts:
                count = _fitting_of(chosen, ptr, tail_of, local, max_facts)
                for u in chosen[count:]:
                    local[u] = -1
            if most > len(head):
                head, relation, tail = _grown(head, most), _grown(relation, most), _grown(tail, most)
            facts[i] = _facts_of(chosen[:count], ptr, tail_of, relation_of, local, head, relation, tail, fact_count) - fact_count
            fact_count += facts[i]
            for u in chosen:
                local[u] = -1
            if node_count < start:  # nodes of an earlier statement were cut
                for j in range(count):
                    concepts[node_count + j], types[node_count + j] = concepts[start + j], types[start + j]
            start += nodes[i]
            node_count += count
            cut[i] += nodes[i] - count
            nodes[i] = count
    of_nodes = concepts[:node_count].copy(), types[:node_count].copy()
    of_facts = head[:fact_count].copy(), relation[:fact_count].copy(), tail[:fact_count].copy()
    return (nodes, facts, cut, *of_nodes, *of_facts), _FactBuffer(head, relation, tail)


@kernel
def _are_neighbors_good(graph: _GraphArrays, guards: _Guards, concepts: Ints, max_degree: int) -> bool:
    """Check the stored neighbors of ``concepts``; nothing to do if all arrays were checked when they were loaded."""
    if len(guards.neighbor_ptr.state) == 0 and len(guards.neighbor.state) == 0:
        return True
    for c in concepts:
        if not readable(graph.neighbor_ptr, guards.neighbor_ptr, c, c + 2):
            return False
        start, end = graph.neighbor_ptr[c], graph.neighbor_ptr[c + 1]
        if end - start <= max_degree and not readable(graph.neighbor, guards.neighbor, start, end):
            return False
    return True


@kernel
def _are_facts_good(graph: _GraphArrays, guards: _Guards, concepts: Ints) -> bool:
    """Check the stored facts whose head is one of ``concepts``."""
    if len(guards.head_ptr.state) == 0 and len(guards.tail.state) == 0 and len(guards.relation.state) == 0:
        return True
    for c in concepts:
        if not readable(graph.head_ptr, guards.head_ptr, c, c + 2):
            return False
        start, end = graph.head_ptr[c], graph.head_ptr[c + 1]
        if not readable(graph.tail, guards.tail, start, end) or not readable(graph.relation, guards.relation, start, end):
            return False
    return True


@kernel
def _largest_prefix(added: Ints, most: int) -> Any:
    """How many of the first nodes have at most ``most`` facts among them; each node adds its facts with the nodes before it."""
    total = 0
    for i in range(len(added)):
        total += added[i]
        if total > most:
            return i
    return len(added)


@kernel
def _fitting_of(nodes: Ints, ptr: Ints, tails: Ints, local: Ints, max_facts: int) -> Any:
    """How many of ``nodes`` have at most ``max_facts`` facts among them."""
    added = np.zeros(len(nodes), np.int64)
    for i in range(len(nodes)):
        for e in range(ptr[nodes[i]], ptr[nodes[i] + 1]):
            j = local[tails[e]]
            if j >= 0:
                added[max(i, j)] += 1
    return _largest_prefix(added, max_facts)


@kernel
def _fitting(ptr: Ints, tails: Ints, concepts: Ints, place: NDArray[Any], max_facts: int) -> Any:
    """How many of ``concepts`` have at most ``max_facts`` facts among them; ``place`` is zero before and after."""
    longest = 0
    for i in range(len(concepts)):
        place[concepts[i]] = i + 1
        longest = max(longest, ptr[concepts[i] + 1] - ptr[concepts[i]])
    by_number = np.sort(concepts)
    found, added = np.empty(longest, np.int64), np.zeros(len(concepts), np.int64)
    for i in range(len(concepts)):
        start, end = ptr[concepts[i]], ptr[concepts[i] + 1]
        if _is_hub(end - start, len(concepts)):
            for e in found[: _looked_up(tails, start, end, by_number, found)]:
                added[max(i, place[tails[e]] - 1)] += 1
        else:
            for e in range(start, end):
                if place[tails[e]] > 0:
                    added[max(i, place[tails[e]] - 1)] += 1
    for c in concepts:
        place[c] = 0
    return _largest_prefix(added, max_facts)


@kernel
def _facts_of(
    nodes: Ints, ptr: Ints, tails: Ints, relations: Ints, local: Ints, head: Ints, relation: Ints, tail: Ints, at: int
) -> int:
    """Write the facts of ``nodes`` whose tails have local numbers, from position ``at`` on; return their end."""
    end = np.uint64(at)  # indexing with unsigned integers is faster
    for i in range(len(nodes)):
        for e in range(ptr[nodes[i]], ptr[nodes[i] + 1]):
            t = local[np.uint32(tails[np.uint64(e)])]
            head[end], relation[end], tail[end] = i, relations[np.uint64(e)], t
            end += np.uint64(t >= 0)  # otherwise the next fact overwrites it
    return int(end)


@kernel
def _grown(array: Ints, size: int) -> Ints:
    grown = np.empty(size + size // 2, array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def _common(mentioned: Ints, statements: int, place: NDArray[Any]) -> Ints:
    """The concepts that all statements of a question mention; ``mentioned`` has the concepts of one statement after the other."""
    common = np.empty(len(mentioned), np.int64)
    count = 0
    for m in mentioned:
        place[m] += 1
        if place[m] == statements:
            common[count] = m
            count += 1
    for m in mentioned:
        place[m] = 0
    return common[:count]


# Flags in ``touched``: how many neighbors of a concept are mentioned by all statements of the question (0, 1, or 2 for more), how
# many are mentioned by this statement only, and whether the concept itself is mentioned by all statements or by this one.
_ONE, _TWO, _BY_COMMON = 1, 2, 3
_ONE_MORE, _TWO_MORE, _BY_MORE = 4, 8, 12
_COMMON, _MENTIONED = 16, 32


@kernel
def _between_common(ptr: Ints, neighbor: Ints, common: Ints, max_degree: int, touched: NDArray[Any]) -> Ints:
    """The neighbors of at least two of ``common``, ascending. Leaves its marks in ``touched``."""
    room = 0
    for m in common:
        touched[m] |= _COMMON
        if ptr[m + 1] - ptr[m] <= max_degree:
            room += ptr[m + 1] - ptr[m]
    found = np.empty(room, np.int64)
    count = 0
    for m in common:
        if ptr[m + 1] - ptr[m] <= max_degree:
            for n in neighbor[ptr[m] : ptr[m + 1]]:
                so_far = touched[n] & _BY_COMMON
                found[count] = n
                count += so_far == _ONE
                touched[n] += so_far < _TWO
    return np.sort(found[:count])


@kernel
def _forget(ptr: Ints, neighbor: Ints, common: Ints, max_degree: int, touched: NDArray[Any]) -> None:
    for m in common:
        touched[m] = 0
        if ptr[m + 1] - ptr[m] <= max_degree:
            for n in neighbor[ptr[m] : ptr[m + 1]]:
                touched[n] = 0


@kernel
def _middles(ptr: Ints, neighbor: Ints, mentioned: Ints, between: Ints, max_degree: int, touched: NDArray[Any]) -> Ints:
    """The unmentioned neighbors of at least two mentioned concepts, ascending. Does not change ``touched``.

    ``between`` are the neighbors of two concepts that all statements mention.
    """
    room = 0
    for m in mentioned:
        touched[m] |= _MENTIONED
        if not touched[m] & _COMMON and ptr[m + 1] - ptr[m] <= max_degree:
            room += ptr[m + 1] - ptr[m]
    more = np.empty(room, np.int64)
    count = 0
    for m in mentioned:
        if not touched[m] & _COMMON and ptr[m + 1] - ptr[m] <= max_degree:
            for n in neighbor[ptr[m] : ptr[m + 1]]:
                so_far = (touched[n] & _BY_COMMON) + ((touched[n] & _BY_MORE) >> 2)
                more[count] = n
                count += so_far == 1 and not touched[n] & _MENTIONED
                if so_far < 2:
                    touched[n] += _ONE_MORE
    more = np.sort(more[:count])
    middles = np.empty(len(between) + count, np.int64)
    total = j = 0
    for n in between:
        while j < count and more[j] < n:
            middles[total] = more[j]
            total += 1
            j += 1
        if not touched[n] & _MENTIONED:
            middles[total] = n
            total += 1
    while j < count:
        middles[total] = more[j]
        total += 1
        j += 1
    for m in mentioned:
        touched[m] &= ~_MENTIONED
        if not touched[m] & _COMMON and ptr[m + 1] - ptr[m] <= max_degree:
            for n in neighbor[ptr[m] : ptr[m + 1]]:
                touched[n] &= ~_BY_MORE
    return middles[:total]


@kernel
def _union(concepts: Ints, place: NDArray[Any]) -> tuple[Ints, Ints]:
    """The distinct concepts, and the number of each among these. Leaves these numbers + 1 in ``place``."""
    union, which = np.empty(len(concepts), np.int32), np.empty(len(concepts), np.int32)
    count = 0
    for i in range(len(concepts)):
        c = concepts[i]
        if place[c] == 0:
            union[count] = c
            count += 1
            place[c] = count
        which[i] = place[c] - 1
    return union[:count], which


_MARKS = 1 << 14  # concepts are marked by the last bits of their numbers; the array fits into the L1 cache


@kernel
def _is_hub(degree: int, nodes: int) -> bool:
    """A hub has many more facts than the subgraph has nodes: look up the nodes in its row instead of reading all of it."""
    return degree > 16 * nodes


@kernel
def _looked_up(tails: Ints, start: int, end: int, by_number: Ints, found: Ints) -> int:
    """Write the places from ``start`` to ``end`` that have a tail in ``by_number`` to ``found``; return their number."""
    count, e = 0, start
    for other in by_number:
        e += np.searchsorted(tails[e:end], other)
        while e < end and tails[e] == other:
            found[count] = e
            count += 1
            e += 1
    return count


@kernel
def _facts_among(
    ptr: Ints, tails: Ints, relations: Ints, concepts: Ints, place: NDArray[Any], marked: NDArray[Any], most: int
) -> tuple[bool, Ints, Ints, Ints]:
    """All facts between ``concepts``: whether there are at most ``most`` (if not, the rest is not valid), a pointer, tails as
    numbers among these (``place`` - 1), relations. ``place`` and ``marked`` are zero afterwards."""
    n = len(concepts)
    longest = 0
    for c in concepts:
        marked[c & (_MARKS - 1)] = 1
        longest = max(longest, ptr[c + 1] - ptr[c])
    by_number = np.sort(concepts)
    found = np.empty(longest, np.int64)
    rows = np.zeros(n + 1, np.int64)
    tail, relation = np.empty(64 * n, np.int32), np.empty(64 * n, np.uint16)
    total = 0
    for i in range(n):
        start, end = ptr[concepts[i]], ptr[concepts[i] + 1]
        count = 0
        if _is_hub(end - start, n):
            count = _looked_up(tails, start, end, by_number, found)
        else:
            for e in range(start, end):
                found[count] = e
                count += marked[tails[e] & (_MARKS - 1)]
        if total + count > len(tail):
            tail, relation = _grown(tail, total + count), _grown(relation, total + count)
        for k in range(count):
            number = place[tails[found[k]]] - 1
            tail[total], relation[total] = number, relations[found[k]]
            total += number >= 0
        rows[i + 1] = total
        if total > most:
            break
    for c in concepts:
        marked[c & (_MARKS - 1)] = 0
        place[c] = 0
    return total <= most, rows, tail, relation
