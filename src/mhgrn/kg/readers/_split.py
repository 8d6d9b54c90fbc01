"""Formats whose lines are split by compiled kernels. Python parses only the unusual lines."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.kg.interning import intern_last, is_space
from mhgrn.kg.reader import Fields, GraphReader, RowBlock
from mhgrn.kg.readers._lines import Block, blocks
from mhgrn.kg.strings import TextTable

Array = NDArray[Any]

# The status of a line. LOOK: Python has to parse it.
USABLE, LOOK, BLANK, OTHER_LANGUAGE, NOT_ALPHABETIC = 0, 1, 2, 3, 4

TAB, NEWLINE, RETURN, SPACE = 9, 10, 13, 32


class Lines(NamedTuple):
    """Lines of a text."""

    text: Array  # [bytes]
    starts: Array  # [lines + 1] start of each line, and end of the last


class Columns(NamedTuple):
    """The fields of lines, to be filled in by a kernel."""

    spans: Array  # [lines, 4] start and end of head, start and end of tail
    relation: Array  # [lines] number of the relation's name, -1 if unknown
    weight: Array  # [lines]
    status: Array  # [lines]

    @classmethod
    def empty(cls, count: int) -> "Columns":
        spans, relation = np.zeros((count, 4), dtype=np.int64), np.zeros(count, dtype=np.int64)
        return cls(spans, relation, np.ones(count), np.zeros(count, dtype=np.uint8))


class SplitReader(GraphReader):
    """A reader whose kernel splits many lines at once."""

    def split(self, lines: Lines, columns: Columns, names: TextTable, count: int) -> int:
        """Fill ``columns``, intern relation names in the table of ``count`` names, and return how many there are now."""
        raise NotImplementedError

    def blocks(self) -> Iterator[RowBlock]:
        for block in blocks(self.path, self.advance):
            text = np.frombuffer(block.text, dtype=np.uint8)
            for part in block.parts():
                yield self.block_of(part, text)

    def block_of(self, part: Block, text: Array) -> RowBlock:
        """Return the rows of some lines, given by their bounds in ``text``."""
        names = self.relations.names
        columns = Columns.empty(len(part.starts) - 1)
        names.reserve(len(columns.status), len(text))
        names.count = self.split(Lines(text, part.starts), columns, names.table, names.count)
        rows = RowBlock(text, columns.spans, columns.relation, columns.weight, seen=int((columns.status != BLANK).sum()))
        resolved = np.append(self.relations.resolved()[0], 0)[columns.relation]
        outside = (columns.relation >= 0) & (resolved < 0) & (columns.status != BLANK)
        self.exclude(outside, columns, rows)
        rows.other_language = int((columns.status == OTHER_LANGUAGE).sum())
        rows.not_alphabetic = int((columns.status == NOT_ALPHABETIC).sum())

        def fields_of(i: int) -> Fields | None:
            return self.fields(part.text[part.starts[i] : part.starts[i + 1]].decode())

        look(self, part.line, fields_of, columns, rows)
        return rows

    def fields(self, line: str) -> Fields | None:
        """Return the fields of a line; None for a line that is no row."""
        return line.rstrip("\r\n").split("\t")

    def exclude(self, outside: Array, columns: Columns, rows: RowBlock) -> None:
        """Set the status of lines whose relation is outside the schema, and count them if they are expected."""
        columns.status[outside] = LOOK


def look(reader: GraphReader, first: int, fields_of: Callable[[int], Fields | None], columns: Columns, rows: RowBlock) -> None:
    """Parse the rows with the status LOOK in Python, and keep the usable ``rows``.

    Args:
        reader: The reader that checks rows.
        first: The number of the first row in the file.
        fields_of: Returns the fields of a row by its place in ``columns``; None for a blank one.
        columns: The fields of all rows.
        rows: The block to fill in; it has the text already.
    """
    spans, relation, weight, status = columns
    extra: list[bytes] = []
    place = len(rows.text)
    for i in np.flatnonzero(status == LOOK).tolist():
        fields = fields_of(i)
        if fields is None:
            rows.seen -= 1
            continue
        row = reader.checked(first + i, fields, rows)
        if row is None:
            continue
        status[i] = USABLE
        relation[i], weight[i] = reader.relations.number(row.relation), row.weight
        for side, name in enumerate((row.head.encode(), row.tail.encode())):
            spans[i, 2 * side : 2 * side + 2] = place, place + len(name)
            extra.append(name)
            place += len(name)
    if extra:
        rows.text = np.concatenate([rows.text, np.frombuffer(b"".join(extra), dtype=np.uint8)])
    usable = np.flatnonzero(status == USABLE)
    rows.spans, rows.relation, rows.weight, rows.lines = spans[usable], relation[usable], weight[usable], first + usable


@kernel
def trimmed(text: Array, start: int, end: int) -> tuple[int, int]:
    while start < end and is_space(text[start]):
        start += 1
    while start < end and is_space(text[end - 1]):
        end -= 1
    return start, end


@kernel
def is_ascii(text: Array, start: int, end: int) -> bool:
    for i in range(start, end):  # noqa: SIM110 (compiled)
        if text[i] >= 128:
            return False
    return True


@kernel
def is_plain(text: Array, start: int, end: int) -> bool:
    """Return whether a text is ASCII without spaces."""
    for i in range(start, end):  # noqa: SIM110 (compiled)
        if text[i] >= 128 or is_space(text[i]):
            return False
    return True


@kernel
def is_tidy(text: Array, start: int, end: int) -> bool:
    """Return whether single blanks separate the words of a trimmed text."""
    for i in range(start, end):  # noqa: SIM110 (compiled)
        if is_space(text[i]) and (text[i] != 32 or is_space(text[i + 1])):
            return False
    return True


@kernel
def begins(text: Array, start: int, end: int, prefix: Array) -> bool:
    if end - start < len(prefix):
        return False
    for i in range(len(prefix)):  # noqa: SIM110 (compiled)
        if text[start + i] != prefix[i]:
            return False
    return True


@kernel
def decimal(text: Array, start: int, end: int) -> float:
    """Return the value of a plain decimal such as 2 or 2.25, exactly as Python reads it; -1 for anything else."""
    value = 0
    scale = 1.0
    digits = 0
    point = False
    for i in range(start, end):
        byte = text[i]
        if 48 <= byte <= 57:
            value = value * 10 + (byte - 48)
            digits += 1
            if point:
                scale *= 10.0
        elif byte == 46 and not point:
            point = True
        else:
            return -1.0
    return value / scale if 0 < digits <= 15 else -1.0


@kernel
def line_span(text: Array, start: int, end: int) -> tuple[int, int, int]:
    """Return the span of a line without its line end, and a status: BLANK, or LOOK until more is known."""
    first, last = trimmed(text, start, end)
    while end > start and (text[end - 1] == NEWLINE or text[end - 1] == RETURN):
        end -= 1
    return start, end, BLANK if first == last else LOOK


@kernel
def take_fields(text: Array, bounds: Array, has_weight: bool, i: int, columns: Columns, names: TextTable, known: int) -> Any:
    """Fill in row ``i`` of a table from the bounds of head, relation, tail and perhaps the weight.

    Return the number of relation names known now. The row's status stays as it is if Python has to parse it.
    """
    for k in range(4 if has_weight else 3):
        if not is_ascii(text, bounds[k, 0], bounds[k, 1]):
            return known
        bounds[k, 0], bounds[k, 1] = trimmed(text, bounds[k, 0], bounds[k, 1])
        if k < 3 and bounds[k, 0] == bounds[k, 1]:
            return known
    start, end = bounds[1, 0], bounds[1, 1]
    if not is_tidy(text, start, end):
        return known
    columns.weight[i] = 1.0
    if has_weight and bounds[3, 0] < bounds[3, 1]:
        columns.weight[i] = decimal(text, bounds[3, 0], bounds[3, 1])
        if columns.weight[i] < 0:
            return known
    names.data[names.ptr[known] : names.ptr[known] + end - start] = text[start:end]
    number = intern_last(names, known, end - start)
    columns.relation[i] = number
    for k in range(2):
        columns.spans[i, k], columns.spans[i, 2 + k] = bounds[0, k], bounds[2, k]
    columns.status[i] = USABLE
    return known + (number == known)
