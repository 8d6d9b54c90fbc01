"""Multi-hop messages by compiled kernels with a hand-written backward pass: float32 and float64 on the processor."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.data.batch import GraphBatch
from mhgrn.data.walk_index import WalkIndex
from mhgrn.nn.backends import kernels, plain
from mhgrn.nn.backends.buffers import Buffers
from mhgrn.nn.walk_weights import WalkWeights
from mhgrn.workers import in_parts

Array = NDArray[Any]


def messages(
    x: Tensor, weights: WalkWeights, W: Tensor, batch: GraphBatch, needed: Tensor, edge_log_weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """[K, n, d] and [K, n] at the needed nodes, before padding."""
    # the kernels know no weights of edges, and would take a logit that is no number for one that is not there
    if edge_log_weight is not None or any(bool(w.isnan().any()) for w in weights):
        return plain.messages(x, weights, W, batch, needed, edge_log_weight)
    plan = _plan(batch.walk_index, needed.numpy(), len(W))
    z, log_d = _Messages.apply(x, *weights, W, plan)  # type: ignore[no-untyped-call]
    return z, log_d


@dataclass(frozen=True)
class _Plan:
    """What is to be computed, of a batch: nodes and exits by the last hop at which their messages matter."""

    index: WalkIndex
    needed: Array
    rows: Array  # [blocks + 1] of ``needed``
    depth: Array  # [N]
    exit_depth: Array  # [exits]

    def rows_of(self, first: int, last: int) -> tuple[int, int]:
        return int(self.rows[first]), int(self.rows[last])

    def states_by_relation(self, hop: int, relation_count: int) -> list[Tensor]:
        """For every relation the states that matter at a hop."""
        depth = np.repeat(self.depth, np.diff(self.index.state_ptr))
        matter = np.flatnonzero(depth >= hop)
        relation = self.index.state_relation[matter]
        order = np.argsort(relation, kind="stable")
        cuts = np.cumsum(np.bincount(relation, minlength=relation_count))[:-1]
        return [torch.from_numpy(part) for part in np.split(matter[order], cuts)]

    def nodes(self, first: int, last: int) -> tuple[int, int]:
        g0, g1 = self.graphs(first, last)
        return int(self.index.graph_ptr[g0]), int(self.index.graph_ptr[g1])

    def graphs(self, first: int, last: int) -> tuple[int, int]:
        return int(self.index.block_ptr[first]), int(self.index.block_ptr[last])


def _plan(index: WalkIndex, needed: Array, K: int) -> _Plan:
    depth = np.zeros(index.graph_ptr[-1], np.int32)
    depth[needed] = K
    exit_depth = np.zeros(len(index.exit_node), np.int32)
    rows = np.searchsorted(needed, index.graph_ptr[index.block_ptr])
    plan = _Plan(index, needed, rows, depth, exit_depth)

    def task(first: int, last: int) -> None:
        kernels.depths(
            *plan.nodes(first, last), index.state_ptr, index.edge_ptr, index.edge_exit, index.exit_node, K, depth, exit_depth
        )

    in_parts(task, index.block_count)
    return plan


class _Hop(NamedTuple):
    """What one hop leaves for the backward pass."""

    v: Array  # [states, d]
    mu: Array  # [states, d] v itself where W is diagonal: it is applied on the fly
    scale: Array  # [m, d] W, or ones
    L: Array  # [states]
    p: Array  # [edges]
    q: Array  # [turns]


class _Messages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, start: Tensor, relation: Tensor, turn: Tensor, W: Tensor, plan: _Plan
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        buffers = Buffers()
        hops, z, log_d = _forward(plan, buffers, *(t.detach().contiguous() for t in (x, start, relation, turn, W)))
        ctx.plan, ctx.hops, ctx.z, ctx.log_d, ctx.buffers = plan, hops, z, log_d, buffers
        ctx.save_for_backward(x, start, relation, turn, W)
        return torch.from_numpy(z), torch.from_numpy(log_d)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_z: Tensor | None, grad_log_d: Tensor | None) -> tuple[Tensor | None, ...]:
        z, log_d = ctx.z, ctx.log_d
        given_z = np.zeros_like(z) if grad_z is None else grad_z.contiguous().numpy()
        given_d = np.zeros_like(log_d) if grad_log_d is None else grad_log_d.contiguous().numpy()
        return (*_backward(ctx.plan, ctx.hops, z, log_d, given_z, given_d, *ctx.saved_tensors), None)


def _forward(
    plan: _Plan, buffers: Buffers, x: Tensor, start: Tensor, relation: Tensor, turn: Tensor, W: Tensor
) -> tuple[list[_Hop], Array, Array]:
    index = plan.index
    walk = index.graph_ptr, index.state_ptr, index.state_relation
    edges, exits = (index.edge_ptr, index.edge_exit), (index.exit_ptr, index.exit_relation)
    dtype = x.numpy().dtype
    d, K = x.shape[1], len(W)
    tau = turn.numpy().reshape(-1, *turn.shape[-2:])
    tau_top = float(tau.max()) if tau.size and np.isfinite(tau.max()) else 0.0
    T = np.exp(tau - tau_top).transpose(0, 2, 1).copy()
    z = np.empty((K, len(plan.needed), d), dtype)
    log_d = np.empty((K, len(plan.needed)))
    hops: list[_Hop] = []

    def hop(k: int, v: Array, L: Array, p: Array, q: Array, first: int, last: int) -> None:
        if k == 0:
            kernels.first_hop(
                *plan.graphs(first, last), *walk, index.edge_ptr, index.edge_source,
                plan.depth, start.numpy(), relation.numpy(), x.numpy(), v, L, p,
            )  # fmt: skip
        else:
            before = hops[-1]
            kernels.next_hop(
                k + 1, *plan.graphs(first, last), *walk, *exits, *edges, index.turn_ptr,
                plan.depth, plan.exit_depth, relation.numpy(), tau, T, tau_top, before.mu, before.scale, before.L, v, L, p, q,
            )  # fmt: skip

    def read(k: int, first: int, last: int) -> None:
        here = hops[-1]
        kernels.read(
            *plan.rows_of(first, last),
            plan.needed,
            index.state_ptr,
            index.state_relation,
            here.mu,
            here.scale,
            here.L,
            z[k],
            log_d[k],
        )

    for k in range(K):
        v, L = buffers.empty((len(index.state_relation), d), dtype), buffers.empty((len(index.state_relation),), np.float64)
        p = buffers.empty((len(index.edge_exit),), dtype)
        q = buffers.empty((int(index.turn_ptr[-1]) if k else 0,), dtype)
        in_parts(partial(hop, k, v, L, p, q), index.block_count)
        if W.dim() == 3:
            mu, scale = v, W[k].numpy()
        else:
            mu, scale = _by_relation(v, W[k], plan.states_by_relation(k + 1, W.shape[1])), np.ones((W.shape[1], d), dtype)
        hops.append(_Hop(v, mu, scale, L, p, q))
        in_parts(partial(read, k), index.block_count)
    return hops, z, log_d


def _backward(
    plan: _Plan, hops: list[_Hop], z: Array, log_d: Array, grad_z: Array, grad_log_d: Array,
    x: Tensor, start: Tensor, relation: Tensor, turn: Tensor, W: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    index = plan.index
    walk = index.graph_ptr, index.state_ptr, index.state_relation
    edges, exits = (index.edge_ptr, index.edge_exit), (index.exit_ptr, index.exit_relation)
    dtype = z.dtype
    m, blocks = relation.shape[1], index.block_count
    grad_x, grad_start = np.zeros(x.shape, dtype), np.zeros(len(x))
    grad_delta = np.zeros(relation.shape)
    grad_scale = np.zeros((blocks, m, x.shape[1]), dtype)  # sums of blocks are added in a fixed order
    shared = turn.dim() == 2
    grad_tau = np.zeros((blocks if shared else len(relation), m, m))
    grad_W = torch.zeros_like(W)
    values = x.detach().contiguous().numpy()
    buffers = Buffers()
    grad, grad_before = (buffers.empty(hops[0].v.shape, dtype) for _ in range(2))
    beta, beta_before = (buffers.empty((len(hops[0].v),), np.float64) for _ in range(2))

    def unread(k: int, first: int, last: int) -> None:
        kernels.unread(
            *plan.rows_of(first, last), plan.needed, index.state_ptr, hops[k].L, z[k], log_d[k], grad_z[k], grad_log_d[k],
            k == len(hops) - 1, grad, beta,
        )  # fmt: skip

    def back(k: int, grad_v: Array, first: int, last: int) -> None:
        here = hops[k]
        if k == 0:
            kernels.first_hop_back(
                first, last, index.block_ptr, *walk, index.edge_ptr, index.edge_source,
                plan.depth, here.p, here.v, here.scale, grad_v, beta,
                values, grad_scale, grad_delta, grad_x, grad_start,
            )  # fmt: skip
        else:
            before = hops[k - 1]
            kernels.hop_back(
                k + 1, first, last, index.block_ptr, *walk, *exits, *edges, index.turn_ptr,
                plan.depth, plan.exit_depth, here.p, here.q, here.v, here.scale, grad_v, beta,
                before.mu, before.scale, grad_before, beta_before,
                grad_scale, grad_delta, grad_tau, shared,
            )  # fmt: skip

    for k in reversed(range(len(hops))):
        in_parts(partial(unread, k), blocks)
        grad_v = grad
        if W.dim() == 4:
            states = plan.states_by_relation(k + 1, m)
            grad_v = _by_relation(grad, W[k].transpose(1, 2), states)
            _add_outer(grad_W[k], grad, hops[k].v, states)
        grad_scale.fill(0)
        in_parts(partial(back, k, grad_v), blocks)
        if W.dim() == 3:
            grad_W[k] = torch.from_numpy(grad_scale.sum(0))
        grad, grad_before = grad_before, grad
        beta, beta_before = beta_before, beta
    grad_turn = grad_tau.sum(0) if shared else grad_tau
    return (*(torch.from_numpy(g) for g in (grad_x, grad_start, grad_delta, grad_turn)), grad_W)


def _by_relation(rows: Array, W: Tensor, states: list[Tensor]) -> Array:
    """W_r applied to the rows of each relation's states; the other rows stay undefined."""
    source, target = torch.from_numpy(rows), torch.empty(rows.shape, dtype=W.dtype)
    for W_r, mine in zip(W, states, strict=True):
        target[mine] = source[mine] @ W_r.T
    result: Array = target.numpy()
    return result


def _add_outer(total: Tensor, left: Array, right: Array, states: list[Tensor]) -> None:
    """Add leftᵀ right of each relation's states."""
    for W_r, mine in zip(total, states, strict=True):
        W_r.addmm_(torch.from_numpy(left)[mine].T, torch.from_numpy(right)[mine])
