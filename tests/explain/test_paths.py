import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.explain import Walk, WalkDistribution, decode_walks, to_path
from mhgrn.grounding.grounder import Mentions
from mhgrn.kg import KnowledgeGraph
from mhgrn.nn.message_passing import WalkWeights
from mhgrn.subgraphs.extract import Extractor
from walk_oracle import enumerate_walks, trace_of


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), layers=st.integers(1, 3))
def test_layers_are_decoded_one_behind_the_other(seed: int, layers: int) -> None:
    """The walk of the last layer ends in a pooled node; below it stands the best walk of the next layer, and so forth."""
    torch.manual_seed(seed)
    batch = oracles.random_batch(np.random.default_rng(seed), 2, 2, edges=4)
    encoder = MHGRN(Dims(5, 4, 4), MHGRNSettings(hops=2, layers=layers, hidden_dim=6, initial_scale=0.7)).eval()
    with torch.inference_mode():
        encoding = encoder(torch.randn(2, 5), torch.randn(batch.num_nodes, 4), batch)
    edges = set(zip(batch.edge_index[0].tolist(), batch.edge_type.tolist(), batch.edge_index[1].tolist(), strict=True))
    for graph in range(2):
        distribution = WalkDistribution.of(encoding, batch, graph)
        top = distribution.best_paths(3, simple=True).walks
        walks = decode_walks(distribution, encoding.traces[:-1], k=3)
        assert len(walks) == len(top)
        for walk, last in zip(walks, top, strict=True):
            assert walk.nodes[-1] in distribution.pool
            assert set(zip(walk.nodes, walk.relations, walk.nodes[1:], strict=False)) <= edges
            parts, nodes = [last], last.nodes
            for trace in reversed(encoding.traces[:-1]):
                end = nodes[0]
                length = torch.zeros(batch.num_nodes, 2, dtype=torch.float64)
                length[end] = trace.length[trace.row(end)]
                every = enumerate_walks(batch, trace.weights, length, {end: 1.0})
                joined = [[*entry.nodes[:-1], *nodes] for entry in every]
                below = [e.probability for e, whole in zip(every, joined, strict=True) if len(set(whole)) == len(whole)]
                found = WalkDistribution(trace, batch, graph, {end: 1.0}).best_paths(1, simple=True, avoid=nodes[1:]).walks
                assert [best.probability for best in found] == pytest.approx(sorted(below)[-1:], rel=1e-5)
                parts[:0] = found
                nodes = [*(n for best in found for n in best.nodes[:-1]), *nodes]
            assert len(set(walk.nodes)) == len(walk.nodes)
            assert walk.relations == [r for part in parts for r in part.relations]
            assert walk.nodes == [*(n for part in parts for n in part.nodes[:-1]), last.nodes[-1]]
            assert walk.probability == pytest.approx(np.prod([part.probability for part in parts]))
            assert walk.ties == np.prod([part.ties for part in parts])


def test_the_next_best_length_is_used_where_the_best_has_no_walk() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school")])
    batch = GraphBatch.collate([Extractor(graph)(Mentions([0], [1]))], 1)
    weights = WalkWeights(torch.tensor([0.0, -torch.inf]), torch.zeros(1, 2), torch.zeros(2, 2))
    trace = trace_of(weights, torch.tensor([[0.1, 0.9], [0.1, 0.9]]))
    distribution = WalkDistribution(trace, batch, 0, {1: 1.0})
    # two hops into school would have to begin at school, whose weight is 0
    assert (distribution.walks, distribution.no_path) == (pytest.approx(0.1), pytest.approx(0.9))
    (walk,) = decode_walks(distribution, k=5)
    assert (walk.nodes, walk.relations) == ([0, 1], [0])
    # in the layer below, only walks over school lead to child
    assert decode_walks(distribution, [trace], k=5) == [walk]


def test_an_entity_without_walks_stands_alone() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("sun", "AtLocation", "night_sky")])
    batch = GraphBatch.collate([Extractor(graph)(Mentions([0], [graph.id("night_sky")]))], 1)
    path = to_path(Walk([1], [], 0.0), batch, graph)
    assert (path.entity, path.facts) == ("night_sky", [])
    assert str(path) == "night sky (no fact leads to it)"


def test_facts_are_shown_in_the_graphs_own_direction() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "class_room"), ("school", "HasPart", "class_room")])
    batch = GraphBatch.collate([Extractor(graph)(Mentions([0], [graph.id("school")]))], 2)
    child, school, room = 0, 1, 2
    path = to_path(Walk([child, room, school], [0, 3], 0.0), batch, graph)
    assert path.facts == [("child", "AtLocation", "class_room"), ("school", "HasPart", "class_room")]
    assert str(path) == "child —AtLocation→ class room ←HasPart— school"


def test_a_walk_that_is_not_in_the_graph_is_never_shown() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "class_room"), ("school", "HasPart", "class_room")])
    batch = GraphBatch.collate([Extractor(graph)(Mentions([0], [graph.id("school")]))], 2)
    with pytest.raises(AssertionError, match="no edge of the graph"):
        to_path(Walk([0, 1], [0], 0.0), batch, graph)
