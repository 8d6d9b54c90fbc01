"""The base class of readers of graph formats, and what readers give: rows of facts by names."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import did_you_mean
from mhgrn.kg.interning import Interner
from mhgrn.kg.labels import Label as Label
from mhgrn.kg.names import concept_name
from mhgrn.kg.schema import MAX_RELATIONS, Schema
from mhgrn.printing import printable, shortened, shown

Array = NDArray[Any]

BATCH = 10_000  # rows of a block, of formats that are read row by row
BATCH_SIZE = 1 << 23  # characters of a block, at most
SHOWN = 5  # malformed rows that a message lists
WIDEST = 200  # characters of each
USUAL_FIELDS = "3 (head, relation, tail) or 4 (and a weight)"
MAX_WEIGHT = 3.4028235e38  # the largest 32-bit float, as it is written


@dataclass(frozen=True)
class ImportOptions:
    """The rules of import. The defaults are those of the paper's graph, except for ``names``.

    Args:
        language: The language to keep: of ConceptNet's concepts, of texts in N-Triples, and of labels. Several are separated by
            commas, the most preferred first: ``"de,en"``; ``"all"`` stands for all. ConceptNet takes one.
        names: How a ConceptNet URI gives a name. ``"word"`` takes the word: ``/c/en/cat/n/wn/animal`` is ``cat``. ``"published"``
            takes the last part after removing the part of speech, as the published graph does: ``animal``.
        alphabetic: Drop ConceptNet's concepts that have other characters than letters, hyphens and underscores.
        prune: Leave out the schema's pruned relations and concepts.
        self_loops: Keep facts from a concept to itself.
        weights: Keep the weight of each fact.
        min_weight: Leave out facts with a smaller weight.
        provenance: Keep where each fact comes from, see :meth:`mhgrn.KnowledgeGraph.provenance`.
        max_bad: The largest share of malformed rows; with more, nothing is built.
        format: The name of the files' format; by default each file's ending and first line decide.
        columns: The columns of tables, and the keys of JSON lines, by role: ``head``, ``relation``, ``tail`` and, if wanted,
            ``weight``. A column is a name of the header, or a number from 1. By default the header or the order decides.
        delimiter: The character between the fields of tables; by default a tab or a comma, as the first line has it.

    >>> ImportOptions(weights=True).language
    'en'
    """

    language: str = "en"
    names: Literal["word", "published"] = "word"
    alphabetic: bool = True
    prune: bool = True
    self_loops: bool = False
    weights: bool = False
    min_weight: float | None = None
    max_bad: float = 0.01
    format: str | None = None
    columns: Mapping[str, str | int] | None = None
    delimiter: str | None = None
    provenance: bool = False

    @property
    def languages(self) -> list[str]:
        """The languages to keep, the most preferred first."""
        return list(_languages(self.language))

    def keeps_language(self, tag: str) -> bool:
        """Return whether a language is one of those to keep. ``en-gb`` is kept with ``en``."""
        return _keeps_language(self.language, tag)

    def stored(self) -> dict[str, Any]:
        """The rules as a graph's folder lists them. Provenance, which came later, is listed only if it is kept."""
        return {name: value for name, value in self.__dict__.items() if value or name != "provenance"}


@lru_cache(16)
def _languages(option: str) -> tuple[str, ...]:
    return tuple(language for part in option.split(",") if (language := part.strip().lower()))


@lru_cache(1024)
def _keeps_language(option: str, tag: str) -> bool:
    return bool({tag.lower(), tag.partition("-")[0].lower(), "all"} & set(_languages(option)))


FORMAT_OPTIONS = {
    "language": "--language",
    "names": "--published-names",
    "alphabetic": "--any-characters",
    "columns": "--columns",
    "delimiter": "--delimiter",
}  # options that only some formats heed, and their names on the command line


class Row(NamedTuple):
    """One fact by names, as a file states it."""

    head: str
    relation: str
    tail: str
    weight: float = 1.0


class BadRow(Exception):
    """A malformed row. The message says what is wrong with it."""


class SkippedRow(Exception):
    """A well-formed row that the options or the schema exclude.

    Args:
        reason: Where the report counts it.
        relation: The relation's name, for ``"other_relation"``.
    """

    def __init__(self, reason: Literal["other_language", "not_alphabetic", "other_relation"], relation: str = "") -> None:
        self.reason, self.relation = reason, relation


Fields = Sequence[str] | BadRow  # of a row, or what is wrong with it
Found = tuple[int, Fields | SkippedRow] | Label  # what a file has: a row with its line number, or a name of a concept


@dataclass
class RowBlock:
    """Some rows of a file: the usable ones, as spans of ``text``, and counts of the others."""

    text: Array  # [bytes]
    spans: Array  # [rows, 4] start and end of head, start and end of tail
    relation: Array  # [rows] number of the relation's name
    weight: Array  # [rows]
    seen: int = 0  # all rows, usable or not
    other_language: int = 0
    not_alphabetic: int = 0
    other_relations: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    bad_rows: list[str] = field(default_factory=list)  # messages for the first few
    lines: Array | None = None  # [rows] number of each row's line, if known
    details: Sequence[str] | None = None  # [rows] what a row says about its source: a JSON object or nothing
    labels: list[Label] = field(default_factory=list)  # names of concepts, which may be in facts of other blocks

    @classmethod
    def of(cls, rows: Sequence[Row], relations: "RelationNames") -> "RowBlock":
        """Make a block of facts by names."""
        ends_of_rows = (name for row in rows for name in (row.head, row.tail))
        # of ASCII names, the table of facts makes names of concepts
        names = [(name if name.isascii() else concept_name(name)).encode() for name in ends_of_rows]
        ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
        return cls(
            text=np.frombuffer(b"".join(names), dtype=np.uint8),
            spans=np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, 4),
            relation=np.array([relations.number(row.relation) for row in rows], dtype=np.int64),
            weight=np.array([row.weight for row in rows], dtype=np.float64),
            seen=len(rows),
        )


class RelationNames:
    """The relation names that files use, numbered as they appear.

    Args:
        schema: The relations to import; None imports every name as a relation.
    """

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self.names = Interner()
        self._numbers: dict[str, int] = {}  # of names that were asked for, since looking one up in the interner is slow
        self._resolved: list[tuple[int, bool]] = []
        self._labels: dict[str, str] = {}  # of relations that files know by ids

    def number(self, name: str) -> int:
        """Return the number of a name."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = self.names.add(name.encode())
        return found

    def label(self, name: str, text: str) -> None:
        """Name a relation that facts know by an id, such as ``P31``. It has no effect with a schema. The first label counts."""
        if (text := relation_name(text).removeprefix("*")) and not has_surrogates(text):
            self._labels.setdefault(name, text)

    def resolved(self) -> tuple[Array, Array]:
        """Return for each name its relation in the schema, or -1, and whether it swaps head and tail."""  # 2 x [names]
        for number in range(len(self._resolved), self.names.count):
            name = self.names[number]
            known = self.schema.lookup.get(name.lower(), (-1, False)) if self.schema is not None else (number, False)
            self._resolved.append(known if self.knows(name) else (-1, False))
        pairs = np.array(self._resolved, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1].astype(bool)

    def derived(self) -> tuple[Schema, Array]:
        """Return a schema of the names that occurred, and each name's relation in it."""
        names = self._labelled([self.names[number] for number in range(self.names.count)])
        schema = Schema.derived(filter(self.knows, names))
        return schema, np.array([schema.lookup.get(name.lower(), (0, False))[0] for name in names], dtype=np.uint16)

    def _labelled(self, names: list[str]) -> list[str]:
        """Replace ids by their labels. A label that two relations have is followed by the id."""
        labels = [self._labels.get(name, name) for name in names]
        counts = Counter(label.lower() for label in labels)
        return [
            label if label == name or counts[label.lower()] == 1 else f"{label} ({name})"
            for name, label in zip(names, labels, strict=True)
        ]

    @property
    def are_too_many(self) -> bool:
        """Whether there are more names than a schema can hold."""
        return self.schema is None and self.names.count > MAX_RELATIONS

    def knows(self, name: str) -> bool:
        """Return whether a name is imported."""
        return not name.startswith("*") if self.schema is None else name.lower() in self.schema.lookup

    def unknown(self, name: str) -> str:
        """Return the message for a name that is not imported."""
        if self.schema is None:
            return f"the relation {shortened(name)} begins with *, which a schema uses to swap head and tail; rename it."
        members = [member.removeprefix("*") for relation in self.schema.relations for member in relation.members]
        return f"{shortened(name)} is not a relation of the schema {shown(self.schema.name)}.{did_you_mean(name, members)}"


class GraphReader:
    """Reads files of one graph format.

    A subclass sets ``name`` and implements :meth:`rows`. It is a file of ``mhgrn/kg/readers`` or, in another package, an entry
    point of the group ``mhgrn.graph_readers``.

    >>> class Arrows(GraphReader):
    ...     name = "arrows"
    ...     endings = (".arrows",)
    ...
    ...     def rows(self):
    ...         for number, line in self.lines():  # cat -IsA-> animal
    ...             yield number, line.replace("->", "-").split("-")
    >>> Arrows.recognizes("cat -IsA-> animal")  # files are recognized by their ending
    False

    If concepts have ids, facts name concepts by id. :meth:`rows` yields a :class:`~mhgrn.kg.labels.Label` for each label and each
    alias of a concept, before or after its facts or in another file. With facts ``("Q42", "occupation", "Q36180")``::

        yield Label("Q42", "Douglas Adams", "en", is_preferred=True)
        yield Label("Q42", "DNA", "en")
        yield Label("Q36180", "writer", "en", is_preferred=True)

    The reader yields all languages; the graph keeps those of ``options.languages``. The graph names a concept by its label in the
    first of these languages. Labels of concepts that no fact names are dropped. A reader that overrides :meth:`blocks` adds labels
    to :attr:`RowBlock.labels`.

    Args:
        path: The file to read.
        relations: The relation names of all files so far.
        options: The rules of import.
        advance: Called with the number of bytes read so far, for the progress bar.
    """

    name: ClassVar[str]
    """The name that ``--format`` takes."""
    endings: ClassVar[tuple[str, ...]] = ()
    """File endings of this format, before an ending such as ``.gz``."""
    schema: ClassVar[str | None] = None
    """The name of the schema that such files need if no other is given."""
    is_vague: ClassVar[bool] = False
    """Whether :meth:`recognizes` holds for files of other formats too. Such a format is chosen only if no other one holds."""
    is_any_table: ClassVar[bool] = False
    """Whether :meth:`recognizes` holds for tables of any kind. Such a format is chosen last."""
    has_ids: ClassVar[bool] = False
    """Whether facts name concepts by ids, so that the graph keeps ids even if the files have no labels."""
    longest_line: ClassVar[int] = 1 << 20
    """The largest number of bytes of a line. A file with a longer one is refused."""
    heeds: ClassVar[frozenset[str] | None] = None
    """The options of :data:`FORMAT_OPTIONS` that have an effect. None: unknown."""

    def __init__(self, path: Path, relations: RelationNames, options: ImportOptions, advance: Callable[[int], None]) -> None:
        self.path, self.relations, self.options, self.advance = path, relations, options, advance
        self.goes_by_order = False  # whether only their order says which columns are head, relation and tail
        self.notes: list[str] = []  # what the user should know about the file

    @classmethod
    def recognizes(cls, line: str) -> bool:
        """Return whether a file whose first line is ``line`` has this format. It decides if the file's ending does not."""
        return False

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and text of each line that is not blank. The file is UTF-8, plain or compressed."""
        from mhgrn.kg.readers._lines import lines

        for number, line in enumerate(lines(self.path, self.advance, self.longest_line), start=1):
            if line.strip():
                yield number, line.rstrip("\r\n")

    def rows(self) -> Iterator[Found]:
        """Yield the line number and the fields of each row.

        Fields are texts: head, relation, tail and, if known, a weight. A malformed row is a :class:`BadRow` in their place, and one
        that the options exclude a :class:`SkippedRow`. A format that has ids in facts also yields a :class:`Label` for each name of
        a concept, and calls ``self.relations.label`` for names of relations.
        """
        raise NotImplementedError

    def is_wanted(self, language: str | None) -> bool:
        """Return whether texts of a language are kept: those of the options, and those of no known language."""
        return not language or self.options.keeps_language(language)

    def row(self, fields: Sequence[str]) -> Row:
        """Return the fact of a row; raise :class:`BadRow` or :class:`SkippedRow` if there is none."""
        return table_row(fields)

    def blocks(self) -> Iterator[RowBlock]:
        """Yield all rows of the file. Override this instead of :meth:`rows` to read many rows at once."""
        for part, labels in self._batches():
            block = RowBlock.of([], self.relations)
            block.labels = labels
            checked = ((number, self.checked(number, fields, block)) for number, fields in part)
            found = [(number, row) for number, row in checked if row is not None]
            try:
                usable = RowBlock.of([row for _, row in found], self.relations)
            except UnicodeEncodeError:
                found = [(number, row) for number, row in found if self._is_text(number, row, block)]
                usable = RowBlock.of([row for _, row in found], self.relations)
            block.text, block.spans, block.relation, block.weight = usable.text, usable.spans, usable.relation, usable.weight
            block.seen, block.lines = len(part), np.array([number for number, _ in found], dtype=np.int64)
            yield block

    def _batches(self) -> Iterator[tuple[list[tuple[int, Fields | SkippedRow]], list[Label]]]:
        part, labels, size = list[tuple[int, Fields | SkippedRow]](), list[Label](), 0
        for found in self.rows():
            if isinstance(found, Label):
                labels.append(found)
                size += len(found.concept) + len(found.text)
            else:
                part.append(found)
                size += 0 if isinstance(found[1], Exception) else sum(map(len, found[1]))
            if len(part) + len(labels) == BATCH or size > BATCH_SIZE:
                yield part, labels
                part, labels, size = [], [], 0
        if part or labels:
            yield part, labels

    def _is_text(self, number: int, row: Row, block: RowBlock) -> bool:
        """Return whether the names of a row can be written as UTF-8. One that cannot is counted in ``block``."""
        wrong = next((name for name in row[:3] if has_surrogates(name)), None)
        if wrong is not None:
            self.checked(number, BadRow(f"{shortened(wrong)} has half of a surrogate pair"), block)
        return wrong is None

    def checked(self, number: int, fields: Fields | SkippedRow, block: RowBlock) -> Row | None:
        """Return the row that ``fields`` are; None for an unusable one, which is counted in ``block``."""
        try:
            if isinstance(fields, Exception):
                raise fields
            row = self.row(fields)
            if not self.relations.knows(row.relation):
                # finding the nearest name is slow: only for rows that will be shown
                raise BadRow(self.relations.unknown(row.relation) if len(block.bad_rows) < SHOWN else "")
            return row
        except SkippedRow as skipped:
            block.other_language += skipped.reason == "other_language"
            block.not_alphabetic += skipped.reason == "not_alphabetic"
            if skipped.reason == "other_relation":
                block.other_relations[skipped.relation] += 1
        except BadRow as error:
            block.bad += 1
            if len(block.bad_rows) < SHOWN:
                reason = printable(str(error)[:WIDEST])
                short = reason if len(str(error)) <= WIDEST else reason[: WIDEST - 1] + "…"
                block.bad_rows.append(f"{self.path}:{number}: {short}")
        return None


def relation_name(text: str) -> str:
    """Return a relation's name on one line, as it is spelled."""
    return " ".join(text.split())


def has_surrogates(text: str) -> bool:
    """Return whether a text has half of a surrogate pair, as escapes in JSON may give it. It is not UTF-8."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def table_row(fields: Sequence[str]) -> Row:
    """Return the fact of a row of head, relation, tail and perhaps a weight.

    >>> table_row(["Black cat", "IsA", "cat", "2"])
    Row(head='black_cat', relation='IsA', tail='cat', weight=2.0)
    """
    if len(fields) not in (3, 4):
        raise BadRow(f"{len(fields)} fields, not {USUAL_FIELDS}")
    head, relation, tail = concept_name(fields[0]), relation_name(fields[1]), concept_name(fields[2])
    if not (head and relation and tail):
        raise BadRow("an empty head, relation or tail")
    try:
        weight = float(fields[3]) if len(fields) == 4 and fields[3].strip() else 1.0
    except ValueError:
        raise BadRow(f"the weight {shortened(fields[3])} is not a number") from None
    if not abs(weight) <= MAX_WEIGHT:
        raise BadRow(f"the weight {shortened(fields[3])} is not a finite number")
    return Row(head, relation, tail, weight)
