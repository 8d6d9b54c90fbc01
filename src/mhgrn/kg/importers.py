"""Files of triples → KnowledgeGraph: ConceptNet's release format, and plain head/relation/tail tables."""

import csv
import gzip
import io
import json
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, cast

import numpy as np

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.graph import Ints, KnowledgeGraph, concept_name
from mhgrn.kg.schema import MAX_RELATIONS, Schema, load_schema
from mhgrn.progress import bar
from mhgrn.storage import file_fingerprint

Format = Literal["conceptnet", "triples"]
HEADERS = (["head", "relation", "tail"], ["subject", "predicate", "object"], ["start", "rel", "end"])
SHOWN = 5  # malformed rows named in a message


@dataclass(frozen=True)
class ImportOptions:
    """The rules of import. The defaults are those of the paper's graph, with concept names parsed as they were meant.

    ``names="published"`` takes the last part of a ConceptNet URI after its part of speech (``/c/en/cat/n/wn/animal`` is then
    ``animal``), as the published graph does; ``"word"`` takes the word itself (``cat``).
    """

    language: str = "en"
    names: Literal["word", "published"] = "word"
    alphabetic: bool = True  # ConceptNet only: a concept is letters, hyphens and underscores
    prune: bool = True  # leave out the schema's pruned relations and concepts
    self_loops: bool = False  # keep facts that join a concept with itself
    max_bad: float = 0.01  # share of malformed rows past which nothing is built


@dataclass
class ImportReport:
    """What became of the rows."""

    rows: int = 0
    kept: int = 0
    duplicates: int = 0
    self_loops: int = 0
    pruned: int = 0
    other_language: int = 0
    not_alphabetic: int = 0
    other_relations: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    bad_rows: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "other_relations": dict(self.other_relations.most_common())}


class FactTable:
    """Facts being gathered: concepts numbered in order of appearance, columns of numbers."""

    def __init__(self, schema: Schema, prune: bool = True, self_loops: bool = False) -> None:
        self.schema = schema
        self.ids: dict[str, int] = {}
        self.report = ImportReport()
        self._self_loops = self_loops
        self._pruned_concepts = frozenset(schema.pruned_concepts) if prune else frozenset()
        self._pruned_relations = schema.pruned_ids if prune else frozenset()
        self._head, self._tail, self._relation, self._weight = array("q"), array("q"), array("H"), array("f")

    @property
    def concepts(self) -> list[str]:
        return list(self.ids)

    def add(self, head: str, relation: str, tail: str, weight: float) -> None:
        """Add one fact by names; ``relation`` must be one of the schema's members."""
        number, swapped = self.schema.lookup[relation.lower()]
        head, tail = concept_name(head), concept_name(tail)
        if swapped:
            head, tail = tail, head
        h = self.ids.setdefault(head, len(self.ids))
        t = self.ids.setdefault(tail, len(self.ids))
        if h == t and not self._self_loops:
            self.report.self_loops += 1
        elif number in self._pruned_relations or head in self._pruned_concepts or tail in self._pruned_concepts:
            self.report.pruned += 1
        else:
            self._head.append(h)
            self._tail.append(t)
            self._relation.append(number)
            self._weight.append(weight)

    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Head, relation, tail and weight of every fact, each fact once with its first weight."""
        head, tail = np.array(self._head, dtype=np.int64), np.array(self._tail, dtype=np.int64)
        relation, weight = np.array(self._relation, dtype=np.int64), np.array(self._weight, dtype=np.float32)
        key = (head * max(len(self.ids), 1) + tail) * max(len(self.schema), 1) + relation
        _, first = np.unique(key, return_index=True)
        self.report.duplicates = len(head) - len(first)
        self.report.kept = len(first)
        return head[first], relation[first], tail[first], weight[first]


def build(
    paths: Iterable[str | Path],
    schema: str | None = None,
    options: ImportOptions = ImportOptions(),
) -> tuple[KnowledgeGraph, ImportReport]:
    """Read files of triples into one graph. :meth:`KnowledgeGraph.save` writes it.

    Each file is ConceptNet's release format (``.csv``, ``.csv.gz``) or a table of head, relation, tail and, if wanted, weight,
    separated by tabs or commas. ``schema`` is ``"conceptnet"``, a YAML file, or None: ConceptNet's for a release, derived from the
    relations that occur otherwise.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise UserError("no file of triples was named.")
    kinds = {file: _sniff(file) for file in files}
    table = FactTable(_schema(schema, files, kinds), options.prune, options.self_loops)
    for file in files:
        reader = _conceptnet_row if kinds[file] == "conceptnet" else _plain_row
        _read(file, table, reader(table, options), kinds[file], options)
    if not table.ids:
        raise UserError(f"{', '.join(map(str, files))}: no row was usable ({_why_nothing(table.report)}); nothing was built.")
    source = {"files": {file.name: file_fingerprint(file) for file in files}, "options": options.__dict__}
    columns = table.columns()
    source["report"] = table.report.to_dict()
    return KnowledgeGraph.from_table(table.concepts, *columns, table.schema, source), table.report


def _why_nothing(report: ImportReport) -> str:
    reasons = {
        f"{report.other_language:,} in another language": report.other_language,
        f"{report.not_alphabetic:,} not alphabetic": report.not_alphabetic,
        f"{report.other_relations.total():,} with relations outside the schema": report.other_relations.total(),
        "the file is empty": not report.rows,
    }
    return ", ".join(text for text, count in reasons.items() if count) or f"{report.rows:,} rows"


def _schema(name: str | None, files: list[Path], kinds: dict[Path, Format]) -> Schema:
    if name is not None:
        return load_schema(name)
    if "conceptnet" in kinds.values():
        return load_schema("conceptnet")
    relations: set[str] = set()
    for file in files:
        for _, row in _rows(file, kinds[file], None):
            if isinstance(row, list) and len(row) in (3, 4) and row[1].strip():
                relations.add(row[1].strip())
    if len(relations) > MAX_RELATIONS:
        raise UserError(
            f"{', '.join(map(str, files))}: {len(relations):,} different relations, more than {MAX_RELATIONS:,};"
            " are the columns head, relation, tail?"
        )
    return Schema.derived(relations)


# ---- reading


class _Lines(NamedTuple):
    raw: BinaryIO  # tells how far we are
    text: io.TextIOBase


def _open(path: Path) -> _Lines:
    if not path.exists():
        raise UserError(f"{path} does not exist; name a file of triples.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the files of triples in it.")
    raw = path.open("rb")
    body = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
    return _Lines(raw, io.TextIOWrapper(cast(BinaryIO, body), encoding="utf-8-sig", newline=""))


def _sniff(path: Path) -> Format:
    lines = _open(path)
    try:
        with lines.raw, lines.text:
            first = next((line for line in lines.text if line.strip()), "")
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read as text ({error}); name a UTF-8 file, or a gzip of one ending in .gz.") from None
    return "conceptnet" if len(parts := first.split("\t")) >= 4 and parts[1].startswith("/r/") else "triples"


def _rows(path: Path, kind: Format, advance: Callable[[int], None] | None) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every row that is not empty; a header of a plain table is passed over."""
    number = 0
    try:
        lines = _open(path)
        with lines.raw, lines.text:
            head = lines.text.readline()
            while head and not head.strip():
                number += 1
                head = lines.text.readline()
            body = chain([head], lines.text)
            rows: Iterator[tuple[int, list[str]]]
            if kind == "conceptnet" or "\t" in head:
                rows = ((i, line.rstrip("\r\n").split("\t")) for i, line in enumerate(body, start=number + 1))
            else:
                rows = _csv_rows(body, number)
            is_first = True
            for number, row in rows:
                if advance is not None and not number % 10_000:
                    advance(lines.raw.tell())
                is_header = is_first and kind == "triples" and _is_header(row, path)
                is_first = False
                if any(row) and not is_header:
                    yield number, row
    except (UnicodeDecodeError, EOFError, OSError, zlib.error, csv.Error) as error:
        if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            raise
        raise UserError(f"{path}:{number + 1}: cannot be read ({error}); is the file damaged or cut off?") from None


def _csv_rows(lines: Iterable[str], offset: int) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines)
    start = offset + 1
    for row in reader:
        yield start, row
        start = offset + reader.line_num + 1


def _is_header(row: list[str], path: Path) -> bool:
    names = [_lower(cell) for cell in row[:3]]
    if names not in HEADERS and sorted(names) in map(sorted, HEADERS):
        raise UserError(f"{path}: the columns are {', '.join(names)}; put them in the order head, relation, tail.")
    return names in HEADERS


def _lower(text: str) -> str:
    return text.strip().lower()


class _BadRow(Exception):
    pass


def _read(path: Path, table: FactTable, add: Callable[[list[str]], None], kind: Format, options: ImportOptions) -> None:
    rows = bad = 0
    shown: list[str] = []
    with bar(f"reading {path.name}", path.stat().st_size) as advance:
        for number, row in _rows(path, kind, advance):
            rows += 1
            try:
                add(row)
            except _BadRow as error:
                bad += 1
                if len(shown) < SHOWN:
                    shown.append(f"{path}:{number}: {error}")
                if bad > max(1000, options.max_bad * rows):
                    break
    report = table.report
    report.rows += rows
    report.bad += bad
    report.bad_rows += shown
    if bad > options.max_bad * rows:
        raise UserError(
            f"{bad:,} of {rows:,} rows are malformed, more than {options.max_bad:.0%}; nothing was built. The first:\n  "
            + "\n  ".join(shown)
        )


_WEIGHT = re.compile(r'"weight": ?([0-9.eE+-]+)')
_POS = re.compile(r"/[navr]$")


def _conceptnet_row(table: FactTable, options: ImportOptions) -> Callable[[list[str]], None]:
    """uri, relation, head, tail, JSON with a weight."""
    prefix = f"/c/{options.language}/"
    known = table.schema.lookup
    report = table.report

    def name(uri: str) -> str:
        word = uri[len(prefix) :].partition("/")[0] if options.names == "word" else _POS.sub("", uri).rpartition("/")[2]
        return word.lower()

    def add(row: list[str]) -> None:
        if len(row) != 5:
            raise _BadRow(f"{len(row)} fields separated by tabs, not 5 (uri, relation, start, end, JSON)")
        _, relation, head, tail, details = row
        if not relation.startswith("/r/"):
            raise _BadRow(f"the relation {relation!r} does not begin with /r/")
        if not (head.startswith("/c/") and tail.startswith("/c/")) and relation != "/r/ExternalURL":
            raise _BadRow(f"{head!r} and {tail!r} must be concept URIs (/c/language/word)")
        if not (head.startswith(prefix) and tail.startswith(prefix)):
            report.other_language += 1
            return
        relation = relation.rpartition("/")[2]
        if relation.lower() not in known:
            report.other_relations[relation] += 1
            return
        weight = _weight(details)
        head, tail = name(head), name(tail)
        if not head or not tail:
            raise _BadRow("a concept without a name")
        if options.alphabetic and not (_is_alphabetic(head) and _is_alphabetic(tail)):
            report.not_alphabetic += 1
            return
        table.add(head, relation, tail, weight)

    return add


def _is_alphabetic(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalpha()


def _weight(details: str) -> float:
    if found := _WEIGHT.search(details):
        try:
            return float(found[1])
        except ValueError:
            pass
    try:
        return float(json.loads(details)["weight"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError):
        raise _BadRow("the last field is not a JSON object with a weight") from None


def _plain_row(table: FactTable, options: ImportOptions) -> Callable[[list[str]], None]:
    """head, relation, tail and, if wanted, a weight."""
    known = table.schema.lookup

    def add(row: list[str]) -> None:
        if len(row) not in (3, 4):
            raise _BadRow(f"{len(row)} fields, not 3 (head, relation, tail) or 4 (and a weight)")
        head, relation, tail = (cell.strip() for cell in row[:3])
        if not (head and relation and tail):
            raise _BadRow("an empty head, relation or tail")
        if relation.lower() not in known:
            members = [m.removeprefix("*") for r in table.schema.relations for m in r.members]
            raise _BadRow(f"{relation!r} is no relation of the schema {table.schema.name}.{did_you_mean(relation, members)}")
        try:
            weight = float(row[3]) if len(row) == 4 and row[3].strip() else 1.0
        except ValueError:
            raise _BadRow(f"the weight {row[3]!r} is not a number") from None
        table.add(head, relation, tail, weight)

    return add
