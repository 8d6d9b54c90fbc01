"""Multi-hop messages as the paper's algorithm 1 has them, on padded tensors: the readable reference."""

import torch
from torch import Tensor

from mhgrn.data.batch import GraphBatch
from mhgrn.nn.walk_weights import WalkWeights


def messages(x: Tensor, weights: WalkWeights, W: Tensor, batch: GraphBatch, needed: Tensor) -> tuple[Tensor, Tensor]:
    """Algorithm 1 on padded tensors: one n × n matrix a relation and graph."""
    G, m = weights.relation.shape
    counts = torch.bincount(batch.graph, minlength=G)
    first = counts.cumsum(0) - counts
    n = int(counts.max()) if G else 0
    place = torch.arange(len(x), device=x.device) - first[batch.graph]  # [N] row within its graph
    source, target = batch.edge_index
    A = x.new_zeros(G, m, n, n)
    A[batch.graph[target], batch.edge_type, place[target], place[source]] = 1

    F = x.new_zeros(G, n)
    F[batch.graph, place] = _scaled_exp(weights.start, None, x.dtype)
    u = _scaled_exp(weights.relation, 1, x.dtype)[:, :, None, None]  # [G, m, 1, 1]
    T = _scaled_exp(weights.turn, None, x.dtype)  # [m, m]
    X = x.new_zeros(G, n, x.shape[1])
    X[batch.graph, place] = x
    zs, log_ds = [], []
    M = D = X  # [G, m, n, d] and [G, m, n, 1]; set by the first hop
    for hop, W_hop in enumerate(W):
        if hop == 0:
            M, D = (F[..., None] * X)[:, None], F[:, None, :, None]
        else:
            M, D = (torch.einsum("ab,gand->gbnd", T, mass) for mass in (M, D))
        M = u * (A @ M)
        D = u * (A @ D)
        M = M * W_hop[None, :, None] if W_hop.dim() == 2 else torch.einsum("gmnd,med->gmne", M, W_hop)
        Z, d = M.sum(1), D.sum(1)[..., 0]  # [G, n, d], [G, n]
        some = d > 0
        d = torch.where(some, d, torch.ones_like(d))
        z = torch.where(some[..., None], Z / d[..., None], torch.zeros_like(Z))
        zs.append(z[batch.graph, place])
        log_ds.append(torch.where(some, d.double().log(), -torch.inf)[batch.graph, place])
    scale = _log_scale(weights, batch, len(W))
    return torch.stack(zs)[:, needed], (torch.stack(log_ds) + scale)[:, needed]


def _scaled_exp(logit: Tensor, dim: int | None, dtype: torch.dtype) -> Tensor:
    return torch.exp(logit - _top(logit, dim)).to(dtype)


def _top(logit: Tensor, dim: int | None) -> Tensor:
    if not logit.numel():
        return logit.new_zeros(() if dim is None else (len(logit), 1))
    top = logit.detach().max() if dim is None else logit.detach().amax(dim, keepdim=True)
    return torch.where(torch.isfinite(top), top, torch.zeros_like(top))


def _log_scale(weights: WalkWeights, batch: GraphBatch, K: int) -> Tensor:
    """What the subtracted maxima take from log d: [K, N]."""
    hops = torch.arange(1, K + 1, device=weights.start.device)[:, None]
    relation = _top(weights.relation, 1)[batch.graph, 0]
    return (_top(weights.start, None) + hops * relation[None] + (hops - 1) * _top(weights.turn, None)).double()
