"""Files of triples → KnowledgeGraph, in one streaming pass."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mhgrn.errors import UserError
from mhgrn.io.fingerprint import file_fingerprint
from mhgrn.kg.csr import first_of_each
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.kg.interning import Interner
from mhgrn.kg.names import concept_name
from mhgrn.kg.parsing import intern_ends
from mhgrn.kg.reading import SHOWN, Format, read_rows, sniff
from mhgrn.kg.rows import ImportOptions, RelationNames, Row, Rows, rows_of
from mhgrn.kg.schema import MAX_RELATIONS, Schema, load_schema
from mhgrn.kg.strings import StringIndex
from mhgrn.progress import bar

COMPACT = 1 << 22  # facts gathered before repeated ones are thrown out for the first time


@dataclass
class ImportReport:
    """What became of the rows."""

    rows: int = 0
    kept: int = 0
    duplicates: int = 0
    mirrored: int = 0  # facts added because their relation is symmetric
    self_loops: int = 0
    pruned: int = 0
    light: int = 0
    other_language: int = 0
    not_alphabetic: int = 0
    other_relations: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    bad_rows: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "other_relations": dict(self.other_relations.most_common())}


class FactTable:
    """Facts being gathered: concepts numbered in order of appearance, columns of numbers. Without a schema one is derived."""

    def __init__(self, schema: Schema | None, options: ImportOptions = ImportOptions()) -> None:
        self.options = options
        self.names = Interner()
        self.relations = RelationNames(schema)
        self.report = ImportReport()
        self._columns: list[tuple[Ints, Ints, Ints, Ints]] = []  # head, relation, tail, weight
        self._compact_at = COMPACT

    def add(self, rows: Rows) -> None:
        """Take over the usable rows of a block, and the counts of the others."""
        report, options = self.report, self.options
        report.rows += rows.seen
        report.bad += rows.bad
        report.other_language += rows.other_language
        report.not_alphabetic += rows.not_alphabetic
        report.other_relations.update(rows.other_relations)
        spans, relation, weight = rows.spans, rows.relation, rows.weight
        if options.min_weight is not None:
            heavy = weight >= options.min_weight
            report.light += len(weight) - int(heavy.sum())
            spans, relation, weight = spans[heavy], relation[heavy], weight[heavy]
        if not len(spans):
            return
        head, tail = np.empty(len(spans), dtype=np.int32), np.empty(len(spans), dtype=np.int32)
        names = self.names
        names.reserve(2 * len(spans), int((spans[:, 1] - spans[:, 0] + spans[:, 3] - spans[:, 2]).sum()))
        codes, swaps = self.relations.resolved()
        names.count = intern_ends(rows.text, spans, swaps[relation], names.slots, names.ptr, names.data, names.count, head, tail)
        if names.count >= 2**31:
            raise UserError("more than two thousand million concepts; that is more than a graph can hold.")
        self._gather(head, codes[relation], tail, weight.astype(np.float32))

    def _gather(self, head: Ints, relation: Ints, tail: Ints, weight: Ints) -> None:
        report, schema = self.report, self.relations.schema
        kept = np.ones(len(head), dtype=bool) if self.options.self_loops else head != tail
        report.self_loops += len(head) - int(kept.sum())
        if schema is not None and self.options.prune:
            index = StringIndex(self.names.ptr, self.names.data, self.names.slots)
            concepts = [number for name in schema.pruned_concepts if (number := index.find(name)) is not None]
            pruned = kept & (np.isin(relation, list(schema.pruned_ids)) | np.isin(head, concepts) | np.isin(tail, concepts))
            report.pruned += int(pruned.sum())
            kept &= ~pruned
        head, relation, tail, weight = head[kept], relation[kept].astype(np.uint16), tail[kept], weight[kept]
        if schema is not None and schema.symmetric_ids:
            both = np.flatnonzero(np.isin(relation, list(schema.symmetric_ids)) & (head != tail))
            report.mirrored += len(both)
            # each mirrored fact right behind its own: of equal facts the first row's weight is kept, whichever way it is stated
            rows = np.insert(np.arange(len(head)), both + 1, both)
            is_mirrored = np.diff(rows, prepend=-1) == 0
            head, relation, tail, weight = head[rows], relation[rows], tail[rows], weight[rows]
            head, tail = np.where(is_mirrored, tail, head), np.where(is_mirrored, head, tail)
        self._columns.append((head, relation, tail, weight))
        if sum(len(column[0]) for column in self._columns) > self._compact_at:
            self._columns = [self._distinct()]
            self._compact_at = max(COMPACT, 2 * len(self._columns[0][0]))

    def _distinct(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Every fact once, with its first weight, in order of head, tail and relation."""
        parts = [list(column) for column in zip(*self._columns, strict=True)]
        self._columns = []  # each column is joined and then freed, so that there are never two copies of all
        columns = [np.concatenate(parts.pop(0)) for _ in range(4)]
        relations = int(columns[1].max(initial=0)) + 1
        first = first_of_each(columns[0], columns[1], columns[2], self.names.count, relations)
        self.report.duplicates += len(columns[0]) - len(first)
        head, relation, tail, weight = (columns.pop(0)[first] for _ in range(4))
        return head, relation, tail, weight

    def graph(self, source: dict[str, Any]) -> KnowledgeGraph:
        """The graph of what was gathered."""
        schema = self.relations.schema
        if schema is None:  # the names' own numbers give way to those of the derived schema
            schema, numbers = self.relations.derived()
            self._columns = [(head, numbers[relation], tail, weight) for head, relation, tail, weight in self._columns]
        head, relation, tail, weight = self._distinct() if self._columns else (np.zeros(0, dtype=np.int32),) * 4
        self._columns = []
        self.report.kept = len(head)
        if source:
            source = {**source, "report": self.report.to_dict()}
        kept_weight = weight if self.options.weights else None
        return KnowledgeGraph.from_sorted(self.names.index(), head, relation, tail, kept_weight, schema, source)


def facts_graph(facts: Iterable[tuple[str, str, str]], schema: Schema | None) -> KnowledgeGraph:
    """A graph of (head, relation, tail) names."""
    table = FactTable(schema)
    rows = [Row(*fact) for fact in facts]
    for row in rows:
        if not table.relations.knows(row.relation):
            raise UserError(table.relations.unknown(row.relation))
    table.add(rows_of(rows, table.relations))
    return table.graph({})


def build(
    paths: Iterable[str | Path],
    schema: str | None = None,
    options: ImportOptions = ImportOptions(),
    concepts: str | Path | None = None,
) -> tuple[KnowledgeGraph, ImportReport]:
    """Read files of triples into one graph. :meth:`KnowledgeGraph.save` writes it.

    Each file is ConceptNet's release, N-Triples (``.nt``), Parquet, or a table of head, relation, tail and, if wanted, weight,
    separated by tabs or commas; text may be compressed (``.gz``, ``.bz2``, ``.xz``). ``schema`` is the name of a shipped one,
    a YAML file, or None: ConceptNet's for a release, derived from the relations that occur otherwise. ``concepts`` is a file of
    names, one a line, that are numbered first, whether a fact names them or not.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise UserError("no file of triples was named.")
    kinds = {file: sniff(file) for file in files}
    if schema is None and "conceptnet" in kinds.values():
        schema = "conceptnet"
    table = FactTable(load_schema(schema) if schema is not None else None, options)
    if concepts is not None:
        for name in _listed(Path(concepts)):
            table.names.add(name.encode())
    for file in files:
        _read(file, kinds[file], table)
    if not table.names.count:
        raise UserError(f"{', '.join(map(str, files))}: no row was usable ({_why_nothing(table.report)}); nothing was built.")
    source = {"files": {file.name: file_fingerprint(file) for file in files}, "options": options.__dict__}
    return table.graph(source), table.report


def _read(path: Path, kind: Format, table: FactTable) -> None:
    rows = bad = 0
    shown: list[str] = []
    limit = table.options.max_bad
    with bar(f"reading {path.name}", path.stat().st_size) as advance:
        for block in read_rows(path, kind, table.relations, table.options, advance):
            if table.relations.are_too_many:
                raise UserError(f"{path}: more than {MAX_RELATIONS:,} relations; are the columns head, relation, tail?")
            table.add(block)
            rows += block.seen
            bad += block.bad
            shown += block.bad_rows[: SHOWN - len(shown)]
            if bad > max(1000, limit * rows):
                break
    table.report.bad_rows += shown
    if bad > limit * rows:
        raise UserError(
            f"{bad:,} of {rows:,} rows are malformed, more than {limit:.0%}; nothing was built. The first:\n  " + "\n  ".join(shown)
        )


def _listed(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise UserError(f"{path} does not exist; name a file of concepts, one a line.")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason}).") from None
    return (name for line in lines if (name := concept_name(line)))


def _why_nothing(report: ImportReport) -> str:
    reasons = {
        f"{report.other_language:,} in another language": report.other_language,
        f"{report.not_alphabetic:,} not alphabetic": report.not_alphabetic,
        f"{report.other_relations.total():,} with relations outside the schema": report.other_relations.total(),
        f"{report.light:,} of too small a weight": report.light,
        "the file is empty": not report.rows,
    }
    return ", ".join(text for text, count in reasons.items() if count) or f"{report.rows:,} rows"
