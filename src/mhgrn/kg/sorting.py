"""Sort more rows than fit in memory: sorted runs on the disk, which are merged."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.io.raw import RawReader, append_raw

Array = NDArray[Any]

DIGIT = 11  # bits of a key that one pass sorts by
AT_ONCE = 1 << 20  # rows written at once
FEWEST = 1 << 12  # rows of each run that are read at once, at least; more runs than fit are merged in several steps
_SORTING = 24  # bytes that sorting takes for each row: two keys and two numbers


@kernel
def _by_minor(minor: Array, size: int) -> Array:
    """Return the rows sorted by a small number below ``size``; equal ones stay in order."""
    place = np.zeros(size + 1, np.int64)
    for value in minor:
        place[value + 1] += 1
    for value in range(size):
        place[value + 1] += place[value]
    order = np.empty(len(minor), np.uint32)
    for i in range(len(minor)):
        order[place[minor[i]]] = i
        place[minor[i]] += 1
    return order


@kernel
def _sorted_rows(key: Array, minor: Array, size: int) -> tuple[Array, Array]:
    """Return the distinct keys, sorted, and the row of each; keys that differ in ``minor`` are distinct. The first row counts.

    It is a radix sort from the last digit to the first that skips the bits in which no key differs.

    Args:
        key: 64-bit keys.
        minor: Numbers below ``size`` that decide between equal keys; empty if there are none.
        size: See ``minor``.
    """
    count = len(key)
    varying = np.uint64(0)
    for i in range(1, count):
        varying |= key[i] ^ key[0]
    if len(minor) > 0:
        order = _by_minor(minor, size)
        keys = np.empty(count, np.uint64)
        for i in range(count):
            keys[i] = key[order[i]]
    else:
        order, keys = np.arange(count).astype(np.uint32), key.copy()
    other_order, other_keys = np.empty_like(order), np.empty_like(keys)
    digits = np.uint64((1 << DIGIT) - 1)
    place = np.empty((1 << DIGIT) + 1, np.int64)
    shift = np.uint64(0)
    while shift < 64 and (varying >> shift) != 0:
        if (varying >> shift) & np.uint64(1) == 0:
            shift += np.uint64(1)
            continue
        place[:] = 0
        for k in keys:
            place[((k >> shift) & digits) + np.uint64(1)] += 1
        for d in range(1 << DIGIT):
            place[d + 1] += place[d]
        for i in range(count):
            digit = (keys[i] >> shift) & digits
            other_keys[place[digit]], other_order[place[digit]] = keys[i], order[i]
            place[digit] += 1
        keys, other_keys, order, other_order = other_keys, keys, other_order, order
        shift += np.uint64(DIGIT)
    kept = 0
    for i in range(count):
        row = order[i]
        if kept > 0 and keys[i] == keys[kept - 1] and (len(minor) == 0 or minor[row] == minor[order[kept - 1]]):
            continue
        keys[kept], order[kept] = keys[i], row
        kept += 1
    return keys[:kept], order[:kept]


def sorted_rows(columns: Sequence[Array], has_minor: bool) -> tuple[Array, Array]:
    """Return the distinct keys of some rows, sorted, and the rows of these."""
    minor = columns[1] if has_minor else np.empty(0, np.uint16)
    keys, order = _sorted_rows(columns[0], minor, int(minor.max(initial=0)) + 1)
    return keys, order


class Sorter:
    """Sorts rows by a key and drops repeated ones, of which the first is kept, within a bounded memory.

    Args:
        folder: Where runs are written. The folder is empty, or the one of an earlier sorter of the same rows.
        types: The types of the columns. The first is the key, 64 bits without a sign.
        room: Bytes of memory.
        has_minor: Whether the second column, 16 bits without a sign, decides between equal keys; otherwise they are repeated.
        runs: The numbers of the runs that are there already, in order.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     sorter = Sorter(Path(folder), [np.uint64], room=100)
    ...     for keys in ([7, 3, 3], [9, 7], [1, 8]):
    ...         sorter.add(np.array(keys, dtype=np.uint64))
    ...     runs = sorter.finish()
    ...     [key for block in sorter.merged() for key in block[0].tolist()]
    [1, 3, 7, 8, 9]
    """

    def __init__(
        self, folder: Path, types: Sequence[DTypeLike], room: int, has_minor: bool = False, runs: Sequence[int] = ()
    ) -> None:
        self.folder, self.types, self.has_minor = folder, [np.dtype(one) for one in types], has_minor
        row = sum(one.itemsize for one in self.types)
        self._most = max(2, min(room // (row + _SORTING), 2**32 - 1))  # rows of a run
        self._room = max(2, room // (3 * row + _SORTING))  # rows that are merged at once
        self.runs = list(runs)
        self._next = max(self.runs, default=-1) + 1
        self._sorted: int | None = None  # the run of rows that are sorted already
        self._buffer: list[Array] = []
        self._count = 0

    def add(self, *columns: Array) -> None:
        """Add rows."""
        if not self._buffer:
            self._buffer = [np.empty(self._most, one) for one in self.types]  # takes memory as it is filled
        start = 0
        while start < len(columns[0]):
            taken = min(self._most - self._count, len(columns[0]) - start)
            for buffer, column in zip(self._buffer, columns, strict=True):
                buffer[self._count : self._count + taken] = column[start : start + taken]
            self._count += taken
            start += taken
            if self._count == self._most:
                self._write_run()

    def add_sorted(self, *columns: Array) -> None:
        """Add rows to a run of their own. All rows that are added so are sorted and distinct."""
        if self._sorted is None:
            self._sorted = self._new_run()
        self._append(self._sorted, columns)

    def finish(self) -> list[int]:
        """Write what is left, merge runs until all can be merged at once, and return the numbers of the runs."""
        if self._count:
            self._write_run()
        self._buffer = []
        most = max(2, self._room // FEWEST)
        while len(self.runs) > most:
            merged = []
            for start in range(0, len(self.runs), most):
                group = self.runs[start : start + most]
                merged.append(self._next)
                self._next += 1
                for block in self._merged(group):
                    self._append(merged[-1], block)
                for path in (path for run in group for path in self._paths(run)):
                    path.unlink()
            self.runs = merged
        return self.runs

    def merged(self) -> Iterator[tuple[Array, ...]]:
        """Yield all rows, sorted and distinct, in blocks."""
        yield from self._merged(self.runs)

    def _merged(self, runs: Sequence[int]) -> Iterator[tuple[Array, ...]]:
        """Read all runs side by side; sort what is not beyond the end of any part that was read."""
        at_once = max(1, self._room // max(len(runs), 1))
        readers = [[RawReader(path, dtype) for path, dtype in zip(self._paths(run), self.types, strict=True)] for run in runs]
        parts = [[np.empty(0, dtype) for dtype in self.types] for _ in runs]
        while True:
            for part, reader in zip(parts, readers, strict=True):
                more = at_once - len(part[0])
                if more > 0 and reader[0].left:
                    part[:] = [np.concatenate([column, one.take(more)]) for column, one in zip(part, reader, strict=True)]
            unread = [part for part, reader in zip(parts, readers, strict=True) if reader[0].left]
            ends = [len(part[0]) for part in parts]
            if unread:
                limit = min((int(part[0][-1]), int(part[1][-1]) if self.has_minor else 0) for part in unread)
                ends = [self._end(part, *limit) for part in parts]
            if not any(ends):
                return
            columns = [
                np.concatenate([part[place][:end] for part, end in zip(parts, ends, strict=True)])
                for place in range(len(self.types))
            ]
            parts = [[column[end:] for column in part] for part, end in zip(parts, ends, strict=True)]
            if sum(map(bool, ends)) > 1:
                keys, order = sorted_rows(columns, self.has_minor)
                columns = [keys, *(column[order] for column in columns[1:])]
            yield tuple(columns)

    def _end(self, part: list[Array], key: int, minor: int) -> int:
        """Return how many rows of a part are not beyond a key."""
        end = int(np.searchsorted(part[0], np.uint64(key), side="right"))
        if not self.has_minor:
            return end
        start = int(np.searchsorted(part[0], np.uint64(key), side="left"))
        return start + int(np.searchsorted(part[1][start:end], np.uint16(minor), side="right"))

    def _write_run(self) -> None:
        columns = [column[: self._count] for column in self._buffer]
        keys, order = sorted_rows(columns, self.has_minor)
        run = self._new_run()
        for start in range(0, len(keys), AT_ONCE):
            rows = order[start : start + AT_ONCE]
            self._append(run, [keys[start : start + AT_ONCE], *(column[rows] for column in columns[1:])])
        self._count = 0

    def _new_run(self) -> int:
        self.runs.append(self._next)
        self._next += 1
        return self.runs[-1]

    def _append(self, run: int, columns: Sequence[Array]) -> None:
        for path, column in zip(self._paths(run), columns, strict=True):
            append_raw(path, column)

    def _paths(self, run: int) -> list[Path]:
        return [self.folder / f"run-{run}-{place}" for place in range(len(self.types))]
