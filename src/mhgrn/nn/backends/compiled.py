"""Multi-hop messages by compiled kernels with a hand-written backward pass: float32 and float64 on the processor."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.batching.walk_index import WalkIndex
from mhgrn.compiled.buffers import Buffers
from mhgrn.compiled.threads import parallel_for
from mhgrn.nn.backends import kernels
from mhgrn.nn.backends import torch_ops as plain
from mhgrn.nn.walk_weights import WalkWeights

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
    row_ptr: Array  # [G + 1] each graph's rows of ``needed``
    depth: Array  # [N]
    exit_depth: Array  # [exits]

    def rows(self, first: int, last: int) -> tuple[int, int]:
        g0, g1 = self.graphs(first, last)
        return int(self.row_ptr[g0]), int(self.row_ptr[g1])

    def states_by_relation(self, hop: int, num_relations: int) -> list[Tensor]:
        """For every relation the states that matter at a hop."""
        depth = np.repeat(self.depth, np.diff(self.index.state_ptr))
        matter = np.flatnonzero(depth >= hop)
        relation = self.index.state_relation[matter]
        order = np.argsort(relation, kind="stable")
        cuts = np.cumsum(np.bincount(relation, minlength=num_relations))[:-1]
        return [torch.from_numpy(part) for part in np.split(matter[order], cuts)]

    def nodes(self, first: int, last: int) -> tuple[int, int]:
        g0, g1 = self.graphs(first, last)
        return int(self.index.graph_ptr[g0]), int(self.index.graph_ptr[g1])

    def largest(self, ptr: Array, first: int, last: int) -> int:
        """The most states or exits, whose ``ptr`` is given, that one of the graphs has."""
        g0, g1 = self.graphs(first, last)
        return int(np.diff(ptr[self.index.graph_ptr[g0 : g1 + 1]]).max(initial=0))

    def room_for_exits(self, buffers: Buffers, d: int, dtype: np.dtype[Any], first: int, last: int) -> list[Array]:
        """For messages, log-weights and weights of the exits of any one of the graphs."""
        most = self.largest(self.index.exit_ptr, first, last)
        return [buffers.empty((most, d), dtype), *(buffers.empty((most,), np.float64) for _ in range(2))]

    def graphs(self, first: int, last: int) -> tuple[int, int]:
        return int(self.index.block_ptr[first]), int(self.index.block_ptr[last])


def _plan(index: WalkIndex, needed: Array, K: int) -> _Plan:
    return _Plan(index, needed, np.searchsorted(needed, index.graph_ptr), *index.depths(needed, K))


class _Kept(NamedTuple):
    """What the forward pass leaves for the backward pass, for each hop. v and its like are defined where a hop matters."""

    v: Array  # [K, states, d] messages before W
    L: Array  # [K, states] log-weights
    p: Array  # [K, edges] shares
    q: Array  # [K, turns] shares; none at the first hop
    mu: list[Array]  # [states, d] messages behind W, where W is not diagonal: else it is applied on the fly
    z: Array  # [K, n, d]
    log_d: Array  # [K, n]


class _Messages(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, start: Tensor, relation: Tensor, turn: Tensor, W: Tensor, plan: _Plan
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.plan, ctx.buffers = plan, Buffers()
        ctx.kept = _forward(plan, ctx.buffers, *(t.detach().contiguous() for t in (x, start, relation, turn, W)))
        ctx.save_for_backward(x, relation, turn, W)
        return torch.from_numpy(ctx.kept.z), torch.from_numpy(ctx.kept.log_d)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_z: Tensor | None, grad_log_d: Tensor | None) -> tuple[Tensor | None, ...]:
        kept: _Kept = ctx.kept
        given_z = np.zeros_like(kept.z) if grad_z is None else grad_z.contiguous().numpy()
        given_d = np.zeros_like(kept.log_d) if grad_log_d is None else grad_log_d.contiguous().numpy()
        saved = (t.detach().contiguous() for t in ctx.saved_tensors)
        return (*_backward(ctx.plan, kept, given_z, given_d, *saved), None)


def _forward(plan: _Plan, buffers: Buffers, x: Tensor, start: Tensor, relation: Tensor, turn: Tensor, W: Tensor) -> _Kept:
    index = plan.index
    dtype, d, K = x.numpy().dtype, x.shape[1], len(W)
    tau = turn.numpy().reshape(-1, *turn.shape[-2:])
    tau_top = float(tau.max()) if tau.size and np.isfinite(tau.max()) else 0.0
    T = np.exp(tau - tau_top).transpose(0, 2, 1).copy()
    states = len(index.state_relation)
    kept = _Kept(
        v=buffers.empty((K, states, d), dtype),
        L=buffers.empty((K, states), np.float64),
        p=buffers.empty((K, len(index.edge_exit)), dtype),
        q=buffers.empty((K, int(index.turn_ptr[-1])), dtype),
        mu=[],
        z=np.empty((K, len(plan.needed), d), dtype),
        log_d=np.empty((K, len(plan.needed))),
    )
    weights = start.numpy(), relation.numpy()
    if W.dim() == 3:

        def forward(first: int, last: int) -> None:
            here = Buffers()
            kernels.forward(
                *plan.graphs(first, last), plan.row_ptr, plan.needed, *index.walk, *index.exits, *index.edges, index.turn_ptr,
                plan.depth, plan.exit_depth, *weights, tau, T, tau_top, x.numpy(), W.numpy(), *kept[:4], kept.z, kept.log_d,
                *plan.room_for_exits(here, d, dtype, first, last),
            )  # fmt: skip

        parallel_for(forward, index.block_count)
        return kept

    # with matrices every hop ends in products over all graphs
    ones = np.ones((W.shape[1], d), dtype)

    def hop(k: int, first: int, last: int) -> None:
        v, L, p, q = (array[k] for array in kept[:4])
        here = Buffers()
        if k == 0:
            kernels.first_hop(
                *plan.graphs(first, last), *index.walk, index.edge_ptr, index.edge_source, plan.depth, *weights, x.numpy(), v, L, p
            )
        else:
            kernels.next_hop(
                k + 1, *plan.graphs(first, last), *index.walk, *index.exits, index.edge_ptr, index.edge_exit, index.turn_ptr,
                plan.depth, plan.exit_depth, relation.numpy(), tau, T, tau_top, kept.mu[k - 1], ones, kept.L[k - 1], v, L, p, q,
                *plan.room_for_exits(here, d, dtype, first, last),
            )  # fmt: skip

    def read(k: int, first: int, last: int) -> None:
        places = *plan.rows(first, last), plan.needed, index.state_ptr, index.state_relation
        kernels.read(*places, kept.mu[k], ones, kept.L[k], kept.z[k], kept.log_d[k])

    for k in range(K):
        parallel_for(partial(hop, k), index.block_count)
        kept.mu.append(_by_relation(kept.v[k], W[k], plan.states_by_relation(k + 1, W.shape[1])))
        parallel_for(partial(read, k), index.block_count)
    return kept


def _backward(
    plan: _Plan, kept: _Kept, grad_z: Array, grad_log_d: Array, x: Tensor, relation: Tensor, turn: Tensor, W: Tensor
) -> tuple[Tensor, ...]:
    index = plan.index
    dtype, d, K = kept.z.dtype, x.shape[1], len(W)
    m, blocks = relation.shape[1], index.block_count
    is_shared = turn.dim() == 2
    # sums of blocks are added in a fixed order
    grad_W = np.zeros((blocks, K, m, d), dtype)
    grad_tau = np.zeros((blocks if is_shared else len(relation), m, m))
    grad_x, grad_start, grad_delta = np.zeros(x.shape, dtype), np.zeros(len(x)), np.zeros(relation.shape)
    if W.dim() == 3:

        def backward(first: int, last: int) -> None:
            here, most = Buffers(), plan.largest(index.state_ptr, first, last)
            kernels.backward(
                first, last, index.block_ptr, plan.row_ptr, plan.needed, *index.walk, *index.exits, *index.edges, index.turn_ptr,
                plan.depth, plan.exit_depth, x.numpy(), W.numpy(), *kept[:4], kept.z, kept.log_d, grad_z, grad_log_d,
                grad_W, grad_delta, grad_tau, is_shared, grad_x, grad_start,
                here.empty((most, d), dtype), here.empty((most,), np.float64),
                *plan.room_for_exits(here, d, dtype, first, last)[:2],
            )  # fmt: skip

        parallel_for(backward, blocks)
        total_W = torch.from_numpy(grad_W.sum(0))
    else:
        total_W = _backward_with_matrices(plan, kept, grad_z, grad_log_d, x, W, grad_delta, grad_tau, is_shared, grad_x, grad_start)
    grad_turn = grad_tau.sum(0) if is_shared else grad_tau
    return (*(torch.from_numpy(g) for g in (grad_x, grad_start, grad_delta, grad_turn)), total_W)


def _backward_with_matrices(
    plan: _Plan, kept: _Kept, grad_z: Array, grad_log_d: Array, x: Tensor, W: Tensor,
    grad_delta: Array, grad_tau: Array, is_shared: bool, grad_x: Array, grad_start: Array,
) -> Tensor:  # fmt: skip
    """Fills in the gradients it is given, and returns that of W."""
    index, buffers = plan.index, Buffers()
    (K, states, d), m = kept.v.shape, W.shape[1]
    ones, unused = np.ones((m, d), kept.v.dtype), np.zeros((index.block_count, m, d), kept.v.dtype)
    grad, beta = buffers.empty((states, d), kept.v.dtype), buffers.empty((states,), np.float64)
    total = torch.zeros_like(W)

    def unread(k: int, first: int, last: int) -> None:
        kernels.unread(
            *plan.rows(first, last), plan.needed, index.state_ptr, kept.L[k], kept.z[k], kept.log_d[k], grad_z[k], grad_log_d[k],
            k == K - 1, 0, grad, beta,
        )  # fmt: skip

    def back(k: int, first: int, last: int) -> None:
        here = Buffers()
        room = plan.room_for_exits(here, d, kept.v.dtype, first, last)
        for block in range(first, last):
            for g0, g1 in (
                [plan.graphs(block, block + 1)] if is_shared else [(g, g + 1) for g in range(*plan.graphs(block, block + 1))]
            ):
                if k == 0:
                    kernels.first_hop_back(
                        g0, g1, 0, *index.walk, index.edge_ptr, index.edge_source, plan.depth, kept.p[0], kept.v[0], ones,
                        grad, beta, x.numpy(), unused[block], grad_delta, grad_x, grad_start,
                    )  # fmt: skip
                else:
                    kernels.hop_back(
                        k + 1, g0, g1, 0, *index.walk, *index.exits, index.edge_ptr, index.edge_exit, index.turn_ptr,
                        plan.depth, plan.exit_depth, kept.p[k], kept.q[k], kept.v[k], ones, grad, beta,
                        kept.mu[k - 1], ones, unused[block], grad_delta,
                        grad_tau[block if is_shared else g0], *room[:2],
                    )  # fmt: skip

    for k in reversed(range(K)):
        parallel_for(partial(unread, k), index.block_count)
        mine = plan.states_by_relation(k + 1, m)
        _add_outer(total[k], grad, kept.v[k], mine)
        grad = _by_relation(grad, W[k].transpose(1, 2), mine)
        parallel_for(partial(back, k), index.block_count)
    return total


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
