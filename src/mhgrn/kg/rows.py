"""Facts by names, as files state them: rows to use, rows that are not wanted, rows that are malformed."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.interning import Interner
from mhgrn.kg.names import concept_name
from mhgrn.kg.schema import MAX_RELATIONS, Schema

Array = NDArray[Any]

HEADERS = (
    ["head", "relation", "tail"],
    ["subject", "predicate", "object"],
    ["subject", "relation", "object"],
    ["start", "rel", "end"],
    ["source", "relation", "target"],
    ["h", "r", "t"],
)
HEAVIEST = 3.4028235e38  # the largest weight of 32 bits, as it is written
OTHER_RELATION = 100  # a status beside those of the kernels


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
    weights: bool = False  # keep each fact's weight
    min_weight: float | None = None  # leave out facts of a smaller weight
    max_bad: float = 0.01  # share of malformed rows past which nothing is built


class Row(NamedTuple):
    """One fact by names, as a file states it."""

    head: str
    relation: str
    tail: str
    weight: float = 1.0


@dataclass
class Rows:
    """Some rows of a file: those to use, as spans of ``text``, and what became of the others."""

    text: Array  # [bytes]
    spans: Array  # [rows, 4] start and end of head, start and end of tail
    relation: Array  # [rows] number of the relation's name
    weight: Array  # [rows]
    seen: int = 0  # usable or not
    other_language: int = 0
    not_alphabetic: int = 0
    other_relations: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    bad_rows: list[str] = field(default_factory=list)


class RelationNames:
    """The relation names that files use, numbered as they appear. Without a schema every name is a relation."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self.names = Interner()
        self._resolved: list[tuple[int, bool]] = []

    def number(self, name: str) -> int:
        return self.names.add(name.encode())

    def resolved(self) -> tuple[Array, Array]:
        """For each name its relation in the schema, -1 if none; and whether it swaps head and tail."""
        for number in range(len(self._resolved), self.names.count):
            name = self.names[number]
            known = self.schema.lookup.get(name.lower(), (-1, False)) if self.schema is not None else (number, False)
            self._resolved.append(known if self.knows(name) else (-1, False))
        pairs = np.array(self._resolved, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1].astype(bool)

    def derived(self) -> tuple[Schema, Array]:
        """A schema of the names that occurred, and each name's relation in it."""
        names = [self.names[number] for number in range(self.names.count)]
        schema = Schema.derived(filter(self.knows, names))
        return schema, np.array([schema.lookup.get(name.lower(), (0, False))[0] for name in names], dtype=np.uint16)

    @property
    def are_too_many(self) -> bool:
        return self.schema is None and self.names.count > MAX_RELATIONS

    def knows(self, name: str) -> bool:
        return not name.startswith("*") if self.schema is None else name.lower() in self.schema.lookup

    def unknown(self, name: str) -> str:
        """What to say of a name that is no relation."""
        if self.schema is None:
            return f"the relation {name!r} begins with *, by which a schema swaps head and tail; rename it."
        members = [member.removeprefix("*") for relation in self.schema.relations for member in relation.members]
        return f"{name!r} is no relation of the schema {self.schema.name}.{did_you_mean(name, members)}"


class BadRow(Exception):
    """A row that is malformed; the message says how."""


class OtherRow(Exception):
    """A well-formed row that is not wanted, of the kind its status says."""

    def __init__(self, status: int, relation: str = "") -> None:
        self.status, self.relation = status, relation


Parser = Callable[[list[str]], Row]
Fields = list[str] | BadRow  # of a row, or what is wrong with it


def rows_of(rows: Sequence[Row], relations: RelationNames) -> Rows:
    """Facts by names as a block of rows."""
    names = [name.encode() for row in rows for name in (row.head, row.tail)]
    ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
    return Rows(
        text=np.frombuffer(b"".join(names), dtype=np.uint8),
        spans=np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, 4),
        relation=np.array([relations.number(row.relation) for row in rows], dtype=np.int64),
        weight=np.array([row.weight for row in rows], dtype=np.float64),
        seen=len(rows),
    )


def relation_name(text: str) -> str:
    """A relation as it is spelt, on one line."""
    return " ".join(text.split())


def table_row(fields: list[str]) -> Row:
    """head, relation, tail and, if wanted, a weight."""
    if len(fields) not in (3, 4):
        raise BadRow(f"{len(fields)} fields, not 3 (head, relation, tail) or 4 (and a weight)")
    head, relation, tail = concept_name(fields[0]), relation_name(fields[1]), concept_name(fields[2])
    if not (head and relation and tail):
        raise BadRow("an empty head, relation or tail")
    try:
        weight = float(fields[3]) if len(fields) == 4 and fields[3].strip() else 1.0
    except ValueError:
        raise BadRow(f"the weight {fields[3]!r} is not a number") from None
    if not abs(weight) <= HEAVIEST:
        raise BadRow(f"the weight {fields[3]!r} is not a finite number")
    return Row(head, relation, tail, weight)


def is_header(fields: list[str], path: Path) -> bool:
    names = [field.strip().lower() for field in fields[:3]]
    if names not in HEADERS and sorted(names) in map(sorted, HEADERS):
        raise UserError(f"{path}: the columns are {', '.join(names)}; put them in the order head, relation, tail.")
    return names in HEADERS
