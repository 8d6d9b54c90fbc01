"""Tables of head, relation, tail and perhaps a weight, separated by tabs."""

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.kg.interning import intern_last
from mhgrn.kg.readers._lines import Block
from mhgrn.kg.readers._split import (
    BLANK,
    NEWLINE,
    SPACE,
    TAB,
    USABLE,
    Array,
    Columns,
    Lines,
    SplitReader,
    decimal,
    is_ascii,
    is_tidy,
    line_span,
    trimmed,
)
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
        return text


@kernel
def _split(lines: Lines, columns: Columns, names: TextTable, count: int) -> int:
    text, starts = lines
    spans, relation, weight, status = columns
    for i in range(len(starts) - 1):
        relation[i] = -1
        start, end, status[i] = line_span(text, starts[i], starts[i + 1])
        if status[i] == BLANK:
            continue
        first = second = third = -1
        tabs = 0
        for j in range(start, end):
            if text[j] == TAB:
                tabs += 1
                if tabs == 1:
                    first = j
                elif tabs == 2:
                    second = j
                elif tabs == 3:
                    third = j
        if tabs != 2 and tabs != 3:
            continue
        head_start, head_end = trimmed(text, start, first)
        relation_start, relation_end = trimmed(text, first + 1, second)
        tail_start, tail_end = trimmed(text, second + 1, third if tabs == 3 else end)
        if head_start == head_end or relation_start == relation_end or tail_start == tail_end or not is_ascii(text, start, end):
            continue
        if not is_tidy(text, relation_start, relation_end):
            continue
        weight[i] = 1.0
        if tabs == 3:
            weight_start, weight_end = trimmed(text, third + 1, end)
            if weight_start < weight_end:
                weight[i] = decimal(text, weight_start, weight_end)
                if weight[i] < 0:
                    continue
        length = relation_end - relation_start
        names.data[names.ptr[count] : names.ptr[count] + length] = text[relation_start:relation_end]
        relation[i] = intern_last(names, count, length)
        count += relation[i] == count
        spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3] = head_start, head_end, tail_start, tail_end
        status[i] = USABLE
    return count
