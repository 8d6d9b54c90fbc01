"""Files of triples → blocks of rows: ConceptNet's release, tables (TSV, CSV, Parquet) and N-Triples, plain or compressed."""

import csv
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from mhgrn.errors import UserError
from mhgrn.kg import ntriples, parquet
from mhgrn.kg.blocks import BLOCK, OPENERS, Block, blocks, first_line, lines
from mhgrn.kg.names import concept_name
from mhgrn.kg.parsing import BLANK, LOOK, NOT_ALPHABETIC, OTHER_LANGUAGE, USABLE, split_assertions, split_table
from mhgrn.kg.rows import (
    HEAVIEST,
    OTHER_RELATION,
    Array,
    BadRow,
    Fields,
    ImportOptions,
    OtherRow,
    Parser,
    RelationNames,
    Row,
    Rows,
    is_header,
    rows_of,
    table_row,
)

Format = Literal["conceptnet", "tsv", "csv", "ntriples", "parquet"]

BATCH = 50_000  # rows of the formats that Python reads
SHOWN = 5  # malformed rows named in a message
WIDEST = 200  # characters of what is said of each
_SPACE, _NEWLINE = 32, 10


def read_rows(
    path: Path, kind: Format, relations: RelationNames, options: ImportOptions, advance: Callable[[int], None]
) -> Iterator[Rows]:
    """The rows of a file, block after block."""
    if kind in ("conceptnet", "tsv"):
        yield from _split_blocks(path, kind, relations, options, advance)
    else:
        numbered = {"csv": _csv_rows, "ntriples": ntriples.triples, "parquet": parquet.table}[kind](path, advance)
        parse = partial(ntriples.triple_row, language=options.language) if kind == "ntriples" else table_row
        yield from _collected(path, numbered, parse, relations)


def sniff(path: Path) -> Format:
    """Which format a file has, by its ending and its first line."""
    if not path.exists():
        raise UserError(f"{path} does not exist; name a file of triples.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the files of triples in it.")
    if not path.is_file():
        raise UserError(f"{path} is not a file that can be read more than once; write what it holds to a file first.")
    endings = [ending for ending in path.suffixes if ending not in OPENERS]
    if endings[-1:] == [".parquet"]:
        return "parquet"
    if endings[-1:] == [".nt"]:
        return "ntriples"
    line = first_line(path)
    if len(parts := line.split("\t")) >= 4 and parts[1].startswith("/r/"):
        return "conceptnet"
    if "\t" in line or not line:
        return "tsv"
    return "ntriples" if ntriples.is_triple(line) else "csv"


# ---- formats that kernels split


def _split_blocks(
    path: Path, kind: Format, relations: RelationNames, options: ImportOptions, advance: Callable[[int], None]
) -> Iterator[Rows]:
    names = relations.names
    parse = Assertions(options, relations).row if kind == "conceptnet" else table_row
    marks = tuple(_bytes(mark) for mark in ("/r/", "/c/", f"/c/{options.language}/", '"weight": '))
    is_start = kind == "tsv"
    for block in blocks(path, advance):
        text = np.frombuffer(block.text, dtype=np.uint8)
        if is_start and (first := block.text.strip()):
            is_start = False
            head, _, _ = first.partition(b"\n")
            if is_header(head.decode().split("\t"), path):
                text = text.copy()
                text[: block.text.index(head) + len(head)] = _SPACE
                text[block.starts[1:] - 1] = _NEWLINE
        for part in block.parts():
            starts, count = part.starts, len(part.starts) - 1
            spans, weight = np.zeros((count, 4), dtype=np.int64), np.ones(count)
            relation, status = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.uint8)
            names.reserve(count, len(text))
            where = (text, starts, spans, relation, weight, status, names.slots, names.ptr, names.data, names.count)
            if kind == "conceptnet":
                names.count = split_assertions(*where, marks, options.names == "published", options.alphabetic)
            else:
                names.count = split_table(*where)
            rows = Rows(text, spans, relation, weight, seen=int((status != BLANK).sum()))
            outside = (relation >= 0) & (np.append(relations.resolved()[0], 0)[relation] < 0) & (status != BLANK)
            if kind == "conceptnet":  # such a row need not be looked at further
                numbers, times = np.unique(relation[outside], return_counts=True)
                rows.other_relations.update({names[number]: n for number, n in zip(numbers.tolist(), times.tolist(), strict=True)})
                status[outside] = BLANK
            else:
                status[outside] = LOOK
            rows.other_language = int((status == OTHER_LANGUAGE).sum())
            rows.not_alphabetic = int((status == NOT_ALPHABETIC).sum())
            _look(path, part, status, rows, relations, parse)
            yield rows


def _look(path: Path, block: Block, status: Array, rows: Rows, relations: RelationNames, parse: Parser) -> None:
    """Parse the lines that the kernel left to Python, and keep of ``rows`` what is usable."""
    spans, relation, weight = rows.spans, rows.relation, rows.weight
    extra: list[bytes] = []
    place = len(block.text)
    for i in np.flatnonzero(status == LOOK).tolist():
        fields = block.text[block.starts[i] : block.starts[i + 1]].decode().rstrip("\r\n").split("\t")
        row = _looked_at(fields, f"{path}:{block.line + i}", parse, relations, rows)
        if row is None:
            continue
        status[i] = USABLE
        relation[i], weight[i] = relations.number(row.relation), row.weight
        for side, name in enumerate((row.head.encode(), row.tail.encode())):
            spans[i, 2 * side : 2 * side + 2] = place, place + len(name)
            extra.append(name)
            place += len(name)
    if extra:
        rows.text = np.concatenate([rows.text, np.frombuffer(b"".join(extra), dtype=np.uint8)])
    usable = status == USABLE
    rows.spans, rows.relation, rows.weight = spans[usable], relation[usable], weight[usable]


def _looked_at(fields: Fields, where: str, parse: Parser, relations: RelationNames, rows: Rows) -> Row | None:
    """The row that ``fields`` are, or None after counting why they are none."""
    try:
        if isinstance(fields, BadRow):
            raise fields
        row = parse(fields)
        if not relations.knows(row.relation):
            # the nearest name takes a while to find: only for rows that will be shown
            raise BadRow(relations.unknown(row.relation) if len(rows.bad_rows) < SHOWN else "")
        return row
    except OtherRow as other:
        rows.other_language += other.status == OTHER_LANGUAGE
        rows.not_alphabetic += other.status == NOT_ALPHABETIC
        if other.status == OTHER_RELATION:
            rows.other_relations[other.relation] += 1
    except BadRow as error:
        rows.bad += 1
        if len(rows.bad_rows) < SHOWN:
            reason = str(error)
            rows.bad_rows.append(f"{where}: {reason if len(reason) <= WIDEST else reason[: WIDEST - 1] + '…'}")
    return None


def _bytes(text: str) -> Array:
    return np.frombuffer(text.encode(), dtype=np.uint8).copy()


_POS = re.compile(r"/[navr]$")


@dataclass(frozen=True)
class Assertions:
    """Rows of ConceptNet's release: uri, relation, head, tail, JSON with a weight."""

    options: ImportOptions
    relations: RelationNames

    def row(self, fields: list[str]) -> Row:
        options, prefix = self.options, f"/c/{self.options.language}/"
        if len(fields) != 5:
            raise BadRow(f"{len(fields)} fields separated by tabs, not 5 (uri, relation, start, end, JSON)")
        _, relation, head, tail, details = fields
        if not relation.startswith("/r/"):
            raise BadRow(f"the relation {relation!r} does not begin with /r/")
        if not (head.startswith("/c/") and tail.startswith("/c/")) and relation != "/r/ExternalURL":
            raise BadRow(f"{head!r} and {tail!r} must be concept URIs (/c/language/word)")
        if not (head.startswith(prefix) and tail.startswith(prefix)):
            raise OtherRow(OTHER_LANGUAGE)
        relation = relation.rpartition("/")[2]
        if not self.relations.knows(relation):
            raise OtherRow(OTHER_RELATION, relation)
        weight = _weight(details)
        head, tail = (self._name(uri, prefix) for uri in (head, tail))
        if not head or not tail:
            raise BadRow("a concept without a name")
        if options.alphabetic and not (_is_alphabetic(head) and _is_alphabetic(tail)):
            raise OtherRow(NOT_ALPHABETIC)
        return Row(head, relation, tail, weight)

    def _name(self, uri: str, prefix: str) -> str:
        word = self.options.names == "word"
        return concept_name(uri[len(prefix) :].partition("/")[0] if word else _POS.sub("", uri).rpartition("/")[2])


def _is_alphabetic(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalpha()


def _weight(details: str) -> float:
    try:
        weight = json.loads(details)["weight"]
        if not isinstance(weight, bool) and abs(weight) <= HEAVIEST:
            return float(weight)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise BadRow("the last field is not a JSON object with a weight")


# ---- formats that Python reads row by row


def _collected(path: Path, numbered: Iterator[tuple[int, Fields]], parse: Parser, relations: RelationNames) -> Iterator[Rows]:
    """Rows that were read one by one, gathered into blocks."""
    for part in _batches(numbered):
        counts = rows_of([], relations)
        looked_at = [_looked_at(fields, f"{path}:{number}", parse, relations, counts) for number, fields in part]
        usable = rows_of([row for row in looked_at if row is not None], relations)
        yield replace(counts, seen=len(part), text=usable.text, spans=usable.spans, relation=usable.relation, weight=usable.weight)


def _batches(numbered: Iterator[tuple[int, Fields]]) -> Iterator[list[tuple[int, Fields]]]:
    """Rows by the thousands, or fewer where they are long."""
    part, size = [], 0
    for number, fields in numbered:
        part.append((number, fields))
        size += 0 if isinstance(fields, BadRow) else sum(map(len, fields))
        if len(part) == BATCH or size > BLOCK:
            yield part
            part, size = [], 0
    if part:
        yield part


def _csv_rows(path: Path, advance: Callable[[int], None]) -> Iterator[tuple[int, Fields]]:
    reader = csv.reader(lines(path, advance), strict=True)
    is_first = True
    while True:
        start = reader.line_num + 1
        row: Fields
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = BadRow(f"malformed ({error})")
        if reader.line_num > start and (isinstance(row, BadRow) or len(row) not in (3, 4)):
            raise UserError(f"{path}:{start}: a quotation mark is opened here that takes in the lines below; close or double it.")
        if isinstance(row, BadRow) or any(map(str.strip, row)):
            if isinstance(row, BadRow) or not (is_first and is_header(row, path)):
                yield start, row
            is_first = False
