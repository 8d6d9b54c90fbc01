"""Numbered texts in flat arrays, found by a hash table that can be memory-mapped."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.stored import NO_GUARD, Guard, StoredArray, StoredFolder, in_memory

Array = NDArray[Any]
MOST_PROBES = 1 << 20  # places of a hash table that a look-up visits; a table that has so many in a row is damaged
_AT_ONCE = 1 << 16  # texts that are read at once
_ANY = -(2**63)  # no least value: kernels compare signed numbers


class TextTable(NamedTuple):
    """Numbered texts as kernels take them: an open hash table over texts in one array of bytes."""

    slots: Array  # [a power of two] 32 bits of a text's CRC, 32 bits of its number + 1; 0 if free
    ptr: Array  # [texts + 1]
    data: Array  # [bytes]


class StoredTable(NamedTuple):
    """A :class:`TextTable` that may be stored, so that kernels check what they read of it; see :func:`find_stored`."""

    table: TextTable
    slots: Guard
    ptr: Guard
    data: Guard


class StringIndex:
    """Texts by number, and numbers by text. For the arrays see :class:`TextTable`.

    >>> index = StringIndex.of(["child", "desk"])
    >>> index[1], index.find("child"), index.find("cat")
    ('desk', 0, None)
    """

    def __init__(self, ptr: Array | StoredArray, data: Array | StoredArray, slots: Array | StoredArray) -> None:
        self._stored = in_memory(ptr), in_memory(data), in_memory(slots)
        self._is_checked = all(array.guard is NO_GUARD for array in self._stored)
        self.ptr, self.data, self.slots = (array.values for array in self._stored)
        self._views = self.ptr.data, self.data.data, self.slots.data  # reading one number takes half the time of an array

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

        slots = fill_slots(ptr, data, len(ptr) - 1, slot_count(len(ptr) - 1))
        for array in (ptr, data, slots):  # the same type as memory-mapped ones, so that kernels are compiled once
            array.setflags(write=False)
        return cls(ptr, data, slots)

    @property
    def table(self) -> TextTable:
        return TextTable(self.slots, self.ptr, self.data)

    @property
    def stored_table(self) -> StoredTable:
        ptr, data, slots = self._stored
        return StoredTable(self.table, slots.guard, ptr.guard, data.guard)

    def raise_if_damaged(self) -> None:
        """Raise a :class:`~mhgrn.errors.UserError` if a kernel found damage."""
        for array in self._stored:
            array.raise_if_damaged()

    def ensure(self) -> None:
        """Check all that was not checked yet."""
        for array in self._stored:
            array.ensure()

    @cached_property
    def longest(self) -> int | None:
        """The number of bytes of the longest text; None if finding out would take reading a large file."""
        return int(np.diff(self.ptr).max(initial=0)) if self._stored[0].guard is NO_GUARD else None

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, Array | StoredArray]) -> "StringIndex":
        return cls(arrays[f"{name}_ptr"], arrays[f"{name}_bytes"], arrays[f"{name}_slots"])

    def to_arrays(self, name: str) -> dict[str, Array]:
        return {f"{name}_ptr": self.ptr, f"{name}_bytes": self.data, f"{name}_slots": self.slots}

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, number: int) -> str:
        ptr, data, _ = self._views
        if not self._is_checked:
            self._stored[0].ensure(number, number + 2)
            self._stored[1].ensure(ptr[number], ptr[number + 1])
        return self._decoded(bytes(data[ptr[number] : ptr[number + 1]]))

    def __iter__(self) -> Iterator[str]:
        ptr, data = self._stored[:2]
        for first in range(0, len(self), _AT_ONCE):
            last = min(first + _AT_ONCE, len(self))
            ptr.ensure(first, last + 1)
            bounds: list[int] = self.ptr[first : last + 1].tolist()
            data.ensure(bounds[0], bounds[-1])
            texts = self.data[bounds[0] : bounds[-1]].tobytes()
            for start, end in pairwise(bounds):
                yield self._decoded(texts[start - bounds[0] : end - bounds[0]])

    def _decoded(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise UserError(f"{self._stored[1].path} is damaged (a text is not UTF-8); build its folder again.") from None

    def find(self, text: str) -> int | None:
        """Return the number of a text, or None. This is plain Python: one look-up takes a microsecond and needs no numba."""
        encoded = text.encode("utf-8", "surrogatepass")  # no stored text has half of a surrogate pair
        crc = crc32(encoded)
        ptr, data, slots = self._views
        mask = len(slots) - 1
        place = crc & mask
        for _ in range(min(len(slots), MOST_PROBES)):
            if not self._is_checked:
                self._stored[2].ensure(place, place + 1)
            entry = slots[place]
            if not entry:
                return None
            if entry >> 32 == crc:
                number: int = (entry & 0xFFFFFFFF) - 1
                if not 0 <= number < len(ptr) - 1:
                    break
                if not self._is_checked:
                    self._stored[0].ensure(number, number + 2)
                    self._stored[1].ensure(ptr[number], ptr[number + 1])
                if data[ptr[number] : ptr[number + 1]] == encoded:
                    return number
            place = (place + 1) & mask
        raise UserError(f"{self._stored[2].path} is damaged (no table of texts); build its folder again.")

    def beginning_with(self, prefix: str) -> Array:
        """Return the numbers of the texts that begin with ``prefix``, ascending.

        >>> StringIndex.of(["child", "desk", "chilly"]).beginning_with("chi").tolist()
        [0, 2]
        """
        self.ensure()
        encoded = prefix.encode("utf-8", "surrogatepass")
        found = np.flatnonzero(np.diff(self.ptr) >= len(encoded))
        for place, byte in enumerate(encoded):
            found = found[self.data[self.ptr[found] + place] == byte]
        return found


def stored_texts(stored: StoredFolder, name: str, texts: int | None = None) -> dict[str, StoredArray]:
    """Load the arrays of a :class:`StringIndex` from a folder; ``texts`` is the number of texts, if it is known."""
    data = stored.array(f"{name}_bytes", "uint8")
    ptr = stored.array(f"{name}_ptr", "int64", length=None if texts is None else texts + 1, high=len(data.values), is_pointer=True)
    count = len(ptr.values) - 1
    slots = stored.array(f"{name}_slots", "uint64", length=slot_count(count), low=_ANY)
    if slots.guard is NO_GUARD and np.count_nonzero(slots.values) != count:
        raise UserError(f"{slots.path} is damaged (it should have {count} entries); build its folder again.")
    return {f"{name}_ptr": ptr, f"{name}_bytes": data, f"{name}_slots": slots}


def slot_count(texts: int) -> int:
    """Return the size of the hash table for so many texts: a power of two, at most half full."""
    return int(max(2, 1 << (2 * texts - 1).bit_length()))
