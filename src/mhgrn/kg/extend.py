"""A graph with facts added in memory, for one question. The stored graph does not change."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from mhgrn.errors import UserError, did_you_mean
from mhgrn.io.stored import StoredArray
from mhgrn.kg.graph import OPTIONAL, Ints, KnowledgeGraph
from mhgrn.kg.label_table import LabelTable
from mhgrn.kg.names import concept_name
from mhgrn.kg.provenance import Provenance
from mhgrn.kg.strings import StringIndex
from mhgrn.printing import shortened, shown

LONGEST_PART = 10_000  # characters of a name in an added fact

Edge = tuple[int, int, int]  # head, tail, relation


class ExtendedGraph(KnowledgeGraph):
    """The facts of a graph and some more.

    Args:
        base: The graph to extend. It does not change.
        facts: Tuples of the names of head, relation and tail. Concepts that ``base`` lacks are numbered after its own.

    >>> base = KnowledgeGraph.from_facts([("marsupial", "IsA", "animal")])
    >>> more = ExtendedGraph(base, [("quokka", "IsA", "marsupial")])
    >>> more.facts_of("marsupial")
    [Fact(head='marsupial', relation='IsA', tail='animal'), Fact(head='quokka', relation='IsA', tail='marsupial')]
    >>> len(more), len(base), more.new_concepts
    (3, 2, {'quokka': 2})
    """

    def __init__(self, base: KnowledgeGraph, facts: Iterable[tuple[str, str, str]]) -> None:
        added = tuple(facts)
        if isinstance(base, ExtendedGraph):
            added = (*base.added, *added)
            base = base.base
        new: dict[str, int] = {}
        edges = sorted({edge for fact in added for edge in _edges(base, fact, new)})
        size = len(base) + len(new)
        arrays: dict[str, Ints | StoredArray] = {name: array for name, array in base._stored.items() if name not in OPTIONAL}
        rows = _Rows(base.head_ptr, base.tail, base.relation)
        arrays["head_ptr"], arrays["tail"], arrays["relation"] = columns = rows.with_entries(edges, size)
        near = sorted({(a, b, 0) for head, tail, _ in edges for a, b in ((head, tail), (tail, head))})
        rows = _Rows(base.neighbor_ptr, base.neighbor, np.zeros(len(base.neighbor), dtype=np.uint8))
        arrays["neighbour_ptr"], arrays["neighbour"], _ = rows.with_entries(near, size)
        super().__init__(None, {**base.about, "concepts": size, "facts": len(columns[1])}, arrays)
        self.base: KnowledgeGraph = base
        self.added: tuple[tuple[str, str, str], ...] = added
        self.new_concepts = new
        self.names = _Names(base.names, new)
        self.labels = base.labels

    @property
    def has_provenance(self) -> bool:
        return self.base.has_provenance

    def provenance(self, fact: tuple[str, str, str]) -> Provenance | None:
        """The provenance of a fact of the stored graph; None for one that was added."""
        return self.base.provenance(fact) if self.base.holds(*fact) else None

    def save(self, folder: str | Path) -> None:
        """Write the graph with its facts to a folder, completely or not at all."""
        names, labels = StringIndex.of(self.names), self.labels
        if labels is not None:
            table = LabelTable()
            for row in labels.all_rows():
                table.add(row)
            names, labels = table.finished(StringIndex.of([*labels.keys, *self.new_concepts]))
        source = {**self.about.get("source", {}), "added_facts": len(self.added)}
        facts = self.heads(), self.relation, self.tail, None
        KnowledgeGraph.from_sorted(names, *facts, self.schema, source, labels=labels).save(folder)


def _edges(graph: KnowledgeGraph, fact: tuple[str, str, str], new: dict[str, int]) -> Iterator[Edge]:
    """Yield a fact as edges of the graph. Concepts that the graph lacks are numbered in ``new``."""
    is_tuple = isinstance(fact, Sequence) and not isinstance(fact, str) and len(fact) == 3
    if not is_tuple or not all(isinstance(part, str) for part in fact):
        raise UserError(f"the fact {shortened(fact)} is not a tuple of three texts: head, relation, tail.")
    if any(len(part) > LONGEST_PART for part in fact):
        raise UserError(f"the fact {shortened(fact)} has a name of more than {LONGEST_PART:,} characters.")
    try:
        "".join(fact).encode()
    except UnicodeEncodeError:
        raise UserError(f"the fact {shortened(fact)} contains half a character (a lone surrogate).") from None
    head, tail = concept_name(fact[0]), concept_name(fact[2])
    found = graph.schema.lookup.get(fact[1].strip().lower())
    if found is None:
        members = [member.removeprefix("*") for relation in graph.schema.relations for member in relation.members]
        raise UserError(f"{shortened(fact[1])} is not a relation of the graph.{did_you_mean(fact[1], members)}")
    known = {name: graph.find_one(name) for name in (head, tail)}
    if not head or not tail or head == tail or (known[head] is not None and known[head] == known[tail]):
        raise UserError(f"the fact {', '.join(map(shown, fact))} does not join two different concepts.")
    relation, swapped = found
    ends = []
    for name in (tail, head) if swapped else (head, tail):
        number = known[name]
        ends.append(number if number is not None else new.setdefault(name, len(graph) + len(new)))
    yield ends[0], ends[1], relation
    if relation in graph.schema.symmetric_ids:
        yield ends[1], ends[0], relation


class _Rows:
    """Rows of entries, each row sorted by number and label."""

    def __init__(self, ptr: Ints, number: Ints, label: Ints) -> None:
        self.ptr, self.number, self.label = ptr, number, label

    def with_entries(self, entries: list[Edge], size: int) -> tuple[Ints, Ints, Ints]:
        """Return ``size`` rows that hold these entries and sorted new ones (row, number, label), each once."""
        added, places = [], []
        for row, number, label in entries:
            place, is_there = self._place(row, number, label)
            if not is_there:
                added.append((row, number, label))
                places.append(place)
        counts = np.bincount([row for row, _, _ in added], minlength=size)
        ptr = np.full(size + 1, len(self.number), dtype=np.int64)
        ptr[: len(self.ptr)] = self.ptr
        ptr[1:] += np.cumsum(counts)
        numbers = np.insert(self.number, places, [number for _, number, _ in added])
        return ptr, numbers, np.insert(self.label, places, [label for _, _, label in added])

    def _place(self, row: int, number: int, label: int) -> tuple[int, bool]:
        if row >= len(self.ptr) - 1:
            return len(self.number), False
        start, end = int(self.ptr[row]), int(self.ptr[row + 1])
        first = start + int(np.searchsorted(self.number[start:end], number))
        last = start + int(np.searchsorted(self.number[start:end], number, side="right"))
        place = first + int(np.searchsorted(self.label[first:last], label))
        return place, place < last and int(self.label[place]) == label


class _Names(StringIndex):
    """The names of a graph and of new concepts, which are numbered after them."""

    def __init__(self, base: StringIndex, new: dict[str, int]) -> None:
        super().__init__(*base._stored)
        self._new, self._texts = new, list(new)

    def __len__(self) -> int:
        return super().__len__() + len(self._texts)

    def __getitem__(self, number: int) -> str:
        before = super().__len__()
        return super().__getitem__(number) if number < before else self._texts[number - before]

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        yield from self._texts

    def find(self, text: str) -> int | None:
        found = super().find(text)
        return self._new.get(text) if found is None else found
