"""Weights of edges: 0 equals the graph without the edge, and the model is continuous between."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.explain import Triple, without_facts
from mhgrn.nn import message_passing
from mhgrn.nn.backends import compiled, torch_ops
from mhgrn.nn.presence import _presence, walk_presence
from mhgrn.subgraphs.extract import Subgraph

S, FEATURES, RELATIONS = 6, 5, 2
VARIANTS = [
    {"hops": 1},
    {"hops": 3},
    {"hops": 2, "counting": True, "walks_from": "question"},
    {"hops": 2, "layers": 2, "zero_hop": True},
    {"hops": 2, "walks_to": "answer", "epsilon": 1e-6, "relation_weights": "full"},
    {"hops": 2, "context_transition": True, "pool": "all", "counting": True},
]


def encoder(**given: object) -> MHGRN:
    made = MHGRN(Dims(S, FEATURES, 2 * RELATIONS), MHGRNSettings.model_validate({"hidden_dim": 4, **given})).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.7, generator=generator)
    return made


def scored(made: MHGRN, batch: GraphBatch, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    s = torch.randn(batch.num_graphs, S, generator=generator, dtype=torch.float64)
    features = torch.randn(60, FEATURES, generator=generator, dtype=torch.float64)[batch.concepts]
    found = made(s, features, batch)
    return found.g.sum(1) if found.score is None else found.g.sum(1) + found.score


def subgraph_of(seed: int) -> Subgraph:
    rng = np.random.default_rng(seed)
    while len((found := oracles.random_subgraphs(rng, 1, RELATIONS, 6, 9)[0]).head) < 3:
        pass
    return Subgraph(rng.permutation(50)[: len(found.concepts)], *(getattr(found, c) for c in ("types", "head", "relation", "tail")))


def test_weight_zero_equals_removal() -> None:
    for variant in VARIANTS:
        made = encoder(**variant)
        for seed in range(12):
            subgraph = subgraph_of(seed)
            count = len(subgraph.head)
            concepts = subgraph.concepts
            triples = [
                Triple(concepts[h], r, concepts[t]) for h, r, t in zip(subgraph.head, subgraph.relation, subgraph.tail, strict=True)
            ]
            for keep in (
                np.ones(count, bool),
                np.arange(count) > 0,
                np.random.default_rng(seed).random(count) < 0.5,
                np.zeros(count, bool),
            ):
                weight = torch.from_numpy(np.concatenate([keep, keep]).astype(float))  # along the facts, then their reverses
                weighted = scored(made, GraphBatch.collate([subgraph], RELATIONS).with_edge_weight(weight), seed)
                rest = without_facts(subgraph, [triple for triple, kept in zip(triples, keep, strict=True) if not kept])
                torch.testing.assert_close(
                    weighted, scored(made, GraphBatch.collate([rest], RELATIONS), seed), rtol=1e-9, atol=1e-10
                )


def test_falls_continuously_to_the_graph_without_edges() -> None:
    for variant in VARIANTS:
        made, subgraph = encoder(**variant), subgraph_of(3)
        batch = GraphBatch.collate([subgraph], RELATIONS)
        values = [scored(made, batch.with_edge_weight(torch.full((2 * len(subgraph.head),), t).double()), 3) for t in (0.0, 1e-7)]
        torch.testing.assert_close(*values, rtol=1e-4, atol=1e-4)


def test_derivatives_equal_differences() -> None:
    for variant in VARIANTS:
        made, subgraph = encoder(**variant), subgraph_of(5)
        batch, count = GraphBatch.collate([subgraph], RELATIONS), 2 * len(subgraph.head)
        weight = (0.2 + 0.6 * torch.rand(count, dtype=torch.float64)).requires_grad_()  # no ties
        assert torch.autograd.gradcheck(lambda w, m=made, b=batch: scored(m, b.with_edge_weight(w), 5), weight, atol=1e-5)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), hops=st.integers(1, 3))
def test_presence_is_the_best_product_of_any_walk(seed: int, hops: int) -> None:
    batch = oracles.random_batch(np.random.default_rng(seed), 2, RELATIONS, 5, 6)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.rand(len(batch.edge_type), generator=generator, dtype=torch.float64)
    starts = torch.rand(batch.num_nodes, generator=generator) < 0.7
    found = walk_presence(weight, starts, batch, hops)
    best = starts.double()
    for row in found:
        following = torch.zeros_like(best)
        for (a, b), w in zip(batch.edge_index.T.tolist(), weight.tolist(), strict=True):
            following[b] = max(following[b], best[a] * w)
        best = following
        assert row.tolist() == pytest.approx(best.tolist())


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), hops=st.integers(1, 3))
def test_kernels_give_the_presence_of_all_edges_and_its_derivative(seed: int, hops: int) -> None:
    batch = oracles.random_batch(np.random.default_rng(seed), 2, RELATIONS, 5, 9)
    generator = torch.Generator().manual_seed(seed)
    starts = torch.rand(batch.num_nodes, generator=generator) < 0.7
    given_grad = torch.randn(hops, batch.num_nodes, generator=generator, dtype=torch.float64)
    weights = [torch.ones(len(batch.edge_type), dtype=torch.float64, requires_grad=True) for _ in range(2)]
    found, expected = (of(weight, starts, batch, hops) for of, weight in zip((walk_presence, _presence), weights, strict=True))
    assert torch.equal(found, expected)
    for presence in (found, expected):
        (presence * given_grad).sum().backward()
    torch.testing.assert_close(weights[0].grad, weights[1].grad)


def test_kernels_give_the_derivatives_by_all_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives where all edges are present: by compiled kernels, and by torch operations."""
    for variant in VARIANTS:
        made, largest = encoder(**variant), 0.0
        for seed in range(6):
            subgraphs = [subgraph_of(seed), subgraph_of(seed + 50)]
            found = []
            for messages in (compiled.messages, torch_ops.messages):
                batch = GraphBatch.collate(subgraphs, RELATIONS)
                weight = torch.ones(batch.edge_index.shape[1], dtype=torch.float64, requires_grad=True)
                with monkeypatch.context() as patch:
                    patch.setitem(message_passing._BACKENDS, "compiled", messages)
                    scored(made, batch.with_edge_weight(weight), seed)[0].backward()
                found.append(weight.grad)
            torch.testing.assert_close(*found, rtol=1e-9, atol=1e-10)
            largest = max(largest, float(found[0].abs().max()))
        assert largest > 0.01
