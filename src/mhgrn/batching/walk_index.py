"""A batch's edges sorted for walking: compiled, linear in the edges, split into blocks of whole graphs that can be walked apart."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.buffers import Buffers
from mhgrn.compiled.jit import kernel
from mhgrn.compiled.threads import parallel_for

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

MOST_BLOCKS = 32  # fixed, so that sums over blocks do not depend on the number of threads


@dataclass(frozen=True)
class WalkIndex:
    """States, exits and edges of a batch (see :class:`~mhgrn.batching.graph_batch.States`), each node's side by side.

    Edges are sorted by the state they lead to. A node with a states and b exits owns a · b turns.
    """

    graph_ptr: Longs  # [G + 1] nodes of a graph
    state_ptr: Longs  # [N + 1] states of a node
    state_relation: Ints  # [states]
    exit_ptr: Longs  # [N + 1] exits of a node
    exit_relation: Ints  # [exits]
    exit_node: Ints  # [exits]
    edge_ptr: Longs  # [states + 1] edges into a state
    edge_exit: Ints  # [edges] where an edge begins
    edge_source: Ints  # [edges] its node
    turn_ptr: Longs  # [N + 1] turns within a node
    block_ptr: Longs  # [blocks + 1] graphs of a block
    buffers: Buffers | None = None  # where the arrays are, if their memory is to be used again: they must not outlive this

    @classmethod
    def of(cls, graph_ptr: Longs, first_edge: Longs, source: Longs, target: Longs, relation: Longs, num_relations: int) -> Self:
        """From the nodes and the edges of each graph, each graph's side by side."""
        nodes = int(graph_ptr[-1])
        block_ptr = blocks_of(first_edge)
        into, out_of = (np.zeros(nodes * num_relations, np.int32) for _ in range(2))
        states, exits = (np.zeros(nodes + 1, np.int64) for _ in range(2))

        def count(first: int, last: int) -> None:
            a, b = block_ptr[first], block_ptr[last]
            _count(
                graph_ptr[a],
                graph_ptr[b],
                first_edge[a],
                first_edge[b],
                source,
                target,
                relation,
                num_relations,
                into,
                out_of,
                states,
                exits,
            )

        parallel_for(count, len(block_ptr) - 1)
        turn_ptr = np.zeros(nodes + 1, np.int64)
        np.cumsum(states[1:] * exits[1:], out=turn_ptr[1:])
        np.cumsum(states, out=states)
        np.cumsum(exits, out=exits)
        index = cls(
            graph_ptr=graph_ptr,
            state_ptr=states,
            state_relation=np.empty(states[-1], np.int32),
            exit_ptr=exits,
            exit_relation=np.empty(exits[-1], np.int32),
            exit_node=np.empty(exits[-1], np.int32),
            edge_ptr=np.empty(states[-1] + 1, np.int64),
            edge_exit=np.empty(len(source), np.int32),
            edge_source=np.empty(len(source), np.int32),
            turn_ptr=turn_ptr,
            block_ptr=block_ptr,
        )
        index.edge_ptr[0] = 0

        def fill(first: int, last: int) -> None:
            a, b = block_ptr[first], block_ptr[last]
            _fill(
                graph_ptr[a], graph_ptr[b], first_edge[a], first_edge[b], source, target, relation, num_relations, into, out_of,
                states, exits, index.state_relation, index.exit_relation, index.exit_node,
                index.edge_ptr, index.edge_exit, index.edge_source,
            )  # fmt: skip

        parallel_for(fill, len(block_ptr) - 1)
        return index

    def depths(self, nodes: Longs, hops: int) -> tuple[Ints, Ints]:
        """Of each node [N] and exit [exits] the last of so many hops at which its messages matter to some nodes, 0 if none does.

        It is ``hops`` at the nodes themselves, and one less a step back.
        """
        depth, exit_depth = np.zeros(self.graph_ptr[-1], np.int32), np.zeros(len(self.exit_node), np.int32)
        depth[nodes] = hops

        def task(first: int, last: int) -> None:
            n0, n1 = self.graph_ptr[self.block_ptr[first]], self.graph_ptr[self.block_ptr[last]]
            _depths(n0, n1, self.state_ptr, self.edge_ptr, self.edge_exit, self.exit_node, hops, depth, exit_depth)

        parallel_for(task, self.block_count)
        return depth, exit_depth

    def edge_list(self) -> tuple[Longs, Longs, Longs]:
        """Source, target and relation of every edge."""
        sizes = np.diff(self.edge_ptr)
        target = np.repeat(np.arange(len(self.state_ptr) - 1), np.diff(self.state_ptr))
        return self.edge_source.astype(np.int64), np.repeat(target, sizes), np.repeat(self.state_relation.astype(np.int64), sizes)

    @property
    def walk(self) -> tuple[Longs, Longs, Ints]:
        return self.graph_ptr, self.state_ptr, self.state_relation

    @property
    def exits(self) -> tuple[Longs, Ints]:
        return self.exit_ptr, self.exit_relation

    @property
    def edges(self) -> tuple[Longs, Ints, Ints]:
        return self.edge_ptr, self.edge_exit, self.edge_source

    @property
    def block_count(self) -> int:
        return len(self.block_ptr) - 1


def blocks_of(first_edge: Longs) -> Longs:
    """Whole graphs in at most ``MOST_BLOCKS`` blocks of about as many edges."""
    graphs = len(first_edge) - 1
    count = min(graphs, MOST_BLOCKS)
    if not count:
        return np.zeros(1, np.int64)
    weight = first_edge + np.arange(graphs + 1)  # a graph without edges counts too
    cuts = np.searchsorted(weight, np.arange(1, count) * (weight[-1] / count))
    return np.unique(np.concatenate([[0], cuts, [graphs]])).astype(np.int64)


@kernel
def _count(n0, n1, e0, e1, source, target, relation, m, into, out_of, states, exits):  # type: ignore[no-untyped-def]
    """Edges into and out of each (node, relation) of the nodes n0 … n1, and how many are not zero."""
    for e in range(e0, e1):
        into[target[e] * m + relation[e]] += 1
        out_of[source[e] * m + relation[e]] += 1
    for i in range(n0, n1):
        for r in range(m):
            states[i + 1] += into[i * m + r] > 0
            exits[i + 1] += out_of[i * m + r] > 0


@kernel
def _fill(  # type: ignore[no-untyped-def]
    n0, n1, e0, e1, source, target, relation, m, into, out_of,
    state_ptr, exit_ptr, state_relation, exit_relation, exit_node, edge_ptr, edge_exit, edge_source,
):  # fmt: skip
    """Number states and exits, and sort the edges by state; the counts become the places where edges go."""
    s, x, edge = state_ptr[n0], exit_ptr[n0], e0
    for i in range(n0, n1):
        for r in range(m):
            if into[i * m + r] > 0:
                state_relation[s] = r
                size = into[i * m + r]
                into[i * m + r] = edge
                edge += size
                s += 1
                edge_ptr[s] = edge
            if out_of[i * m + r] > 0:
                exit_relation[x] = r
                exit_node[x] = i
                out_of[i * m + r] = x
                x += 1
    for e in range(e0, e1):
        cell = target[e] * m + relation[e]
        edge_source[into[cell]] = source[e]
        edge_exit[into[cell]] = out_of[source[e] * m + relation[e]]
        into[cell] += 1


@kernel
def _depths(n0, n1, state_ptr, edge_ptr, edge_exit, exit_node, hops, depth, exit_depth):  # type: ignore[no-untyped-def]
    for hop in range(hops, 0, -1):
        for i in range(n0, n1):
            if depth[i] != hop:
                continue
            for e in range(edge_ptr[state_ptr[i]], edge_ptr[state_ptr[i + 1]]):
                x = edge_exit[e]
                exit_depth[x] = max(exit_depth[x], hop)
                j = exit_node[x]
                depth[j] = max(depth[j], hop - 1)
