"""A statement's part of the graph: its mentioned concepts, the middles of two-hop paths between them, all edges among these."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled import kernel
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.text.grounding import Mentions

QUESTION, ANSWER, OTHER = 0, 1, 2  # node types


@dataclass(frozen=True)
class Subgraph:
    """Nodes in the order question, answer, other, each by concept number; edges are facts between local node numbers."""

    concepts: Ints  # [nodes] concept numbers
    types: Ints  # [nodes] QUESTION, ANSWER or OTHER
    head: Ints  # [facts] local node numbers
    relation: Ints  # [facts]
    tail: Ints  # [facts]
    cut: int = 0  # nodes left out by a cap


class Limits(NamedTuple):
    """Caps on what a subgraph takes in. None is no cap.

    ``max_nodes`` keeps the first nodes (the published setting is 200: others are cut by concept number). ``max_degree`` is for
    graphs with hubs: the neighbours of a mentioned concept that has more of them are not taken for middles; the concept itself
    and its facts stay.
    """

    max_nodes: int | None = None
    max_degree: int | None = None


class Subgraphs(NamedTuple):
    """Several subgraphs, one behind the other."""

    nodes: Ints  # [subgraphs] how many nodes each has
    facts: Ints  # [subgraphs]
    cut: Ints  # [subgraphs]
    concepts: Ints
    types: Ints
    head: Ints
    relation: Ints
    tail: Ints


class Extractor:
    """Cuts subgraphs out of a graph. One per thread: it keeps scratch arrays of the graph's size.

    >>> facts = [("child", "AtLocation", "school"), ("desk", "AtLocation", "school"), ("desk", "MadeOf", "wood")]
    >>> graph = KnowledgeGraph.from_facts(facts)
    >>> found = Extractor(graph)(Mentions([graph.id("child")], [graph.id("desk")]))
    >>> [graph.name(c) for c in found.concepts], found.types.tolist()
    (['child', 'desk', 'school'], [0, 1, 2])
    """

    def __init__(self, graph: KnowledgeGraph, limits: Limits = Limits()) -> None:
        self.graph = graph
        self.limits = limits
        self._local = np.zeros(len(graph), dtype=np.int32)  # concept → local number
        self._touched = np.zeros(len(graph), dtype=np.uint8)  # concept → whether one or more mentioned concepts are next to it
        self._inside = np.zeros(len(graph) // 64 + 1, dtype=np.uint64)  # a bit for each concept: small enough to stay in cache

    def __call__(self, mentions: Mentions) -> Subgraph:
        found = self.several([mentions])
        return Subgraph(found.concepts, found.types, found.head, found.relation, found.tail, int(found.cut[0]))

    def several(self, mentions: Sequence[Mentions]) -> Subgraphs:
        """The subgraphs of several statements."""
        graph, limits = self.graph, self.limits
        questions = np.array([len(m.question) for m in mentions], dtype=np.int64)
        ptr = np.cumsum([0, *(len(m.question) + len(m.answer) for m in mentions)], dtype=np.int64)
        mentioned = np.array([concept for m in mentions for side in m for concept in side], dtype=np.int64)
        rows = graph.neighbour_ptr, graph.neighbour, graph.head_ptr, graph.tail, graph.relation
        scratch = self._touched, self._local, self._inside
        most_nodes = len(graph) if limits.max_nodes is None else limits.max_nodes
        most_neighbours = len(graph) if limits.max_degree is None else limits.max_degree
        return Subgraphs(*_extract(*rows, ptr, questions, mentioned, most_nodes, most_neighbours, *scratch))


def extract_all(
    graph: KnowledgeGraph, chunks: Iterable[list[Mentions] | Subgraphs], limits: Limits, workers: int
) -> Iterator[Subgraphs]:
    """The subgraphs of many statements in their order, by several threads; chunks that are subgraphs already pass through."""
    free: list[Extractor] = []

    def extract(chunk: Sequence[Mentions]) -> Subgraphs:
        extractor = free.pop() if free else Extractor(graph, limits)
        found = extractor.several(chunk)
        free.append(extractor)
        return found

    pending: deque[Future[Subgraphs] | Subgraphs] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for chunk in chunks:
            pending.append(chunk if isinstance(chunk, Subgraphs) else pool.submit(extract, chunk))
            if len(pending) > 4 * workers:  # so that a slow consumer does not fill the memory
                yield _ready(pending.popleft())
        while pending:
            yield _ready(pending.popleft())


def _ready(found: Future[Subgraphs] | Subgraphs) -> Subgraphs:
    return found if isinstance(found, Subgraphs) else found.result()


@kernel
def _extract(
    neighbour_ptr: Ints,
    neighbour: Ints,
    head_ptr: Ints,
    tails: Ints,
    relations: Ints,
    statement_ptr: Ints,
    questions: Ints,
    mentioned: Ints,
    max_nodes: int,
    max_degree: int,
    touched: NDArray[Any],
    local: NDArray[Any],
    inside: NDArray[Any],
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
    """The fields of :class:`Subgraphs`. ``touched`` and ``inside`` are zero before and after."""
    size = len(questions)
    nodes, facts, cut = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    concepts, types = np.empty(256 * size, np.int32), np.empty(256 * size, np.uint8)
    head, relation, tail = np.empty(4096 * size, np.int32), np.empty(4096 * size, np.uint16), np.empty(4096 * size, np.int32)
    node = fact = 0
    for i in range(size):
        mine = mentioned[statement_ptr[i] : statement_ptr[i + 1]]
        middles = _middles(neighbour_ptr, neighbour, mine, max_degree, touched)
        total = len(mine) + len(middles)
        count = min(total, max_nodes)
        cut[i] = total - count
        nodes[i] = count
        if node + count > len(concepts):
            concepts, types = _grown(concepts, node + count), _grown(types, node + count)
        for j in range(count):
            concepts[node + j] = mine[j] if j < len(mine) else middles[j - len(mine)]
            types[node + j] = QUESTION if j < questions[i] else ANSWER if j < len(mine) else OTHER
        ours = concepts[node : node + count]
        facts[i] = _facts_among(head_ptr, tails, relations, ours, local, inside, head[fact:], relation[fact:], tail[fact:])
        if fact + facts[i] > len(head):  # the room was too small: once more with enough
            end = fact + facts[i]
            head, relation, tail = _grown(head, end), _grown(relation, end), _grown(tail, end)
            _facts_among(head_ptr, tails, relations, ours, local, inside, head[fact:], relation[fact:], tail[fact:])
        node += count
        fact += facts[i]
    return (
        nodes,
        facts,
        cut,
        concepts[:node].copy(),
        types[:node].copy(),
        head[:fact].copy(),
        relation[:fact].copy(),
        tail[:fact].copy(),
    )


@kernel
def _grown(array: Ints, size: int) -> Ints:
    grown = np.empty(size + size // 2, array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def _middles(ptr: Ints, neighbour: Ints, mentioned: Ints, max_degree: int, touched: NDArray[Any]) -> Ints:
    """Unmentioned concepts next to at least two mentioned ones, ascending. ``touched`` is zero before and after."""
    room = 0
    for m in mentioned:
        if ptr[m + 1] - ptr[m] <= max_degree:
            room += ptr[m + 1] - ptr[m]
    found = np.empty(room, np.int64)
    for m in mentioned:
        touched[m] = 2  # never found
    count = 0
    for m in mentioned:
        if ptr[m + 1] - ptr[m] <= max_degree:
            for e in range(ptr[m], ptr[m + 1]):
                n = neighbour[e]
                if touched[n] == 1:
                    found[count] = n
                    count += 1
                if touched[n] < 2:
                    touched[n] += 1
    for m in mentioned:
        touched[m] = 0
        if ptr[m + 1] - ptr[m] <= max_degree:
            for e in range(ptr[m], ptr[m + 1]):
                touched[neighbour[e]] = 0
    return np.sort(found[:count])


@kernel
def _is_hub(degree: int, nodes: int) -> bool:
    """A hub has far more facts than the subgraph has nodes: the nodes are looked up in its row instead of reading all of it."""
    return degree > 16 * nodes


@kernel
def _facts_among(
    ptr: Ints,
    tails: Ints,
    relations: Ints,
    concepts: Ints,
    local: NDArray[Any],
    inside: NDArray[Any],
    head: Ints,
    relation: Ints,
    tail: Ints,
) -> int:
    """All facts between ``concepts``, by local numbers, as far as there is room: how many there are. ``inside`` is zero before
    and after."""
    n, room = len(concepts), len(head)
    for i in range(n):
        c = concepts[i]
        local[c] = i
        inside[c >> 6] |= np.uint64(1) << np.uint64(c & 63)
    by_number = np.sort(concepts)
    count = 0
    for i in range(n):
        start, end = ptr[concepts[i]], ptr[concepts[i] + 1]
        if _is_hub(end - start, n):
            for other in by_number:
                e = start + np.searchsorted(tails[start:end], other)
                while e < end and tails[e] == other:
                    if count < room:
                        head[count], relation[count], tail[count] = i, relations[e], local[other]
                    count += 1
                    e += 1
        else:
            for e in range(start, end):
                t = tails[e]
                if (inside[t >> 6] >> np.uint64(t & 63)) & np.uint64(1):
                    if count < room:
                        head[count], relation[count], tail[count] = i, relations[e], local[t]
                    count += 1
    for c in concepts:
        inside[c >> 6] = np.uint64(0)
    return count
