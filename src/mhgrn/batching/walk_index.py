"""The walk structure of a batch: states, exits, edges and turns as sorted arrays.

A *state* is a node and a relation by which some edge ends in it. An *exit* is a node and a relation by which some edge leaves it.
Edges lead from exits to states. A *turn* leads from a state to an exit of the same node. These pairs are all that can carry a
message, far fewer than nodes times relations. Everything that follows walks reads this structure: the compiled kernels, the torch
operations, the explanations and the counting term.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.buffers import Buffers
from mhgrn.compiled.jit import kernel
from mhgrn.compiled.threads import parallel_for
from mhgrn.errors import UserError

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Numbers = NDArray[np.uint32]  # kernels index faster by numbers without a sign

MOST = 2**31 - 1  # nodes and edges of a batch
MOST_BLOCKS = 32  # fixed, so that sums over blocks do not depend on the number of threads


class Edges(NamedTuple):
    """The edges of G graphs, each graph's side by side."""

    ptr: Longs  # [G + 1] the edges of a graph
    source: Numbers  # [E]
    target: Numbers  # [E]
    relation: Numbers  # [E]


class WalkIndex(NamedTuple):
    """States, exits, edges and turns of a batch with N nodes and G graphs.

    States are sorted by node and relation, and so are exits. Edges are sorted by the state they lead to; edges into the same state
    keep their order. A node with a states and b exits owns a · b turns, sorted by exit and state.
    """

    graph_ptr: Longs  # [G + 1] nodes of a graph
    state_ptr: Longs  # [N + 1] states of a node
    state_relation: Ints  # [states]
    exit_ptr: Longs  # [N + 1] exits of a node
    exit_relation: Ints  # [exits]
    exit_node: Ints  # [exits]
    edge_ptr: Longs  # [states + 1] edges into a state
    edge_exit: Ints  # [edges] the exit an edge begins at
    edge_source: Ints  # [edges] the node of this exit
    turn_ptr: Longs  # [N + 1] turns of a node
    block_ptr: Longs  # [blocks + 1] graphs of a block; blocks are processed in parallel

    @classmethod
    def build(cls, graph_ptr: Longs, edges: Edges, num_relations: int) -> Self:
        """Build the structure in time linear in the edges and in nodes times relations.

        Args:
            graph_ptr: [G + 1] the nodes of each graph.
            edges: the edges; they stay within graphs.
            num_relations: m, the number of relations.
        """
        nodes = int(graph_ptr[-1])
        check_size(nodes, len(edges.source))
        block_ptr = blocks_of(edges.ptr)
        buffers = Buffers()
        count = _Counts(
            into=buffers.empty((nodes, num_relations), np.int32),
            out_of=buffers.empty((nodes, num_relations), np.int32),
            states=np.zeros(nodes + 1, np.int64),
            exits=np.zeros(nodes + 1, np.int64),
        )
        parallel_for(lambda a, b: _count(block_ptr[a], block_ptr[b], graph_ptr, edges, count), len(block_ptr) - 1)
        turn_ptr = np.zeros(nodes + 1, np.int64)
        np.cumsum(count.states[1:] * count.exits[1:], out=turn_ptr[1:])
        for pointer in (count.states, count.exits):
            np.cumsum(pointer, out=pointer)
        states, exits = int(count.states[-1]), int(count.exits[-1])
        index = cls(
            graph_ptr=graph_ptr,
            state_ptr=count.states,
            state_relation=np.empty(states, np.int32),
            exit_ptr=count.exits,
            exit_relation=np.empty(exits, np.int32),
            exit_node=np.empty(exits, np.int32),
            edge_ptr=np.empty(states + 1, np.int64),
            edge_exit=np.empty(len(edges.source), np.int32),
            edge_source=np.empty(len(edges.source), np.int32),
            turn_ptr=turn_ptr,
            block_ptr=block_ptr,
        )
        index.edge_ptr[0] = 0
        parallel_for(lambda a, b: _fill(block_ptr[a], block_ptr[b], edges, count, index), len(block_ptr) - 1)
        return index

    def depths(self, nodes: Longs, hops: int) -> tuple[Ints, Ints]:
        """Compute the last of ``hops`` hops at which the messages of each node [N] and exit [exits] reach some ``nodes``.

        It is ``hops`` at the nodes themselves, one less for each step back, and 0 where no walk leads to them.
        """
        depth, exit_depth = np.zeros(self.graph_ptr[-1], np.int32), np.zeros(len(self.exit_node), np.int32)
        depth[nodes] = hops

        def task(first: int, last: int) -> None:
            _depths(self.graph_ptr[self.block_ptr[first]], self.graph_ptr[self.block_ptr[last]], self, hops, depth, exit_depth)

        parallel_for(task, self.block_count)
        return depth, exit_depth

    def state_node(self) -> Longs:
        """[states] the node of each state."""
        return np.repeat(np.arange(len(self.state_ptr) - 1), np.diff(self.state_ptr))

    def edge_state(self) -> Longs:
        """[edges] the state that each edge leads to; ascending."""
        return np.repeat(np.arange(len(self.edge_ptr) - 1), np.diff(self.edge_ptr))

    def turns(self) -> tuple[Longs, Longs]:
        """[turns] the state and the exit of each turn; exits ascend."""
        many = np.diff(self.state_ptr)[self.exit_node]  # [exits]
        turn_exit = np.repeat(np.arange(len(many)), many)
        within = np.arange(len(turn_exit)) - np.repeat(many.cumsum() - many, many)
        return self.state_ptr[self.exit_node[turn_exit]] + within, turn_exit

    @property
    def block_count(self) -> int:
        return len(self.block_ptr) - 1


def check_size(nodes: int, edges: int) -> None:
    """Refuse a batch whose nodes or edges 32-bit numbers cannot count."""
    if max(nodes, edges) > MOST:
        raise UserError(f"a batch has {nodes:,} nodes and {edges:,} edges, more than {MOST:,}; use smaller batches.")


def blocks_of(edge_ptr: Longs) -> Longs:
    """Divide graphs into at most ``MOST_BLOCKS`` blocks with about the same number of edges."""
    graphs = len(edge_ptr) - 1
    count = min(graphs, MOST_BLOCKS)
    if not count:
        return np.zeros(1, np.int64)
    weight = edge_ptr + np.arange(graphs + 1)  # a graph without edges counts too
    cuts = np.searchsorted(weight, np.arange(1, count) * (weight[-1] / count))
    return np.unique(np.concatenate([[0], cuts, [graphs]])).astype(np.int64)


class _Counts(NamedTuple):
    """Numbers of edges, states and exits; those of states and exits become pointers."""

    into: Ints  # [N, m] edges into a node by a relation; later the place of the next such edge
    out_of: Ints  # [N, m] edges out of a node by a relation; later the number of the exit
    states: Longs  # [N + 1]
    exits: Longs  # [N + 1]


@kernel
def _count(g0, g1, graph_ptr, edges, count):  # type: ignore[no-untyped-def]
    """Count the edges of each (node, relation) of the graphs g0 … g1, and the states and exits of each node."""
    n0, n1 = graph_ptr[g0], graph_ptr[g1]
    count.into[n0:n1] = 0
    count.out_of[n0:n1] = 0
    for e in range(edges.ptr[g0], edges.ptr[g1]):
        count.into[edges.target[e], edges.relation[e]] += 1
        count.out_of[edges.source[e], edges.relation[e]] += 1
    for i in range(n0, n1):
        states, exits = 0, 0
        for r in range(count.into.shape[1]):
            states += count.into[i, r] > 0
            exits += count.out_of[i, r] > 0
        count.states[i + 1], count.exits[i + 1] = states, exits


@kernel
def _fill(g0, g1, edges, count, index):  # type: ignore[no-untyped-def]
    """Number the states and exits of the graphs g0 … g1, and sort their edges by state."""
    into, out_of = count.into, count.out_of
    n0, n1 = index.graph_ptr[g0], index.graph_ptr[g1]
    s, x, edge = index.state_ptr[n0], index.exit_ptr[n0], edges.ptr[g0]
    for i in range(n0, n1):
        for r in range(into.shape[1]):
            if into[i, r] > 0:
                index.state_relation[s] = r
                size = into[i, r]
                into[i, r] = edge
                edge += size
                s += 1
                index.edge_ptr[s] = edge
            if out_of[i, r] > 0:
                index.exit_relation[x] = r
                index.exit_node[x] = i
                out_of[i, r] = x
                x += 1
    for e in range(edges.ptr[g0], edges.ptr[g1]):
        source, target, r = edges.source[e], edges.target[e], edges.relation[e]
        place = into[target, r]
        index.edge_source[place] = source
        index.edge_exit[place] = out_of[source, r]
        into[target, r] = place + 1


@kernel
def _depths(n0, n1, index, hops, depth, exit_depth):  # type: ignore[no-untyped-def]
    for hop in range(hops, 0, -1):
        for i in range(n0, n1):
            if depth[i] != hop:
                continue
            for e in range(index.edge_ptr[index.state_ptr[i]], index.edge_ptr[index.state_ptr[i + 1]]):
                x = index.edge_exit[e]
                exit_depth[x] = max(exit_depth[x], hop)
                j = index.exit_node[x]
                depth[j] = max(depth[j], hop - 1)
