"""Multi-hop messages as the paper's algorithm 1 has them, on padded tensors: the readable reference."""

import torch
from torch import Tensor

from mhgrn.data.batch import GraphBatch
from mhgrn.nn.walk_weights import WalkWeights


def messages(
    x: Tensor, weights: WalkWeights, W: Tensor, batch: GraphBatch, needed: Tensor, edge_log_weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Algorithm 1 on padded tensors: one n × n matrix a relation and graph."""
    G, m = weights.relation.shape
    counts = torch.bincount(batch.graph, minlength=G)
    first = counts.cumsum(0) - counts
    n = int(counts.max()) if G else 0
    place = torch.arange(len(x), device=x.device) - first[batch.graph]  # [N] row within its graph
    source, target = batch.edge_index
    if edge_log_weight is None:
        edge_log_weight = weights.start.new_zeros(source.shape)
    entry = batch.graph[target], batch.edge_type, place[target], place[source]  # an edge given twice counts twice
    A = x.new_zeros(G, m, n, n).index_put(entry, _scaled_exp(edge_log_weight, None, x.dtype), accumulate=True)

    F = x.new_zeros(G, n)
    F[batch.graph, place] = _scaled_exp(weights.start, None, x.dtype)
    u = _scaled_exp(weights.relation, (1,), x.dtype)[:, :, None, None]  # [G, m, 1, 1]
    T = _scaled_exp(weights.turn, (-2, -1), x.dtype)  # [m, m] or [G, m, m]
    then = "ab,gand->gbnd" if T.dim() == 2 else "gab,gand->gbnd"
    X = x.new_zeros(G, n, x.shape[1])
    X[batch.graph, place] = x
    zs, log_ds = [], []
    M = D = X  # [G, m, n, d] and [G, m, n, 1]; set by the first hop
    for hop, W_hop in enumerate(W):
        if hop == 0:
            M, D = (F[..., None] * X)[:, None], F[:, None, :, None]
        else:
            M, D = (torch.einsum(then, T, mass) for mass in (M, D))
        M = u * (A @ M)
        D = u * (A @ D)
        M = M * W_hop[None, :, None] if W_hop.dim() == 2 else torch.einsum("gmnd,med->gmne", M, W_hop)
        Z, d = M.sum(1), D.sum(1)[..., 0]  # [G, n, d], [G, n]
        some = d > 0
        d = torch.where(some, d, torch.ones_like(d))
        z = torch.where(some[..., None], Z / d[..., None], torch.zeros_like(Z))
        zs.append(z[batch.graph, place])
        log_ds.append(torch.where(some, d.double().log(), -torch.inf)[batch.graph, place])
    scale = _log_scale(weights, edge_log_weight, batch, len(W))
    return torch.stack(zs)[:, needed], (torch.stack(log_ds) + scale)[:, needed]


def _scaled_exp(logit: Tensor, dim: tuple[int, ...] | None, dtype: torch.dtype) -> Tensor:
    return torch.exp(logit - _top(logit, dim)).to(dtype)


def _top(logit: Tensor, dim: tuple[int, ...] | None) -> Tensor:
    """The largest finite logit, over all or over ``dim``."""
    if not logit.numel():
        return logit.new_zeros((1,) * logit.dim())
    top = logit.detach().amax(dim or tuple(range(logit.dim())), keepdim=True)
    return torch.where(torch.isfinite(top), top, torch.zeros_like(top))


def _log_scale(weights: WalkWeights, edge_log_weight: Tensor, batch: GraphBatch, K: int) -> Tensor:
    """What the subtracted maxima take from log d: [K, N]."""
    hops = torch.arange(1, K + 1, device=weights.start.device)[:, None]
    a_hop = (_top(weights.relation, (1,)) + _top(edge_log_weight, None)).expand(batch.graph_count, 1)  # [G, 1]
    a_turn = _top(weights.turn, (-2, -1)).reshape(-1, 1).expand(batch.graph_count, 1)
    return _top(weights.start, None) + hops * a_hop[batch.graph, 0] + (hops - 1) * a_turn[batch.graph, 0]
