"""Compiled kernels of the recursion over walks on a whole graph, and of its gradient.

The nodes that walks of k moves reach are listed in the order in which they are found; ``slot`` holds the place of a node in the
list of its hop. The work is linear in the moves that leave the nodes of the hops 0 … K - 1. Walks are weighted in float64: the
attention of a hop is at most 1, so that weights only fall with the length of a walk.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel

Array = NDArray[Any]


class WalkGraph(NamedTuple):
    """The moves of a graph, see :class:`~mhgrn.open.moves.Moves`."""

    ptr: Array
    target: Array
    label: Array


class WalkWays(NamedTuple):
    """How walks are weighed, and which of them count."""

    attention: Array  # [K, R] the weight of each label at each hop; moves with weight 0 are not followed
    transition: Array  # [R, R] the weight of two consecutive labels, or [0, 0]: all 1
    returns: bool  # whether walks may enter a topic
    max_degree: int  # nodes with more moves, other than topics, are not left; 0: no limit


class WalkPass(NamedTuple):
    """What a forward pass writes."""

    slot: Array  # [K + 1, N] the places of nodes; -1 everywhere before the pass
    nodes: Array  # [K + 1, N] the nodes of each hop
    mass: Array  # [K + 1, N · columns] their weights: one column, or one for each label of the last move
    counts: Array  # [K + 1] the number of nodes of each hop


@kernel
def _outgoing(mass: Array, place: int, columns: int, transition: Array, labels: int, out: Array) -> None:
    """The weight with which a node sends walks along each label: the weight that reached it, times the transition."""
    if columns == 1:
        out[:] = mass[place]
        return
    out[:] = 0.0
    for before in range(columns):
        weight = mass[place * columns + before]
        if weight != 0.0:
            for after in range(labels):
                out[after] += weight * transition[before, after]


@kernel
def walk_forward(graph: WalkGraph, topics: Array, start: Array, ways: WalkWays, into: WalkPass) -> int:
    """Weigh all walks from the topics. Returns the number of moves that a cap or an attention of 0 left out.

    Args:
        graph: The moves.
        topics: Distinct concepts. [T]
        start: The weight of the walks that start at each topic. [T]
        ways: How walks are weighed.
        into: Receives nodes and weights.
    """
    ptr, target, label = graph
    attention, transition, returns, max_degree = ways
    slot, nodes, mass, counts = into
    hops, labels = attention.shape
    columns = labels if len(transition) else 1
    out = np.zeros(labels)
    left_out = 0
    for t in range(len(topics)):
        slot[0, topics[t]] = t
        nodes[0, t] = topics[t]
        mass[0, t] = start[t]
    counts[0] = len(topics)
    for k in range(hops):
        count = 0
        for place in range(counts[k]):
            here = nodes[k, place]
            first, last = ptr[here], ptr[here + 1]
            if max_degree > 0 and last - first > max_degree and slot[0, here] < 0:
                left_out += last - first
                continue
            if k == 0:
                out[:] = mass[0, place]
            else:
                _outgoing(mass[k], place, columns, transition, labels, out)
            for move in range(first, last):
                r = label[move]
                weight = attention[k, r]
                if weight == 0.0:
                    left_out += 1
                    continue
                there = target[move]
                if not returns and slot[0, there] >= 0:
                    continue
                found = slot[k + 1, there]
                if found < 0:
                    found = count
                    slot[k + 1, there] = found
                    nodes[k + 1, found] = there
                    mass[k + 1, found * columns : (found + 1) * columns] = 0.0
                    count += 1
                mass[k + 1, found * columns + (r if columns > 1 else 0)] += weight * out[r]
        counts[k + 1] = count
    return left_out


@kernel
def list_reached(nodes: Array, counts: Array, place_of: Array, reached: Array) -> int:
    """List the nodes that walks of 1 … K moves end in, in the order in which they are found. Returns their number.

    Args:
        nodes, counts: Of :func:`walk_forward`.
        place_of: -1 everywhere, before and after. [N]
        reached: Receives the nodes. [N]
    """
    total = 0
    for k in range(1, len(counts)):
        for place in range(counts[k]):
            node = nodes[k, place]
            if place_of[node] < 0:
                place_of[node] = 0
                reached[total] = node
                total += 1
    for row in range(total):
        place_of[reached[row]] = -1
    return total


@kernel
def read_lengths(nodes: Array, mass: Array, counts: Array, columns: int, place_of: Array, reached: Array, weights: Array) -> None:
    """Gather the weight of the walks of each length into every reached node.

    Args:
        nodes, mass, counts: Of :func:`walk_forward`.
        columns: Columns of ``mass``.
        place_of: -1 everywhere, before and after. [N]
        reached: The nodes that walks of 1 … K moves end in, in any order. [C]
        weights: Receives the weights; zeros. [C, K]
    """
    for row in range(len(reached)):
        place_of[reached[row]] = row
    for k in range(len(counts) - 1):
        for place in range(counts[k + 1]):
            value = 0.0
            for c in range(columns):
                value += mass[k + 1, place * columns + c]
            weights[place_of[nodes[k + 1, place]], k] = value
    for row in range(len(reached)):
        place_of[reached[row]] = -1


@kernel
def spread_lengths(nodes: Array, counts: Array, columns: int, place_of: Array, reached: Array, grad: Array, grads: Array) -> None:
    """The gradient of :func:`read_lengths`.

    Args:
        nodes, counts, columns, place_of, reached: As there.
        grad: The gradient of the weights. [C, K]
        grads: Receives the gradient of ``mass`` of the hops 1 … K.
    """
    for row in range(len(reached)):
        place_of[reached[row]] = row
    for k in range(len(counts) - 1):
        for place in range(counts[k + 1]):
            grads[k + 1, place * columns : (place + 1) * columns] = grad[place_of[nodes[k + 1, place]], k]
    for row in range(len(reached)):
        place_of[reached[row]] = -1


@kernel
def clear_slots(slot: Array, nodes: Array, counts: Array) -> None:
    """Reset ``slot`` to -1 where a walk has been."""
    for k in range(len(counts)):
        for place in range(counts[k]):
            slot[k, nodes[k, place]] = -1


@kernel
def walk_backward(
    graph: WalkGraph, ways: WalkWays, made: WalkPass, grad: Array, grad_attention: Array, grad_transition: Array
) -> None:
    """The gradient of :func:`walk_forward`.

    Args:
        graph, ways: As in the forward pass.
        made: As the forward pass left it.
        grad: The gradient of ``mass``, of its sum over columns where only that is read. Receives that of ``mass[0]``. Same shape.
        grad_attention: Receives the gradient of the attention; zeros. [K, R]
        grad_transition: Receives the gradient of the transition; zeros. [R, R]
    """
    ptr, target, label = graph
    attention, transition, returns, max_degree = ways
    slot, nodes, mass, counts = made
    hops, labels = attention.shape
    columns = labels if len(transition) else 1
    out, sums = np.zeros(labels), np.zeros(labels)
    for k in range(hops - 1, -1, -1):
        for place in range(counts[k]):
            here = nodes[k, place]
            first, last = ptr[here], ptr[here + 1]
            if max_degree > 0 and last - first > max_degree and slot[0, here] < 0:
                continue
            sums[:] = 0.0
            for move in range(first, last):
                r = label[move]
                if attention[k, r] == 0.0:
                    continue
                there = target[move]
                if not returns and slot[0, there] >= 0:
                    continue
                sums[r] += grad[k + 1, slot[k + 1, there] * columns + (r if columns > 1 else 0)]
            if k == 0 or columns == 1:
                at = place if columns == 1 or k == 0 else place * columns
                weight, total = mass[k, at], 0.0
                for r in range(labels):
                    grad_attention[k, r] += weight * sums[r]
                    total += attention[k, r] * sums[r]
                grad[k, at] += total
                continue
            _outgoing(mass[k], place, columns, transition, labels, out)
            for r in range(labels):
                grad_attention[k, r] += out[r] * sums[r]
                sums[r] *= attention[k, r]
            for before in range(columns):
                total, weight = 0.0, mass[k, place * columns + before]
                for r in range(labels):
                    total += transition[before, r] * sums[r]
                    grad_transition[before, r] += weight * sums[r]
                grad[k, place * columns + before] += total
