from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.nn.walks import WalkList, distinct, find_walks, in_chunks
from mhgrn.subgraphs.extract import ANSWER, QUESTION

Plain = tuple[tuple[int, ...], tuple[int, ...]]  # nodes, relations


def plain(walks: WalkList) -> list[Plain]:
    return [(tuple(n), tuple(r)) for n, r in zip(walks.nodes.tolist(), walks.relations.tolist(), strict=True)]


def between(batch: GraphBatch, hops: int, simple: bool) -> list[Plain]:
    """By enumeration, in the order promised: node and relation of one step after the other."""
    found = [
        (tuple(nodes), tuple(relations))
        for nodes, relations in oracles.walks(batch, hops)
        if batch.node_type[nodes[0]] == QUESTION
        and batch.node_type[nodes[-1]] == ANSWER
        and (not simple or len(set(nodes)) == len(nodes))
    ]
    return sorted(found, key=lambda w: [w[0][0], *zip(w[0][1:], w[1], strict=True)])


def batch_of(seed: int, edges: int = 6) -> GraphBatch:
    return oracles.random_batch(np.random.default_rng(seed), 3, 2, max_nodes=5, edges=edges)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), hops=st.integers(1, 4), simple=st.booleans())
def test_all_walks_are_found_in_order(seed: int, hops: int, simple: bool) -> None:
    batch = batch_of(seed, edges=4)
    found = find_walks(batch, hops, simple=simple)
    assert not found.cut.any()
    for k, walks in enumerate(found.lengths, start=1):
        assert plain(walks) == between(batch, k, simple)
        assert torch.equal(walks.graph, batch.batch[walks.nodes[:, -1]])


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), hops=st.integers(1, 3), simple=st.booleans(), limit=st.integers(0, 6))
def test_a_limit_keeps_the_first_of_each_graph_and_counts_the_rest(seed: int, hops: int, simple: bool, limit: int) -> None:
    batch = batch_of(seed)
    every, found = find_walks(batch, hops, simple=simple), find_walks(batch, hops, limit, simple)
    for graph in range(batch.num_graphs):
        wanted, got = (
            [w for walks in part.lengths for w in plain(walks.rows((walks.graph == graph).nonzero()[:, 0]))]
            for part in (every, found)
        )
        assert got == wanted[:limit]
        assert found.cut[graph] == len(wanted) - len(got)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), least=st.floats(0.05, 0.9), simple=st.booleans())
def test_walks_of_a_small_score_do_not_count(seed: int, least: float, simple: bool) -> None:
    batch = batch_of(seed)
    score = torch.from_numpy(np.random.default_rng(seed).uniform(0.1, 1, len(batch.edge_type)))
    of = {(*pair, r): s for *pair, r, s in zip(*batch.edge_index.tolist(), batch.edge_type.tolist(), score.tolist(), strict=True)}

    def worth(walk: Plain) -> float:
        return float(np.prod([of[step] for step in zip(walk[0], walk[0][1:], walk[1], strict=False)]))

    for k, walks in enumerate(find_walks(batch, 3, None, simple, score, least).lengths, start=1):
        assert plain(walks) == [w for w in between(batch, k, simple) if worth(w) >= least]
    capped = find_walks(batch, 3, 1, simple, score, least)
    total = sum(worth(w) >= least for k in (1, 2, 3) for w in between(batch, k, simple))
    assert capped.cut.sum() + sum(map(len, capped.lengths)) == total


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), hops=st.integers(1, 4))
def test_walks_with_equal_ends_and_relations_are_one_kind(seed: int, hops: int) -> None:
    walks = find_walks(batch_of(seed), hops).lengths[-1]
    first, count = distinct(walks)
    kinds = Counter((nodes[0], relations, nodes[-1]) for nodes, relations in plain(walks))
    got = {
        (nodes[0], relations, nodes[-1]): n for (nodes, relations), n in zip(plain(walks.rows(first)), count.tolist(), strict=True)
    }
    assert got == kinds
    assert first.tolist() == sorted(first.tolist())


def test_kinds_of_long_walks_do_not_collide() -> None:
    rng = np.random.default_rng(0)
    relations = torch.from_numpy(rng.integers(0, 34, (200, 16)))
    relations[100:] = relations[:100]
    relations[100:, 0] += 1
    nodes = torch.arange(17).repeat(200, 1) * 1000
    first, count = distinct(WalkList(nodes, relations, torch.zeros(200, dtype=torch.int64)))
    assert len(first) == 200
    assert count.eq(1).all()


@pytest.mark.parametrize("simple", [False, True])
def test_many_walks_take_memory_for_those_kept_alone(simple: bool) -> None:
    """A complete graph of 60 nodes has 58 · 57 simple paths of 3 hops between two of its nodes."""
    n = 60
    source, target = (np.array(a) for a in zip(*((i, j) for i in range(n) for j in range(n) if i != j), strict=True))
    types = torch.full((n,), 2)
    types[0], types[1] = QUESTION, ANSWER
    index = torch.from_numpy(np.stack([source, target]))
    batch = GraphBatch(
        torch.arange(n), types, torch.zeros(n, dtype=torch.int64), index, torch.zeros(len(source), dtype=torch.int64), 1, 2
    )
    found = find_walks(batch, 3, 100, simple)
    assert [len(w) for w in found.lengths] == [1, 58, 41]
    walks_of_3 = 58 * 57 if simple else 1 + 58 * 59  # by the adjacency matrix's cube
    assert found.cut[0] == walks_of_3 - 41


@pytest.mark.parametrize("count", [0, 1, 6, 7, 20])
def test_parts_give_the_values_and_gradients_of_the_whole(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = torch.nn.Linear(3, 2).double()
    x, y = torch.randn(2, count, 3, dtype=torch.float64)
    results = []
    for part in (7, 1000):
        monkeypatch.setattr("mhgrn.nn.walks.PART", part)
        layer.zero_grad()
        value = in_chunks(lambda a, b: layer(a * b).tanh(), x, y)
        value.square().sum().backward()
        with torch.no_grad():
            torch.testing.assert_close(in_chunks(lambda a, b: layer(a * b).tanh(), x, y), value)
        results.append((value, layer.weight.grad, layer.bias.grad))
    torch.testing.assert_close(results[0], results[1])
