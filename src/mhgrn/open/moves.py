"""Moves: the steps that walks can take on a whole graph, along facts and against them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.kg.graph import KnowledgeGraph

Ints = NDArray[Any]


@dataclass(frozen=True)
class Moves:
    """All moves of a graph by the concept they leave, sorted by label and target.

    A move along the fact (j, r, i) leads from j to i and has the label r. The move against it leads from i to j and has the label
    r + m, where m is the number of relations.

    Args:
        ptr: Pointer to the moves of each concept. [concepts + 1]
        target: The concept that each move leads to. [2 · facts]
        label: The label of each move. [2 · facts]
        relations: The number of relations, m.

    >>> moves = Moves.of(KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("school", "IsA", "place")]))
    >>> moves.ptr.tolist(), moves.target.tolist(), moves.label.tolist()
    ([0, 1, 3, 4], [1, 2, 0, 1], [0, 1, 2, 3])
    """

    ptr: Ints
    target: Ints
    label: Ints
    relations: int

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> Self:
        head, tail, relation = graph.heads(), np.asarray(graph.tail), np.asarray(graph.relation).astype(np.int64)
        count, concepts = len(graph.schema), len(graph)
        source = np.concatenate([head, tail]).astype(np.int64)
        target = np.concatenate([tail, head]).astype(np.int64)
        label = np.concatenate([relation, relation + count])
        # one sortable number; the products stay below 2^63 for 2^31 concepts and 2^16 labels only if they are sorted in two steps
        order = np.argsort(label * concepts + target, kind="stable")
        order = order[np.argsort(source[order], kind="stable")]
        ptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=concepts))]).astype(np.int64)
        return cls(ptr, target[order].astype(np.int32), label[order].astype(np.uint16), count)

    @property
    def labels(self) -> int:
        """The number of labels: relations and their reverses."""
        return 2 * self.relations

    def __len__(self) -> int:
        """The number of concepts."""
        return len(self.ptr) - 1
