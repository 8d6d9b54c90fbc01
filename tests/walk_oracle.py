"""The distribution over walks by its definition: every walk enumerated, with its probability."""

import math
from typing import NamedTuple

import numpy as np
import torch

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.explain import WalkDistribution
from mhgrn.nn.conv import LayerTrace
from mhgrn.nn.message_passing import WalkWeights


def trace_of(weights: WalkWeights, length: torch.Tensor, node_log_weight: torch.Tensor | None = None) -> LayerTrace:
    """A layer's trace; ``length`` is [N, K]."""
    return LayerTrace(weights, torch.arange(len(length)), length, torch.zeros(length.shape[1], length.shape[0]), node_log_weight)


class Entry(NamedTuple):
    nodes: list[int]
    relations: list[int]
    log_weight: float
    probability: float


def enumerate_walks(
    batch: GraphBatch,
    weights: WalkWeights,
    length: torch.Tensor,
    pool: dict[int, float],
    node_log_weight: torch.Tensor | None = None,
) -> list[Entry]:
    """Every walk into a pooled node whose weight is not 0."""
    weights = WalkWeights(*(w.detach() for w in weights))
    found = []
    for k in range(1, length.shape[1] + 1):
        for node, mass in pool.items():
            ending = [w for w in oracles.walks(batch, k) if w[0][-1] == node]
            logs = [float(oracles.log_alpha(w, weights, batch, node_log_weight)) for w in ending]
            d = sum(map(math.exp, logs))
            found += [
                Entry(*w, log, mass * float(length[node, k - 1]) * math.exp(log) / d)
                for w, log in zip(ending, logs, strict=True)
                if math.isfinite(log)
            ]
    return found


class Case(NamedTuple):
    batch: GraphBatch
    weights: WalkWeights
    length: torch.Tensor
    pool: dict[int, float]
    graph: int
    node_log_weight: torch.Tensor | None = None

    @property
    def distribution(self) -> WalkDistribution:
        return WalkDistribution(trace_of(self.weights, self.length, self.node_log_weight), self.batch, self.graph, self.pool)

    @property
    def entries(self) -> list[Entry]:
        return enumerate_walks(self.batch, self.weights, self.length, self.pool, self.node_log_weight)


def random_weights(batch: GraphBatch, seed: int, coarse: bool, spread: float = 1.0) -> WalkWeights:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        values = spread * torch.randn(shape, generator=generator, dtype=torch.float64)
        return values.round() if coarse else values  # rounded logits tie often

    m = batch.num_relations
    return WalkWeights(draw(3)[batch.node_type], draw(batch.num_graphs, m), draw(m, m))


def random_case(seed: int, hops: int, coarse: bool = False, itself: float = 0.0, blocked: bool = False) -> Case:
    """Two small graphs; one is examined. ``itself`` is the attention without lengths; ``blocked`` forbids starts of type 2.

    In every second case, nodes have weights too.
    """
    rng = np.random.default_rng(seed)
    batch = oracles.random_batch(rng, 2, 2, max_nodes=4, edges=4)
    weights = random_weights(batch, seed, coarse)
    if blocked:
        weights = weights._replace(start=weights.start.masked_fill(batch.node_type == 2, -torch.inf))
    graph = int(rng.integers(2))
    nodes = (batch.batch == graph).nonzero()[:, 0].tolist()
    chosen = rng.permutation(nodes)[:2].tolist()
    mass = rng.dirichlet(np.ones(len(chosen))).tolist() if chosen else []
    length = torch.from_numpy(rng.dirichlet(np.ones(hops), batch.num_nodes).reshape(-1, hops)) * (1 - itself)
    leave = torch.from_numpy(rng.normal(size=batch.num_nodes)) if seed % 2 else None
    if leave is not None and coarse:
        leave = leave.round()
    return Case(batch, weights, length, dict(zip(chosen, mass, strict=True)), graph, leave)
