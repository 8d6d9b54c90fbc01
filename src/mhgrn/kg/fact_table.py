"""Facts by names → columns of numbers → a graph."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.errors import UserError
from mhgrn.kg.column_order import FirstRows
from mhgrn.kg.csr import first_of_each
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.kg.interning import Interner, intern_last, is_space, text_crc
from mhgrn.kg.label_table import LabelTable, label_problem
from mhgrn.kg.labels import Label, Labels
from mhgrn.kg.provenance import Origins, provenance_arrays
from mhgrn.kg.reader import SHOWN, Array, ImportOptions, RelationNames, RowBlock
from mhgrn.kg.schema import Schema
from mhgrn.kg.strings import StringIndex, TextTable
from mhgrn.printing import CONTROLS, shortened

COMPACT = 1 << 22  # facts collected before duplicates are removed for the first time
UNDERSCORE = 95
_TOGETHER = 64  # names looked up together: in a large table each look-up waits for memory, so they wait at the same time


@dataclass
class ImportReport:
    """Counts of the rows of an import, by outcome."""

    rows: int = 0
    kept: int = 0
    duplicates: int = 0
    mirrored: int = 0  # facts added in the other direction because their relation is symmetric
    self_loops: int = 0
    pruned: int = 0
    light: int = 0
    other_language: int = 0
    not_alphabetic: int = 0
    other_relations: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    bad_rows: list[str] = field(default_factory=list)
    with_controls: int = 0  # names with control or bidirectional characters
    first_with_controls: str = ""  # where the first of them is, and its escaped name
    labels: int = 0  # rows that are labels or aliases in a language to keep
    notes: list[str] = field(default_factory=list)  # what the user should know

    def to_dict(self) -> dict[str, Any]:
        """As JSON values. Labels, which came later, are listed only if there are any."""
        values = {**self.__dict__, "other_relations": dict(self.other_relations.most_common())}
        return {name: value for name, value in values.items() if value or name != "labels"}


class FactTable:
    """Collects facts from rows. Concepts are numbered in order of appearance.

    Args:
        schema: The relations of the graph; None derives one relation from each relation name.
        options: The rules of import.
    """

    def __init__(self, schema: Schema | None, options: ImportOptions = ImportOptions()) -> None:
        self.options = options
        self.names = Interner()
        self.relations = RelationNames(schema)
        self.report = ImportReport()
        self.labels: LabelTable | None = None  # none until a file has labels
        self.block_names = self.names  # those that the numbers of the current block refer to
        self.has_only_weight_1 = True
        self.first_rows = FirstRows()  # of the current file
        self.file = ""  # the name of the current file, for provenance
        self._origins = Origins()
        self._columns: list[tuple[Ints, ...]] = []  # head, relation, tail, weight; with provenance also row and origin
        self._compact_at = COMPACT

    def list_concepts(self, names: Iterable[str]) -> None:
        """Number concepts, whether facts will name them or not."""
        for name in names:
            self.names.add(name.encode())

    @property
    def has_names(self) -> bool:
        return self.names.count > 0

    def add(self, rows: RowBlock, where: str = "") -> None:
        """Add the usable rows of a block, and the counts of the others.

        Args:
            rows: The block.
            where: The file it is from.
        """
        report, options = self.report, self.options
        report.rows += rows.seen
        report.bad += rows.bad
        report.other_language += rows.other_language
        report.not_alphabetic += rows.not_alphabetic
        report.other_relations.update(rows.other_relations)
        self.add_labels(rows.labels, where)
        spans, relation, weight, lines, details = rows.spans, rows.relation, rows.weight, rows.lines, rows.details
        if options.min_weight is not None:
            heavy = weight >= options.min_weight
            report.light += len(weight) - int(heavy.sum())
            spans, relation, weight = spans[heavy], relation[heavy], weight[heavy]
            lines = None if lines is None else lines[heavy]
            details = None if details is None else [details[i] for i in np.flatnonzero(heavy).tolist()]
        if not len(spans):
            return
        head, tail = np.empty(len(spans), dtype=np.int32), np.empty(len(spans), dtype=np.int32)
        names = self.block_names = self._interner(
            2 * len(spans), int((spans[:, 1] - spans[:, 0] + spans[:, 3] - spans[:, 2]).sum())
        )
        codes, swaps = self.relations.resolved()
        rows.text.setflags(write=False)  # one type from all readers, so that the kernel is compiled once
        known = names.count
        names.count = _intern_ends(rows.text, spans, swaps[relation], names.table, names.count, head, tail)
        self._report_controls(known, head, tail, lines, where)
        self.first_rows.add(head, relation, tail)
        if names.count >= 2**31:
            raise UserError("the files name more than 2,147,483,647 concepts, the most a graph can hold.")
        columns: tuple[Ints, ...] = (head, codes[relation], tail, weight.astype(np.float32))
        if options.provenance:
            row = np.zeros(len(head), dtype=np.int64) if lines is None else lines
            columns = (*columns, row, self._origins.numbers(self.file, details, len(head)))
        self._gather(*columns)

    def _interner(self, texts: int, size: int) -> Interner:
        """Return the table that numbers the names of the next block, with room for so many texts of so many bytes."""
        self.names.reserve(texts, size)
        return self.names

    def keep_labels(self) -> LabelTable:
        """Return the table of labels. From now on, facts name concepts by ids."""
        if self.labels is None:
            self.labels = LabelTable(self.options.languages)
        return self.labels

    def add_labels(self, labels: Iterable[Label], where: str = "") -> None:
        """Add labels and aliases of concepts, which facts name by their ids.

        Args:
            labels: The labels. Malformed ones are counted and left out.
            where: The file they are from.
        """
        for label in labels:
            if problem := label_problem(label):
                self.report.bad += 1
                self.report.bad_rows += [f"{where}: {problem}"] if len(self.report.bad_rows) < SHOWN else []
                continue
            self.report.labels += self.keep_labels().add(label)

    def _report_controls(self, known: int, head: Ints, tail: Ints, lines: Ints | None, where: str) -> None:
        """Count the names from number ``known`` on that have control or bidirectional characters."""
        found = with_controls(self.names.ptr[known : self.names.count + 1], self.names.data)
        self.report.with_controls += len(found)
        if len(found) and not self.report.first_with_controls:
            self._report_first_control(known + int(found[0]), head, tail, lines, where)

    def _report_first_control(self, name: int, head: Ints, tail: Ints, lines: Ints | None, where: str) -> None:
        """Say where the first name with control characters is."""
        row = int(np.flatnonzero((head == name) | (tail == name))[0])
        place = f"{where}:{lines[row]}: " if lines is not None else f"{where}: " if where else ""
        self.report.first_with_controls = place + shortened(self.block_names[name])

    def check_order(self, where: str) -> None:
        """Refuse the current file if another column than the second seems to hold the relations."""
        if self.relations.schema is not None:
            return  # other names than the schema's are malformed rows
        names = self.block_names
        index = StringIndex(names.ptr, names.data, names.slots)
        if problem := self.first_rows.problem(self.relations.names, index):
            raise UserError(f"{where}: {problem}")

    def _gather(self, head: Ints, relation: Ints, tail: Ints, *others: Ints) -> None:
        report, schema = self.report, self.relations.schema
        kept = np.ones(len(head), dtype=bool) if self.options.self_loops else head != tail
        report.self_loops += len(head) - int(kept.sum())
        if schema is not None and self.options.prune:
            names = self.block_names
            index = StringIndex(names.ptr, names.data, names.slots)
            concepts = [number for name in schema.pruned_concepts if (number := index.find(name)) is not None]
            pruned = kept & (np.isin(relation, list(schema.pruned_ids)) | np.isin(head, concepts) | np.isin(tail, concepts))
            report.pruned += int(pruned.sum())
            kept &= ~pruned
        head, relation, tail = head[kept], relation[kept].astype(np.uint16), tail[kept]
        others = tuple(column[kept] for column in others)
        if schema is not None and schema.symmetric_ids:
            both = np.flatnonzero(np.isin(relation, list(schema.symmetric_ids)) & (head != tail))
            report.mirrored += len(both)
            # a mirrored fact follows its own, so that the first row decides weight and provenance in both directions
            rows = np.insert(np.arange(len(head)), both + 1, both)
            is_mirrored = np.diff(rows, prepend=-1) == 0
            head, relation, tail = head[rows], relation[rows], tail[rows]
            others = tuple(column[rows] for column in others)
            head, tail = np.where(is_mirrored, tail, head), np.where(is_mirrored, head, tail)
        self.has_only_weight_1 = self.has_only_weight_1 and bool(np.all(others[0] == 1))
        self._keep(head, relation, tail, *others)

    def _keep(self, *columns: Ints) -> None:
        """Keep facts by number."""
        self._columns.append(columns)
        if sum(len(column[0]) for column in self._columns) > self._compact_at:
            self._columns = [self._distinct(in_order=True)]
            self._compact_at = max(COMPACT, 2 * len(self._columns[0][0]))

    def _distinct(self, in_order: bool = False) -> tuple[Ints, ...]:
        """Return every fact once, with the weight and the provenance of its first row, sorted by head, tail and relation.

        Args:
            in_order: Leave facts in the order of their rows: relations by different names may still turn out to be the same.
        """
        parts = [list(column) for column in zip(*self._columns, strict=True)]
        self._columns = []  # each column is joined and then freed, so that there are never two copies of all columns
        columns = [np.concatenate(parts.pop(0)) for _ in range(len(parts))]
        relations = int(columns[1].max(initial=0)) + 1
        first = first_of_each(columns[0], columns[1], columns[2], self.names.count, relations)
        self.report.duplicates += len(columns[0]) - len(first)
        if in_order:
            kept = np.zeros(len(columns[0]), dtype=bool)
            kept[first] = True
            return tuple(columns.pop(0)[kept] for _ in range(len(columns)))
        return tuple(columns.pop(0)[first] for _ in range(len(columns)))

    def graph(self, source: dict[str, Any]) -> KnowledgeGraph:
        """Return the graph of all facts."""
        schema, numbers = self.finished_schema()
        if numbers is not None:
            self._columns = [(head, numbers[relation], *others) for head, relation, *others in self._columns]
        width = 6 if self.options.provenance else 4
        columns = self._distinct() if self._columns else (np.zeros(0, dtype=np.int32),) * width
        head, relation, tail, weight = columns[:4]
        provenance = provenance_arrays(columns[4], columns[5], self._origins.texts()) if self.options.provenance else None
        self._columns = []
        self.report.kept = len(head)
        names, labels = self.finished_labels(self.names.index())
        if source:
            source = {**source, "report": self.report.to_dict()}
        kept_weight = weight if self.options.weights else None
        return KnowledgeGraph.from_sorted(names, head, relation, tail, kept_weight, schema, source, provenance, labels)

    def finished_schema(self) -> tuple[Schema, Ints | None]:
        """Return the schema, and what replaces the numbers of relations if it is made of the names of relations."""
        schema, numbers = self.relations.schema, None
        if schema is None:
            schema, numbers = self.relations.derived()
        if found := [relation.name for relation in schema.relations if CONTROLS.search(relation.name)]:
            self.report.with_controls += len(found)
            self.report.first_with_controls = self.report.first_with_controls or f"the relation {shortened(found[0])}"
        return schema, numbers

    def finished_labels(self, names: StringIndex) -> tuple[StringIndex, Labels | None]:
        """Return the names and labels of concepts, given their names in facts."""
        if self.labels is None:
            return names, None
        names, labels = self.labels.finished(names)
        self.report.with_controls += len(found := with_controls(names.ptr, names.data))
        if len(found) and not self.report.first_with_controls:
            self.report.first_with_controls = f"the label {shortened(names[int(found[0])])}"
        return names, labels


@kernel
def with_controls(ptr: Array, data: Array) -> Array:
    """Return the places of the names that have one of :data:`mhgrn.printing.CONTROLS`, in UTF-8."""
    found = []
    for i in range(len(ptr) - 1):
        for j in range(ptr[i], ptr[i + 1]):
            byte = data[j]
            if 32 <= byte < 127:
                continue
            is_control = byte < 32 or byte == 127
            if byte >= 0xC2 and j + 1 < ptr[i + 1]:
                second = data[j + 1]
                is_control = (byte == 0xC2 and second < 0xA0) or (byte == 0xD8 and second == 0x9C)
                if byte >= 0xE2 and j + 2 < ptr[i + 1]:
                    third = data[j + 2]
                    is_control = (
                        (byte == 0xE2 and second == 0x80 and (0x8E <= third <= 0x8F or 0xA8 <= third <= 0xAE))
                        or (byte == 0xE2 and second == 0x81 and 0xA6 <= third <= 0xA9)
                        or (byte == 0xEF and second == 0xBF and third >= 0xBE)
                    )
            if is_control:
                found.append(i)
                break
    return np.array(found, dtype=np.int64)


@kernel
def _write_name(text: Array, start: int, end: int, data: Array, at: int) -> int:
    """Write a concept's name at ``at``, in lower case with underscores for spaces, and return where it ends."""
    first = at
    gap = False
    for j in range(start, end):
        byte = text[j]
        if is_space(byte):
            gap = at > first
            continue
        if gap:
            data[at] = UNDERSCORE
            at += 1
            gap = False
        data[at] = byte + 32 if 65 <= byte <= 90 else byte
        at += 1
    return at


@kernel
def _same(data: Array, one: int, other: int, length: int) -> bool:
    for i in range(length):  # noqa: SIM110 (compiled)
        if data[one + i] != data[other + i]:
            return False
    return True


@kernel
def _intern_ends(text: Array, spans: Array, swapped: Array, names: TextTable, count: int, head: Array, tail: Array) -> int:
    """Number the concepts of every row, head before tail after swapping, and return the number of names known now."""
    slots, ptr, data = names
    mask = np.uint64(len(slots) - 1)
    place = np.empty(_TOGETHER, np.uint64)
    bounds, likely, first = np.empty(_TOGETHER + 1, np.int64), np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, np.int64)
    for begin in range(0, len(spans), _TOGETHER // 2):
        size = 2 * min(_TOGETHER // 2, len(spans) - begin)
        bounds[0] = ptr[count]
        for k in range(size):
            row = begin + k // 2
            end = 1 - k % 2 if swapped[row] else k % 2
            bounds[k + 1] = _write_name(text, spans[row, 2 * end], spans[row, 2 * end + 1], data, bounds[k])
            place[k] = text_crc(data, bounds[k], bounds[k + 1]) & mask
        # one array after the other for all names, so that no look-up waits for another
        for k in range(size):
            likely[k] = np.int64(slots[place[k]] & np.uint64(0xFFFFFFFF)) - 1
        for k in range(size):
            first[k] = -1
            if likely[k] >= 0 and ptr[likely[k] + 1] - ptr[likely[k]] == bounds[k + 1] - bounds[k]:
                first[k] = ptr[likely[k]]
        for k in range(size):
            if first[k] >= 0 and data[first[k]] != data[bounds[k]]:
                first[k] = -1
        for k in range(size):
            start, length = bounds[k], bounds[k + 1] - bounds[k]
            number = likely[k] if first[k] >= 0 and _same(data, first[k], start, length) else -1
            if number < 0:  # new, or not in its first place of the table
                free = ptr[count]
                for j in range(length):
                    data[free + j] = data[start + j]
                number = intern_last(names, count, length)
                count += number == count
            if k % 2 == 0:
                head[begin + k // 2] = number
            else:
                tail[begin + k // 2] = number
    return count
