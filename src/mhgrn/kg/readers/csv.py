"""Tables of head, relation, tail and perhaps a weight, separated by commas.

The kernels take 0.83 s of processor time for 1.38 million quoted rows, polars 2.1 takes 0.74 s and pyarrow 26 takes 0.80 s
(``benchmarks/table_readers.py``). Polars stops at the first malformed row without naming its line, and pyarrow
reads ``"g"x`` as ``gx``.
"""

import csv
from collections.abc import Iterator
from itertools import chain

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.errors import UserError
from mhgrn.kg.interning import is_space
from mhgrn.kg.reader import BadRow, Fields, GraphReader, RowBlock
from mhgrn.kg.readers._lines import Block, blocks
from mhgrn.kg.readers._split import BLANK, RETURN, Array, Columns, Lines, line_span, take_fields
from mhgrn.kg.readers._tables import Format, TableReader, lines_of
from mhgrn.kg.strings import TextTable

_QUOTE = 34
_LONGEST_FIELD = 1 << 17  # characters, in the csv module
_UNUSUAL, _OPEN = -1, -2  # instead of a number of fields


class CsvReader(TableReader):
    """Comma-separated values, with a header or without.

    A kernel splits lines. The csv module parses those with doubled or misplaced quotation marks, and the rest of a block from a
    field that spans lines.
    """

    name = "csv"
    usual_delimiter = ","

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return bool(line) and "\t" not in line

    def blocks(self) -> Iterator[RowBlock]:
        parts = chain.from_iterable(block.parts() for block in blocks(self.path, self.advance))
        self._unread = _UnreadLines(parts)
        while (part := self._unread.part) is not None:
            skipped = self.begin(lines_of(part))
            self._unread.skip(skipped if skipped >= 0 else len(part.starts) - 1)
            if skipped >= 0:
                break
        while (part := self._unread.part) is not None:
            text = np.frombuffer(part.text, dtype=np.uint8)
            starts = part.starts[self._unread.at :]
            closed = _closed_lines(text, starts, self.format) if b'"' in part.text else len(starts) - 1
            if closed:
                yield self.block_of(Block(part.text, self._unread.line, starts[: closed + 1]), text)
                self._unread.skip(closed)
            if closed < len(starts) - 1:
                yield from GraphReader.blocks(self)

    def split(self, lines: Lines, columns: Columns, names: TextTable, count: int) -> int:
        return int(_split(lines, columns, names, count, self.format))

    def fields_of(self, line: str) -> Fields:
        try:
            return next(csv.reader([line], delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            return BadRow(f"malformed ({error})")

    def rows(self) -> Iterator[tuple[int, Fields]]:
        """Yield the unread rows of a part, by the csv module."""
        part, before = self._unread.part, self._unread.line - 1
        reader = csv.reader(self._unread.lines(), delimiter=self.delimiter, strict=True)
        while self._unread.part is part:
            start = before + reader.line_num + 1
            row: Fields
            try:
                row = next(reader)
            except csv.Error as error:
                row = BadRow(f"malformed ({error})")
            if before + reader.line_num > start and (isinstance(row, BadRow) or not self.layout.fits(len(row))):
                raise UserError(
                    f"{self.path}:{start}: a quotation mark opens here and is not closed on this line; close or double it."
                )
            if (kept := self.arranged(row)) is not None:
                yield start, kept


class _UnreadLines:
    """The lines of a file that are not read yet: those of ``part`` from the place ``at``. At the end of the file it is None."""

    def __init__(self, parts: Iterator[Block]) -> None:
        self._parts = parts
        self.part, self.at = next(parts, None), 0

    @property
    def line(self) -> int:
        """The number of the next line."""
        return self.at + (0 if self.part is None else self.part.line)

    def skip(self, count: int) -> None:
        """Drop some lines of the part."""
        self.at += count
        if self.part is not None and self.at == len(self.part.starts) - 1:
            self.part, self.at = next(self._parts, None), 0

    def lines(self) -> Iterator[str]:
        """Yield and drop the lines one by one."""
        while (part := self.part) is not None:
            for line in part.text[part.starts[self.at] : part.starts[-1] - 1].decode().split("\n"):
                self.skip(1)
                yield f"{line}\n"


@kernel
def _find_fields(text: Array, start: int, end: int, bounds: Array, format: Format) -> int:
    """Write the bounds of the fields that are read, and return the number of all fields, ``_UNUSUAL`` or ``_OPEN``."""
    order = format.order
    fields = 0
    unusual = False
    place = start
    while True:
        first = place
        if place < end and text[place] == _QUOTE:
            place += 1
            first = place
            while place < end and (text[place] != _QUOTE or (place + 1 < end and text[place + 1] == _QUOTE)):
                if text[place] == _QUOTE:  # doubled
                    unusual = True
                    place += 1
                place += 1
            if place >= end:
                return _OPEN
            last = place
            place += 1
            if place < end and text[place] != format.delimiter:
                return _UNUSUAL
        else:
            while place < end and text[place] != format.delimiter:
                if text[place] == RETURN:
                    return _UNUSUAL
                place += 1
            last = place
        if fields < len(order) and order[fields] >= 0:
            bounds[order[fields], 0], bounds[order[fields], 1] = first, last
        fields += 1
        if place >= end:
            return _UNUSUAL if unusual else fields
        place += 1


@kernel
def _closed_lines(text: Array, starts: Array, format: Format) -> int:
    """Return the number of lines before the first one with a quotation mark that it does not close."""
    bounds = np.empty((4, 2), np.int64)
    for i in range(len(starts) - 1):
        start, end, _ = line_span(text, starts[i], starts[i + 1])
        if _find_fields(text, start, end, bounds, format) == _OPEN:
            return i
    return len(starts) - 1


@kernel
def _is_blank(text: Array, start: int, end: int, format: Format) -> bool:
    for i in range(start, end):  # noqa: SIM110 (compiled)
        if not is_space(text[i]) and text[i] != format.delimiter:
            return False
    return True


@kernel
def _split(lines: Lines, columns: Columns, names: TextTable, count: int, format: Format) -> int:
    """Split lines without open quotation marks."""
    text, starts = lines
    bounds = np.empty((4, 2), np.int64)
    for i in range(len(starts) - 1):
        columns.relation[i] = -1
        start, end, columns.status[i] = line_span(text, starts[i], starts[i + 1])
        if _is_blank(text, start, end, format):
            columns.status[i] = BLANK
        elif end - start < _LONGEST_FIELD:
            fields = _find_fields(text, start, end, bounds, format)
            if format.least <= fields <= len(format.order):
                count = take_fields(text, bounds, 0 <= format.weight_at < fields, i, columns, names, count)
    return count
