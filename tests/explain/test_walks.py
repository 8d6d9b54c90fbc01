"""Every answer about the distribution over walks equals what the enumeration of all walks gives."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.encoders.none import NoGraph
from mhgrn.errors import UserError
from mhgrn.explain import WalkDistribution
from mhgrn.kg import KnowledgeGraph
from mhgrn.nn.conv import LayerTrace
from mhgrn.nn.message_passing import WalkWeights
from mhgrn.subgraphs.extract import ANSWER, OTHER, Subgraph
from walk_oracle import Entry, random_case, trace_of

CASES = {
    "seed": st.integers(0, 10**6),
    "hops": st.integers(1, 3),
    "coarse": st.booleans(),
    "itself": st.sampled_from([0.0, 0.3]),
    "blocked": st.booleans(),
}


def chain_batch(facts: list[tuple[int, int, int]], nodes: int, answers: set[int], relations: int = 1) -> GraphBatch:
    types = [ANSWER if node in answers else OTHER for node in range(nodes)]
    return GraphBatch.collate([Subgraph(np.arange(nodes), np.array(types), *np.array(facts).reshape(-1, 3).T)], relations)


def flat(batch: GraphBatch, hops: int) -> tuple[WalkWeights, torch.Tensor]:
    """All walks alike, all lengths alike."""
    n, m = batch.num_nodes, batch.num_relations
    weights = WalkWeights(torch.zeros(n), torch.zeros(batch.num_graphs, m), torch.zeros(m, m))
    return weights, torch.full((n, hops), 1 / hops)


@settings(max_examples=50)
@given(k=st.integers(1, 30), **CASES)
def test_best_paths_are_the_top_of_all_walks(k: int, seed: int, hops: int, coarse: bool, itself: float, blocked: bool) -> None:
    case = random_case(seed, hops, coarse, itself, blocked)
    entries = case.entries
    for only in (None, *range(1, hops + 1)):
        every = [entry for entry in entries if only is None or len(entry.relations) == only]
        best = case.distribution.best_paths(k, only)
        assert best.complete
        assert len(best.walks) == min(k, len(every))
        shown = [walk.probability for walk in best.walks]
        assert shown == pytest.approx(sorted((e.probability for e in every), reverse=True)[:k], rel=1e-9)
        assert len({(tuple(walk.nodes), tuple(walk.relations)) for walk in best.walks}) == len(best.walks)
        for walk in best.walks:
            (entry,) = [e for e in every if (e.nodes, e.relations) == (walk.nodes, walk.relations)]
            assert walk.probability == pytest.approx(entry.probability, rel=1e-9)
            assert walk.log_weight == pytest.approx(entry.log_weight)
            same = [e for e in every if e.nodes[-1] == walk.nodes[-1] and len(e.relations) == len(walk.relations)]
            assert walk.ties == sum(abs(e.log_weight - walk.log_weight) < 1e-9 for e in same)


def returns(entry: Entry) -> bool:
    """Whether a walk passes through its end before, or from a node to itself."""
    return entry.nodes[-1] in entry.nodes[:-1] or any(a == b for a, b in pairwise(entry.nodes))


@settings(max_examples=40)
@given(k=st.integers(1, 12), **(CASES | {"hops": st.integers(1, 4)}))
def test_simple_paths_are_the_top_of_the_walks_that_repeat_no_node(
    k: int, seed: int, hops: int, coarse: bool, itself: float, blocked: bool
) -> None:
    case = random_case(seed, hops, coarse, itself, blocked)
    simple = [entry for entry in case.entries if len(set(entry.nodes)) == len(entry.nodes)]
    straight = [entry for entry in case.entries if not returns(entry)]
    best = case.distribution.best_paths(k, simple=True)
    assert best.complete
    assert all(len(set(walk.nodes)) == len(walk.nodes) for walk in best.walks)
    expected = sorted((e.probability for e in simple), reverse=True)[:k]
    assert [walk.probability for walk in best.walks] == pytest.approx(expected, rel=1e-9)
    for walk in best.walks:
        same = [e for e in straight if e.nodes[-1] == walk.nodes[-1] and len(e.relations) == len(walk.relations)]
        assert walk.ties == sum(abs(e.log_weight - walk.log_weight) < 1e-9 for e in same)
    avoided = {node for walk in best.walks for node in walk.nodes[:1]}
    expected = sorted((e.probability for e in simple if avoided.isdisjoint(e.nodes[:-1])), reverse=True)[:k]
    others = case.distribution.best_paths(k, simple=True, avoid=avoided)
    assert [walk.probability for walk in others.walks] == pytest.approx(expected, rel=1e-9)


def test_tied_walks_come_by_their_numbers_read_from_the_end() -> None:
    batch = chain_batch([(0, 0, 3), (1, 0, 3), (2, 0, 3), (3, 0, 4)], 5, {4})
    weights, length = flat(batch, 2)
    best = WalkDistribution(trace_of(weights, length), batch, 0, {4: 1.0}).best_paths(9, hops=2)
    assert [walk.nodes for walk in best.walks] == [[0, 3, 4], [1, 3, 4], [2, 3, 4], [4, 3, 4]]
    assert [walk.ties for walk in best.walks] == [4] * 4


def test_sums_of_the_same_terms_in_another_order_tie() -> None:
    """0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1 in floating point."""
    facts = [(0, 0, 1), (1, 1, 2), (2, 2, 6), (3, 2, 4), (4, 1, 5), (5, 0, 6)]
    batch = chain_batch(facts, 7, {6}, relations=3)
    weights, length = flat(batch, 3)
    delta = torch.full((1, 6), -30.0, dtype=torch.float64)
    delta[0, :3] = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    walks = WalkDistribution(trace_of(weights._replace(relation=delta), length), batch, 0, {6: 1.0}).best_paths(2, hops=3).walks
    assert [(walk.nodes, walk.ties) for walk in walks] == [([3, 4, 5, 6], 2), ([0, 1, 2, 6], 2)]


def test_a_search_for_simple_walks_says_when_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    # every walk of three hops or more visits a node twice
    batch = chain_batch([(0, relation, 2) for relation in range(4)] + [(0, 0, 1)], 3, {1}, relations=4)
    weights, length = flat(batch, 8)
    distribution = WalkDistribution(trace_of(weights, length), batch, 0, {1: 1.0})
    assert distribution.best_paths(1, hops=7, simple=True) == distribution.best_paths(9, hops=5, simple=True)  # there are none
    assert [walk.nodes for walk in distribution.best_paths(99, simple=True).walks] == [[0, 1], *[[2, 0, 1]] * 4]
    monkeypatch.setattr("mhgrn.explain.search.LOOKED_AT", 3)
    best = distribution.best_paths(99, hops=3, simple=True)
    assert (best.walks, best.complete) == ([], False)


@settings(max_examples=50)
@given(**CASES)
def test_edge_marginals_are_those_of_all_walks(seed: int, hops: int, coarse: bool, itself: float, blocked: bool) -> None:
    case = random_case(seed, hops, coarse, itself, blocked)
    marginals = case.distribution.edge_marginals()
    source, target = case.batch.edge_index.tolist()
    edge = {key: i for i, key in enumerate(zip(source, case.batch.edge_type.tolist(), target, strict=True))}
    expected = np.zeros((hops, len(source)))
    for entry in case.entries:
        for hop, step in enumerate(zip(entry.nodes, entry.relations, entry.nodes[1:], strict=False)):
            expected[hop, edge[step]] += entry.probability
    mine = np.zeros_like(expected)
    mine[:, marginals.edges] = marginals.by_hop
    assert mine == pytest.approx(expected)
    assert marginals.uses == pytest.approx(expected.sum(0)[marginals.edges])
    assert sorted(marginals.edges) == [e for e, node in enumerate(source) if case.batch.batch[node] == case.graph]


@settings(max_examples=40)
@given(**CASES)
def test_masses_are_all_there_is(seed: int, hops: int, coarse: bool, itself: float, blocked: bool) -> None:
    case = random_case(seed, hops, coarse, itself, blocked)
    distribution = case.distribution
    total = sum(case.pool.values())
    assert distribution.walks == pytest.approx(sum(e.probability for e in case.entries))
    assert distribution.itself == pytest.approx(itself * total)
    assert distribution.masses["circles"] == pytest.approx(sum(e.probability for e in case.entries if returns(e)), abs=1e-12)
    assert sum(distribution.masses.values()) == pytest.approx(total)
    for entry in case.entries:
        assert distribution.probability(entry.nodes, entry.relations) == pytest.approx(entry.probability)


def test_deep_walks_under_sharp_attention_stay_exact() -> None:
    """Sixteen hops, logits of ±30: no probability is lost, and the best walk's is the one of the enumeration of one line."""
    rng = np.random.default_rng(0)
    batch = chain_batch([(0, 0, 1), (1, 1, 2), (2, 0, 3)], 4, {3}, relations=2)
    m = batch.num_relations
    weights = WalkWeights(*(torch.from_numpy(rng.choice([-30.0, 30.0], shape)) for shape in ((4,), (1, m), (m, m))))
    length = torch.zeros(4, 16, dtype=torch.float64)
    length[:, -1] = 1
    distribution = WalkDistribution(trace_of(weights, length), batch, 0, {3: 1.0})
    assert distribution.walks == 1  # parity: 16 hops lead from 1 to 3
    by_hop = distribution.edge_marginals().by_hop
    assert by_hop.sum(1) == pytest.approx(np.ones(16))
    walks = distribution.best_paths(10_000, hops=16).walks
    assert sum(walk.probability for walk in walks) == pytest.approx(1)
    assert all(a.probability >= b.probability * (1 - 1e-9) for a, b in pairwise(walks))


def test_samples_converge_to_the_distribution() -> None:
    case = next(c for c in (random_case(seed, 3, itself=0.3) for seed in range(50)) if 10 <= len(c.entries) <= 60)
    n = 4000
    distribution = case.distribution
    samples = distribution.sample_paths(n, seed=1)
    assert samples == distribution.sample_paths(n, seed=1) != distribution.sample_paths(n, seed=2)
    assert len(samples) == n
    counted = Counter((tuple(walk.nodes), tuple(walk.relations)) for walk in samples)
    expected = {(tuple(e.nodes), tuple(e.relations)): n * e.probability / distribution.walks for e in case.entries}
    assert set(counted) <= set(expected)
    common = [key for key, count in expected.items() if count >= 5]
    rare_seen, rare = (sum(c[key] for key in expected if key not in common) for c in (counted, expected))
    square = sum((counted[key] - expected[key]) ** 2 / expected[key] for key in common) + (rare and (rare_seen - rare) ** 2 / rare)
    freedom = len(common)
    assert square < freedom + 4 * math.sqrt(2 * freedom)  # four standard deviations of χ²
    for walk in samples[:50]:
        assert walk.probability == pytest.approx(distribution.probability(walk.nodes, walk.relations))


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_every_sample_is_a_walk_with_a_probability(seed: int) -> None:
    case = random_case(seed, 3, blocked=True)
    probability = {(tuple(e.nodes), tuple(e.relations)): e.probability for e in case.entries}
    samples = case.distribution.sample_paths(20, seed)
    assert len(samples) == (20 if probability else 0)
    for walk in samples:
        assert walk.probability == pytest.approx(probability[tuple(walk.nodes), tuple(walk.relations)])


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), zero_hop=st.booleans(), layers=st.integers(1, 2))
def test_it_is_the_distribution_of_the_model(seed: int, zero_hop: bool, layers: int) -> None:
    """The normalisers, lengths and pooling are the model's own, for each graph of the batch."""
    torch.manual_seed(seed)
    batch = oracles.random_batch(np.random.default_rng(seed), 3, 2)
    encoder = MHGRN(Dims(5, 4, 4), MHGRNSettings(hops=2, layers=layers, hidden_dim=6, zero_hop=zero_hop, initial_scale=0.7)).eval()
    with torch.inference_mode():
        encoding = encoder(torch.randn(3, 5), torch.randn(batch.num_nodes, 4), batch)
    assert encoding.pooled is not None
    assert encoding.attention is not None
    for graph in range(3):
        for first_head in (False, True):
            distribution = WalkDistribution.of(encoding, batch, graph, first_head)
            mine = batch.batch[encoding.pooled] == graph
            heads = encoding.attention[mine]
            assert list(distribution.pool) == encoding.pooled[mine].tolist()
            expected = (heads[:, 0] if first_head else heads.mean(1)).tolist()
            assert list(distribution.pool.values()) == pytest.approx(expected, abs=1e-6)
            assert sum(distribution.masses.values()) == pytest.approx(1.0 if distribution.pool else 0.0)
            assert zero_hop or distribution.itself == 0
            for node in distribution.pool:
                shares = encoding.traces[-1].length[encoding.traces[-1].row(node)]
                assert distribution.lengths[node][1:] == pytest.approx(shares.numpy(), abs=1e-6)


@pytest.mark.parametrize("pool", ["all", "question"])
def test_walks_that_the_model_leaves_out_have_no_probability(pool: str) -> None:
    torch.manual_seed(0)
    settings = MHGRNSettings(hops=2, hidden_dim=6, initial_scale=0.7, walks_to="answer", pool=pool)
    encoder = MHGRN(Dims(5, 4, 4), settings).eval()
    batch = oracles.random_batch(np.random.default_rng(3), 1, 2, 7, 9)
    encoding = encoder(torch.randn(1, 5), torch.randn(batch.num_nodes, 4), batch)
    found = WalkDistribution.of(encoding, batch, 0)
    ends = {walk.nodes[-1] for walk in found.best_paths(1000).walks}
    assert {int(batch.node_type[node]) for node in ends} <= {ANSWER}
    assert sum(walk.probability for walk in found.best_paths(1000).walks) == pytest.approx(found.walks)
    if pool == "question":
        assert found.masses == pytest.approx({"walks": 0, "circles": 0, "no_path": 1, "itself": 0})


def test_a_trace_may_keep_rows_for_some_nodes_only() -> None:
    case = random_case(3, 2)
    assert case.pool
    kept = torch.tensor(sorted(case.pool))
    pruned = LayerTrace(case.weights, kept, case.length[kept], torch.zeros(case.length.shape[1], len(kept)), case.node_log_weight)
    distribution = WalkDistribution(pruned, case.batch, case.graph, case.pool)
    assert distribution.masses == case.distribution.masses
    missing = next(node for node in range(case.batch.num_nodes) if node not in case.pool)
    with pytest.raises(UserError, match=f"did not compute node {missing}"):
        pruned.row(missing)


def test_fact_uses_count_both_directions() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("school", "HasA", "desk")])
    at, has = (graph.schema.lookup[name][0] for name in ("atlocation", "hasa"))
    concepts = [graph.id(name) for name in ("child", "school", "desk")]
    subgraph = Subgraph(np.array(concepts), np.array([0, 1, 2]), np.array([0, 1]), np.array([at, has]), np.array([1, 2]))
    batch = GraphBatch.collate([subgraph], 2)
    weights, length = flat(batch, 2)
    uses = WalkDistribution(trace_of(weights, length), batch, 0, {1: 1.0}).fact_uses(graph)
    # one hop: by either fact; two hops: out and back by the same fact
    assert uses == pytest.approx({("child", "AtLocation", "school"): 0.75, ("school", "HasA", "desk"): 0.75})


@pytest.mark.parametrize("facts", [[], [(0, 0, 1)]])
def test_an_entity_without_walks_has_none(facts: list[tuple[int, int, int]]) -> None:
    batch = chain_batch(facts, 3, {2})
    weights, length = flat(batch, 2)
    distribution = WalkDistribution(trace_of(weights, length), batch, 0, {2: 1.0})
    assert distribution.masses == {"walks": 0, "circles": 0, "no_path": pytest.approx(1), "itself": 0}
    assert distribution.best_paths(3).walks == distribution.best_paths(3, simple=True).walks == []
    assert distribution.sample_paths(5, 0) == []
    assert not distribution.edge_marginals().uses.any()
    with pytest.raises(UserError, match="no edge of relation 0 leads from node 0 to node 2"):
        distribution.probability([0, 2], [0])


def test_no_answer_node_and_no_node_at_all() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    batch = GraphBatch.collate([Subgraph(nothing, nothing, nothing, nothing, nothing)], 1)
    for batch_, pool in ((batch, {}), (chain_batch([(0, 0, 1)], 2, set()), {})):
        weights, length = flat(batch_, 2)
        distribution = WalkDistribution(trace_of(weights, length), batch_, 0, pool)
        assert set(distribution.masses.values()) == {0}
        assert distribution.best_paths(2).walks == distribution.sample_paths(2, 0) == []
        assert not distribution.edge_marginals().by_hop.any()


def test_what_makes_no_sense_is_refused() -> None:
    batch = chain_batch([(0, 0, 1)], 2, {1})
    weights, length = flat(batch, 2)
    trace = trace_of(weights, length)
    distribution = WalkDistribution(trace, batch, 0, {1: 1.0})
    for call, message in (
        (lambda: distribution.best_paths(0), "k is 0; it should be 1 or more"),
        (lambda: distribution.best_paths(1, hops=3), "this model's walks have 1 to 2"),
        (lambda: distribution.best_paths(1, hops=0), "this model's walks have 1 to 2"),
        (lambda: distribution.sample_paths(-1, 0), "-1 samples"),
        (lambda: distribution.log_weight([0], []), "no walk"),
        (lambda: WalkDistribution(trace, batch, 1, {}), "there is no graph 1"),
        (
            lambda: WalkDistribution.of(
                NoGraph(Dims(3, 0, 2), NoGraph.Settings())(torch.zeros(1, 3), torch.zeros(0), batch), batch, 0
            ),
            "attends to no walks",
        ),
    ):
        with pytest.raises(UserError, match=message):
            call()
