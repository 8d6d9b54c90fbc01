"""Multi-hop message passing (equations 6, 7 and 9-11 of the paper; its appendix D) in time linear in the size of the graph."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mhgrn.data.batch import GraphBatch, States
from mhgrn.nn.segments import segment_softmax, weighted_sum


class WalkWeights(NamedTuple):
    """The structured relational attention of a batch: log α of a walk is the sum of what it passes (equation 10).

    g(φ(i)), the weight of a walk's last node, is a common factor of a node's messages and of their normaliser: it cancels.
    """

    start: Tensor  # [N] f(φ(j), s) of every node
    relation: Tensor  # [G, m] δ(r, s)
    turn: Tensor  # [m, m] τ(r, r'): r first, r' next


class Messages(NamedTuple):
    """What reaches every node by walks of 1 … K hops."""

    z: Tensor  # [K, N, d] equation 7; 0 where no walk ends
    log_d: Tensor  # [K, N] float64, log of the normaliser d without g; -inf where no walk ends


def multi_hop_messages(
    x: Tensor,
    weights: WalkWeights,
    W: Tensor,
    W_pad: Tensor,
    batch: GraphBatch,
    form: Literal["sparse", "dense"] = "sparse",
) -> Messages:
    """z_i^k = Σ over k-hop walks into i of α/d · W⁰_K ··· W⁰_{k+1} W^k_{r_k} ··· W¹_{r_1} x_j (equation 7).

    ``W`` is [K, m, d] (diagonal matrices) or [K, m, d, d]; ``W_pad`` holds W⁰_2 … W⁰_K as [K - 1, d] or [K - 1, d, d]. Walks may
    repeat nodes, and walks through different nodes count separately.

    The sparse form costs E·d + Σ_j in(j)·out(j)·d a hop, with in and out the numbers of relation *types* at a node, and never
    multiplies two attention weights: each state keeps the weighted mean of its messages and the logarithm of their weight, so
    that any depth and any sharpness of attention stay exact. The dense form is the matrix recursion of the paper's algorithm 1.
    """
    return (_sparse if form == "sparse" else _dense)(x, weights, W, W_pad, batch)


def _sparse(x: Tensor, weights: WalkWeights, W: Tensor, W_pad: Tensor, batch: GraphBatch) -> Messages:
    states: States = batch.states
    node_count = len(x)
    state_count = len(states.node)
    start, relation, turn = (w.double() for w in weights)
    delta = relation[batch.graph[states.node], states.relation]  # [states]
    tau = turn[states.relation[states.turns.source], states.exit_relation[states.turns.target]]  # [turns]
    zs, log_ds = [], []
    mean = log_d = x  # of the states; set by the first hop
    for hop in range(len(W)):
        if hop == 0:
            links, incoming, log_incoming = states.first_edges, x, start
        else:
            share, log_incoming = segment_softmax(log_d[states.turns.source] + tau, states.turns.target, len(states.exit_node))
            links, incoming = states.edges, weighted_sum(share.to(x.dtype), mean, states.turns)
        share, log_sum = segment_softmax(log_incoming[links.source], links.target, state_count)
        mean = _transform(W[hop], states.relation, weighted_sum(share.to(x.dtype), incoming, links))  # [states, d]
        log_d = delta + log_sum  # [states]
        share, log_total = segment_softmax(log_d, states.node, node_count)
        z = weighted_sum(share.to(x.dtype), mean, states.ends)  # [N, d]
        zs.append(_pad(z, W_pad, hop))
        log_ds.append(log_total)
    return Messages(torch.stack(zs), torch.stack(log_ds))


def _transform(W: Tensor, relation: Tensor, message: Tensor) -> Tensor:
    """W_r applied to each state's message."""
    if W.dim() == 2:
        return message * W[relation]
    order = torch.argsort(relation, stable=True)
    sizes = torch.bincount(relation, minlength=len(W)).tolist()
    parts = [part @ W_r.T for part, W_r in zip(torch.split(message[order], sizes), W, strict=True)]
    return torch.cat(parts)[torch.argsort(order)]


def _pad(z: Tensor, W_pad: Tensor, hop: int) -> Tensor:
    """W⁰_K ··· W⁰_{k+1} z, so that every length has K transformations behind it."""
    for W in W_pad[hop:]:
        z = z * W if W.dim() == 1 else z @ W.T
    return z


def _dense(x: Tensor, weights: WalkWeights, W: Tensor, W_pad: Tensor, batch: GraphBatch) -> Messages:
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
        zs.append(_pad(z[batch.graph, place], W_pad, hop))
        log_ds.append(torch.where(some, d.double().log(), -torch.inf)[batch.graph, place])
    scale = _log_scale(weights, batch, len(W))
    return Messages(torch.stack(zs), torch.stack(log_ds) + scale)


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
