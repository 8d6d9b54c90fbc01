"""Definitions computed naively, with which everything fast is compared."""

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
import torch
from torch import Tensor

from mhgrn.data.batch import GraphBatch
from mhgrn.data.subgraphs import ANSWER, QUESTION
from mhgrn.nn.message_passing import WalkWeights

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


def log_alpha(walk: Walk, weights: WalkWeights, batch: GraphBatch) -> Tensor:
    """The exponent of equation 10 without g."""
    nodes, relations = walk
    graph = batch.graph[nodes[-1]]
    total = weights.start[nodes[0]] + sum(weights.relation[graph, r] for r in relations)
    for r, following in pairwise(relations):
        total = total + (weights.turn if weights.turn.dim() == 2 else weights.turn[graph])[r, following]
    return total


def messages(
    x: Tensor, weights: WalkWeights, W: Tensor, W_pad: Tensor, batch: GraphBatch, edge_log_weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Equation 7 by its definition: z [K, N, d] and d [K, N]."""
    K, N = len(W), len(x)
    zs, ds = [], []
    for k in range(1, K + 1):
        total = [torch.zeros_like(x[0]) for _ in range(N)]
        d = [x.new_zeros(()) for _ in range(N)]
        for walk, edges in walks_and_edges(batch, k):
            nodes, relations = walk
            alpha = torch.exp(log_alpha(walk, weights, batch))
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
    answers = (batch.types == ANSWER).nonzero()[:, 0].tolist()
    total = h.new_zeros(W1.shape[0])
    for k in range(1, K + 1):
        found = [w for w in walks(batch, k) if batch.types[w[0][0]] == QUESTION and batch.types[w[0][-1]] == ANSWER]
        for i in answers:
            ending = [w for w in found if w[0][-1] == i]
            for nodes, relations in ending:
                part = W1 @ h[nodes[0]] + W2 @ torch.stack([e[r] for r in relations]).prod(0) + W3 @ h[i]
                total = total + part / (K * len(answers) * len(ending))
    return total


def random_batch(
    rng: np.random.Generator, graphs: int, relations: int, max_nodes: int = 4, edges: int = 6, answers: bool = True
) -> GraphBatch:
    """Small random subgraphs: some empty, some with isolated nodes, some with parallel edges of several relations."""
    from mhgrn.data.subgraphs import Subgraph

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
    return GraphBatch.collate(subgraphs, relations)
