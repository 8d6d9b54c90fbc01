"""Tables of head, relation, tail and perhaps a weight, separated by tabs."""

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.kg.readers._lines import Block
from mhgrn.kg.readers._split import BLANK, NEWLINE, SPACE, TAB, Array, Columns, Lines, SplitReader, line_span, take_fields
from mhgrn.kg.readers._tables import is_header
from mhgrn.kg.strings import TextTable


class TsvReader(SplitReader):
    """Tab-separated values, with a header or without."""

    name = "tsv"
    is_any_table = True

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return "\t" in line or not line

    def split(self, lines: Lines, columns: Columns, names: TextTable, count: int) -> int:
        return int(_split(lines, columns, names, count))

    def without_header(self, block: Block) -> Array:
        text = np.frombuffer(block.text, dtype=np.uint8)
        head, _, _ = block.text.strip().partition(b"\n")
        if is_header(head.decode().split("\t"), self.path):
            text = text.copy()
            text[: block.text.index(head) + len(head)] = SPACE
            text[block.starts[1:] - 1] = NEWLINE
            text.setflags(write=False)  # the same type as without a header, so that the kernel is compiled once
        return text


@kernel
def _split(lines: Lines, columns: Columns, names: TextTable, count: int) -> int:
    text, starts = lines
    bounds = np.empty((4, 2), np.int64)
    for i in range(len(starts) - 1):
        columns.relation[i] = -1
        start, end, columns.status[i] = line_span(text, starts[i], starts[i + 1])
        if columns.status[i] == BLANK:
            continue
        fields = 0
        for j in range(start, end + 1):
            if j == end or text[j] == TAB:
                if fields < 4:
                    bounds[fields, 0], bounds[fields, 1] = start, j
                fields += 1
                start = j + 1
        count = take_fields(text, bounds, fields, i, columns, names, count)
    return count
