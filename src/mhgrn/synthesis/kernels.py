"""Compiled kernels that draw the concepts of questions and their wrong choices.

A question is drawn from its own stream of random numbers, so that questions do not depend on each other or on threads. An edge of
a concept is a number ``code * concepts + other``: ``other`` is the tail and ``code`` the relation, or ``other`` is the head and
``code`` the relation plus the number of relations. The edges of a concept are sorted.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel

Array = NDArray[Any]

RANDOM, SAME_RELATION, NEAR_GRAPH, NEAR_TEXT = 0, 1, 2, 3  # the order of options.STRATEGIES
TRIES = 40  # draws of a wrong choice by one strategy
POOL = 128  # concepts from which the nearest in text is chosen
MOST_MIDDLES = 5  # concepts that the first fact of a path may lead to; more make a vague question


class Material(NamedTuple):
    """The arrays that drawing reads."""

    edge_ptr: Array  # [concepts + 1]
    edge: Array  # [2 facts]
    neighbor_ptr: Array  # [concepts + 1]
    neighbor: Array
    head: Array  # [facts] of usable facts, as the next two
    tail: Array
    relation: Array
    by_relation_ptr: Array  # [relations + 1] pointer to usable facts, which are sorted by relation
    is_usable: Array  # [concepts]
    word_ptr: Array  # [concepts + 1] pointer to the content words of each name
    word: Array
    spelling: Array  # [concepts] equal for names with equal lemmas
    is_described: Array  # [2 relations] whether noun phrases describe the concept that an edge of this code leads to
    is_vague: Array  # [relations] whether noun phrases describe neither end
    token_ptr: Array  # [concepts + 1] pointer to the tokens of each name; empty rows without near-text
    token: Array
    vector: Array  # [tokens of the vocabulary, width]
    length: Array  # [concepts] of the sum of the name's vectors


class Drawn(NamedTuple):
    """Questions. Those that could not be made have ``known`` -1."""

    known: Array
    middle: Array  # -1: a question about one fact
    answer: Array
    first: Array  # code of the edge from known to middle
    last: Array  # code of the edge from known or middle to the answer
    wrong: Array  # [questions, choices - 1]
    strategy: Array  # [questions, choices - 1]
    draw: Array  # a random number for the words of the question


@kernel
def _next(state: Array) -> Any:
    """A random number of 64 bits (SplitMix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _below(state: Array, n: int) -> Any:
    return np.int64(_next(state) % np.uint64(n))


@kernel
def _first_of(values: Array, start: int, end: int, value: int) -> Any:
    """The first place from ``start`` to ``end`` in sorted values that is not less than ``value``."""
    while start < end:
        middle = (start + end) // 2
        if values[middle] < value:
            start = middle + 1
        else:
            end = middle
    return start


@kernel
def _has_edge(m: Material, concept: int, code: int, other: int) -> Any:
    n = len(m.edge_ptr) - 1
    start, end = m.edge_ptr[concept], m.edge_ptr[concept + 1]
    found = _first_of(m.edge, start, end, code * n + other)
    return found < end and m.edge[found] == code * n + other


@kernel
def _are_neighbors(m: Material, one: int, other: int) -> Any:
    start, end = m.neighbor_ptr[one], m.neighbor_ptr[one + 1]
    found = _first_of(m.neighbor, start, end, other)
    return found < end and m.neighbor[found] == other


@kernel
def _common(m: Material, one: int, other: int) -> Any:
    """The number of common neighbors of two concepts."""
    if m.neighbor_ptr[one + 1] - m.neighbor_ptr[one] > m.neighbor_ptr[other + 1] - m.neighbor_ptr[other]:
        one, other = other, one
    count, start, end = 0, m.neighbor_ptr[other], m.neighbor_ptr[other + 1]
    for i in range(m.neighbor_ptr[one], m.neighbor_ptr[one + 1]):
        start = _first_of(m.neighbor, start, end, m.neighbor[i])
        if start == end:
            break
        count += m.neighbor[start] == m.neighbor[i]
    return count


@kernel
def _support(m: Material, one: int, other: int) -> Any:
    """How much the graph supports a fact: the share of common neighbors among the neighbors of its ends.

    Concepts with few neighbors and hubs are rated lower than others.
    """
    near = (m.neighbor_ptr[one + 1] - m.neighbor_ptr[one]) * (m.neighbor_ptr[other + 1] - m.neighbor_ptr[other])
    return (0.1 + _common(m, one, other)) / (10 + np.sqrt(near))


@kernel
def support(m: Material) -> Array:
    """How much the graph supports each usable fact."""
    found = np.zeros(len(m.head), np.float64)
    for f in range(len(found)):
        found[f] = _support(m, m.head[f], m.tail[f])
    return found


@kernel
def _segment(m: Material, concept: int, code: int) -> Any:
    """The first and the last edge of a concept with a code."""
    n = len(m.edge_ptr) - 1
    start, end = m.edge_ptr[concept], m.edge_ptr[concept + 1]
    return _first_of(m.edge, start, end, code * n), _first_of(m.edge, start, end, (code + 1) * n)


@kernel
def shares_word(m: Material, one: int, other: int) -> Any:
    for a in range(m.word_ptr[one], m.word_ptr[one + 1]):
        for b in range(m.word_ptr[other], m.word_ptr[other + 1]):
            if m.word[a] == m.word[b]:
                return True
    return False


@kernel
def _is_true(m: Material, known: int, middle: int, first: int, last: int, choice: int) -> Any:
    """Whether a choice answers the question. The direction of a single fact does not matter, as few relations are one-way."""
    half = len(m.is_vague)
    if middle < 0:
        return _has_edge(m, known, last, choice) or _has_edge(m, known, (last + half) % (2 * half), choice)
    n = len(m.edge_ptr) - 1
    start, end = _segment(m, known, first)
    for e in range(start, end):  # noqa: SIM110
        if _has_edge(m, m.edge[e] % n, last, choice):
            return True
    return False


@kernel
def _is_wrong(m: Material, d: Drawn, i: int, taken: int, choice: int) -> Any:
    """Whether a concept can be a wrong choice of question ``i``, which has ``taken`` ones already."""
    known, middle, answer = d.known[i], d.middle[i], d.answer[i]
    if not m.is_usable[choice] or choice == middle:
        return False
    if m.spelling[choice] == m.spelling[answer] or m.spelling[choice] == m.spelling[known]:
        return False
    for j in range(taken):
        if m.spelling[choice] == m.spelling[d.wrong[i, j]]:
            return False
    if shares_word(m, choice, answer) or shares_word(m, choice, known) or _are_neighbors(m, choice, answer):
        return False
    return not _is_true(m, known, middle, d.first[i], d.last[i], choice)


@kernel
def _any_end(m: Material, state: Array) -> Any:
    """The head or tail of any fact, so that common concepts are drawn more often, as they are for answers."""
    f = _below(state, len(m.head))
    return m.head[f] if _next(state) & np.uint64(1) else m.tail[f]


@kernel
def _same_relation(m: Material, state: Array, code: int) -> Any:
    half = len(m.is_vague)
    r = code % half
    f = m.by_relation_ptr[r] + _below(state, m.by_relation_ptr[r + 1] - m.by_relation_ptr[r])
    return m.tail[f] if code < half else m.head[f]


@kernel
def _near_in_graph(m: Material, state: Array, known: int, answer: int) -> Any:
    """A neighbor of the known concept by a relation that is not vague, or a concept that shares a neighbor with the answer."""
    n, half = len(m.edge_ptr) - 1, len(m.is_vague)
    if _next(state) & np.uint64(1):
        e = m.edge[m.edge_ptr[known] + _below(state, m.edge_ptr[known + 1] - m.edge_ptr[known])]
        if not m.is_vague[e // n % half]:
            return e % n
    between = m.neighbor[m.neighbor_ptr[answer] + _below(state, m.neighbor_ptr[answer + 1] - m.neighbor_ptr[answer])]
    return m.neighbor[m.neighbor_ptr[between] + _below(state, m.neighbor_ptr[between + 1] - m.neighbor_ptr[between])]


@kernel
def lengths(token_ptr: Array, token: Array, vector: Array) -> Array:
    """The length of the sum of each name's vectors."""
    found = np.zeros(len(token_ptr) - 1, np.float32)
    for c in range(len(found)):
        total = np.zeros(vector.shape[1], np.float32)
        for t in range(token_ptr[c], token_ptr[c + 1]):
            total += vector[token[t]]
        found[c] = np.sqrt((total * total).sum())
    return found


@kernel
def _near_in_text(m: Material, state: Array, d: Drawn, i: int, taken: int) -> Any:
    """The nearest of some random concepts to the answer, by the cosine of the mean vectors of their tokens; -1 if there is none."""
    answer = d.answer[i]
    total = np.zeros(m.vector.shape[1], np.float32)
    for t in range(m.token_ptr[answer], m.token_ptr[answer + 1]):
        total += m.vector[m.token[t]]
    best, found = np.float32(-2), -1
    for _ in range(POOL):
        choice = _any_end(m, state)
        if m.length[choice] > 0:
            near = np.float32(0)
            for t in range(m.token_ptr[choice], m.token_ptr[choice + 1]):
                for k in range(len(total)):
                    near += total[k] * m.vector[m.token[t], k]
            near /= m.length[choice]
            if near > best and _is_wrong(m, d, i, taken, choice):
                best, found = near, choice
    return found


@kernel
def _draw_path(m: Material, state: Array, middle: int, answer: int, last: int) -> Any:
    """The known concept of a question about two facts, and the code of its edge to ``middle``; -1 if none was found.

    The concepts at the ends have another common neighbor than the middle: otherwise the middle often has two senses. Of some random
    concepts, the best supported one is taken.
    """
    n, half = len(m.edge_ptr) - 1, len(m.is_vague)
    found, code, best = -1, -1, 0.0
    for _ in range(TRIES):
        e = m.edge[m.edge_ptr[middle] + _below(state, m.edge_ptr[middle + 1] - m.edge_ptr[middle])]
        known, first = e % n, (e // n + half) % (2 * half)
        if not m.is_usable[known] or known == answer or not m.is_described[first] or first == (last + half) % (2 * half):
            continue
        start, end = _segment(m, known, first)
        if end - start > MOST_MIDDLES or _are_neighbors(m, known, answer):
            continue
        if not shares_word(m, known, answer) and m.spelling[known] != m.spelling[answer]:
            supported = _support(m, known, middle) * _support(m, known, answer)
            if supported > best and _common(m, known, answer) >= 2:
                found, code, best = known, first, supported
    return found, code


@kernel
def draw(m: Material, facts: Array, hops: Array, seed: int, strategies: Array, d: Drawn) -> None:
    """Fill ``d`` with a question for each of ``facts``, which is its only or its last fact."""
    half = len(m.is_vague)
    count, choices = d.wrong.shape
    state = np.zeros(1, np.uint64)
    order = strategies.copy()
    for i in range(count):
        f = facts[i]
        state[0] = np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(f) * np.uint64(4) + np.uint64(hops[i])
        state[0] = _next(state)
        d.draw[i] = _next(state)
        d.known[i] = -1
        asks_tail = _next(state) & np.uint64(1) == np.uint64(1)
        start, answer = (m.head[f], m.tail[f]) if asks_tail else (m.tail[f], m.head[f])
        last = np.int64(m.relation[f]) + (0 if asks_tail else half)
        known, middle, first = int(start), -1, -1
        if hops[i] == 2:
            if not asks_tail and not m.is_described[m.relation[f]]:  # the middle is a verb or an adjective
                continue
            middle = int(start)
            known, first = _draw_path(m, state, middle, answer, last)
            if known < 0:
                continue
        d.known[i], d.middle[i], d.answer[i], d.first[i], d.last[i] = known, middle, answer, first, last
        for j in range(len(order) - 1, 0, -1):
            k = _below(state, j + 1)
            order[j], order[k] = order[k], order[j]
        for taken in range(choices):
            found = -1
            wanted = order[taken % len(order)]
            for fallback in range(3):
                strategy = wanted if fallback == 0 else SAME_RELATION if fallback == 1 else RANDOM
                if strategy == NEAR_TEXT:
                    found = _near_in_text(m, state, d, i, taken)
                else:
                    for _ in range(TRIES):
                        choice = (
                            _same_relation(m, state, last)
                            if strategy == SAME_RELATION
                            else _near_in_graph(m, state, known, answer)
                            if strategy == NEAR_GRAPH
                            else _any_end(m, state)
                        )
                        if _is_wrong(m, d, i, taken, choice):
                            found = choice
                            break
                if found >= 0:
                    d.wrong[i, taken], d.strategy[i, taken] = found, strategy
                    break
            if found < 0:
                d.known[i] = -1
                break


@kernel
def usable_facts(m: Material, is_pruned: Array) -> Array:
    """Which facts can be asked about: both ends are usable and share no content word."""
    found = np.zeros(len(m.head), np.uint8)
    for f in range(len(found)):
        h, t = m.head[f], m.tail[f]
        if m.is_usable[h] and m.is_usable[t] and not is_pruned[m.relation[f]]:
            found[f] = not shares_word(m, h, t)
    return found
