"""ConceptNet's release: lines of URI, relation, start, end, and JSON with a weight.

The kernels read 1.22 million rows per second of processor time, polars 2.1 reads 0.92 and pyarrow 26 reads 0.57 million
(``benchmarks/table_readers.py``).
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.errors import UserError
from mhgrn.kg.interning import intern_last
from mhgrn.kg.names import concept_name
from mhgrn.kg.provenance import conceptnet_details
from mhgrn.kg.reader import MAX_WEIGHT, BadRow, ImportOptions, RelationNames, Row, RowBlock, SkippedRow
from mhgrn.kg.readers._lines import Block
from mhgrn.kg.readers._split import (
    BLANK,
    NOT_ALPHABETIC,
    OTHER_LANGUAGE,
    TAB,
    USABLE,
    Array,
    Columns,
    Lines,
    SplitReader,
    begins,
    decimal,
    is_ascii,
    is_plain,
    line_span,
)
from mhgrn.kg.strings import TextTable
from mhgrn.printing import shortened

_POS = re.compile(r"/[navr]$")
_AFTER_SOURCES = re.compile(rb', "(?:surface\w*|weight)": ')  # the keys of the release are sorted
PARSED = 1 << 16  # beginnings of JSON objects that are kept
_SLASH, _UNDERSCORE, _HYPHEN = 47, 95, 45


def _bytes(text: str) -> Array:
    return np.frombuffer(text.encode(), dtype=np.uint8).copy()


_RELATION, _CONCEPT, _WEIGHT = _bytes("/r/"), _bytes("/c/"), _bytes('"weight": ')


class _Rules(NamedTuple):
    """The options of import that concern names."""

    language: Array  # the prefix of its concepts
    published: bool
    alphabetic: bool


class ConceptNetReader(SplitReader):
    """ConceptNet's release of assertions. Relations outside the schema are skipped."""

    name = "conceptnet"
    schema = "conceptnet"
    heeds = frozenset({"language", "names", "alphabetic"})

    def __init__(self, path: Path, relations: RelationNames, options: ImportOptions, advance: Callable[[int], None]) -> None:
        super().__init__(path, relations, options, advance)
        if "," in options.language or options.language == "all":
            raise UserError(f"{path}: ConceptNet needs one language, not {shortened(options.language)}; name it (--language).")
        self._parsed: dict[bytes, str] = {}  # the beginning of a JSON object → dataset and sources

    @classmethod
    def recognizes(cls, line: str) -> bool:
        parts = line.split("\t")
        return len(parts) >= 4 and parts[1].startswith("/r/")

    def split(self, lines: Lines, columns: Columns, names: TextTable, count: int) -> int:
        options = self.options
        rules = _Rules(_bytes(f"/c/{options.language}/"), options.names == "published", options.alphabetic)
        return int(_split(lines, columns, names, count, rules))

    def block_of(self, part: Block, text: Array) -> RowBlock:
        rows = super().block_of(part, text)
        if self.options.provenance and rows.lines is not None:
            rows.details = [self._details(part, line) for line in (rows.lines - part.line).tolist()]
        return rows

    def _details(self, part: Block, line: int) -> str:
        """The dataset and the sources of a line. Lines that differ only in their surface texts and weights are parsed once."""
        details = part.text[part.starts[line] : part.starts[line + 1]].rpartition(b"\t")[2]
        key = _AFTER_SOURCES.split(details, maxsplit=1)[0]
        found = self._parsed.get(key)
        if found is None:
            if len(self._parsed) >= PARSED:
                self._parsed.clear()
            found = self._parsed[key] = conceptnet_details(details.decode())
        return found

    def exclude(self, outside: Array, columns: Columns, rows: RowBlock) -> None:
        numbers, times = np.unique(columns.relation[outside], return_counts=True)
        names = map(self.relations.names.__getitem__, numbers.tolist())
        rows.other_relations.update(dict(zip(names, times.tolist(), strict=True)))
        columns.status[outside] = BLANK

    def row(self, fields: Sequence[str]) -> Row:
        options, prefix = self.options, f"/c/{self.options.language}/"
        if len(fields) != 5:
            raise BadRow(f"{len(fields)} fields separated by tabs, not 5 (uri, relation, start, end, JSON)")
        _, relation, head, tail, details = fields
        if not relation.startswith("/r/"):
            raise BadRow(f"the relation {shortened(relation)} does not begin with /r/")
        if not (head.startswith("/c/") and tail.startswith("/c/")) and relation != "/r/ExternalURL":
            raise BadRow(f"{shortened(head)} and {shortened(tail)} must be concept URIs (/c/language/word)")
        if not (head.startswith(prefix) and tail.startswith(prefix)):
            raise SkippedRow("other_language")
        relation = relation.rpartition("/")[2]
        if not self.relations.knows(relation):
            raise SkippedRow("other_relation", relation)
        weight = _weight(details)
        head, tail = (self._name(uri, prefix) for uri in (head, tail))
        if not head or not tail:
            raise BadRow("a concept without a name")
        if options.alphabetic and not (_is_alphabetic_name(head) and _is_alphabetic_name(tail)):
            raise SkippedRow("not_alphabetic")
        return Row(head, relation, tail, weight)

    def _name(self, uri: str, prefix: str) -> str:
        word = self.options.names == "word"
        return concept_name(uri[len(prefix) :].partition("/")[0] if word else _POS.sub("", uri).rpartition("/")[2])


def _is_alphabetic_name(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalpha()


def _weight(details: str) -> float:
    try:
        weight = json.loads(details)["weight"]
        if not isinstance(weight, bool) and abs(weight) <= MAX_WEIGHT:
            return float(weight)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise BadRow("the last field is not a JSON object with a weight")


@kernel
def _concept(text: Array, start: int, end: int, prefix: int, published: bool) -> tuple[int, int]:
    """Return the span of a concept's name in its URI."""
    if not published:
        start += prefix
        for i in range(start, end):
            if text[i] == _SLASH:
                return start, i
        return start, end
    if end - start >= 2 and text[end - 2] == _SLASH:
        last = text[end - 1]
        if last == 110 or last == 97 or last == 118 or last == 114:  # n, a, v, r
            end -= 2
    for i in range(end - 1, start - 1, -1):
        if text[i] == _SLASH:
            return i + 1, end
    return start, end


@kernel
def _is_alphabetic(text: Array, start: int, end: int) -> bool:
    letters = 0
    for i in range(start, end):
        byte = text[i] | 32
        if 97 <= byte <= 122 and text[i] != _UNDERSCORE:
            letters += 1
        elif text[i] != _UNDERSCORE and text[i] != _HYPHEN:
            return False
    return letters > 0


@kernel
def _split(lines: Lines, columns: Columns, names: TextTable, count: int, rules: _Rules) -> int:
    text, starts = lines
    spans, relation, weight, status = columns
    language = rules.language
    tabs = np.empty(4, np.int64)
    for i in range(len(starts) - 1):
        relation[i] = -1
        start, end, status[i] = line_span(text, starts[i], starts[i + 1])
        if status[i] == BLANK:
            continue
        found = 0
        for j in range(start, end):
            if text[j] == TAB:
                if found < 4:
                    tabs[found] = j
                found += 1
        if found != 4:
            continue
        head_start, head_end, tail_start, tail_end = tabs[1] + 1, tabs[2], tabs[2] + 1, tabs[3]
        if not begins(text, tabs[0] + 1, tabs[1], _RELATION):
            continue
        if not (begins(text, head_start, head_end, _CONCEPT) and begins(text, tail_start, tail_end, _CONCEPT)):
            continue
        if not (begins(text, head_start, head_end, language) and begins(text, tail_start, tail_end, language)):
            status[i] = OTHER_LANGUAGE
            continue
        name = tabs[1]
        while text[name - 1] != _SLASH:
            name -= 1
        if not is_ascii(text, name, tabs[1]):
            continue
        length = tabs[1] - name
        names.data[names.ptr[count] : names.ptr[count] + length] = text[name : tabs[1]]
        relation[i] = intern_last(names, count, length)
        count += relation[i] == count
        # the weight is the last value of the JSON object
        if text[end - 1] != 125:
            continue
        digits = end - 1
        while digits > tabs[3] and (text[digits - 1] == 46 or 48 <= text[digits - 1] <= 57):
            digits -= 1
        if digits - len(_WEIGHT) <= tabs[3] or not begins(text, digits - len(_WEIGHT), digits, _WEIGHT):
            continue
        weight[i] = decimal(text, digits, end - 1)
        if weight[i] < 0:
            continue
        head_start, head_end = _concept(text, head_start, head_end, len(language), rules.published)
        tail_start, tail_end = _concept(text, tail_start, tail_end, len(language), rules.published)
        if head_start == head_end or tail_start == tail_end:
            continue
        if not (is_plain(text, head_start, head_end) and is_plain(text, tail_start, tail_end)):
            continue
        spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3] = head_start, head_end, tail_start, tail_end
        if rules.alphabetic and not (_is_alphabetic(text, head_start, head_end) and _is_alphabetic(text, tail_start, tail_end)):
            status[i] = NOT_ALPHABETIC
        else:
            status[i] = USABLE
    return count
