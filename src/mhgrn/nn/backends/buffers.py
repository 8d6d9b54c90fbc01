"""Large arrays that are used again: fresh memory costs more than the work done in it."""

from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

MOST = 1 << 30  # bytes kept for the next call
_free: list[NDArray[np.uint8]] = []
_lock = Lock()


class Buffers:
    """Arrays for one computation. They go back to the pool when nobody holds this object any more."""

    def __init__(self) -> None:
        self._taken: list[NDArray[np.uint8]] = []

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """As ``np.empty``."""
        size = prod(shape) * np.dtype(dtype).itemsize
        with _lock:
            fitting = [i for i, array in enumerate(_free) if size <= array.size <= 2 * size + 4096]
            bytes_ = _free.pop(min(fitting, key=lambda i: _free[i].size)) if fitting else np.empty(size + size // 8 + 64, np.uint8)
        self._taken.append(bytes_)
        return bytes_[:size].view(dtype).reshape(shape)

    def __del__(self) -> None:
        with _lock:
            _free.extend(self._taken)
            while sum(array.size for array in _free) > MOST:
                _free.pop(0)
