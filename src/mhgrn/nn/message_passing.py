"""Multi-hop message passing (equations 6, 7 and 9-11 of the paper; its appendix D) in time linear in the size of the graph."""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.nn.backends import compiled, dense, torch_ops
from mhgrn.nn.checks import check_choice, check_sizes
from mhgrn.nn.walk_weights import WalkWeights

__all__ = ["Backend", "Messages", "MultiHopMessagePassing", "RelationWeights", "WalkWeights", "multi_hop_messages"]

Backend = Literal["auto", "compiled", "plain", "dense"]
RelationWeights = Literal["diagonal", "full", "basis"]


class Messages(NamedTuple):
    """The messages that reach the needed nodes by walks of 1 … K hops."""

    z: Tensor  # [K, n, d] equation 7; 0 where no walk ends
    log_d: Tensor  # [K, n] float64, log of the normalizer d without g; -inf where no walk ends


def multi_hop_messages(
    x: Tensor,
    weights: WalkWeights,
    W: Tensor,
    W_pad: Tensor,
    batch: GraphBatch,
    backend: Backend = "auto",
    needed: Tensor | None = None,
    edge_log_weight: Tensor | None = None,
    node_log_weight: Tensor | None = None,
) -> Messages:
    """Compute z_i^k = Σ over k-hop walks into i of α/d · W⁰_K ··· W⁰_{k+1} W^k_{r_k} ··· W¹_{r_1} x_j (equation 7).

    Walks may repeat nodes, and walks through different nodes count separately.

    Args:
        x: [N, d] the paper's x.
        weights: the structured attention.
        W: [K, m, d] (diagonal matrices) or [K, m, d, d].
        W_pad: W⁰_2 … W⁰_K as [K - 1, d] or [K - 1, d, d].
        batch: the graphs.
        backend: ``"compiled"`` (CPU kernels), ``"plain"`` (torch operations), ``"dense"`` (matrices, a readable reference) or
            ``"auto"``: compiled on the CPU, plain elsewhere.
        needed: [n] the nodes i to compute, ascending; all by default. Rows of x that cannot reach them are never read.
        edge_log_weight: [E] in the order of ``batch.edge_index``. It is added to log α of a walk each time the walk takes the
            edge; -inf removes an edge. The derivative of log d by it is the expected number of times a walk uses the edge.
        node_log_weight: [N] added to log α of a walk each time the walk leaves the node: at its start, and where it passes.

    The sparse forms cost E·d + Σ_j in(j)·out(j)·d a hop, with in and out the numbers of relation *types* at a node, and never
    multiply two attention weights: each state stores the weighted mean of its messages and the logarithm of their weight, which
    stays exact at any depth and any sharpness of attention. The dense form is the matrix recursion of the paper's algorithm 1.
    """
    check_choice("backend", backend, ("auto", *_BACKENDS))
    if needed is None:
        needed = torch.arange(batch.num_nodes, device=batch.concepts.device)
    with torch.autocast(x.device.type, enabled=False):
        if x.dtype in (torch.bfloat16, torch.float16):
            x = x.float()
        W, W_pad = W.to(x.dtype), W_pad.to(x.dtype)
        weights = WalkWeights(*(w.double() for w in weights))
        compute = _BACKENDS[backend if backend != "auto" else "compiled" if x.device.type == "cpu" else "plain"]
        if edge_log_weight is not None:
            edge_log_weight = edge_log_weight.double()
        if node_log_weight is not None:
            node_log_weight = node_log_weight.double()
            weights = weights._replace(start=weights.start + node_log_weight)
        z, log_d = compute(x, weights, W, batch, needed, edge_log_weight, node_log_weight)
        return Messages(_pad(z, W_pad), log_d)


_BACKENDS = {"compiled": compiled.messages, "plain": torch_ops.messages, "dense": dense.messages}


def _pad(z: Tensor, W_pad: Tensor) -> Tensor:
    """Compute W⁰_K ··· W⁰_{k+1} z^k, so that every length has K transformations. The products are computed once for all nodes."""
    width = W_pad.shape[-1]
    diagonal = W_pad.dim() == 2
    after = [W_pad.new_ones(width) if diagonal else torch.eye(width, dtype=W_pad.dtype, device=W_pad.device)]
    for W in W_pad.flip(0):
        after.append(after[-1] * W if diagonal else after[-1] @ W)
    product = torch.stack(after[::-1])  # [K, d] or [K, d, d]
    return z * product[:, None] if diagonal else z @ product.mT


class MultiHopMessagePassing(nn.Module):
    """:func:`multi_hop_messages` with its relation matrices as parameters: diagonal, full, or of a few common bases.

    With ``basis``, hop k has matrices V_1 … V_B, and W_r = Σ_b a_rb V_b for each relation as well as for W⁰. W⁰_1 is never
    used; ``unused_padding`` lets the diagonal form keep it, because the published parameter count has it.
    """

    def __init__(
        self,
        channels: int,
        num_relations: int,
        hops: int,
        relation_weights: RelationWeights = "diagonal",
        backend: Backend = "auto",
        relation_bases: int = 8,
        unused_padding: bool = True,
    ) -> None:
        super().__init__()
        check_sizes(channels=channels, num_relations=num_relations, hops=hops, relation_bases=relation_bases)
        check_choice("relation_weights", relation_weights, get_args(RelationWeights))
        self.channels, self.hops, self.relation_weights = channels, hops, relation_weights
        self.backend: Backend = backend
        if relation_weights == "basis":
            self.bases = nn.Parameter(torch.empty(hops, relation_bases, channels, channels))
            self.W = nn.Parameter(torch.empty(hops, num_relations, relation_bases))
            self.W_pad = nn.Parameter(torch.empty(hops - 1, relation_bases))
        else:
            shape = (channels,) if relation_weights == "diagonal" else (channels, channels)
            self.W = nn.Parameter(torch.empty(hops, num_relations, *shape))
            kept = relation_weights == "diagonal" and unused_padding
            self.W_pad = nn.Parameter(torch.empty(hops if kept else hops - 1, *shape))
        self.reset_parameters()

    def reset_parameters(self, scale: float | None = None, mean: float = 1.0) -> None:
        """W from N(0, scale²), by default around ``mean`` · I such that a hop keeps the scale of what it carries; W⁰ = I.

        Around 0 it would not: a mean over relations of weights without a common part halves messages at every hop.
        """
        is_level = scale is None
        if scale is None:
            scale = 1.0 if self.relation_weights == "diagonal" else self.channels**-0.5
        with torch.no_grad():
            if self.relation_weights == "diagonal":
                self.W.normal_(mean=mean if is_level else 0.0, std=scale)
                self.W_pad.fill_(1)
            elif self.relation_weights == "full":
                self.W.normal_(std=scale)
                if is_level:
                    self.W.add_(mean * torch.eye(self.channels))
                self.W_pad.copy_(torch.eye(self.channels))
            else:
                # V_1 = I, the others random: W⁰ can be I, and all parts of a W_r have the same norm
                self.bases.normal_(std=scale)
                self.bases[:, 0] = torch.eye(self.channels)
                self.W.normal_(std=self.W.shape[-1] ** -0.5)
                self.W[..., 0] *= scale * self.channels**0.5
                self.W_pad.zero_()
                self.W_pad[:, 0] = 1

    def matrices(self) -> tuple[Tensor, Tensor]:
        """W [K, m, d] or [K, m, d, d], and W⁰_2 … W⁰_K."""
        if self.relation_weights == "basis":
            W = torch.einsum("krb,kbij->krij", self.W, self.bases)
            return W, torch.einsum("kb,kbij->kij", self.W_pad, self.bases[1:])
        return self.W, self.W_pad[len(self.W_pad) + 1 - self.hops :]

    def forward(
        self,
        x: Tensor,
        weights: WalkWeights,
        batch: GraphBatch,
        needed: Tensor | None = None,
        edge_log_weight: Tensor | None = None,
        node_log_weight: Tensor | None = None,
    ) -> Messages:
        """x [N, d] → messages [K, n, d] at the needed nodes."""
        return multi_hop_messages(x, weights, *self.matrices(), batch, self.backend, needed, edge_log_weight, node_log_weight)
