"""Kernels that number texts: each distinct text gets the next number when it first appears."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled import kernel
from mhgrn.kg.strings import StringIndex, slot_count

Array = NDArray[Any]


@kernel
def text_hash(data: Array, start: int, end: int) -> Any:
    """FNV-1a with its upper half folded in; :meth:`StringIndex.find` computes the same."""
    mixed = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        mixed = (mixed ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return mixed ^ (mixed >> np.uint64(32))


@kernel
def find_text(slots: Array, ptr: Array, data: Array, text: Array, start: int, end: int) -> tuple[Any, Any, Any]:
    """Where a part of ``text`` is in the table, or where it would go: (number or -1, place, its hash)."""
    mixed = text_hash(text, start, end)
    mask = np.uint64(len(slots) - 1)
    place = mixed & mask
    tag = mixed >> np.uint64(32)
    while slots[place] != 0:
        entry = slots[place]
        if entry >> np.uint64(32) == tag:
            number = np.int64(entry & np.uint64(0xFFFFFFFF)) - 1
            first = ptr[number]
            if ptr[number + 1] - first == end - start:
                same = True
                for i in range(end - start):
                    if data[first + i] != text[start + i]:
                        same = False
                        break
                if same:
                    return number, place, mixed
        place = (place + np.uint64(1)) & mask
    return np.int64(-1), place, mixed


@kernel
def _entry(mixed: Any, number: int) -> Any:
    return (mixed >> np.uint64(32) << np.uint64(32)) | np.uint64(number + 1)


@kernel
def intern_last(slots: Array, ptr: Array, data: Array, count: int, length: int) -> Any:
    """The number of the text that lies in ``data`` just behind the first ``count`` texts; ``count`` itself if it is new."""
    start = ptr[count]
    number, place, mixed = find_text(slots, ptr, data, data, start, start + length)
    if number >= 0:
        return number
    slots[place] = _entry(mixed, count)
    ptr[count + 1] = start + length
    return np.int64(count)


@kernel
def fill_slots(ptr: Array, data: Array, count: int, size: int) -> Array:
    """A hash table of ``size`` places over ``count`` distinct texts, entered in their order."""
    slots = np.zeros(size, np.uint64)
    mask = np.uint64(size - 1)
    for number in range(count):
        mixed = text_hash(data, ptr[number], ptr[number + 1])
        place = mixed & mask
        while slots[place] != 0:
            place = (place + np.uint64(1)) & mask
        slots[place] = _entry(mixed, number)
    return slots


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
