"""What tables of text have in common: a delimiter, and columns that a header or an option may name."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mhgrn.errors import UserError
from mhgrn.kg.columns import Layout, layout_of
from mhgrn.kg.reader import USUAL_FIELDS, BadRow, Fields
from mhgrn.kg.readers._lines import Block
from mhgrn.kg.readers._split import Array, SplitReader
from mhgrn.printing import shortened, shown

_NAMES = {"\t": "tab", " ": "space", ",": "comma", ";": "semicolon", "|": "pipe"}
_NAMED = {"\\t": "\t", **{name: mark for mark, name in _NAMES.items()}}
_USUAL = "\t|;,"  # delimiters that files usually have


class Format(NamedTuple):
    """The fields of a line, as kernels take them."""

    delimiter: int
    order: Array  # [fields] the place of each field in head, relation, tail, weight; -1 if it is not read
    least: int  # fields of a line, at least; at most as many as ``order`` has
    weight_at: int  # the place of the weight, or -1


def delimiter_of(text: str) -> str:
    """Return the character that an option names.

    >>> delimiter_of("tab"), delimiter_of(";")
    ('\\t', ';')
    """
    delimiter = _NAMED.get(text, text)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in '"\r\n\0':
        known = ", ".join(sorted(name for name in _NAMED if name.isalpha()))
        raise UserError(f"--delimiter {shortened(text)}: give one character that is no letter or digit, or one of {known}.")
    return delimiter


class TableReader(SplitReader):
    """A reader of tables of text."""

    is_any_table = True
    heeds = frozenset({"columns", "delimiter"})
    usual_delimiter: ClassVar[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.delimiter = delimiter_of(self.options.delimiter) if self.options.delimiter is not None else self.usual_delimiter
        self.layout = Layout()

    def fields_of(self, line: str) -> Fields:
        """Return all fields of a line."""
        raise NotImplementedError

    def fields(self, line: str) -> Fields | None:
        """Return head, relation, tail and perhaps the weight of a line; None for a blank line."""
        return self.arranged(self.fields_of(line))

    def arranged(self, fields: Fields) -> Fields | None:
        """Return head, relation, tail and perhaps the weight of a row; None for a blank row."""
        if isinstance(fields, BadRow):
            return fields
        if not any(map(str.strip, fields)):
            return None
        if not self.layout.fits(len(fields)):
            is_fixed = self.layout.least == len(self.layout.order)
            needed = f"{self.layout.least} as in the first row" if is_fixed else USUAL_FIELDS
            return BadRow(f"{len(fields)} fields, not {needed}{self._other_delimiter(fields)}")
        return self.layout.arranged(fields)

    def _other_delimiter(self, fields: Sequence[str]) -> str:
        """Return advice for a row of one field that another character seems to divide."""
        found = [mark for mark in _USUAL if mark != self.delimiter and fields[0].count(mark) >= 2] if len(fields) == 1 else []
        return f"; if {found[0]!r} separates the fields: --delimiter {_NAMES[found[0]]}" if found else ""

    def begin(self, lines: Iterator[str]) -> int:
        """Find the columns in the first row. Return the number of lines before the first fact, or -1 if all are blank."""
        for number, line in enumerate(lines):
            fields = self.fields_of(line)
            if isinstance(fields, BadRow):
                self.goes_by_order = self.options.columns is None
                return number
            if any(map(str.strip, fields)):
                self.layout = layout_of(fields, self.options.columns, str(self.path))
                self.goes_by_order = not self.layout.is_named
                if self.layout.ignored:
                    self.notes.append(f"{self.path}: columns that are not read: {shown(', '.join(self.layout.ignored))}.")
                return number + self.layout.has_header
        return -1

    @property
    def format(self) -> Format:
        order = np.array(self.layout.order, dtype=np.int64)
        return Format(ord(self.delimiter), order, self.layout.least, self.layout.weight_at)


def lines_of(part: Block, first: int = 0) -> Iterator[str]:
    """Yield the lines of a part with their line ends."""
    for i in range(first, len(part.starts) - 1):
        yield part.text[part.starts[i] : part.starts[i + 1]].decode()
