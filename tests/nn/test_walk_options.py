"""Weights of edges and nodes, edges given twice, and transitions that depend on the text: plain = dense = enumeration of walks."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.nn.message_passing import Backend, Messages, WalkWeights, multi_hop_messages

BACKENDS: list[Backend] = ["compiled", "plain", "dense"]
DIM = 2
SEED = 16  # edges in both graphs, some of them given twice


class At(NamedTuple):
    x: Tensor
    start: Tensor
    relation: Tensor
    turn: Tensor
    W: Tensor
    W_pad: Tensor
    edge: Tensor
    node: Tensor

    def messages(self, batch: GraphBatch, backend: Backend, weighted: bool = True, nodes: bool = False) -> Messages:
        weights = WalkWeights(self.start, self.relation, self.turn)
        edge = self.edge if weighted else None
        node = self.node if nodes else None
        return multi_hop_messages(self.x, weights, self.W, self.W_pad, batch, backend, edge_log_weight=edge, node_log_weight=node)


def setting(seed: int, K: int, by_graph: bool) -> tuple[GraphBatch, At]:
    """A batch with some edges given twice, and random inputs."""
    rng = np.random.default_rng(seed)
    batch = oracles.random_batch(rng, 2, 2, max_nodes=3, edges=2)
    twice = torch.from_numpy(rng.integers(0, 5, len(batch.edge_type)) == 0)
    batch = replace(
        batch,
        edge_index=torch.cat([batch.edge_index, batch.edge_index[:, twice]], dim=1),
        edge_type=torch.cat([batch.edge_type, batch.edge_type[twice]]),
    )

    def draw(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape)).requires_grad_()

    N, G, m, E = batch.num_nodes, batch.num_graphs, batch.num_relations, len(batch.edge_type)
    turn = draw(*([G] if by_graph else []), m, m)
    return batch, At(draw(N, DIM), draw(N), draw(G, m), turn, draw(K, m, DIM), draw(K - 1, DIM), draw(E), draw(N))


def gradients(z: Tensor, d: Tensor, at: At) -> list[Tensor]:
    """Of some function of both results."""
    signs = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).view_as(z)
    total = (z * signs).sum() + (d * torch.linspace(1, 2, d.numel(), dtype=d.dtype).view_as(d)).sum()
    if not total.requires_grad:
        return [torch.zeros_like(leaf) for leaf in at]
    found = torch.autograd.grad(total, at, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, at, strict=True)]


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 3), by_graph=st.booleans(), weighted=st.booleans(), nodes=st.booleans())
def test_every_option_equals_enumeration(seed: int, K: int, by_graph: bool, weighted: bool, nodes: bool) -> None:
    batch, at = setting(seed, K, by_graph)
    weights = WalkWeights(at.start, at.relation, at.turn)
    more = at.edge if weighted else None, at.node if nodes else None
    exact, d = oracles.messages(at.x, weights, at.W, at.W_pad, batch, *more)
    expected = gradients(exact, d, at)
    for backend in BACKENDS:
        z, log_d = at.messages(batch, backend, weighted, nodes)
        torch.testing.assert_close(z, exact)
        torch.testing.assert_close(log_d.exp(), d)
        for found, wanted in zip(gradients(z, log_d.exp(), at), expected, strict=True):
            torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_edge_of_weight_zero_is_absent(backend: Backend) -> None:
    batch, at = setting(SEED, 3, True)
    shut = torch.arange(len(batch.edge_type)) % 3 == 0
    assert shut.any()
    with_zeros = at._replace(edge=at.edge.detach().masked_fill(shut, -torch.inf).requires_grad_())
    without = at._replace(edge=at.edge[~shut])
    rest = replace(batch, edge_index=batch.edge_index[:, ~shut], edge_type=batch.edge_type[~shut])
    z, log_d = with_zeros.messages(batch, backend)
    expected, expected_log_d = without.messages(rest, backend)
    torch.testing.assert_close(z, expected)
    torch.testing.assert_close(log_d, expected_log_d)
    z.sum().backward()
    assert with_zeros.edge.grad is not None
    assert torch.isfinite(with_zeros.edge.grad).all()
    assert not with_zeros.edge.grad[shut].any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_derivative_by_an_edges_weight_is_its_expected_use(backend: Backend) -> None:
    """∂ log d_i^k / ∂ log-weight of e = Σ over k-hop walks into i of α/d · how often the walk takes e."""
    K = 3
    batch, at = setting(SEED, K, False)
    weights = WalkWeights(at.start, at.relation, at.turn)
    _, log_d = at.messages(batch, backend)
    reached = 0
    for node in range(batch.num_nodes):
        if not torch.isfinite(log_d[K - 1, node]):
            continue
        reached += 1
        (use,) = torch.autograd.grad(log_d[K - 1, node], at.edge, retain_graph=True)
        expected = torch.zeros_like(use)
        for walk, edges in oracles.walks_and_edges(batch, K):
            if walk[0][-1] == node:
                alpha = oracles.log_alpha(walk, weights, batch) + at.edge[edges].sum()
                for edge in edges:
                    expected[edge] += (alpha - log_d[K - 1, node]).exp().detach()
        torch.testing.assert_close(use, expected)
        torch.testing.assert_close(use.sum(), torch.tensor(float(K), dtype=torch.float64))
    assert reached
