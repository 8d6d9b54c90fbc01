"""Numbered texts in flat arrays, found by a hash table that can be memory-mapped."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class TextTable(NamedTuple):
    """Numbered texts as kernels take them: an open hash table over texts in one array of bytes."""

    slots: Array  # [a power of two] 32 bits of a text's CRC, 32 bits of its number + 1; 0 if free
    ptr: Array  # [texts + 1]
    data: Array  # [bytes]


class StringIndex:
    """Texts by number, and numbers by text. For the arrays see :class:`TextTable`.

    >>> index = StringIndex.of(["child", "desk"])
    >>> index[1], index.find("child"), index.find("cat")
    ('desk', 0, None)
    """

    def __init__(self, ptr: Array, data: Array, slots: Array) -> None:
        self.ptr, self.data, self.slots = ptr, data, slots
        self._views = ptr.data, data.data, slots.data  # reading one number takes half the time of an array

    @classmethod
    def of(cls, texts: Iterable[str]) -> "StringIndex":
        """Make an index of distinct texts, numbered in their order."""
        encoded = [text.encode() for text in texts]
        ptr = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls.indexed(ptr, np.frombuffer(b"".join(encoded), dtype=np.uint8))

    @classmethod
    def indexed(cls, ptr: Array, data: Array) -> "StringIndex":
        """Make an index of texts that are arrays already."""
        from mhgrn.kg.interning import fill_slots

        return cls(ptr, data, fill_slots(ptr, data, len(ptr) - 1, slot_count(len(ptr) - 1)))

    @property
    def table(self) -> TextTable:
        return TextTable(self.slots, self.ptr, self.data)

    @cached_property
    def longest(self) -> int:
        """The number of bytes of the longest text."""
        return int(np.diff(self.ptr).max(initial=0))

    @classmethod
    def from_arrays(cls, name: str, arrays: dict[str, Array]) -> "StringIndex":
        return cls(arrays[f"{name}_ptr"], arrays[f"{name}_bytes"], arrays[f"{name}_slots"])

    def to_arrays(self, name: str) -> dict[str, Array]:
        return {f"{name}_ptr": self.ptr, f"{name}_bytes": self.data, f"{name}_slots": self.slots}

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, number: int) -> str:
        ptr, data, _ = self._views
        return bytes(data[ptr[number] : ptr[number + 1]]).decode()

    def __iter__(self) -> Iterator[str]:
        data, bounds = self.data.tobytes(), self.ptr.tolist()
        for start, end in pairwise(bounds):
            yield data[start:end].decode()

    def find(self, text: str) -> int | None:
        """Return the number of a text, or None. This is plain Python: one look-up takes a microsecond and needs no numba."""
        encoded = text.encode("utf-8", "surrogatepass")  # no stored text has half of a surrogate pair
        crc = crc32(encoded)
        ptr, data, slots = self._views
        mask = len(slots) - 1
        place = crc & mask
        while entry := slots[place]:
            if entry >> 32 == crc:
                number: int = (entry & 0xFFFFFFFF) - 1
                if data[ptr[number] : ptr[number + 1]] == encoded:
                    return number
            place = (place + 1) & mask
        return None


def slot_count(texts: int) -> int:
    """Return the size of the hash table for so many texts: a power of two, at most half full."""
    return int(max(2, 1 << (2 * texts - 1).bit_length()))
