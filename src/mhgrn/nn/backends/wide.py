"""Messages in graphs so large that threads share a graph: each hop in parallel over ranges of nodes, one graph after another.

What is computed for a node does not depend on the range it is in, and sums over nodes are made of fixed parts. So any number of
threads gives the same bits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mhgrn.batching.walk_index import WalkIndex
from mhgrn.compiled.buffers import Buffers
from mhgrn.compiled.threads import parallel_for
from mhgrn.nn.backends import adjoint_kernels, kernels, wide_kernels
from mhgrn.nn.backends.adjoint_kernels import Adjoint, Delivered, Totals
from mhgrn.nn.backends.kernels import Exits, Hop, Kept, Logits, Plan

Array = NDArray[Any]
Range = tuple[int, int]

LEAST_EDGES = 1 << 18  # of a graph that threads share
PARTS = 32  # of a graph: fixed, so that sums do not depend on the number of threads


def has_wide_graph(index: WalkIndex) -> bool:
    """Whether some graph of a batch is so large that threads share it."""
    edges = index.edge_ptr[index.state_ptr[index.graph_ptr]]
    return bool((np.diff(edges) >= LEAST_EDGES).any())


def forward(index: WalkIndex, plan: Plan, logits: Logits, x: Array, W: Array, kept: Kept) -> None:
    """All hops with diagonal W, as :func:`mhgrn.nn.backends.kernels.forward`."""
    for g in range(len(index.graph_ptr) - 1):
        buffers, parts = Buffers(), _Parts(index, plan, g)
        shape = parts.exit_count, x.shape[1]
        exits = Exits(*(buffers.empty(*of) for of in ((shape, x.dtype), (shape[:1], np.float64), (shape[:1], np.float64))))
        for k in range(len(W)):
            hop = _hop(kept, W, k)
            if k == 0:
                _first_hop(parts, logits, x, hop)
            else:
                _next_hop(k + 1, parts, logits, _hop(kept, W, k - 1), hop, exits)
            _read(parts, k, hop, kept)


def backward(index: WalkIndex, plan: Plan, x: Array, W: Array, kept: Kept, given: tuple[Array, Array], totals: Totals) -> None:
    """The adjoint of :func:`forward`, as :func:`mhgrn.nn.backends.adjoint_kernels.backward`."""
    (K, m, d), dtype = W.shape, x.dtype
    block_of = np.repeat(np.arange(index.block_count), np.diff(index.block_ptr))
    for g in range(len(index.graph_ptr) - 1):
        buffers, parts = Buffers(), _Parts(index, plan, g)
        states = int(index.state_ptr[parts.nodes[-1]] - parts.state)
        adjoint = Adjoint(
            buffers.empty((states, d), dtype),
            buffers.empty((states,), np.float64),
            buffers.empty((parts.exit_count, d), dtype),
            buffers.empty((parts.exit_count,), np.float64),
        )
        for k in range(K - 1, -1, -1):
            hop = _hop(kept, W, k)
            # sums of parts are added in a fixed order
            of_parts = Totals(
                np.zeros((PARTS, m, d), dtype), np.zeros((PARTS, m)), np.zeros((PARTS, m, m)), totals.slot, *totals[4:]
            )
            _states_back(parts, k, hop, kept, given, k == K - 1, adjoint, of_parts)
            if k:
                _hop_back(parts, k + 1, hop, _hop(kept, W, k - 1), adjoint, of_parts)
            else:
                _first_hop_back(parts, x, hop, adjoint, totals)
            totals.W[block_of[g], k] += of_parts.W.sum(0)
            totals.delta[g] += of_parts.delta.sum(0)
            totals.tau[totals.slot[g]] += of_parts.tau.sum(0)


class _Parts:
    """A graph and its parts: ranges of nodes with about the same number of edges."""

    def __init__(self, index: WalkIndex, plan: Plan, g: int) -> None:
        self.index, self.plan, self.g = index, plan, g
        n0, n1 = index.graph_ptr[g : g + 2].tolist()
        edges = index.edge_ptr[index.state_ptr[n0 : n1 + 1]]
        inner = n0 + np.searchsorted(edges, np.linspace(edges[0], edges[-1], PARTS + 1)[1:-1])
        self.nodes: list[int] = [n0, *np.clip(inner, n0, n1).tolist(), n1]
        self.rows = np.searchsorted(plan.needed, self.nodes).tolist()
        self.exits = (index.exit_ptr[self.nodes] - index.exit_ptr[n0]).tolist()
        self.exit_count: int = self.exits[-1]
        self.state = int(index.state_ptr[n0])  # the first one of the graph

    def run(self, task: Callable[[int], None]) -> None:
        """Call a task with the number of each part."""

        def several(first: int, last: int) -> None:
            for part in range(first, last):
                task(part)

        parallel_for(several, PARTS)


def _hop(kept: Kept, W: Array, k: int) -> Hop:
    return Hop(kept.v[k], W[k], kept.L[k], kept.p[k], kept.q[k])


def _first_hop(parts: _Parts, logits: Logits, x: Array, hop: Hop) -> None:
    index, depth, g, nodes = parts.index, parts.plan.depth, parts.g, parts.nodes
    top = float(logits.start[nodes[0] : nodes[-1]].max(initial=-np.inf))
    weight = np.empty(nodes[-1] - nodes[0])
    parts.run(lambda i: kernels.exponentials(logits.start, nodes[i], nodes[i + 1], nodes[0], top, weight))
    parts.run(lambda i: kernels.first_states(nodes[i], nodes[i + 1], g, index, depth, logits, x, hop, weight, top))


def _next_hop(number: int, parts: _Parts, logits: Logits, before: Hop, hop: Hop, exits: Exits) -> None:
    index, plan, g, nodes, places = parts.index, parts.plan, parts.g, parts.nodes, parts.exits
    tops = np.empty(PARTS)

    def leave(i: int) -> None:
        tops[i] = kernels.exits_of(number, nodes[i], nodes[i + 1], g, index, plan, logits, before, hop.q, exits)

    parts.run(leave)
    top = float(tops.max())
    parts.run(lambda i: kernels.exponentials(exits.L, places[i], places[i + 1], 0, top, exits.weight))
    parts.run(lambda i: kernels.next_states(number, nodes[i], nodes[i + 1], g, index, plan.depth, logits, hop, exits, top))


def _read(parts: _Parts, k: int, hop: Hop, kept: Kept) -> None:
    rows, needed, z, log_d = parts.rows, parts.plan.needed, kept.z[k], kept.log_d[k]
    parts.run(lambda i: kernels.read(rows[i], rows[i + 1], needed, parts.index, hop, z, log_d))


def _states_back(
    parts: _Parts, k: int, hop: Hop, kept: Kept, given: tuple[Array, Array], is_last: bool, adjoint: Adjoint, totals: Totals
) -> None:
    """Gradients of what was read become those of messages before W."""
    index, plan, nodes, rows, o = parts.index, parts.plan, parts.nodes, parts.rows, parts.state
    out = Delivered(kept.z[k], kept.log_d[k], given[0][k], given[1][k])

    def task(i: int) -> None:
        adjoint_kernels.read_back(rows[i], rows[i + 1], plan.needed, index, hop.L, out, is_last, o, adjoint)
        of_nodes = nodes[i], nodes[i + 1]
        wide_kernels.states_back(k + 1, of_nodes, o, index, plan.depth, hop, adjoint, totals.W[i], totals.delta[i])

    parts.run(task)


def _hop_back(parts: _Parts, number: int, hop: Hop, before: Hop, adjoint: Adjoint, totals: Totals) -> None:
    index, plan, g, nodes, o = parts.index, parts.plan, parts.g, parts.nodes, parts.state
    own = _of_threads(parts.exits)
    parallel_for(lambda a, b: wide_kernels.exits_back(number, (own[a], own[b]), g, o, index, plan, hop.p, adjoint), len(own) - 1)

    def task(i: int) -> None:
        here = totals._replace(tau=totals.tau[i])
        adjoint_kernels.turns_back(number, (nodes[i], nodes[i + 1]), g, o, index, plan, hop, before, adjoint, here)

    parts.run(task)


def _first_hop_back(parts: _Parts, x: Array, hop: Hop, adjoint: Adjoint, totals: Totals) -> None:
    index, plan, g, nodes, o = parts.index, parts.plan, parts.g, parts.nodes, parts.state
    own = _of_threads(nodes)
    parallel_for(lambda a, b: wide_kernels.sources_back((own[a], own[b]), g, o, index, plan, hop.p, adjoint, totals), len(own) - 1)
    parts.run(lambda i: wide_kernels.starts_back((nodes[i], nodes[i + 1]), x, totals))


def _of_threads(places: list[int]) -> list[int]:
    """Divide a range for threads, which all read every edge: one part for each."""
    count = min(torch.get_num_threads(), PARTS)
    return [places[PARTS * part // count] for part in range(count + 1)]
