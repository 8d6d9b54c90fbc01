"""The hash table of more texts than fit in memory, written piece by piece with the bytes that a table in memory has."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.io.arrays import ArrayWriter
from mhgrn.kg.interning import text_crc
from mhgrn.kg.spilled_texts import Paths, text_blocks
from mhgrn.kg.strings import slot_count

Array = NDArray[Any]

_NONE = np.zeros((0, 2), dtype=np.uint64)


def write_slots(path: Path, texts: Paths, count: int, room: int) -> None:
    """Write the array ``NAME_slots`` of a :class:`~mhgrn.kg.strings.StringIndex`.

    A text goes to the first free place from the one that its hash says, in the order of numbers. A piece therefore needs to know of
    the pieces before it only the texts that found no place in them. The last piece is before the first.

    Args:
        path: The file to write.
        texts: The texts.
        count: How many there are.
        room: Bytes of memory.
    """
    size = slot_count(count)
    step = size
    while step > 2 and 8 * step > room:
        step //= 2
    writer = ArrayWriter(path, np.uint64)
    beyond: list[Array] = []  # the texts that found no place in each piece: number and hash
    try:
        for start in range(0, size, step):
            piece, left = _piece(texts, size, start, step, beyond[-1] if beyond else _NONE)
            writer.append(piece)
            beyond.append(left)
    finally:
        writer.close()
    place = 0
    before = beyond[-1]
    while step < size and len(before):  # texts from the end of the table that go on at its beginning
        piece, left = _piece(texts, size, place * step, step, before)
        stored = np.lib.format.open_memmap(path, mode="r+")
        stored[place * step : (place + 1) * step] = piece
        stored.flush()
        del stored
        if np.array_equal(left, beyond[place]):
            break
        beyond[place] = before = left
        place += 1


def _piece(texts: Paths, size: int, start: int, step: int, before: Array) -> tuple[Array, Array]:
    piece = np.zeros(step, dtype=np.uint64)
    left = []
    first = at = 0
    for ptr, data in text_blocks(texts):
        at, found = _place(ptr, data, first, size, start, piece, before, at)
        left.append(found)
        first += len(ptr) - 1
    _, found = _place(np.zeros(1, np.int64), np.zeros(0, np.uint8), first, size, start, piece, before, at)
    return piece, np.concatenate([*left, found])


@kernel
def _put(piece: Array, place: int, crc: Any, number: int, wraps: bool) -> bool:
    """Write an entry to the first free place. Returns False if there is none before the end of the piece."""
    while piece[place] != 0:
        place += 1
        if place == len(piece):
            if not wraps:
                return False
            place = 0
    piece[place] = (crc << np.uint64(32)) | np.uint64(number + 1)
    return True


@kernel
def _place(ptr: Array, data: Array, first: int, size: int, start: int, piece: Array, before: Array, at: int) -> tuple[int, Array]:
    """Put texts, numbered from ``first``, into a piece of the table, and those that found no place before it.

    Without texts, put the rest of ``before``.

    Returns:
        How many of ``before`` have been put, and the number and hash of each text that found no place.
    """
    mask = np.uint64(size - 1)
    wraps = len(piece) == size
    left = np.empty((16, 2), np.uint64)
    count = 0
    texts = len(ptr) - 1
    for i in range(texts + 1):
        is_end = i == texts
        while at < len(before) and (before[at, 0] < np.uint64(first + i) or (is_end and texts == 0)):
            if not _put(piece, 0, before[at, 1], np.int64(before[at, 0]), wraps):
                left, count = _with(left, count, before[at, 0], before[at, 1])
            at += 1
        if is_end:
            break
        crc = text_crc(data, ptr[i], ptr[i + 1])
        place = np.int64(crc & mask) - start
        if 0 <= place < len(piece) and not _put(piece, place, crc, first + i, wraps):
            left, count = _with(left, count, np.uint64(first + i), crc)
    return at, left[:count].copy()


@kernel
def _with(rows: Array, count: int, number: Any, crc: Any) -> tuple[Array, int]:
    if count == len(rows):
        grown = np.empty((2 * count, 2), np.uint64)
        grown[:count] = rows
        rows = grown
    rows[count, 0], rows[count, 1] = number, crc
    return rows, count + 1
