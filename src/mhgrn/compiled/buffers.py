"""A pool of large arrays: the operating system clears fresh memory page by page, which costs more than the work done in it."""

import os
from bisect import bisect_left, insort
from collections import deque
from itertools import count
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def memory() -> int:
    """Return the machine's memory in bytes, or 0 if it is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


MOST = max(1 << 30, memory() // 4)  # bytes that the pool keeps
SMALL = 1 << 14  # bytes; smaller arrays are not pooled, the allocator has such memory at hand
_free: list[tuple[int, int, NDArray[np.uint8]]] = []  # size, number in the order of return, array; ascending
_numbers = count()
_held = 0  # bytes of _free
_lock = Lock()
_returned: deque[NDArray[np.uint8]] = deque()  # appended to without the lock: the garbage collector may run while it is held


class Buffers:
    """Arrays for one computation. They return to the pool when this object is deleted.

    >>> Buffers().empty((2, 3), np.float32).shape
    (2, 3)
    """

    def __init__(self) -> None:
        self._taken: list[NDArray[np.uint8]] = []

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Like ``np.empty``. The array must not outlive this object."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if size < SMALL:
            return np.empty(shape, dtype)
        taken = _take(size)
        self._taken.append(taken)
        return taken[:size].view(dtype).reshape(shape)

    def __del__(self, returned: deque[NDArray[np.uint8]] = _returned) -> None:  # a name of the module is gone when Python exits
        returned.extend(self._taken)


def _take(size: int) -> NDArray[np.uint8]:
    """The smallest free array of at least this size that is not much too large; a new one if there is none."""
    global _held  # noqa: PLW0603
    with _lock:
        while _returned:
            array = _returned.popleft()
            insort(_free, (array.size, next(_numbers), array))
            _held += array.size
        while _held > MOST:
            oldest = min(range(len(_free)), key=lambda place: _free[place][1])
            _held -= _free.pop(oldest)[0]
        place = bisect_left(_free, (size,))
        if place < len(_free) and _free[place][0] <= 2 * size + 4096:
            _held -= _free[place][0]
            return _free.pop(place)[2]
    return np.empty(size + size // 8 + 64, np.uint8)


def clear() -> None:
    """Empty the pool."""
    global _held  # noqa: PLW0603
    with _lock:
        _returned.clear()
        _free.clear()
        _held = 0
