"""Multi-hop messages as the paper's algorithm 1 has them, on padded tensors: the readable reference."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from mhgrn.data.batch import GraphBatch
from mhgrn.nn.walk_weights import WalkWeights


@dataclass(frozen=True)
class Matrices:
    """The edges of a batch as one n × n matrix a relation and graph, n the size of the largest graph."""

    A: Tensor  # [G, m, n, n] float32
    place: Tensor  # [N] a node's row within its graph

    @classmethod
    def of(cls, batch: GraphBatch) -> Self:
        counts = torch.bincount(batch.graph, minlength=batch.graph_count)
        first = counts.cumsum(0) - counts
        n = int(counts.max()) if batch.graph_count else 0
        place = torch.arange(len(batch.graph), device=batch.graph.device) - first[batch.graph]
        source, target = batch.edge_index
        A = torch.zeros(batch.graph_count, batch.relation_count, n, n, device=batch.graph.device)
        A[batch.graph[target], batch.edge_type, place[target], place[source]] = 1
        return cls(A, place)


def messages(x: Tensor, weights: WalkWeights, W: Tensor, batch: GraphBatch, needed: Tensor) -> tuple[Tensor, Tensor]:
    """Algorithm 1 on padded tensors."""
    G = batch.graph_count
    A, place = batch.matrices.A.to(x.dtype), batch.matrices.place
    n = A.shape[-1]
    u = _scaled_exp(weights.relation, 1, x.dtype)[:, :, None, None]  # [G, m, 1, 1]
    T = _scaled_exp(weights.turn, None, x.dtype)  # [m, m]
    # the normaliser is one more channel, of ones, that no W changes
    X = x.new_zeros(G, 1, n, x.shape[1] + 1)
    X[batch.graph, 0, place] = _scaled_exp(weights.start, None, x.dtype)[:, None] * functional.pad(x, (0, 1), value=1.0)
    zs, log_ds = [], []
    M = X  # [G, m, n, d + 1]; set by the first hop
    for hop, W_hop in enumerate(W):
        M = A @ (X if hop == 0 else (T.T @ M.flatten(2)).view_as(M))
        if W_hop.dim() == 2:
            M = M * (u * functional.pad(W_hop, (0, 1), value=1.0)[:, None])
        else:
            M = u * torch.cat([torch.einsum("gmnd,med->gmne", M[..., :-1], W_hop), M[..., -1:]], dim=-1)
        total = M.sum(1)  # [G, n, d + 1]
        Z, d = total[..., :-1], total[..., -1]
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
