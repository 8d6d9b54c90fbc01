"""Kernels that extract subgraphs, and the arrays that they read and write."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.guards import readable
from mhgrn.compiled.jit import kernel
from mhgrn.grounding.grounder import Mentioned
from mhgrn.io.stored import Guard
from mhgrn.kg.graph import Ints

QUESTION, ANSWER, OTHER = 0, 1, 2  # node types
MARKS = 1 << 14  # concepts are marked by the last bits of their numbers; the array fits into the L1 cache


class GraphArrays(NamedTuple):
    """The arrays of a graph that extraction reads."""

    neighbor_ptr: Ints
    neighbor: Ints
    head_ptr: Ints
    tail: Ints
    relation: Ints


class Guards(NamedTuple):
    """What is known of the blocks of these arrays."""

    neighbor_ptr: Guard
    neighbor: Guard
    head_ptr: Guard
    tail: Guard
    relation: Guard


def read_only(array: Ints) -> Ints:
    """A view that cannot be written to: arrays in memory then have the type of stored ones, and kernels are compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view


class Scratch(NamedTuple):
    """Arrays that are zero before and after each extraction."""

    touched: NDArray[Any]  # [concepts] flags of a concept and of its mentioned neighbors
    place: NDArray[Any]  # [concepts] the position of a concept among the current nodes, from 1
    marked: NDArray[Any]  # [MARKS] see _facts_among


class FactBuffer(NamedTuple):
    """Arrays for heads, relations and tails; they are reused because allocating memory costs more than filling it."""

    head: Ints
    relation: Ints
    tail: Ints


@kernel
def count_types(nodes: Ints, concepts: Ints, types: Ints, occurs: NDArray[Any]) -> Ints:
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
def extract_statements(
    graph: GraphArrays,
    guards: Guards,
    asked: Mentioned,
    max_nodes: int,
    max_degree: int,
    max_facts: int,
    scratch: Scratch,
    buffer: FactBuffer,
    most_shared: int,
) -> tuple[tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints], FactBuffer]:
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
    return (nodes, facts, cut, *of_nodes, *of_facts), FactBuffer(head, relation, tail)


@kernel
def _are_neighbors_good(graph: GraphArrays, guards: Guards, concepts: Ints, max_degree: int) -> bool:
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
def _are_facts_good(graph: GraphArrays, guards: Guards, concepts: Ints) -> bool:
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
        marked[c & (MARKS - 1)] = 1
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
                count += marked[tails[e] & (MARKS - 1)]
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
        marked[c & (MARKS - 1)] = 0
        place[c] = 0
    return total <= most, rows, tail, relation
