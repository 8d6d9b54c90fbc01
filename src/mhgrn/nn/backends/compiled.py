"""Multi-hop messages by compiled kernels with a hand-written backward pass: float32 and float64 on the CPU."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.batching.walk_index import WalkIndex
from mhgrn.compiled.buffers import Buffers
from mhgrn.compiled.threads import parallel_for
from mhgrn.nn.backends import adjoint_kernels, edge_kernels, kernels, torch_ops, wide
from mhgrn.nn.backends.adjoint_kernels import Adjoint, Delivered, Totals
from mhgrn.nn.backends.kernels import Exits, Hop, Kept, Logits, Plan
from mhgrn.nn.walk_weights import WalkWeights

Array = NDArray[Any]
Given = tuple[Array, Array]  # gradients of z [K, n, d] and log d [K, n]


def messages(
    x: Tensor,
    weights: WalkWeights,
    W: Tensor,
    batch: GraphBatch,
    needed: Tensor,
    edge_log_weight: Tensor | None = None,
    passing: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute messages [K, n, d] and log d [K, n] of the needed nodes, before padding."""
    # the kernels compute derivatives by edge weights where all are 1 and W is diagonal; they would treat a NaN logit as -inf
    logits = weights if passing is None else (*weights, passing)
    is_weighted = edge_log_weight is not None and (W.dim() != 3 or bool(edge_log_weight.any()))
    if is_weighted or any(bool(logit.isnan().any()) for logit in logits):
        return torch_ops.messages(x, weights, W, batch, needed, edge_log_weight, passing)
    nodes, index = needed.numpy(), batch.walk_index
    plan = Plan(nodes, np.searchsorted(nodes, index.graph_ptr), *index.depths(nodes, len(W)))
    node = x.new_zeros(len(x), dtype=torch.float64) if passing is None else passing
    edge = None if edge_log_weight is None else edge_log_weight[torch.from_numpy(batch.edge_order)]
    z, log_d = _Messages.apply(x, *weights, node, W, edge, _Task(index, plan))  # type: ignore[no-untyped-call]
    return z, log_d


@dataclass(frozen=True)
class _Task:
    """What to compute in which graphs. Blocks of graphs are numbered from 0."""

    index: WalkIndex
    plan: Plan

    def graphs(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of graphs of some blocks."""
        return int(self.index.block_ptr[first]), int(self.index.block_ptr[last])

    def rows(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of needed nodes of some blocks."""
        g0, g1 = self.graphs(first, last)
        return int(self.plan.row_ptr[g0]), int(self.plan.row_ptr[g1])

    def states_by_relation(self, hop: int, num_relations: int) -> list[Tensor]:
        """Return, for every relation, the states that matter at a hop."""
        depth = np.repeat(self.plan.depth, np.diff(self.index.state_ptr))
        matter = np.flatnonzero(depth >= hop)
        relation = self.index.state_relation[matter]
        order = np.argsort(relation, kind="stable")
        cuts = np.cumsum(np.bincount(relation, minlength=num_relations))[:-1]
        return [torch.from_numpy(part) for part in np.split(matter[order], cuts)]

    def largest(self, ptr: Array, first: int, last: int) -> int:
        """Return the largest number of states or exits, whose ``ptr`` is given, of any graph of some blocks."""
        g0, g1 = self.graphs(first, last)
        return int(np.diff(ptr[self.index.graph_ptr[g0 : g1 + 1]]).max(initial=0))

    def exits(self, buffers: Buffers, d: int, dtype: np.dtype[Any], first: int, last: int) -> Exits:
        """Return working memory for the exits of any one graph of some blocks."""
        most = self.largest(self.index.exit_ptr, first, last)
        return Exits(buffers.empty((most, d), dtype), buffers.empty((most,), np.float64), buffers.empty((most,), np.float64))


class _Messages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        start: Tensor,
        relation: Tensor,
        turn: Tensor,
        node: Tensor,
        W: Tensor,
        edge: Tensor | None,  # [edges] 0; only for its gradient
        task: _Task,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.has_edges = edge is not None
        ctx.task, ctx.buffers = task, Buffers()
        given = (t.detach().contiguous() for t in (x, start, relation, turn, node, W))
        ctx.kept, ctx.transformed = _forward(task, ctx.buffers, *given)
        ctx.save_for_backward(x, relation, turn, W)
        return torch.from_numpy(ctx.kept.z), torch.from_numpy(ctx.kept.log_d)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_z: Tensor | None, grad_log_d: Tensor | None) -> tuple[Tensor | None, ...]:
        kept: Kept = ctx.kept
        given_z = np.zeros_like(kept.z) if grad_z is None else grad_z.contiguous().numpy()
        given_d = np.zeros_like(kept.log_d) if grad_log_d is None else grad_log_d.contiguous().numpy()
        saved = (t.detach().contiguous() for t in ctx.saved_tensors)
        edge = np.zeros(kept.p.shape[1]) if ctx.has_edges else None
        grads = _backward(ctx.task, kept, ctx.transformed, (given_z, given_d), edge, *saved)
        return (*grads, None if edge is None else torch.from_numpy(edge), None)


def _forward(
    task: _Task, buffers: Buffers, x: Tensor, start: Tensor, relation: Tensor, turn: Tensor, node: Tensor, W: Tensor
) -> tuple[Kept, list[Array]]:
    """Return what the backward pass needs, and the messages behind W of each hop where W is not diagonal."""
    index, plan = task.index, task.plan
    dtype, d, K = x.numpy().dtype, x.shape[1], len(W)
    tau = turn.numpy().reshape(-1, *turn.shape[-2:])
    tau_top = float(tau.max()) if tau.size and np.isfinite(tau.max()) else 0.0
    T = np.exp(tau - tau_top).transpose(0, 2, 1).copy()
    logits = Logits(start.numpy(), relation.numpy(), tau, T, tau_top, node.numpy())
    states = len(index.state_relation)
    kept = Kept(
        v=buffers.empty((K, states, d), dtype),
        L=buffers.empty((K, states), np.float64),
        p=buffers.empty((K, len(index.edge_exit)), dtype),
        q=buffers.empty((K, int(index.turn_ptr[-1])), dtype),
        z=np.empty((K, len(plan.needed), d), dtype),
        log_d=np.empty((K, len(plan.needed))),
    )
    if W.dim() == 3:

        def forward(first: int, last: int) -> None:
            here = Buffers()
            exits = task.exits(here, d, dtype, first, last)
            kernels.forward(*task.graphs(first, last), index, plan, logits, x.numpy(), W.numpy(), kept, exits)

        if wide.has_wide_graph(index):
            wide.forward(index, plan, logits, x.numpy(), W.numpy(), kept)
        else:
            parallel_for(forward, index.block_count)
        return kept, []

    # with full matrices every hop ends in products over all graphs
    ones = np.ones((W.shape[1], d), dtype)
    transformed: list[Array] = []

    def hop(k: int, first: int, last: int) -> None:
        here = Buffers()
        if k == 0:
            kernels.first_hop(*task.graphs(first, last), index, plan.depth, logits, x.numpy(), _hop(kept, k, ones))
        else:
            before = _hop(kept, k - 1, ones)._replace(v=transformed[k - 1])
            exits = task.exits(here, d, dtype, first, last)
            kernels.next_hop(k + 1, *task.graphs(first, last), index, plan, logits, before, _hop(kept, k, ones), exits)

    def read(k: int, first: int, last: int) -> None:
        message = _hop(kept, k, ones)._replace(v=transformed[k])
        kernels.read(*task.rows(first, last), plan.needed, index, message, kept.z[k], kept.log_d[k])

    for k in range(K):
        parallel_for(partial(hop, k), index.block_count)
        transformed.append(_by_relation(kept.v[k], W[k], task.states_by_relation(k + 1, W.shape[1])))
        parallel_for(partial(read, k), index.block_count)
    return kept, transformed


def _hop(kept: Kept, k: int, scale: Array) -> Hop:
    return Hop(kept.v[k], scale, kept.L[k], kept.p[k], kept.q[k])


def _backward(
    task: _Task,
    kept: Kept,
    transformed: list[Array],
    given: tuple[Array, Array],
    edge: Array | None,
    x: Tensor,
    relation: Tensor,
    turn: Tensor,
    W: Tensor,
) -> tuple[Tensor, ...]:
    """Return the gradients of the inputs, and add those of edges to ``edge`` [edges] if it is given."""
    index, plan = task.index, task.plan
    dtype, d, K = kept.z.dtype, x.shape[1], len(W)
    G, m, blocks = len(relation), relation.shape[1], index.block_count
    is_shared = turn.dim() == 2
    # sums of blocks are added in a fixed order
    totals = Totals(
        W=np.zeros((blocks, K, m, d), dtype),
        delta=np.zeros(relation.shape),
        tau=np.zeros((blocks if is_shared else G, m, m)),
        slot=np.repeat(np.arange(blocks), np.diff(index.block_ptr)) if is_shared else np.arange(G),
        x=np.zeros(x.shape, dtype),
        start=np.zeros(len(x)),
        node=np.zeros(len(x)),
    )
    if W.dim() == 3:

        def backward(first: int, last: int) -> None:
            here, most = Buffers(), task.largest(index.state_ptr, first, last)
            exits = task.exits(here, d, dtype, first, last)
            adjoint = Adjoint(here.empty((most, d), dtype), here.empty((most,), np.float64), exits.Y, exits.L)
            arguments = (first, last, index, plan, x.numpy(), W.numpy(), kept, given, totals)
            if edge is None:
                adjoint_kernels.backward(*arguments, adjoint)
            else:
                edge_kernels.backward(*arguments, (adjoint, task.exits(here, d, dtype, first, last).Y, edge))

        if edge is None and wide.has_wide_graph(index):
            wide.backward(index, plan, x.numpy(), W.numpy(), kept, given, totals)
        else:
            parallel_for(backward, blocks)
        total_W = torch.from_numpy(totals.W.sum(0))
    else:
        total_W = _backward_with_matrices(task, kept, transformed, given, x, W, totals, is_shared)
    grad_turn = totals.tau.sum(0) if is_shared else totals.tau
    return (*(torch.from_numpy(g) for g in (totals.x, totals.start, totals.delta, grad_turn, totals.node)), total_W)


def _backward_with_matrices(
    task: _Task,
    kept: Kept,
    transformed: list[Array],
    given: tuple[Array, Array],
    x: Tensor,
    W: Tensor,
    totals: Totals,
    is_shared: bool,
) -> Tensor:
    """Add to ``totals``, and return the gradient of W."""
    index, plan, buffers = task.index, task.plan, Buffers()
    (K, states, d), dtype, m = kept.v.shape, kept.v.dtype, W.shape[1]
    ones, unused = np.ones((m, d), dtype), np.zeros((index.block_count, m, d), dtype)
    grad, beta = buffers.empty((states, d), dtype), buffers.empty((states,), np.float64)
    total = torch.zeros_like(W)

    def read_back(k: int, grad: Array, first: int, last: int) -> None:
        out = Delivered(kept.z[k], kept.log_d[k], given[0][k], given[1][k])
        adjoint = Adjoint(grad, beta, grad, beta)
        adjoint_kernels.read_back(*task.rows(first, last), plan.needed, index, kept.L[k], out, k == K - 1, 0, adjoint)

    def back(k: int, grad: Array, first: int, last: int) -> None:
        here = Buffers()
        exits = task.exits(here, d, dtype, first, last)
        adjoint = Adjoint(grad, beta, exits.Y, exits.L)
        for block in range(first, last):
            g0, g1 = task.graphs(block, block + 1)
            for a, b in [(g0, g1)] if is_shared else [(g, g + 1) for g in range(g0, g1)]:
                sums = totals._replace(W=unused[block], tau=totals.tau[block if is_shared else a])
                if k == 0:
                    adjoint_kernels.first_hop_back(a, b, 0, index, plan.depth, x.numpy(), _hop(kept, 0, ones), adjoint, sums)
                else:
                    before = _hop(kept, k - 1, ones)._replace(v=transformed[k - 1])
                    adjoint_kernels.hop_back(k + 1, a, b, 0, index, plan, _hop(kept, k, ones), before, adjoint, sums)

    for k in reversed(range(K)):
        parallel_for(partial(read_back, k, grad), index.block_count)
        mine = task.states_by_relation(k + 1, m)
        _add_outer(total[k], grad, kept.v[k], mine)
        grad = _by_relation(grad, W[k].transpose(1, 2), mine)
        parallel_for(partial(back, k, grad), index.block_count)
    return total


def _by_relation(rows: Array, W: Tensor, states: list[Tensor]) -> Array:
    """Apply W_r to the rows of each relation's states; the other rows stay undefined."""
    source, target = torch.from_numpy(rows), torch.empty(rows.shape, dtype=W.dtype)
    for W_r, mine in zip(W, states, strict=True):
        target[mine] = source[mine] @ W_r.T
    result: Array = target.numpy()
    return result


def _add_outer(total: Tensor, left: Array, right: Array, states: list[Tensor]) -> None:
    """Add leftᵀ right of each relation's states."""
    for W_r, mine in zip(total, states, strict=True):
        W_r.addmm_(torch.from_numpy(left)[mine].T, torch.from_numpy(right)[mine])
