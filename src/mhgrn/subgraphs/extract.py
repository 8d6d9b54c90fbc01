"""Extraction of a statement's subgraph: its mentioned concepts, the middle nodes of two-hop paths between them, and all facts
among these nodes."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.grounding.grounder import Mentioned, Mentions
from mhgrn.kg.graph import Ints, KnowledgeGraph

QUESTION, ANSWER, OTHER = 0, 1, 2  # node types
MOST_NODES = 2**16 - 1  # largest subgraph whose local numbers fit 16 bits


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


class SubgraphLimits(NamedTuple):
    """SubgraphLimits on the size of a subgraph. None: no limit.

    Args:
        max_nodes: Number of nodes to keep, in the order of :class:`Subgraph`. The published setting is 200.
        max_degree: For graphs with hubs. A mentioned concept with more neighbors is not expanded: it stays, with its facts, but its
            neighbors do not become middle nodes through it.
    """

    max_nodes: int | None = None
    max_degree: int | None = None


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


class _GraphArrays(NamedTuple):
    """The arrays of a graph that extraction reads."""

    neighbor_ptr: Ints
    neighbor: Ints
    head_ptr: Ints
    tail: Ints
    relation: Ints


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


class Extractor:
    """Extracts subgraphs from a graph. Use one per thread: it has scratch arrays of the graph's size.

    Args:
        graph: The graph.
        limits: SubgraphLimits on the size of a subgraph.

    >>> facts = [("child", "AtLocation", "school"), ("desk", "AtLocation", "school"), ("desk", "MadeOf", "wood")]
    >>> graph = KnowledgeGraph.from_facts(facts)
    >>> found = Extractor(graph)(Mentions([graph.id("child")], [graph.id("desk")]))
    >>> [graph.name(c) for c in found.concepts], found.types.tolist()
    (['child', 'desk', 'school'], [0, 1, 2])
    """

    def __init__(self, graph: KnowledgeGraph, limits: SubgraphLimits = SubgraphLimits()) -> None:
        self.graph = graph
        self.limits = limits
        self._arrays = _GraphArrays(graph.neighbor_ptr, graph.neighbor, graph.head_ptr, graph.tail, graph.relation)
        touched, place = np.zeros(len(graph), dtype=np.uint8), np.zeros(len(graph), dtype=np.int32)
        self._scratch = _Scratch(touched, place, np.zeros(_MARKS, dtype=np.uint8))
        self._buffer = _empty_buffer(np.uint16)

    def __call__(self, mentions: Mentions) -> Subgraph:
        found = self.several(Mentioned.of([[mentions]]))
        return Subgraph(found.concepts, found.types, found.head, found.relation, found.tail, int(found.cut[0]))

    def several(self, mentioned: Mentioned) -> Subgraphs:
        """The subgraphs of the statements of several questions."""
        count = len(self.graph)
        max_nodes, max_degree = (count if limit is None else limit for limit in self.limits)
        asked = self._arrays, mentioned, max_nodes, max_degree, self._scratch
        found, self._buffer = _extract(*asked, self._buffer, MOST_NODES)
        if found[0].max(initial=0) > MOST_NODES:
            found, _ = _extract(*asked, _empty_buffer(np.int32), count)
        return Subgraphs(*found)


def _empty_buffer(number: type[np.integer[Any]]) -> _FactBuffer:
    """A buffer whose node numbers have the type ``number``."""
    return _FactBuffer(np.empty(0, number), np.empty(0, np.uint16), np.empty(0, number))


def extract_all(graph: KnowledgeGraph, chunks: Iterable[Mentioned], limits: SubgraphLimits, workers: int) -> Iterator[Subgraphs]:
    """Extract the subgraphs of many questions with several threads; the results are in the order of ``chunks``."""
    free: list[Extractor] = []

    def extract(chunk: Mentioned) -> Subgraphs:
        extractor = free.pop() if free else Extractor(graph, limits)
        found = extractor.several(chunk)
        free.append(extractor)
        return found

    pending: deque[Future[Subgraphs]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for chunk in chunks:
            pending.append(pool.submit(extract, chunk))
            if len(pending) > 4 * workers:  # bounds the memory if the consumer is slow
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


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
    asked: Mentioned,
    max_nodes: int,
    max_degree: int,
    scratch: _Scratch,
    buffer: _FactBuffer,
    most: int,
) -> tuple[tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints], _FactBuffer]:
    """The fields of :class:`Subgraphs`, and the buffer, which may have grown.

    A subgraph of more than ``most`` nodes gets no facts. The statements of a question share most of their nodes: the question's
    rows of the graph are read once, and each statement takes its facts from the result.
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
        common = _common(ours, last - first, place)
        between = _between_common(graph.neighbor_ptr, graph.neighbor, common, max_degree, touched)
        begin, largest = node_count, 0
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
            largest = max(largest, nodes[i])
        _forget(graph.neighbor_ptr, graph.neighbor, common, max_degree, touched)
        if largest > most:
            continue
        # number the nodes among all nodes of the question
        union, which = _union(concepts[begin:node_count], place)
        ptr, tail_of, relation_of = _facts_among(graph.head_ptr, graph.tail, graph.relation, union, place, scratch.marked)
        local = np.full(len(union), -1, np.int32)
        start = 0
        for i in range(first, last):
            chosen = which[start : start + nodes[i]]
            start += nodes[i]
            room = fact_count
            for j in range(len(chosen)):
                local[chosen[j]] = j
                room += ptr[chosen[j] + 1] - ptr[chosen[j]]
            if room > len(head):
                head, relation, tail = _grown(head, room), _grown(relation, room), _grown(tail, room)
            facts[i] = _facts_of(chosen, ptr, tail_of, relation_of, local, head, relation, tail, fact_count) - fact_count
            fact_count += facts[i]
            for u in chosen:
                local[u] = -1
    of_nodes = concepts[:node_count].copy(), types[:node_count].copy()
    of_facts = head[:fact_count].copy(), relation[:fact_count].copy(), tail[:fact_count].copy()
    return (nodes, facts, cut, *of_nodes, *of_facts), _FactBuffer(head, relation, tail)


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
def _facts_among(
    ptr: Ints, tails: Ints, relations: Ints, concepts: Ints, place: NDArray[Any], marked: NDArray[Any]
) -> tuple[Ints, Ints, Ints]:
    """All facts between ``concepts``: a pointer, tails as numbers among these (``place`` - 1), relations. ``place`` and ``marked``
    are zero afterwards."""
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
            e = start
            for other in by_number:
                e += np.searchsorted(tails[e:end], other)
                while e < end and tails[e] == other:
                    found[count] = e
                    count += 1
                    e += 1
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
    for c in concepts:
        marked[c & (_MARKS - 1)] = 0
        place[c] = 0
    return rows, tail, relation
