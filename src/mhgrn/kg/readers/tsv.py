"""Tables of head, relation, tail and perhaps a weight, separated by tabs."""

from collections.abc import Iterator

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.kg.reader import Fields, RowBlock
from mhgrn.kg.readers._lines import Block, blocks
from mhgrn.kg.readers._split import BLANK, Columns, Lines, line_span, take_fields
from mhgrn.kg.readers._tables import Format, TableReader, lines_of
from mhgrn.kg.strings import TextTable


class TsvReader(TableReader):
    """Tab-separated values, with a header or without. Quotation marks have no meaning."""

    name = "tsv"
    usual_delimiter = "\t"

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return "\t" in line or not line

    def fields_of(self, line: str) -> Fields:
        return line.rstrip("\r\n").split(self.delimiter)

    def blocks(self) -> Iterator[RowBlock]:
        has_begun = False
        for block in blocks(self.path, self.advance):
            text = np.frombuffer(block.text, dtype=np.uint8)
            for part in block.parts():
                skipped = 0 if has_begun else self.begin(lines_of(part))
                if skipped >= 0:
                    has_begun = True
                    yield self.block_of(Block(part.text, part.line + skipped, part.starts[skipped:]), text)

    def split(self, lines: Lines, columns: Columns, names: TextTable, count: int) -> int:
        return int(_split(lines, columns, names, count, self.format))


@kernel
def _split(lines: Lines, columns: Columns, names: TextTable, count: int, format: Format) -> int:
    text, starts = lines
    order = format.order
    bounds = np.empty((4, 2), np.int64)
    for i in range(len(starts) - 1):
        columns.relation[i] = -1
        start, end, columns.status[i] = line_span(text, starts[i], starts[i + 1])
        if columns.status[i] == BLANK:
            continue
        fields = 0
        for j in range(start, end + 1):
            if j == end or text[j] == format.delimiter:
                if fields < len(order) and order[fields] >= 0:
                    bounds[order[fields], 0], bounds[order[fields], 1] = start, j
                fields += 1
                start = j + 1
        if format.least <= fields <= len(order):
            count = take_fields(text, bounds, 0 <= format.weight_at < fields, i, columns, names, count)
    return count
