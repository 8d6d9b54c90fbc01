"""One graph of a batch as arrays in which walks are counted, searched and sampled."""

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

    States, exits and turns are those of :class:`mhgrn.batching.walk_index.WalkIndex`.
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
        """Cut one graph out of the batch's walk index; edges into a state are sorted by their exit."""
        index = batch.walk_index
        first, end = index.graph_ptr[graph : graph + 2].tolist()
        s0, s1 = index.state_ptr[[first, end]].tolist()
        x0, x1 = index.exit_ptr[[first, end]].tolist()
        e0, e1 = index.edge_ptr[[s0, s1]].tolist()
        state_node = np.repeat(np.arange(end - first), np.diff(index.state_ptr[first : end + 1]))
        edge_state = np.repeat(np.arange(s1 - s0), np.diff(index.edge_ptr[s0 : s1 + 1]))
        edge_exit = index.edge_exit[e0:e1].astype(np.int64) - x0
        order = np.lexsort((edge_exit, edge_state))
        exit_node = index.exit_node[x0:x1].astype(np.int64) - first
        low, high = np.searchsorted(state_node, exit_node), np.searchsorted(state_node, exit_node, side="right")
        return cls(
            first=first,
            size=end - first,
            edges=batch.edge_order[e0:e1][order],
            source=exit_node[edge_exit[order]],
            state_node=state_node,
            state_relation=index.state_relation[s0:s1].astype(np.int64),
            exit_node=exit_node,
            exit_relation=index.exit_relation[x0:x1].astype(np.int64),
            edge_state=edge_state,
            edge_exit=edge_exit[order],
            turn_state=ranges(low, high - low),
            turn_exit=np.repeat(np.arange(len(exit_node)), high - low),
        )

    @cached_property
    def edge_set(self) -> frozenset[tuple[int, int, int]]:
        """(source, relation, target) of every edge."""
        columns = self.source, self.state_relation[self.edge_state], self.state_node[self.edge_state]
        return frozenset(zip(*(column.tolist() for column in columns), strict=True))

    def leads_away(self, end: int) -> Mask:
        """[E] whether a simple walk into a node may use an edge: it does not leave the node, and its ends differ."""
        may: Mask = (self.source != end) & (self.source != self.state_node[self.edge_state])
        return may

    def edges_into(self, state: int) -> slice:
        return _run(self.edge_state, state)

    def turns_into(self, exit_: int) -> slice:
        return _run(self.turn_exit, exit_)


def _run(ascending: Ints, value: int) -> slice:
    low, high = np.searchsorted(ascending, [value, value + 1]).tolist()
    return slice(low, high)


def ranges(first: Ints, length: Ints) -> Ints:
    """Concatenate the ranges that begin at ``first`` and have these lengths."""
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    begin = np.cumsum(length) - length
    numbers: Ints = np.arange(int(length.sum())) + np.repeat(first - begin, length)
    return numbers
