"""Definitions computed naively, with which everything fast is compared."""

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.nn.message_passing import WalkWeights
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph

Walk = tuple[list[int], list[int]]  # nodes j … i, relations r_1 … r_k


def walks(batch: GraphBatch, length: int) -> Iterator[Walk]:
    """Every walk of a length, by enumeration."""
    for walk, _ in walks_and_edges(batch, length):
        yield walk


def walks_and_edges(batch: GraphBatch, length: int) -> Iterator[tuple[Walk, list[int]]]:
    """Every walk of a length, with the numbers of its edges: walks over two equal edges are two."""
    edges = list(zip(*batch.edge_index.tolist(), batch.edge_type.tolist(), range(len(batch.edge_type)), strict=True))
    for steps in product(edges, repeat=length):
        if all(a[1] == b[0] for a, b in pairwise(steps)):
            walk = [steps[0][0], *(step[1] for step in steps)], [step[2] for step in steps]
            yield walk, [step[3] for step in steps]


def log_alpha(walk: Walk, weights: WalkWeights, batch: GraphBatch, node_log_weight: Tensor | None = None) -> Tensor:
    """The exponent of equation 10 without g; ``node_log_weight`` is added for each node but the last."""
    nodes, relations = walk
    graph = batch.batch[nodes[-1]]
    total = weights.start[nodes[0]] + sum(weights.relation[graph, r] for r in relations)
    for r, following in pairwise(relations):
        total = total + (weights.turn if weights.turn.dim() == 2 else weights.turn[graph])[r, following]
    return total if node_log_weight is None else total + sum(node_log_weight[node] for node in nodes[:-1])


def messages(
    x: Tensor,
    weights: WalkWeights,
    W: Tensor,
    W_pad: Tensor,
    batch: GraphBatch,
    edge_log_weight: Tensor | None = None,
    node_log_weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Equation 7 by its definition: z [K, N, d] and d [K, N]."""
    K, N = len(W), len(x)
    zs, ds = [], []
    for k in range(1, K + 1):
        total = [torch.zeros_like(x[0]) for _ in range(N)]
        d = [x.new_zeros(()) for _ in range(N)]
        for walk, edges in walks_and_edges(batch, k):
            nodes, relations = walk
            alpha = torch.exp(log_alpha(walk, weights, batch, node_log_weight))
            if edge_log_weight is not None:
                alpha = alpha * torch.exp(edge_log_weight[edges].sum())
            message = x[nodes[0]]
            for matrix in [*(W[t, r] for t, r in enumerate(relations)), *W_pad[k - 1 :]]:
                message = matrix * message if matrix.dim() == 1 else matrix @ message
            total[nodes[-1]] = total[nodes[-1]] + alpha * message
            d[nodes[-1]] = d[nodes[-1]] + alpha
        zs.append(torch.stack([t / w if w > 0 else t * 0 for t, w in zip(total, d, strict=True)]) if N else x)
        ds.append(torch.stack(d) if N else x.new_zeros(0))
    return torch.stack(zs), torch.stack(ds)


def k_hop_rn(h: Tensor, e: Tensor, W: list[Tensor], K: int, batch: GraphBatch) -> Tensor:
    """Definition 1 of the paper's appendix E on one graph, with the count in the pooling weight taken per length."""
    W1, W2, W3 = W
    answers = (batch.node_type == ANSWER).nonzero()[:, 0].tolist()
    total = h.new_zeros(W1.shape[0])
    for k in range(1, K + 1):
        found = [w for w in walks(batch, k) if batch.node_type[w[0][0]] == QUESTION and batch.node_type[w[0][-1]] == ANSWER]
        for i in answers:
            ending = [w for w in found if w[0][-1] == i]
            for nodes, relations in ending:
                part = W1 @ h[nodes[0]] + W2 @ torch.stack([e[r] for r in relations]).prod(0) + W3 @ h[i]
                total = total + part / (K * len(answers) * len(ending))
    return total


def log_space_messages(x: Tensor, weights: WalkWeights, W: Tensor, batch: GraphBatch) -> Tensor:
    """Equation 7 for diagonal W and W⁰ = I, edge by edge in log space: [K, N, d], by logarithms of messages' two signs.

    A walk's last edge is all the recursion needs to know of it, so this keeps a pair of logarithms for every edge and channel.
    """
    source, target = batch.edge_index.tolist()
    relation = batch.edge_type.tolist()
    N, d = x.shape
    nothing = torch.full((d,), -torch.inf, dtype=x.dtype)
    delta = [weights.relation[batch.batch[i], r] for i, r in zip(target, relation, strict=True)]

    def signed(value: Tensor) -> tuple[Tensor, Tensor]:
        some = value.abs().clamp_min(1e-300).log()
        return torch.where(value > 0, some, -torch.inf), torch.where(value < 0, some, -torch.inf)

    def total(parts: list[Tensor]) -> Tensor:
        """log Σ exp, with no gradient where nothing is added."""
        stacked = torch.stack([nothing, *parts])
        top = stacked.detach().amax(0)
        top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
        added = torch.exp(stacked - top).sum(0)
        return torch.where(added > 0, added.clamp_min(1e-300).log() + top, -torch.inf)

    def along(part: tuple[Tensor, ...], weight: Tensor, W_r: Tensor) -> tuple[Tensor, ...]:
        plus, minus, mass = (p + weight for p in part)
        up, down = signed(W_r)
        return total([plus + up, minus + down]), total([plus + down, minus + up]), mass

    zs = []
    parts: list[tuple[Tensor, ...]] = []
    for k in range(len(W)):
        fresh = []
        for e, (j, r) in enumerate(zip(source, relation, strict=True)):
            if k == 0:
                begin = weights.start[j]
                into = (*(s + begin for s in signed(x[j])), begin.expand(d))
            else:
                before = [f for f in range(len(source)) if target[f] == j]
                turned = [tuple(p + weights.turn[relation[f], r] for p in parts[f]) for f in before]
                into = tuple(total([t[c] for t in turned]) for c in range(3))
            fresh.append(along(into, delta[e], W[k, r]))
        parts = fresh
        rows = []
        for i in range(N):
            plus, minus, mass = (total([p[c] for e, p in enumerate(parts) if target[e] == i]) for c in range(3))
            held = torch.isfinite(mass)
            mass = torch.where(held, mass, torch.zeros_like(mass))
            rows.append(torch.where(held, torch.exp(plus - mass) - torch.exp(minus - mass), torch.zeros_like(mass)))
        zs.append(torch.stack(rows) if rows else x)
    return torch.stack(zs)


def random_batch(
    rng: np.random.Generator, graphs: int, relations: int, max_nodes: int = 4, edges: int = 6, answers: bool = True
) -> GraphBatch:
    """Small random subgraphs as one batch."""
    return GraphBatch.collate(random_subgraphs(rng, graphs, relations, max_nodes, edges, answers), relations)


def random_subgraphs(
    rng: np.random.Generator, graphs: int, relations: int, max_nodes: int = 4, edges: int = 6, answers: bool = True
) -> list[Subgraph]:
    """Small random subgraphs: some empty, some with isolated nodes, some with parallel edges of several relations."""
    subgraphs = []
    for _ in range(graphs):
        n = int(rng.integers(0, max_nodes + 1))
        types = np.sort(rng.integers(0, 3 if answers else 1, n)).astype(np.uint8)
        facts = (
            {
                (int(a), int(r), int(b))
                for a, r, b in zip(
                    rng.integers(0, n, edges), rng.integers(0, relations, edges), rng.integers(0, n, edges), strict=True
                )
                if a != b
            }
            if n > 1 and rng.random() < 0.9
            else set()
        )
        columns = np.array(sorted(facts), dtype=np.int64).reshape(-1, 3).T
        subgraphs.append(Subgraph(rng.integers(0, 50, n), types, *columns))
    return subgraphs
