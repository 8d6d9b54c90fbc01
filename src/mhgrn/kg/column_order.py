"""Tables without a header: do the first rows look like head, relation, tail?"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.kg.interning import Interner
from mhgrn.kg.names import concept_name
from mhgrn.kg.strings import StringIndex
from mhgrn.printing import shown

Array = NDArray[Any]

SIZE = 1 << 16  # rows that are looked at
FEWEST = 20  # relations; a file with fewer is never refused
_FEW = 5  # another column is taken for the relations if it has this many times fewer different values
_SHARED = 0.1  # share of relation names that are also names of concepts
_SHOWN = 3  # values of a column in the message


@dataclass
class FirstRows:
    """The numbers of head, relation and tail of the first rows of a file."""

    size: int = 0
    _parts: list[tuple[Array, Array, Array]] = field(default_factory=list)

    @property
    def are_enough(self) -> bool:
        return self.size >= SIZE

    def add(self, head: Array, relation: Array, tail: Array) -> None:
        if not self.are_enough:
            self._parts.append((head, relation, tail))
            self.size += len(head)

    def problem(self, relations: Interner, concepts: StringIndex) -> str | None:
        """Return why another column seems to hold the relations; None if the columns are plausible.

        The second column has many different values, and another one few. To tell an edge list from, say, facts about one person,
        the second column also has to have almost as many values as there are rows, or values that are names of concepts too.

        Args:
            relations: The names of relations.
            concepts: The names of concepts.
        """
        if self.size < FEWEST:
            return None
        head, relation, tail = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        names = _in_order(relation)
        if len(names) < FEWEST:
            return None
        found = [concepts.find(concept_name(relations[number])) for number in names.tolist()]
        known = np.array([number for number in found if number is not None], dtype=np.int64)
        for place, column, others in ((3, tail, head), (1, head, tail)):
            values = _in_order(column)
            if _FEW * len(values) > len(names) or np.isin(values, others).sum() > _SHARED * len(values):
                continue  # not few, or names of concepts
            is_shared = np.isin(known, others).sum() >= _SHARED * len(names)
            if is_shared or (place == 3 and 2 * len(names) >= self.size):
                ends = {3: "head=1,relation=3,tail=2", 1: "head=2,relation=1,tail=3"}[place]
                many = _values([relations[number] for number in names[:_SHOWN].tolist()], len(names))
                few = _values([concepts[number] for number in values[:_SHOWN].tolist()], len(values))
                return (
                    f"column 2 has {len(names):,} different values in {self.size:,} rows ({many}), column {place} only "
                    f"{len(values):,} ({few}). Column {place} seems to be the relation: pass --columns {ends}. "
                    "If column 2 is the relation: --columns head=1,relation=2,tail=3."
                )
        return None


def _in_order(column: Array) -> Array:
    """Return the different values of a column in the order in which they appear."""
    values, first = np.unique(column, return_index=True)
    return values[np.argsort(first)]


def _values(names: list[str], count: int) -> str:
    return ", ".join(shown(name, 40) for name in names) + (", …" if count > len(names) else "")
