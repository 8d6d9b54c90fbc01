"""Sparse = dense = enumeration of walks, in values and gradients."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracles
from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.nn.backends import wide
from mhgrn.nn.message_passing import Backend, WalkWeights, multi_hop_messages
from mhgrn.subgraphs.extract import ANSWER, OTHER, Subgraph

RELATIONS = 2  # and their reverses
BACKENDS: list[Backend] = ["compiled", "plain", "dense"]


def inputs(
    batch: GraphBatch, seed: int, K: int, full: bool, dtype: torch.dtype, spread: float = 3.0, d: int = 3
) -> tuple[Tensor, WalkWeights, Tensor, Tensor]:
    """Random messages and attention with logits within ±spread."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int, scale: float = 1.0) -> Tensor:
        return ((2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) * scale).to(dtype).requires_grad_()

    N, G, m = batch.num_nodes, batch.num_graphs, batch.num_relations
    weights = WalkWeights(uniform(N, scale=spread), uniform(G, m, scale=spread), uniform(m, m, scale=spread))
    square = (d, d) if full else (d,)
    return uniform(N, d), weights, uniform(K, m, *square), uniform(K - 1, *square)


def gradients(z: Tensor, at: tuple[Tensor, WalkWeights, Tensor, Tensor]) -> list[Tensor]:
    x, weights, W, W_pad = at
    leaves = [x, *weights, W, W_pad]
    if not z.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    signs = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).view_as(z)
    found = torch.autograd.grad((z * signs).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]


def joined(gradients: list[Tensor]) -> Tensor:
    return torch.cat([gradient.flatten().double() for gradient in gradients])


def assert_close(a: Tensor, b: Tensor, rtol: float) -> None:
    """Equal up to ``rtol`` of the largest entry: small entries are differences of large ones."""
    scale = float(b.detach().abs().max()) if b.numel() else 0.0
    torch.testing.assert_close(a.detach(), b.detach(), rtol=rtol, atol=rtol * scale)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 4), graphs=st.integers(0, 4), full=st.booleans(), single=st.booleans())
def test_every_backend_equals_enumeration(seed: int, K: int, graphs: int, full: bool, single: bool) -> None:
    rng = np.random.default_rng(seed)
    batch = oracles.random_batch(rng, graphs, RELATIONS, max_nodes=4, edges=4, answers=bool(rng.integers(2)))
    dtype, rtol = (torch.float32, 1e-5) if single else (torch.float64, 1e-10)
    at = inputs(batch, seed, K, full, dtype)
    exact_at = tuple(
        WalkWeights(*(w.detach().double().requires_grad_() for w in t))
        if isinstance(t, WalkWeights)
        else t.detach().double().requires_grad_()
        for t in at
    )
    exact, d = oracles.messages(*exact_at, batch)
    expected = gradients(exact, exact_at)
    for backend in BACKENDS:
        z, log_d = multi_hop_messages(*at, batch, backend)
        assert_close(z.double(), exact, rtol)
        assert_close(log_d.exp(), d.double(), rtol)
        found = gradients(z, at)
        assert_close(joined(found), joined(expected), rtol)


@given(seed=st.integers(0, 10**6), K=st.integers(1, 3))
def test_normalised_walk_weights_sum_to_one(seed: int, K: int) -> None:
    batch = oracles.random_batch(np.random.default_rng(seed), 2, RELATIONS)
    _, weights, _, _ = inputs(batch, seed, K, False, torch.float64)
    N, m = batch.num_nodes, batch.num_relations
    ones = torch.ones(N, 1, dtype=torch.float64)
    z, log_d = multi_hop_messages(ones, weights, torch.ones(K, m, 1).double(), torch.ones(K - 1, 1).double(), batch)
    reached = torch.isfinite(log_d)
    torch.testing.assert_close(z[..., 0], reached.double())
    by_enumeration = torch.zeros(K, N, dtype=torch.bool)
    for k in range(K):
        for nodes, _ in oracles.walks(batch, k + 1):
            by_enumeration[k, nodes[-1]] = True
    assert torch.equal(reached, by_enumeration)


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), full=st.booleans(), backend=st.sampled_from(["compiled", "plain"]))
def test_gradcheck(seed: int, full: bool, backend: Backend) -> None:
    """Of the messages and of the normalisers, where walks end."""
    batch = oracles.random_batch(np.random.default_rng(seed), 2, RELATIONS, max_nodes=3)
    x, weights, W, W_pad = inputs(batch, seed, 2, full, torch.float64)
    assume(len(x))

    def messages(*leaves: Tensor) -> tuple[Tensor, Tensor]:
        z, log_d = multi_hop_messages(leaves[0], WalkWeights(*leaves[1:4]), *leaves[4:], batch, backend)
        return z, torch.where(torch.isfinite(log_d), log_d, torch.zeros_like(log_d))

    assert torch.autograd.gradcheck(messages, (x, *weights, W, W_pad))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 4), full=st.booleans(), backend=st.sampled_from(BACKENDS))
def test_needed_nodes_get_what_they_get_among_all(seed: int, K: int, full: bool, backend: Backend) -> None:
    """Pruning changes neither values nor gradients, whether states are left out or nodes and edges of the batch."""
    rng = np.random.default_rng(seed)
    subgraphs = oracles.random_subgraphs(rng, 3, RELATIONS, max_nodes=6, edges=6)
    batch = GraphBatch.collate(subgraphs, RELATIONS)
    at = inputs(batch, seed, K, full, torch.float64)
    needed = (batch.node_type == ANSWER).nonzero()[:, 0]
    whole = multi_hop_messages(*at, batch, "plain")
    wanted, wanted_d = whole.z[:, needed], whole.log_d[:, needed]
    wanted_gradients = joined(gradients(wanted, at))
    z, log_d = multi_hop_messages(*at, batch, backend, needed)
    assert_close(z, wanted, 1e-9)
    torch.testing.assert_close(log_d, wanted_d)
    assert_close(joined(gradients(z, at)), wanted_gradients, 1e-9)

    trimmed = GraphBatch.collate(subgraphs, RELATIONS, Reach((ANSWER,), K))
    kept = (batch.distances(needed, K) <= K).nonzero()[:, 0]
    assert torch.equal(trimmed.concepts, batch.concepts[kept])
    x, weights, W, W_pad = at
    z, log_d = multi_hop_messages(
        x[kept],
        weights._replace(start=weights.start[kept]),
        W,
        W_pad,
        trimmed,
        backend,
        (trimmed.node_type == ANSWER).nonzero()[:, 0],
    )
    assert_close(z, wanted, 1e-9)
    torch.testing.assert_close(log_d, wanted_d)
    assert_close(joined(gradients(z, at)), wanted_gradients, 1e-9)


@pytest.mark.parametrize("full", [False, True])
def test_threads_do_not_change_a_bit(full: bool) -> None:
    batch = oracles.random_batch(np.random.default_rng(0), 50, RELATIONS, max_nodes=12, edges=40)
    at = inputs(batch, 0, 3, full, torch.float32)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            z = multi_hop_messages(*at, batch, "compiled").z
            results.append([z, *gradients(z, at)])
    finally:
        torch.set_num_threads(before)
    for one, three in zip(*results, strict=True):
        assert torch.equal(one, three)


@pytest.mark.parametrize("full", [False, True])
def test_a_graph_beyond_the_caches_gives_what_the_plain_form_gives(full: bool) -> None:
    """Rows of more than 4 MB are prefetched. Small graphs come first, so that its nodes do not begin at 0."""
    rng, nodes, edges = np.random.default_rng(0), 2700, 6000
    triples = rng.integers(0, nodes, edges), rng.integers(0, RELATIONS, edges), rng.integers(0, nodes, edges)
    types = rng.choice([OTHER, ANSWER], nodes).astype(np.uint8)
    small = oracles.random_subgraphs(np.random.default_rng(1), 3, RELATIONS)
    batch = GraphBatch.collate([*small, Subgraph(np.arange(nodes), types, *triples)], RELATIONS)
    assert batch.walk_index.graph_ptr[-2] > 0
    at = inputs(batch, 0, 2, full, torch.float64, d=200)
    for needed in (None, (batch.node_type == ANSWER).nonzero()[:, 0]):
        (z, log_d), (expected, log_expected) = (
            multi_hop_messages(*at, batch, backend, needed) for backend in ("compiled", "plain")
        )
        assert_close(z, expected, 1e-10)
        assert_close(log_d, log_expected, 1e-10)
        assert_close(joined(gradients(z, at)), joined(gradients(expected, at)), 1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_graphs_that_threads_share_give_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All graphs count as large here; a graph may have fewer nodes than parts, no edges, or nodes that no walk reaches."""
    batch = oracles.random_batch(np.random.default_rng(seed), 5, RELATIONS, max_nodes=60, edges=200)
    at = inputs(batch, seed, 3, False, torch.float64)
    needed = torch.arange(0, len(at[0]), 2)
    expected, log_expected = multi_hop_messages(*at, batch, "plain", needed)
    wanted = gradients(expected, at)
    before = torch.get_num_threads()
    monkeypatch.setattr(wide, "LEAST_EDGES", 0)
    results = []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            z, log_d = multi_hop_messages(*at, batch, "compiled", needed)
            assert_close(z, expected, 1e-10)
            assert_close(log_d, log_expected, 1e-10)
            found = gradients(z, at)
            for one, other in zip(found, wanted, strict=True):
                assert_close(one, other, 1e-9)
            results.append([z, log_d, *found])
    finally:
        torch.set_num_threads(before)
    for one, three in zip(*results, strict=True):
        assert torch.equal(one, three)


def test_a_large_graph_is_shared_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    forward = wide.forward
    monkeypatch.setattr(wide, "forward", lambda *arguments: (calls.append(1), forward(*arguments))[1])
    rng, nodes = np.random.default_rng(0), 5000
    for edges in (wide.LEAST_EDGES // 2 - 1, wide.LEAST_EDGES // 2):  # each fact is two edges
        triples = rng.integers(0, nodes, edges), rng.integers(0, RELATIONS, edges), rng.integers(0, nodes, edges)
        batch = GraphBatch.collate([Subgraph(np.arange(nodes), np.full(nodes, OTHER), *triples)], RELATIONS)
        multi_hop_messages(*inputs(batch, 0, 2, False, torch.float32, d=4), batch, "compiled")
    assert len(calls) == 1


@pytest.mark.parametrize("full", [False, True])
def test_a_backward_pass_may_come_after_other_forward_passes(full: bool) -> None:
    """Memory is used again only when nobody needs what it holds."""
    batches = [oracles.random_batch(np.random.default_rng(seed), 3, RELATIONS) for seed in (1, 2, 1)]
    ats = [inputs(batch, seed, 3, full, torch.float64) for seed, batch in enumerate(batches)]
    alone = [gradients(multi_hop_messages(*at, batch, "compiled").z, at) for at, batch in zip(ats, batches, strict=True)]
    together = [multi_hop_messages(*at, batch, "compiled").z for at, batch in zip(ats, batches, strict=True)]
    for z, at, expected in zip(together, ats, alone, strict=True):
        assert torch.equal(joined(gradients(z, at)), joined(expected))


def test_edges_may_come_in_any_order() -> None:
    """The edges of a graph need not be adjacent."""
    batch = oracles.random_batch(np.random.default_rng(1), 4, RELATIONS, max_nodes=6, edges=10)
    at = inputs(batch, 0, 2, False, torch.float64)
    order = torch.randperm(batch.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    mixed = replace(batch, edge_index=batch.edge_index[:, order], edge_type=batch.edge_type[order])
    torch.testing.assert_close(multi_hop_messages(*at, mixed, "compiled").z, multi_hop_messages(*at, batch, "plain").z)


def test_bfloat16_is_computed_in_single_precision() -> None:
    batch = oracles.random_batch(np.random.default_rng(2), 3, RELATIONS, max_nodes=6, edges=10)
    x, weights, W, W_pad = inputs(batch, 0, 2, False, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        z = multi_hop_messages(x.bfloat16(), weights, W, W_pad, batch).z
    assert z.dtype == torch.float32
    torch.testing.assert_close(z, multi_hop_messages(x.bfloat16().float(), weights, W, W_pad, batch).z)


@given(seed=st.integers(0, 10**6))
def test_permuting_nodes_permutes_messages(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = oracles.random_batch(rng, 1, RELATIONS)
    at = inputs(batch, seed, 3, False, torch.float64)
    order = torch.from_numpy(rng.permutation(batch.num_nodes))
    place = torch.argsort(order)  # old node → new node
    moved = GraphBatch(
        batch.concepts[order],
        batch.node_type[order],
        batch.batch,
        place[batch.edge_index],
        batch.edge_type,
        1,
        batch.num_relations,
    )
    x, weights, W, W_pad = at
    z, _ = multi_hop_messages(x[order], weights._replace(start=weights.start[order]), W, W_pad, moved)
    torch.testing.assert_close(z, multi_hop_messages(*at, batch).z[:, order])


def chain(length: int) -> GraphBatch:
    """0 → 1 → … → length, one relation."""
    nodes = np.arange(length + 1)
    return GraphBatch.collate(
        [Subgraph(nodes, np.zeros(length + 1, np.uint8), nodes[:-1], np.zeros(length, np.int64), nodes[1:])], 1
    )


@pytest.mark.parametrize("backend", ["compiled", "plain"])
def test_deep_walks_under_sharp_attention_stay_exact(backend: Backend) -> None:
    """Sixteen hops with logits within ±30: products of weights leave the range of float32, the recursion does not."""
    rng = np.random.default_rng(3)
    batch = oracles.random_batch(rng, 3, 3, max_nodes=6, edges=20)
    x, weights, W, W_pad = inputs(batch, 0, 16, False, torch.float64, spread=30.0)
    W, W_pad = (torch.ones_like(t).requires_grad_() for t in (W, W_pad))
    exact = oracles.log_space_messages(x, weights, W, batch)
    wanted = gradients(exact, (x, weights, W, W_pad))
    single = tuple(t.detach().float().requires_grad_() for t in (x, W, W_pad))
    z, _ = multi_hop_messages(single[0], weights, *single[1:], batch, backend)
    found = gradients(z, (single[0], weights, *single[1:]))
    assert float((z - exact).detach().norm() / exact.detach().norm()) < 1e-4
    for gradient, right in zip(found[:-1], wanted[:-1], strict=True):  # the oracle has no W⁰
        assert torch.isfinite(gradient).all()
        assert float((gradient - right).norm() / right.norm()) < 1e-4
    naive = multi_hop_messages(single[0], weights, *single[1:], batch, "dense")
    assert float((naive.z - exact).detach().norm() / exact.detach().norm()) > 0.1


@given(seed=st.integers(0, 10**6), backend=st.sampled_from(["compiled", "plain"]))
def test_weights_that_vanish_beside_others_still_count_where_they_are_alone(seed: int, backend: Backend) -> None:
    """Logits a thousand apart: relative to the graph's largest weight everything else is zero, relative to a node's it is not."""
    batch = oracles.random_batch(np.random.default_rng(seed), 2, RELATIONS, max_nodes=5, edges=8)
    at = inputs(batch, seed, 3, False, torch.float64, spread=1000.0)
    exact = oracles.log_space_messages(at[0], at[1], at[2], batch)
    x, weights, W, _ = at
    z, _ = multi_hop_messages(x, weights, W, torch.ones(2, x.shape[1], dtype=x.dtype), batch, backend)
    torch.testing.assert_close(z, exact)


@pytest.mark.parametrize("which", ["start", "relation", "turn"])
def test_a_logit_that_is_no_number_is_not_hidden(which: str) -> None:
    batch = oracles.random_batch(np.random.default_rng(0), 2, RELATIONS, max_nodes=5, edges=8)
    x, weights, W, W_pad = inputs(batch, 0, 2, False, torch.float32)
    broken = weights._replace(**{which: torch.full_like(getattr(weights, which), torch.nan)})
    assert multi_hop_messages(x, broken, W, W_pad, batch).z.isnan().any()


def test_start_weight_zero_gives_no_message_and_no_nan() -> None:
    batch = chain(3)
    x, weights, W, W_pad = inputs(batch, 0, 2, False, torch.float64)
    shut = weights._replace(start=torch.full_like(weights.start, -torch.inf).requires_grad_())
    z, log_d = multi_hop_messages(x, shut, W, W_pad, batch)
    assert torch.equal(z, torch.zeros_like(z))
    assert torch.isneginf(log_d).all()
    for gradient in gradients(z, (x, shut, W, W_pad)):
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fact_carries_messages_both_ways(backend: Backend) -> None:
    batch = chain(1)
    x = torch.tensor([[1.0], [2.0]])
    weights = WalkWeights(torch.zeros(2), torch.zeros(1, 2), torch.zeros(2, 2))
    W = torch.tensor([[[10.0], [100.0]]])  # the relation, its reverse
    z, _ = multi_hop_messages(x, weights, W, torch.ones(0, 1), batch, backend)
    assert z[0].tolist() == [[200.0], [10.0]]
