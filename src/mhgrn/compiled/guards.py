"""Checks inside kernels: a block of a large stored array is checked when it is first used.

A kernel calls :func:`readable` before it reads a part of a stored integer array, and treats a part that is not readable as empty.
Its caller then calls ``raise_if_damaged`` of the arrays and does not use the result.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.io.checksums import BLOCK
from mhgrn.io.stored import BAD, GOOD, NO_LIMIT, Guard

Array = NDArray[Any]

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)


@kernel
def readable(values: Array, guard: Guard, start: int, stop: int) -> bool:
    """Whether the elements from ``start`` to ``stop`` exist and are undamaged. Checks the blocks that were not checked yet.

    Args:
        values: the stored array, of one dimension.
        guard: its guard.
        start: the first element.
        stop: the element after the last one.
    """
    if start < 0 or stop > len(values) or start > stop:
        return False
    if len(guard.state) == 0 or start == stop:
        return True
    first, last = guard.offset + start * values.itemsize, guard.offset + stop * values.itemsize - 1
    for block in range(first // BLOCK, last // BLOCK + 1):
        if guard.state[block] == GOOD:
            continue
        if not _is_good(values, guard, block):
            guard.state[block] = BAD
            return False
        guard.state[block] = GOOD
    return True


@kernel
def _is_good(values: Array, guard: Guard, block: int) -> bool:
    content = guard.raw[block * BLOCK : (block + 1) * BLOCK]
    if len(guard.sums) > 0 and xxh64(content) != guard.sums[block]:
        return False
    size = values.itemsize
    first = max(0, (block * BLOCK - guard.offset + size - 1) // size)
    last = min(len(values), ((block + 1) * BLOCK - guard.offset + size - 1) // size)
    for i in range(first, last):
        value = np.int64(values[i])
        if value < guard.low or (guard.high != NO_LIMIT and value > guard.high):
            return False
        if guard.is_pointer and i > 0 and values[i - 1] > values[i]:
            return False
    return True


@kernel
def _rotated(value: Any, bits: int) -> Any:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@kernel
def _round(state: Any, lane: Any) -> Any:
    return _rotated(state + lane * _PRIME_2, 31) * _PRIME_1


@kernel
def xxh64(content: Array) -> Any:
    """The XXH64 of bytes, with seed 0."""
    size = len(content)
    lanes = content[: size // 8 * 8].view(np.uint64)
    at = 0
    if size >= 32:
        a, b, c, d = _PRIME_1 + _PRIME_2, _PRIME_2, np.uint64(0), np.uint64(0) - _PRIME_1
        while at + 4 <= len(lanes):
            a = _round(a, lanes[at])
            b = _round(b, lanes[at + 1])
            c = _round(c, lanes[at + 2])
            d = _round(d, lanes[at + 3])
            at += 4
        result = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
        for state in (a, b, c, d):
            result = (result ^ _round(np.uint64(0), state)) * _PRIME_1 + _PRIME_4
    else:
        result = _PRIME_5
    result += np.uint64(size)
    while at < len(lanes):
        result = _rotated(result ^ _round(np.uint64(0), lanes[at]), 27) * _PRIME_1 + _PRIME_4
        at += 1
    left = at * 8
    if left + 4 <= size:
        lane = np.uint64(0)
        for i in range(4):
            lane |= np.uint64(content[left + i]) << np.uint64(8 * i)
        result = _rotated(result ^ (lane * _PRIME_1), 23) * _PRIME_2 + _PRIME_3
        left += 4
    while left < size:
        result = _rotated(result ^ (np.uint64(content[left]) * _PRIME_5), 11) * _PRIME_1
        left += 1
    result = (result ^ (result >> np.uint64(33))) * _PRIME_2
    result = (result ^ (result >> np.uint64(29))) * _PRIME_3
    return result ^ (result >> np.uint64(32))
