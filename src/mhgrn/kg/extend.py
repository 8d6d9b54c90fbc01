"""A graph with some facts added in memory, for one question; the stored graph stays as it is."""

from collections.abc import Iterable, Iterator

import numpy as np

from mhgrn.errors import UserError, did_you_mean
from mhgrn.grounding.lemmas import concept_pattern, inflected, lemma, tokenise
from mhgrn.grounding.spelling import one_edit_away
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.kg.strings import StringIndex

Edge = tuple[int, int, int]  # head, tail, relation


class ExtendedGraph(KnowledgeGraph):
    """The facts of ``base`` and some more. Concepts that these bring along are numbered after those of the base.

    >>> base = KnowledgeGraph.from_facts([("marsupial", "IsA", "animal")])
    >>> more = ExtendedGraph(base, [("quokka", "IsA", "marsupial")])
    >>> more.facts_of("marsupial")
    [Fact(head='marsupial', relation='IsA', tail='animal'), Fact(head='quokka', relation='IsA', tail='marsupial')]
    >>> len(more), len(base)
    (3, 2)
    """

    arrays_tell_all = False

    def __init__(self, base: KnowledgeGraph, facts: Iterable[tuple[str, str, str]]) -> None:
        new: dict[str, int] = {}
        edges = sorted({edge for fact in facts for edge in _edges(base, fact, new)})
        size = len(base) + len(new)
        arrays = dict(base._arrays)
        rows = _Rows(base.head_ptr, base.tail, base.relation)
        arrays["head_ptr"], arrays["tail"], arrays["relation"] = rows.with_entries(edges, size)
        near = sorted({(a, b, 0) for head, tail, _ in edges for a, b in ((head, tail), (tail, head))})
        rows = _Rows(base.neighbour_ptr, base.neighbour, np.zeros(len(base.neighbour), dtype=np.uint8))
        arrays["neighbour_ptr"], arrays["neighbour"], _ = rows.with_entries(near, size)
        super().__init__(None, {**base.about, "concepts": size, "facts": len(arrays["tail"])}, arrays)
        self.weight = None
        self.names = _Names(base.names, new)
        self._new_words = {form: root for name in new for root in map(lemma, tokenise(name)) for form in (root, *inflected(root))}
        self._new_words |= {word: lemma(word) for name in new for part in tokenise(name) for word in (part, lemma(part))}
        self._new_patterns: dict[tuple[str, ...], list[int]] = {}
        for name, number in new.items():
            if (pattern := concept_pattern(name)) is not None:
                self._new_patterns.setdefault(pattern, []).append(number)

    def lemma(self, word: str) -> str:
        return self._new_words.get(word) or super().lemma(word)

    def knows_word(self, word: str) -> bool:
        return word in self._new_words or super().knows_word(word)

    def words_like(self, word: str) -> set[str]:
        return super().words_like(word) | self._new_words.keys() & set(one_edit_away(word))

    def with_pattern(self, lemmas: tuple[str, ...]) -> list[int]:
        return super().with_pattern(lemmas) + self._new_patterns.get(lemmas, [])

    def is_pattern(self, lemmas: str) -> bool:
        return tuple(lemmas.split(" ")) in self._new_patterns or super().is_pattern(lemmas)

    def begins_pattern(self, first: str, second: str) -> bool:
        return super().begins_pattern(first, second) or any(
            new[:2] == (first, second) for new in self._new_patterns if len(new) > 2
        )


def _edges(graph: KnowledgeGraph, fact: tuple[str, str, str], new: dict[str, int]) -> Iterator[Edge]:
    """What a fact is in the graph's relations and numbers; concepts that it lacks are numbered in ``new``."""
    if isinstance(fact, str) or len(fact) != 3 or not all(isinstance(part, str) for part in fact):
        raise UserError(f"the fact {fact!r} is not of three texts: head, relation, tail.")
    head, tail = concept_name(fact[0]), concept_name(fact[2])
    found = graph.schema.lookup.get(fact[1].strip().lower())
    if found is None:
        members = [member.removeprefix("*") for relation in graph.schema.relations for member in relation.members]
        raise UserError(f"{fact[1]!r} is no relation of the graph.{did_you_mean(fact[1], members)}")
    if not head or not tail or head == tail:
        raise UserError(f"the fact {', '.join(fact)} does not join two concepts.")
    relation, swapped = found
    ends = []
    for name in (tail, head) if swapped else (head, tail):
        known = graph.find(name)
        ends.append(known if known is not None else new.setdefault(name, len(graph) + len(new)))
    yield ends[0], ends[1], relation
    if relation in graph.schema.symmetric_ids:
        yield ends[1], ends[0], relation


class _Rows:
    """Rows of entries sorted by number and label."""

    def __init__(self, ptr: Ints, number: Ints, label: Ints) -> None:
        self.ptr, self.number, self.label = ptr, number, label

    def with_entries(self, entries: list[Edge], size: int) -> tuple[Ints, Ints, Ints]:
        """The same in ``size`` rows with more entries (row, number, label), sorted; those there already are not added."""
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
    """Names of a graph, and some more numbered after them."""

    def __init__(self, base: StringIndex, new: dict[str, int]) -> None:
        super().__init__(base.ptr, base.data, base.slots)
        self._new, self._texts = new, list(new)

    def __len__(self) -> int:
        return super().__len__() + len(self._texts)

    def __getitem__(self, number: int) -> str:
        before = super().__len__()
        return super().__getitem__(number) if number < before else self._texts[number - before]

    def only(self, numbers: Ints) -> StringIndex:
        return StringIndex.of(self[number] for number in numbers.tolist())

    def __iter__(self) -> Iterator[str]:
        yield from super().__iter__()
        yield from self._texts

    def find(self, text: str) -> int | None:
        found = super().find(text)
        return self._new.get(text) if found is None else found
