"""Multi-hop message passing (equations 6, 7 and 9-11 of the paper; its appendix D) in time linear in the size of the graph."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from mhgrn.data.batch import GraphBatch
from mhgrn.nn.backends import compiled, dense, plain
from mhgrn.nn.walk_weights import WalkWeights

__all__ = ["Backend", "Messages", "MultiHopMessagePassing", "WalkWeights", "multi_hop_messages"]

Backend = Literal["auto", "compiled", "plain", "dense"]


class Messages(NamedTuple):
    """What reaches the needed nodes by walks of 1 … K hops."""

    z: Tensor  # [K, n, d] equation 7; 0 where no walk ends
    log_d: Tensor  # [K, n] float64, log of the normaliser d without g; -inf where no walk ends


def multi_hop_messages(
    x: Tensor,
    weights: WalkWeights,
    W: Tensor,
    W_pad: Tensor,
    batch: GraphBatch,
    backend: Backend = "auto",
    needed: Tensor | None = None,
) -> Messages:
    """z_i^k = Σ over k-hop walks into i of α/d · W⁰_K ··· W⁰_{k+1} W^k_{r_k} ··· W¹_{r_1} x_j (equation 7).

    ``W`` is [K, m, d] (diagonal matrices) or [K, m, d, d]; ``W_pad`` holds W⁰_2 … W⁰_K as [K - 1, d] or [K - 1, d, d]. Walks may
    repeat nodes, and walks through different nodes count separately. ``needed`` are the nodes i asked for, ascending; all by
    default. Only what can reach them is computed, so rows of x that no walk of K hops carries there are never read.

    The sparse forms cost E·d + Σ_j in(j)·out(j)·d a hop, with in and out the numbers of relation *types* at a node, and never
    multiply two attention weights: each state keeps the weighted mean of its messages and the logarithm of their weight, so
    that any depth and any sharpness of attention stay exact. The dense form is the matrix recursion of the paper's algorithm 1.
    """
    if needed is None:
        needed = torch.arange(len(batch.concepts), device=batch.concepts.device)
    with torch.autocast(x.device.type, enabled=False):
        if x.dtype in (torch.bfloat16, torch.float16):
            x = x.float()
        W, W_pad = W.to(x.dtype), W_pad.to(x.dtype)
        weights = WalkWeights(*(w.double() for w in weights))
        compute = _BACKENDS[backend if backend != "auto" else "compiled" if x.device.type == "cpu" else "plain"]
        z, log_d = compute(x, weights, W, batch, needed)
        return Messages(_pad(z, W_pad), log_d)


_BACKENDS = {"compiled": compiled.messages, "plain": plain.messages, "dense": dense.messages}


def _pad(z: Tensor, W_pad: Tensor) -> Tensor:
    """W⁰_K ··· W⁰_{k+1} z^k, so that every length has K transformations behind it: the products are made once, for all nodes."""
    width = W_pad.shape[-1]
    diagonal = W_pad.dim() == 2
    after = [W_pad.new_ones(width) if diagonal else torch.eye(width, dtype=W_pad.dtype, device=W_pad.device)]
    for W in W_pad.flip(0):
        after.append(after[-1] * W if diagonal else after[-1] @ W)
    product = torch.stack(after[::-1])  # [K, d] or [K, d, d]
    return z * product[:, None] if diagonal else z @ product.mT


class MultiHopMessagePassing(nn.Module):
    """:func:`multi_hop_messages` with its relation matrices W and W⁰ as parameters, diagonal or full.

    W⁰_1 is never used; the diagonal form keeps it because the published parameter count has it.
    """

    def __init__(
        self,
        dim: int,
        relation_count: int,
        hops: int,
        relation_weights: Literal["diagonal", "full"] = "diagonal",
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        self.hops = hops
        self.backend: Backend = backend
        diagonal = relation_weights == "diagonal"
        shape = (dim,) if diagonal else (dim, dim)
        self.W = nn.Parameter(torch.empty(hops, relation_count, *shape))
        self.W_pad = nn.Parameter(torch.empty(hops if diagonal else hops - 1, *shape))
        self.reset_parameters(1.0 if diagonal else dim**-0.5)

    def reset_parameters(self, scale: float) -> None:
        """W from N(0, scale²), W⁰ = I."""
        nn.init.normal_(self.W, std=scale)
        width = self.W.shape[-1]
        with torch.no_grad():
            self.W_pad.copy_(torch.ones(width) if self.W.dim() == 3 else torch.eye(width))

    def forward(self, x: Tensor, weights: WalkWeights, batch: GraphBatch, needed: Tensor | None = None) -> Messages:
        """x [N, d] → messages [K, n, d] at the needed nodes."""
        padding = self.W_pad[1:] if self.W.dim() == 3 else self.W_pad
        return multi_hop_messages(x, weights, self.W, padding, batch, self.backend, needed)
