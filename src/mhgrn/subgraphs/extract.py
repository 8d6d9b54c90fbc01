"""A statement's part of the graph: its mentioned concepts, the middles of two-hop paths between them, all edges among these."""

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
MOST_NODES = 2**16 - 1  # of a subgraph with small local numbers


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


def count_sides(subgraphs: Subgraphs, occurs: NDArray[np.bool_]) -> Ints:
    """How many question concepts and how many answer concepts each has [2, subgraphs]; all concepts are marked in ``occurs``."""
    counts: Ints = _count_sides(subgraphs.nodes, subgraphs.concepts, subgraphs.types, occurs)
    return counts


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
        self._touched = np.zeros(len(graph), dtype=np.uint8)  # concept → which mentioned concepts are next to it
        self._place = np.zeros(len(graph), dtype=np.int32)  # concept → its place among the nodes at hand
        self._marked = np.zeros(_MARKS, dtype=np.uint8)
        self._room = _room_for_facts(np.uint16)  # kept, because new memory costs more than what is written to it

    def __call__(self, mentions: Mentions) -> Subgraph:
        found = self.several(Mentioned.of([[mentions]]))
        return Subgraph(found.concepts, found.types, found.head, found.relation, found.tail, int(found.cut[0]))

    def several(self, mentioned: Mentioned) -> Subgraphs:
        """The subgraphs of the statements of several questions."""
        graph, limits = self.graph, self.limits
        most_nodes = len(graph) if limits.max_nodes is None else limits.max_nodes
        most_neighbours = len(graph) if limits.max_degree is None else limits.max_degree
        rows = graph.neighbor_ptr, graph.neighbor, graph.head_ptr, graph.tail, graph.relation
        asked = *mentioned, most_nodes, most_neighbours
        scratch = self._touched, self._place, self._marked
        found, self._room = _extract(*rows, *asked, *scratch, self._room, MOST_NODES)
        if found[0].max(initial=0) > MOST_NODES:
            found, _ = _extract(*rows, *asked, *scratch, _room_for_facts(np.int32), len(graph))
        return Subgraphs(*found)


def _room_for_facts(number: type[np.integer[Any]]) -> tuple[Ints, Ints, Ints]:
    """For heads, relations and tails; ``number`` is the type of local numbers."""
    return np.empty(0, number), np.empty(0, np.uint16), np.empty(0, number)


def extract_all(graph: KnowledgeGraph, chunks: Iterable[Mentioned], limits: Limits, workers: int) -> Iterator[Subgraphs]:
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
    neighbour_ptr: Ints,
    neighbour: Ints,
    head_ptr: Ints,
    tails: Ints,
    relations: Ints,
    question_ptr: Ints,
    statement_ptr: Ints,
    questions: Ints,
    mentioned: Ints,
    max_nodes: int,
    max_degree: int,
    touched: NDArray[Any],
    place: NDArray[Any],
    marked: NDArray[Any],
    room_for_facts: tuple[Ints, Ints, Ints],
    most: int,
) -> tuple[tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints], tuple[Ints, Ints, Ints]]:
    """The fields of :class:`Subgraphs`, and the room for heads, relations and tails, which may have grown.

    ``touched``, ``place`` and ``marked`` are zero before and after. A subgraph of more than ``most`` nodes is left without facts.
    The statements of a question have most nodes in common: its rows of the graph are read once, and each statement takes its facts
    from what was found.
    """
    size = len(questions)
    nodes, facts, cut = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    concepts, types = np.empty(256 * size, np.int32), np.empty(256 * size, np.uint8)
    head, relation, tail = room_for_facts
    node_count = fact_count = 0
    for q in range(len(question_ptr) - 1):
        first, last = question_ptr[q], question_ptr[q + 1]
        ours = mentioned[statement_ptr[first] : statement_ptr[last]]
        common = _common(ours, last - first, place)
        between = _between_common(neighbour_ptr, neighbour, common, max_degree, touched)
        begin, largest = node_count, 0
        for i in range(first, last):
            mine = mentioned[statement_ptr[i] : statement_ptr[i + 1]]
            middles = _middles(neighbour_ptr, neighbour, mine, between, max_degree, touched)
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
        _forget(neighbour_ptr, neighbour, common, max_degree, touched)
        if largest > most:
            continue
        # nodes by their numbers among all nodes of the question
        union, which = _union(concepts[begin:node_count], place)
        ptr, tail_of, relation_of = _facts_among(head_ptr, tails, relations, union, place, marked)
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
    return (nodes, facts, cut, *of_nodes, *of_facts), (head, relation, tail)


@kernel
def _facts_of(
    nodes: Ints, ptr: Ints, tails: Ints, relations: Ints, local: Ints, head: Ints, relation: Ints, tail: Ints, at: int
) -> int:
    """Write the facts of some nodes as far as their tails have local numbers; where they end."""
    end = np.uint64(at)  # unsigned numbers are quicker indices
    for i in range(len(nodes)):
        for e in range(ptr[nodes[i]], ptr[nodes[i] + 1]):
            t = local[np.uint32(tails[np.uint64(e)])]
            head[end], relation[end], tail[end] = i, relations[np.uint64(e)], t
            end += np.uint64(t >= 0)  # if it has none, the next is written over it
    return int(end)


@kernel
def _grown(array: Ints, size: int) -> Ints:
    grown = np.empty(size + size // 2, array.dtype)
    grown[: len(array)] = array
    return grown


@kernel
def _common(mentioned: Ints, statements: int, place: NDArray[Any]) -> Ints:
    """The concepts that all statements of a question mention; ``mentioned`` are those of one after the other."""
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


# What ``touched`` says of a concept: how many concepts next to it all statements of the question mention (0, 1, or 2 for more),
# how many others this statement does, whether it is mentioned itself: by all of them, by this one.
_ONE, _TWO, _BY_COMMON = 1, 2, 3
_ONE_MORE, _TWO_MORE, _BY_MORE = 4, 8, 12
_COMMON, _MENTIONED = 16, 32


@kernel
def _between_common(ptr: Ints, neighbour: Ints, common: Ints, max_degree: int, touched: NDArray[Any]) -> Ints:
    """The concepts next to at least two of ``common``, ascending; ``touched`` is left marked."""
    room = 0
    for m in common:
        touched[m] |= _COMMON
        if ptr[m + 1] - ptr[m] <= max_degree:
            room += ptr[m + 1] - ptr[m]
    found = np.empty(room, np.int64)
    count = 0
    for m in common:
        if ptr[m + 1] - ptr[m] <= max_degree:
            for n in neighbour[ptr[m] : ptr[m + 1]]:
                so_far = touched[n] & _BY_COMMON
                found[count] = n
                count += so_far == _ONE
                touched[n] += so_far < _TWO
    return np.sort(found[:count])


@kernel
def _forget(ptr: Ints, neighbour: Ints, common: Ints, max_degree: int, touched: NDArray[Any]) -> None:
    for m in common:
        touched[m] = 0
        if ptr[m + 1] - ptr[m] <= max_degree:
            for n in neighbour[ptr[m] : ptr[m + 1]]:
                touched[n] = 0


@kernel
def _middles(ptr: Ints, neighbour: Ints, mentioned: Ints, between: Ints, max_degree: int, touched: NDArray[Any]) -> Ints:
    """Unmentioned concepts next to at least two mentioned ones, ascending; ``between`` are those next to two that all statements
    mention. ``touched`` is left as it was."""
    room = 0
    for m in mentioned:
        touched[m] |= _MENTIONED
        if not touched[m] & _COMMON and ptr[m + 1] - ptr[m] <= max_degree:
            room += ptr[m + 1] - ptr[m]
    more = np.empty(room, np.int64)
    count = 0
    for m in mentioned:
        if not touched[m] & _COMMON and ptr[m + 1] - ptr[m] <= max_degree:
            for n in neighbour[ptr[m] : ptr[m + 1]]:
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
            for n in neighbour[ptr[m] : ptr[m + 1]]:
                touched[n] &= ~_BY_MORE
    return middles[:total]


@kernel
def _union(concepts: Ints, place: NDArray[Any]) -> tuple[Ints, Ints]:
    """The distinct concepts, and the number of each among these. ``place`` is left with these numbers + 1."""
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


_MARKS = 1 << 14  # concepts are marked by the last bits of their numbers: few enough to stay in the nearest cache


@kernel
def _is_hub(degree: int, nodes: int) -> bool:
    """A hub has far more facts than the subgraph has nodes: the nodes are looked up in its row instead of reading all of it."""
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
