"""Multi-hop messages by the paper's algorithm 1 on padded tensors: a readable reference."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.nn.walk_weights import WalkWeights


@dataclass(frozen=True)
class Matrices:
    """The edges of a batch as one n × n matrix per relation and graph, n being the size of the largest graph."""

    A: Tensor  # [G, m, n, n] float32; an edge given twice counts twice
    place: Tensor  # [N] a node's row within its graph

    @classmethod
    def of(cls, batch: GraphBatch, weight: Tensor | None = None) -> Self:
        """Build the matrices, with weights of edges or ones."""
        counts = torch.bincount(batch.batch, minlength=batch.num_graphs)
        first = counts.cumsum(0) - counts
        n = int(counts.max()) if batch.num_graphs else 0
        place = torch.arange(batch.num_nodes, device=batch.batch.device) - first[batch.batch]
        source, target = batch.edge_index
        if weight is None:
            weight = torch.ones(source.shape, device=source.device)
        entry = batch.batch[target], batch.edge_type, place[target], place[source]
        A = weight.new_zeros(batch.num_graphs, batch.num_relations, n, n).index_put(entry, weight, accumulate=True)
        return cls(A, place)


def messages(
    x: Tensor,
    weights: WalkWeights,
    W: Tensor,
    batch: GraphBatch,
    needed: Tensor,
    edge_log_weight: Tensor | None = None,
    passing: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Algorithm 1 on padded tensors."""
    G = batch.num_graphs
    matrices = batch.derived(Matrices.of)
    if edge_log_weight is not None:
        matrices = Matrices.of(batch, _scaled_exp(edge_log_weight, None, x.dtype))
    A, place = matrices.A.to(x.dtype), matrices.place
    n = A.shape[-1]
    u = _scaled_exp(weights.relation, (1,), x.dtype)[:, :, None, None]  # [G, m, 1, 1]
    T = _scaled_exp(weights.turn, (-2, -1), x.dtype)  # [m, m] or [G, m, m]
    # the normalizer is one more channel, of ones, that no W changes
    X = x.new_zeros(G, 1, n, x.shape[1] + 1)
    X[batch.batch, 0, place] = _scaled_exp(weights.start, None, x.dtype)[:, None] * functional.pad(x, (0, 1), value=1.0)
    P = x.new_ones(G, 1, n, 1)
    if passing is not None:
        P = P.index_put((batch.batch, torch.zeros_like(place), place), _scaled_exp(passing, None, x.dtype)[:, None])
    zs, log_ds = [], []
    M = X  # [G, m, n, d + 1]; set by the first hop
    for hop, W_hop in enumerate(W):
        M = A @ (X if hop == 0 else P * (T.mT @ M.flatten(2)).view_as(M))
        if W_hop.dim() == 2:
            M = M * (u * functional.pad(W_hop, (0, 1), value=1.0)[:, None])
        else:
            M = u * torch.cat([torch.einsum("gmnd,med->gmne", M[..., :-1], W_hop), M[..., -1:]], dim=-1)
        total = M.sum(1)  # [G, n, d + 1]
        Z, d = total[..., :-1], total[..., -1]
        some = d > 0
        d = torch.where(some, d, torch.ones_like(d))
        z = torch.where(some[..., None], Z / d[..., None], torch.zeros_like(Z))
        zs.append(z[batch.batch, place])
        log_ds.append(torch.where(some, d.double().log(), -torch.inf)[batch.batch, place])
    scale = _log_scale(weights, edge_log_weight, passing, batch, len(W))
    return torch.stack(zs)[:, needed], (torch.stack(log_ds) + scale)[:, needed]


def _scaled_exp(logit: Tensor, dim: tuple[int, ...] | None, dtype: torch.dtype) -> Tensor:
    return torch.exp(logit - _top(logit, dim)).to(dtype)


def _top(logit: Tensor, dim: tuple[int, ...] | None) -> Tensor:
    """Return the largest finite logit, over all or over ``dim``."""
    if not logit.numel():
        return logit.new_zeros((1,) * logit.dim())
    top = logit.detach().amax(dim or tuple(range(logit.dim())), keepdim=True)
    return torch.where(torch.isfinite(top), top, torch.zeros_like(top))


def _log_scale(weights: WalkWeights, edge_log_weight: Tensor | None, passing: Tensor | None, batch: GraphBatch, K: int) -> Tensor:
    """Return what the subtracted maxima remove from log d: [K, N]."""
    hops = torch.arange(1, K + 1, device=weights.start.device)[:, None]
    a_hop = _top(weights.relation, (1,)).expand(batch.num_graphs, 1)  # [G, 1]
    if edge_log_weight is not None:
        a_hop = a_hop + _top(edge_log_weight, None)
    a_turn = _top(weights.turn, (-2, -1)).reshape(-1, 1).expand(batch.num_graphs, 1)
    if passing is not None:
        a_turn = a_turn + _top(passing, None)
    return _top(weights.start, None) + hops * a_hop[batch.batch, 0] + (hops - 1) * a_turn[batch.batch, 0]
