"""Number more distinct texts than fit in memory, in the order in which they first appear.

The first texts are numbered in a hash table, until it is as large as the memory allows. From then on, a text that the table lacks
is put aside in one of many parts, by its hash, so that each part's distinct texts fit in memory. When all texts are there, those of
each part are numbered on their own; then one walk over all texts in order turns these numbers into those of all parts together.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.errors import UserError
from mhgrn.io.arrays import ArrayWriter
from mhgrn.io.raw import RawReader, append_raw
from mhgrn.kg.interning import Interner, find_text, intern_texts
from mhgrn.kg.strings import TextTable, slot_count

Array = NDArray[Any]

PARTS = 64
MOST_TEXTS = 2**31 - 1
_WAITING = 1 << 25  # bytes of texts that wait to be appended to their parts
_AT_ONCE = 1 << 20  # texts


class Paths(NamedTuple):
    """The arrays of texts on the disk, as ``.npy`` files."""

    ptr: Path
    data: Path

    @classmethod
    def of(cls, folder: Path, name: str) -> "Paths":
        return cls(folder / f"{name}_ptr.npy", folder / f"{name}_bytes.npy")


class TextWriter:
    """Writes texts one after the other as the arrays ``NAME_ptr`` and ``NAME_bytes`` of a :class:`~mhgrn.kg.strings.StringIndex`.

    Args:
        paths: The files.
    """

    def __init__(self, paths: Paths) -> None:
        self._ptr, self._data = ArrayWriter(paths.ptr, np.int64), ArrayWriter(paths.data, np.uint8)
        self._ptr.append(np.zeros(1, dtype=np.int64))

    @property
    def count(self) -> int:
        return self._ptr.length - 1

    def append(self, lengths: Array, data: Array) -> None:
        """Add texts, given by their lengths and all their bytes."""
        self._ptr.append(self._data.length + np.cumsum(lengths, dtype=np.int64))
        self._data.append(data)

    def close(self) -> None:
        self._ptr.close()
        self._data.close()


class SpilledTexts:
    """Numbers texts within a bounded memory. Call :meth:`add` for all, :meth:`close`, :meth:`number`, then :meth:`numbers`.

    Args:
        folder: Where texts are put aside.
        room: Bytes of memory for a hash table.
        parts: Into so many parts texts are put aside.
    """

    def __init__(self, folder: Path, room: int, parts: int = PARTS) -> None:
        self.folder, self.room, self.parts = folder, room, parts
        self.aside = folder / "aside"  # not needed any more when all texts are numbered
        self.front = Interner()
        self.is_full = False
        self._waiting: list[tuple[Array, Array, Array]] = []
        self._waiting_size = 0
        self.aside.mkdir(parents=True, exist_ok=True)

    def has_room(self, texts: int, size: int) -> bool:
        """Return whether so many more texts of so many bytes may be added to the table. Once they may not, they never may."""
        if not self.is_full:
            front, count = self.front, self.front.count + texts
            grown = 12 * count + 3 * (int(front.ptr[front.count]) + size) // 2 + 8 * slot_count(count)
            self.is_full = grown + max(front.ptr.nbytes, front.data.nbytes, front.slots.nbytes) > self.room
        return not self.is_full

    def add(self, texts: Interner) -> None:
        """Add distinct texts in order. Their numbers are the next ones that :meth:`numbers` gives."""
        ptr, data = texts.ptr[: texts.count + 1], texts.data
        if self.has_room(texts.count, int(ptr[-1])):
            self.front.reserve(texts.count, int(ptr[-1]))
            codes = np.empty(texts.count, dtype=np.int32)
            self.front.count = intern_texts(ptr, data, self.front.table, self.front.count, codes)
        else:
            codes, order, counts = _codes(ptr, data, self.front.table, self.parts)
            self._waiting.append((counts, *_gathered(ptr, data, order)))
            self._waiting_size += self._waiting[-1][1].nbytes + self._waiting[-1][2].nbytes
            if self._waiting_size > _WAITING:
                self._put_aside()
        append_raw(self.folder / "codes", codes)

    def _put_aside(self) -> None:
        bounds = []
        for counts, lengths, _ in self._waiting:
            ends = np.concatenate([[0], np.cumsum(counts)])
            bounds.append((ends, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[ends]))
        for part in range(self.parts):
            rows = [lengths[ends[part] : ends[part + 1]] for (_, lengths, _), (ends, _) in zip(self._waiting, bounds, strict=True)]
            if not any(map(len, rows)):
                continue
            texts = [data[at[part] : at[part + 1]] for (_, _, data), (_, at) in zip(self._waiting, bounds, strict=True)]
            append_raw(self.aside / f"lengths-{part}", np.concatenate(rows))
            append_raw(self.aside / f"texts-{part}", np.concatenate(texts))
        self._waiting, self._waiting_size = [], 0

    def close(self) -> None:
        """Write what is in memory, and free it."""
        if self._waiting:
            self._put_aside()
        ptr = self.front.ptr[: self.front.count + 1]
        append_raw(self.aside / "front-lengths", np.diff(ptr).astype(np.uint32))
        append_raw(self.aside / "front-texts", self.front.data[: ptr[-1]])
        self.front = Interner()

    def number(self, paths: Paths, work: Path) -> int:
        """Write all distinct texts in the order of their numbers.

        Args:
            paths: The files of the texts.
            work: A folder for the numbers of the texts that were put aside.

        Returns:
            How many texts there are.
        """
        out = TextWriter(paths)
        try:
            for lengths, data in _blocks(self.aside / "front-lengths", self.aside / "front-texts"):
                out.append(lengths, data)
            parts = [part for part in range(self.parts) if (self.aside / f"lengths-{part}").exists()]
            for part in parts:
                self._number_part(part, work)
            if parts:
                self._walk(out, work)
            for part in parts:
                _renumber(work, part)
        finally:
            out.close()
        return out.count

    def _number_part(self, part: int, work: Path) -> None:
        """Number the texts of a part on their own."""
        found = Interner()
        for lengths, data in _blocks(self.aside / f"lengths-{part}", self.aside / f"texts-{part}"):
            found.reserve(len(lengths), len(data))
            own = np.empty(len(lengths), dtype=np.int32)
            ptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            found.count = intern_texts(ptr, data, found.table, found.count, own)
            append_raw(work / f"own-{part}", own)
        ptr = found.ptr[: found.count + 1]
        append_raw(work / f"lengths-{part}", np.diff(ptr).astype(np.uint32))
        append_raw(work / f"texts-{part}", found.data[: ptr[-1]])

    def _walk(self, out: TextWriter, work: Path) -> None:
        """Give numbers to the texts of all parts in the order in which they first appear, and write them in this order."""
        own = [RawReader(work / f"own-{part}", np.int32) for part in range(self.parts)]
        lengths = [RawReader(work / f"lengths-{part}", np.uint32) for part in range(self.parts)]
        texts = [RawReader(work / f"texts-{part}", np.uint8) for part in range(self.parts)]
        codes = RawReader(self.folder / "codes", np.int32)
        seen = np.zeros(self.parts, dtype=np.int64)
        while codes.left:
            part = _parts_of(codes.take(_AT_ONCE))
            counts = np.bincount(part, minlength=self.parts)
            numbers = np.concatenate([reader.take(count) for reader, count in zip(own, counts.tolist(), strict=True)])
            new = _new_texts(part, numbers, _starts(counts), seen)  # the part of each new text
            if out.count + len(new) > MOST_TEXTS:
                raise UserError(f"the files name more than {MOST_TEXTS:,} concepts, the most a graph can hold.")
            counts = np.bincount(new, minlength=self.parts)
            number = out.count + np.argsort(new, kind="stable").astype(np.int32)
            for place, some in enumerate(np.split(number, np.cumsum(counts)[:-1])):
                if len(some):
                    append_raw(work / f"all-{place}", some)
            size = np.concatenate([reader.take(count) for reader, count in zip(lengths, counts.tolist(), strict=True)])
            sizes = np.add.reduceat(np.append(size, 0).astype(np.int64), _starts(counts)) * (counts > 0)
            data = np.concatenate([reader.take(count) for reader, count in zip(texts, sizes.tolist(), strict=True)])
            out.append(*_in_order(new, size, data, _starts(counts), _starts(sizes)))

    def numbers(self, work: Path) -> "Numbers":
        """Return what gives the numbers of all texts, in the order in which they were added."""
        return Numbers(self, work)


class Numbers:
    """Gives the numbers of the texts of :class:`SpilledTexts` in order.

    Args:
        texts: The texts.
        work: The folder that :meth:`SpilledTexts.number` wrote to.
    """

    def __init__(self, texts: SpilledTexts, work: Path) -> None:
        self._codes = RawReader(texts.folder / "codes", np.int32)
        self._parts = [RawReader(work / f"numbers-{part}", np.int32) for part in range(texts.parts)]

    def take(self, count: int) -> Array:
        """Return the numbers of the next texts."""
        codes = self._codes.take(count)
        part = _parts_of(codes)
        if len(part):
            counts = np.bincount(part, minlength=len(self._parts))
            numbers = np.concatenate([r.take(n) for r, n in zip(self._parts, counts.tolist(), strict=True)])
            _fill(codes, numbers, _starts(counts))
        return codes


def _parts_of(codes: Array) -> Array:
    """Return the parts of the texts that were put aside."""
    return -1 - codes[codes < 0]


def _starts(counts: Array) -> Array:
    return np.cumsum(counts) - counts


def _renumber(work: Path, part: int) -> None:
    """Turn a part's own numbers into those of all parts together."""
    number_of = RawReader(work / f"all-{part}", np.int32)
    all_numbers = number_of.take(number_of.left)
    own = RawReader(work / f"own-{part}", np.int32)
    while own.left:
        append_raw(work / f"numbers-{part}", all_numbers[own.take(_AT_ONCE)])
    for name in ("all", "own", "lengths", "texts"):
        (work / f"{name}-{part}").unlink()


def _blocks(lengths: Path, texts: Path) -> Iterator[tuple[Array, Array]]:
    """Yield texts that were put aside: their lengths and bytes."""
    sizes, data = RawReader(lengths, np.uint32), RawReader(texts, np.uint8)
    while sizes.left:
        found = sizes.take(_AT_ONCE // 4)
        yield found, data.take(int(found.sum(dtype=np.int64)))


def text_blocks(paths: Paths, at_once: int = _AT_ONCE // 4) -> Iterator[tuple[Array, Array]]:
    """Yield the texts of :class:`TextWriter`: a pointer that begins with 0, and the bytes."""
    from mhgrn.io.raw import array_reader

    ptr, data = array_reader(paths.ptr), array_reader(paths.data)
    last = ptr.take(1)
    while ptr.left:
        bounds = np.concatenate([last, ptr.take(at_once)])
        last = bounds[-1:]
        yield bounds - bounds[0], data.take(int(bounds[-1] - bounds[0]))


@kernel
def _codes(ptr: Array, data: Array, known: TextTable, parts: int) -> tuple[Array, Array, Array]:
    """Return the number of each known text, or -1 - the part of an unknown one; the unknown texts by part; the sizes of parts."""
    codes = np.empty(len(ptr) - 1, np.int32)
    counts = np.zeros(parts, np.int64)
    for i in range(len(codes)):
        number, _, crc = find_text(known, data, ptr[i], ptr[i + 1])
        if number >= 0:
            codes[i] = number
            continue
        part = np.int64((crc * np.uint64(parts)) >> np.uint64(32))
        codes[i] = -1 - part
        counts[part] += 1
    place = np.cumsum(counts) - counts
    order = np.empty(counts.sum(), np.int64)
    for i in range(len(codes)):
        if codes[i] < 0:
            order[place[-1 - codes[i]]] = i
            place[-1 - codes[i]] += 1
    return codes, order, counts


@kernel
def _gathered(ptr: Array, data: Array, order: Array) -> tuple[Array, Array]:
    """Return the lengths and the bytes of some texts, in the given order."""
    lengths = np.empty(len(order), np.uint32)
    size = 0
    for k in range(len(order)):
        lengths[k] = ptr[order[k] + 1] - ptr[order[k]]
        size += lengths[k]
    found = np.empty(size, np.uint8)
    at = 0
    for i in order:
        for j in range(ptr[i], ptr[i + 1]):
            found[at] = data[j]
            at += 1
    return lengths, found


@kernel
def _new_texts(part: Array, own: Array, starts: Array, seen: Array) -> Array:
    """Return the parts of the texts that were not seen before, in order; a part's own numbers count its texts as they appear."""
    new = np.empty(len(part), np.int64)
    at = starts.copy()
    count = 0
    for p in part:
        if own[at[p]] == seen[p]:
            seen[p] += 1
            new[count] = p
            count += 1
        at[p] += 1
    return new[:count].copy()


@kernel
def _in_order(part: Array, lengths: Array, data: Array, starts: Array, begins: Array) -> tuple[Array, Array]:
    """Return the lengths and bytes of texts in order, given those of each part, one part after the other."""
    ordered, out = np.empty_like(lengths), np.empty_like(data)
    text, byte = starts.copy(), begins.copy()
    at = np.int64(0)
    for k in range(len(part)):
        p = part[k]
        size = np.int64(lengths[text[p]])
        ordered[k] = size
        for j in range(size):
            out[at + j] = data[byte[p] + j]
        text[p] += 1
        byte[p] += size
        at += size
    return ordered, out


@kernel
def _fill(codes: Array, numbers: Array, starts: Array) -> None:
    """Replace the codes of texts that were put aside by their numbers."""
    at = starts.copy()
    for i in range(len(codes)):
        if codes[i] < 0:
            part = -1 - codes[i]
            codes[i] = numbers[at[part]]
            at[part] += 1
