"""A pool of large arrays: the operating system clears fresh memory page by page, which costs more than the work done in it."""

import os
from collections import deque
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
_free: list[NDArray[np.uint8]] = []
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
        with _lock:
            while _returned:
                _free.append(_returned.popleft())
            while sum(array.size for array in _free) > MOST:
                _free.pop(0)
            fitting = [i for i, array in enumerate(_free) if size <= array.size <= 2 * size + 4096]
            taken = _free.pop(min(fitting, key=lambda i: _free[i].size)) if fitting else np.empty(size + size // 8 + 64, np.uint8)
        self._taken.append(taken)
        return taken[:size].view(dtype).reshape(shape)

    def __del__(self, returned: deque[NDArray[np.uint8]] = _returned) -> None:  # a name of the module is gone when Python exits
        returned.extend(self._taken)


def clear() -> None:
    """Empty the pool."""
    with _lock:
        _returned.clear()
        _free.clear()
