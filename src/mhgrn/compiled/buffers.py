"""Large arrays that are used again: fresh memory costs more than the work done in it."""

import os
from collections import deque
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def memory() -> int:
    """Bytes of the machine's memory, 0 where it does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0


MOST = max(1 << 30, memory() // 4)  # bytes kept for the next call
_free: list[NDArray[np.uint8]] = []
_lock = Lock()
_returned: deque[NDArray[np.uint8]] = deque()  # needs no lock, which whoever collects garbage might hold already


class Buffers:
    """Arrays for one computation. They go back to the pool when nobody holds this object any more.

    >>> Buffers().empty((2, 3), np.float32).shape
    (2, 3)
    """

    def __init__(self) -> None:
        self._taken: list[NDArray[np.uint8]] = []

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """As ``np.empty``. The array must not outlive this object."""
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

    def __del__(self) -> None:
        _returned.extend(self._taken)


def clear() -> None:
    """Give back what is kept."""
    with _lock:
        _returned.clear()
        _free.clear()
