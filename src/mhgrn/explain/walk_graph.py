"""One graph of a batch as the arrays over which its walks are counted, searched and drawn."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.batching.graph_batch import GraphBatch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class WalkGraph:
    """One graph of a batch as arrays: nodes numbered from 0, edges sorted by state, then by exit.

    States and exits are those of :class:`mhgrn.batching.graph_batch.States`.
    """

    first: int  # the batch's number of node 0
    size: int
    edges: Ints  # [E] numbers of the edges in the batch
    source: Ints  # [E]
    state_node: Ints  # [states]
    state_relation: Ints  # [states]
    exit_node: Ints  # [exits]
    exit_relation: Ints  # [exits]
    edge_state: Ints  # [E] ascending
    edge_exit: Ints  # [E]
    turn_state: Ints  # [turns]
    turn_exit: Ints  # [turns] ascending

    @classmethod
    def of(cls, batch: GraphBatch, graph: int) -> Self:
        m = batch.num_relations
        owner = batch.batch.cpu().numpy()
        first, end = np.searchsorted(owner, [graph, graph + 1]).tolist()
        source, target = batch.edge_index.cpu().numpy()
        edges = np.flatnonzero((source >= first) & (source < end))
        source, target, relation = source[edges] - first, target[edges] - first, batch.edge_type.cpu().numpy()[edges]
        order = np.lexsort((source, relation, target))
        edges, source, target, relation = (column[order] for column in (edges, source, target, relation))
        state_key, edge_state = np.unique(target * m + relation, return_inverse=True)
        exit_key, edge_exit = np.unique(source * m + relation, return_inverse=True)
        state_node, exit_node = state_key // m, exit_key // m
        low, high = np.searchsorted(state_node, exit_node), np.searchsorted(state_node, exit_node, side="right")
        return cls(
            first=first,
            size=end - first,
            edges=edges,
            source=source,
            state_node=state_node,
            state_relation=state_key % m,
            exit_node=exit_node,
            exit_relation=exit_key % m,
            edge_state=edge_state,
            edge_exit=edge_exit,
            turn_state=ranges(low, high - low),
            turn_exit=np.repeat(np.arange(len(exit_node)), high - low),
        )

    @cached_property
    def edge_set(self) -> frozenset[tuple[int, int, int]]:
        """(source, relation, target) of every edge."""
        columns = self.source, self.state_relation[self.edge_state], self.state_node[self.edge_state]
        return frozenset(zip(*(column.tolist() for column in columns), strict=True))

    def edges_into(self, state: int) -> slice:
        return _run(self.edge_state, state)

    def turns_into(self, exit_: int) -> slice:
        return _run(self.turn_exit, exit_)


def _run(ascending: Ints, value: int) -> slice:
    low, high = np.searchsorted(ascending, [value, value + 1]).tolist()
    return slice(low, high)


def ranges(first: Ints, length: Ints) -> Ints:
    """first[0], first[0] + 1, … of each length, one behind the other."""
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    begin = np.cumsum(length) - length
    numbers: Ints = np.arange(int(length.sum())) + np.repeat(first - begin, length)
    return numbers
