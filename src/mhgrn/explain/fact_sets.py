"""The facts of a question, numbered, and its subgraphs with only some of them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mhgrn.explain.walk_graph import Ints, Mask
from mhgrn.subgraphs.extract import Subgraph


@dataclass(frozen=True)
class QuestionFacts:
    """The distinct facts of one question: those of the subgraphs of all its choices.

    A fact of a symmetric relation, stored in both directions, is one fact; its concepts are in ascending order.

    >>> here = Subgraph(np.array([7, 9]), np.array([0, 1]), np.array([0, 1]), np.array([2, 2]), np.array([1, 0]))
    >>> there = Subgraph(np.array([7, 8]), np.array([0, 1]), np.array([1]), np.array([0]), np.array([0]))
    >>> facts = QuestionFacts.of([here, there], symmetric={2})
    >>> facts.facts.tolist(), [number.tolist() for number in facts.number]
    ([[7, 2, 9], [8, 0, 7]], [[0, 0], [1]])
    >>> [len(subgraph.head) for subgraph in facts.kept(np.array([False, True]))]
    [0, 1]
    """

    subgraphs: Sequence[Subgraph]  # one per choice
    facts: Ints  # [F, 3] concept, relation, concept; sorted
    number: list[Ints]  # per choice: [stored facts of its subgraph] → number of the fact

    @classmethod
    def of(cls, subgraphs: Sequence[Subgraph], symmetric: Collection[int]) -> Self:
        """Number the facts of subgraphs; ``symmetric`` has the symmetric relations."""
        rows = [_rows(subgraph, symmetric) for subgraph in subgraphs]
        every = np.concatenate([np.zeros((0, 3), dtype=np.int64), *rows])
        _, relations, concepts = (every.max(axis=0, initial=0) + 1).tolist()
        key = (every[:, 0] * relations + every[:, 1]) * concepts + every[:, 2]  # one number sorts faster than three
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        return cls(subgraphs, every[first], np.split(number, np.cumsum([len(part) for part in rows])[:-1]))

    def __len__(self) -> int:
        return len(self.facts)

    def kept(self, keep: Mask) -> list[Subgraph]:
        """The subgraphs with only the facts where ``keep`` [F] is true. All nodes stay.

        A choice that loses nothing keeps its subgraph object.
        """
        return [self.kept_of(choice, keep) for choice in range(len(self.subgraphs))]

    def kept_of(self, choice: int, keep: Mask) -> Subgraph:
        """The subgraph of one choice, see :meth:`kept`."""
        subgraph, mine = self.subgraphs[choice], keep[self.number[choice]]
        if mine.all():
            return subgraph
        head, relation, tail = (np.asarray(column)[mine] for column in (subgraph.head, subgraph.relation, subgraph.tail))
        return replace(subgraph, head=head, relation=relation, tail=tail)

    def mask(self, numbers: Iterable[int]) -> Mask:
        """[F] the facts with these numbers."""
        chosen = np.zeros(len(self), dtype=bool)
        chosen[list(numbers)] = True
        return chosen

    def places(self, rows: Ints, symmetric: Collection[int]) -> Ints:
        """[n] the numbers of facts given as concept, relation, concept [n, 3]; they must be among the question's."""
        _, relations, concepts = (self.facts.max(axis=0, initial=0) + 1).tolist()
        rows = _ascending(rows, symmetric)
        known, wanted = ((of[:, 0] * relations + of[:, 1]) * concepts + of[:, 2] for of in (self.facts, rows))
        found: Ints = np.searchsorted(known, wanted)
        if len(rows) and (found.max() >= len(self) or not np.array_equal(self.facts[found], rows)):
            raise AssertionError("a fact is not one of the question's")
        return found


def _rows(subgraph: Subgraph, symmetric: Collection[int]) -> Ints:
    """[facts, 3] concept, relation, concept of each stored fact."""
    concepts = np.asarray(subgraph.concepts, dtype=np.int64)
    relation = np.asarray(subgraph.relation, dtype=np.int64)
    rows = np.stack([concepts[np.asarray(subgraph.head)], relation, concepts[np.asarray(subgraph.tail)]], axis=1)
    return _ascending(rows, symmetric)


def _ascending(rows: Ints, symmetric: Collection[int]) -> Ints:
    """Facts [n, 3] with the concepts of symmetric relations in ascending order."""
    swapped = np.isin(rows[:, 1], list(symmetric)) & (rows[:, 2] < rows[:, 0])
    return np.where(swapped[:, None], rows[:, ::-1], rows)
