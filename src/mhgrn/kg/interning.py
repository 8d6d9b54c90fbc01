"""Texts being numbered: each distinct text gets the next number when it first appears."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.kg.kernels import fill_slots, intern_last
from mhgrn.kg.strings import StringIndex, slot_count

Array = NDArray[Any]


class Interner:
    """Texts being numbered, in arrays that kernels write to. Call :meth:`reserve` before a kernel adds to it."""

    def __init__(self) -> None:
        self.count = 0
        self.ptr = np.zeros(1024, dtype=np.int64)
        self.data = np.empty(1 << 14, dtype=np.uint8)
        self.slots = np.zeros(2048, dtype=np.uint64)

    def reserve(self, texts: int, size: int) -> None:
        """Make room for so many more texts of so many bytes in all."""
        if len(self.ptr) < self.count + texts + 1:
            self.ptr = _grown(self.ptr, self.count + texts + 1)
        if len(self.data) < self.ptr[self.count] + size:
            self.data = _grown(self.data, int(self.ptr[self.count]) + size)
        if len(self.slots) < 2 * (self.count + texts):
            self.slots = fill_slots(self.ptr, self.data, self.count, slot_count(self.count + texts))

    def add(self, text: bytes) -> int:
        """The number of one text."""
        self.reserve(1, len(text))
        start = int(self.ptr[self.count])
        self.data[start : start + len(text)] = np.frombuffer(text, dtype=np.uint8)
        number = int(intern_last(self.slots, self.ptr, self.data, self.count, len(text)))
        self.count += number == self.count
        return number

    def __getitem__(self, number: int) -> str:
        return bytes(self.data[self.ptr[number] : self.ptr[number + 1]]).decode()

    def index(self) -> StringIndex:
        """The finished index: the same texts in the same order give the same bytes."""
        ptr = self.ptr[: self.count + 1].copy()
        return StringIndex.indexed(ptr, self.data[: ptr[-1]].copy())


def _grown(array: Array, size: int) -> Array:
    grown = np.zeros(max(size, len(array) + len(array) // 2), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
