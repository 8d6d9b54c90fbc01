"""Interning: each distinct text gets the next number when it first appears. Texts and hash table are arrays for kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.guards import readable
from mhgrn.compiled.jit import kernel
from mhgrn.kg.strings import MOST_PROBES, StoredTable, StringIndex, TextTable, slot_count

Array = NDArray[Any]


def _crc_table() -> Array:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0xEDB88320), table >> 1).astype(np.uint32)
    return table


CRC_TABLE = _crc_table()


@kernel
def text_crc(data: Array, start: int, end: int) -> Any:
    """Return the CRC-32 of a text, as :meth:`StringIndex.find` gets it from zlib."""
    crc = np.uint32(0xFFFFFFFF)
    for i in range(start, end):
        crc = CRC_TABLE[(crc ^ data[i]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return np.uint64(crc ^ np.uint32(0xFFFFFFFF))


@kernel
def find_text(table: TextTable, text: Array, start: int, end: int) -> tuple[Any, Any, Any]:
    """Return the number of a part of ``text`` or -1, its place in the table or the free one where it would go, and its CRC."""
    slots, ptr, data = table
    crc = text_crc(text, start, end)
    mask = np.uint64(len(slots) - 1)
    place = crc & mask
    while slots[place] != 0:
        entry = slots[place]
        if entry >> np.uint64(32) == crc:
            number = np.int64(entry & np.uint64(0xFFFFFFFF)) - 1
            first = ptr[number]
            if ptr[number + 1] - first == end - start:
                same = True
                for i in range(end - start):
                    if data[first + i] != text[start + i]:
                        same = False
                        break
                if same:
                    return number, place, crc
        place = (place + np.uint64(1)) & mask
    return np.int64(-1), place, crc


@kernel
def find_stored(stored: StoredTable, text: Array, start: int, end: int) -> Any:
    """Return the number of a part of ``text`` or -1, as :func:`find_text` does, and read nothing that is damaged.

    After the kernel, its caller calls :meth:`StringIndex.raise_if_damaged`.
    """
    slots, ptr, data = stored.table
    crc = text_crc(text, start, end)
    mask = np.uint64(len(slots) - 1)
    place = crc & mask
    for _ in range(min(len(slots), MOST_PROBES)):
        at = np.int64(place)
        if not readable(slots, stored.slots, at, at + 1) or slots[place] == 0:
            return np.int64(-1)
        if slots[place] >> np.uint64(32) == crc:
            number = np.int64(slots[place] & np.uint64(0xFFFFFFFF)) - 1
            if not readable(ptr, stored.ptr, number, number + 2):
                return np.int64(-1)
            first, last = ptr[number], ptr[number + 1]
            if last - first == end - start and readable(data, stored.data, first, last):
                same = True
                for i in range(end - start):
                    if data[first + i] != text[start + i]:
                        same = False
                        break
                if same:
                    return number
        place = (place + np.uint64(1)) & mask
    return np.int64(-1)


@kernel
def _entry(crc: Any, number: int) -> Any:
    return (crc << np.uint64(32)) | np.uint64(number + 1)


@kernel
def intern_last(table: TextTable, count: int, length: int) -> Any:
    """Return the number of the text right after the first ``count`` texts in ``data``; a new text gets the number ``count``."""
    start = table.ptr[count]
    number, place, crc = find_text(table, table.data, start, start + length)
    if number >= 0:
        return number
    table.slots[place] = _entry(crc, count)
    table.ptr[count + 1] = start + length
    return np.int64(count)


@kernel
def intern_texts(ptr: Array, text: Array, table: TextTable, count: int, number: Array) -> int:
    """Number texts in order, after the first ``count`` of a table, and return how many distinct texts there are now."""
    for i in range(len(number)):
        start, length = table.ptr[count], ptr[i + 1] - ptr[i]
        for j in range(length):
            table.data[start + j] = text[ptr[i] + j]
        number[i] = intern_last(table, count, length)
        count += number[i] == count
    return count


@kernel
def fill_slots(ptr: Array, data: Array, count: int, size: int) -> Array:
    """Return a hash table of ``size`` places for ``count`` distinct texts."""
    slots = np.zeros(size, np.uint64)
    mask = np.uint64(size - 1)
    for number in range(count):
        crc = text_crc(data, ptr[number], ptr[number + 1])
        place = crc & mask
        while slots[place] != 0:
            place = (place + np.uint64(1)) & mask
        slots[place] = _entry(crc, number)
    return slots


@kernel
def is_space(byte: int) -> bool:
    return byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31


class Interner:
    """Numbers texts. Kernels write to its arrays; call :meth:`reserve` before."""

    def __init__(self) -> None:
        self.count = 0
        self.ptr = np.zeros(1024, dtype=np.int64)
        self.data = np.empty(1 << 14, dtype=np.uint8)
        self.slots = np.zeros(2048, dtype=np.uint64)

    @property
    def table(self) -> TextTable:
        return TextTable(self.slots, self.ptr, self.data)

    def reserve(self, texts: int, size: int) -> None:
        """Make room for ``texts`` more texts of ``size`` bytes in total."""
        if len(self.ptr) < self.count + texts + 1:
            self.ptr = _grown(self.ptr, self.count + texts + 1)
        if len(self.data) < self.ptr[self.count] + size:
            self.data = _grown(self.data, int(self.ptr[self.count]) + size)
        if len(self.slots) < 2 * (self.count + texts):
            self.slots = fill_slots(self.ptr, self.data, self.count, slot_count(self.count + texts))

    def add(self, text: bytes) -> int:
        """Return the number of one text."""
        self.reserve(1, len(text))
        start = int(self.ptr[self.count])
        self.data[start : start + len(text)] = np.frombuffer(text, dtype=np.uint8)
        number = int(intern_last(self.table, self.count, len(text)))
        self.count += number == self.count
        return number

    def __getitem__(self, number: int) -> str:
        return bytes(self.data[self.ptr[number] : self.ptr[number + 1]]).decode()

    def index(self) -> StringIndex:
        """Return the finished index. The same texts in the same order give the same bytes."""
        ptr = self.ptr[: self.count + 1].copy()
        return StringIndex.indexed(ptr, self.data[: ptr[-1]].copy())


def _grown(array: Array, size: int) -> Array:
    grown = np.zeros(max(size, len(array) + len(array) // 2), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
