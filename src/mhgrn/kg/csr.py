"""Kernels that sort facts and build adjacency, in time and memory linear in the number of facts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel

Array = NDArray[Any]


@kernel
def _sorted_by(keys: Array, size: int, order: Array) -> Array:
    """Return ``order`` sorted by ``keys[order]``: a stable counting sort."""
    place = np.zeros(size + 1, np.int64)
    for key in keys:
        place[key + 1] += 1
    for key in range(size):
        place[key + 1] += place[key]
    result = np.empty_like(order)
    for row in order:
        key = keys[row]
        result[place[key]] = row
        place[key] += 1
    return result


@kernel
def _is_first(head: Array, tail: Array, relation: Array, order: Array) -> Array:
    """Return which of the sorted facts differ from the previous one."""
    first = np.ones(len(order), np.bool_)
    for i in range(1, len(order)):
        a, b = order[i - 1], order[i]
        first[i] = head[a] != head[b] or tail[a] != tail[b] or relation[a] != relation[b]
    return first


def first_of_each(head: Array, relation: Array, tail: Array, concepts: int, relations: int) -> Array:
    """Return the rows of distinct facts, sorted by head, tail and relation; of equal facts the first row.

    >>> first_of_each(np.array([1, 0, 1]), np.array([0, 0, 0]), np.array([2, 1, 2]), 3, 1).tolist()
    [1, 0]
    """
    order = np.arange(len(head), dtype=np.int32 if len(head) < 2**31 else np.int64)
    for keys, size in ((relation, relations), (tail, concepts), (head, concepts)):
        order = _sorted_by(keys, size, order)
    kept: Array = order[_is_first(head, tail, relation, order)]
    return kept


@kernel
def pointer(rows: Array, size: int) -> Array:
    """Return where each of ``size`` rows begins, given the sorted row numbers of all entries."""
    ptr = np.zeros(size + 1, np.int64)
    for row in rows:
        ptr[row + 1] += 1
    for row in range(size):
        ptr[row + 1] += ptr[row]
    return ptr


@kernel
def _merged(a: Array, b: Array, into: Array, at: int, write: bool) -> int:
    """Return the size of the union of two sorted rows; write the union if ``write``."""
    i = j = count = 0
    last = np.int64(-1)
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] <= b[j]):
            value = np.int64(a[i])
            i += 1
        else:
            value = np.int64(b[j])
            j += 1
        if value == last:
            continue
        last = value
        if write:
            into[at + count] = value
        count += 1
    return count


@kernel
def _transposed(ptr: Array, tail: Array, heads: Array, back: Array) -> None:
    """Fill in the heads of every tail's facts, ascending."""
    for t in tail:
        back[t + 1] += 1
    size = len(back) - 1
    for i in range(size):
        back[i + 1] += back[i]
    place = back.copy()
    for h in range(size):
        for e in range(ptr[h], ptr[h + 1]):
            heads[place[tail[e]]] = h
            place[tail[e]] += 1


@kernel
def _neighbor_rows(ptr: Array, tail: Array, back: Array, heads: Array, into: Array, out: Array, write: bool) -> None:
    for i in range(len(ptr) - 1):
        row, other = tail[ptr[i] : ptr[i + 1]], heads[back[i] : back[i + 1]]
        if write:
            _merged(row, other, into, out[i], True)
        else:
            out[i + 1] = out[i] + _merged(row, other, into, 0, False)


def simple_graph(ptr: Array, tail: Array) -> tuple[Array, Array]:
    """Return the undirected simple graph of facts sorted by head and tail: pointer, and neighbors ascending in each row."""
    back, heads = np.zeros(len(ptr), dtype=np.int64), np.empty_like(tail)
    _transposed(ptr, tail, heads, back)
    out = np.zeros(len(ptr), dtype=np.int64)
    _neighbor_rows(ptr, tail, back, heads, tail[:0].copy(), out, False)
    neighbor = np.empty(out[-1], dtype=tail.dtype)
    _neighbor_rows(ptr, tail, back, heads, neighbor, out, True)
    return out, neighbor
