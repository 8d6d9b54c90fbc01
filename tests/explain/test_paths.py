import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from mhgrn.data.batch import GraphBatch
from mhgrn.data.subgraphs import Extractor
from mhgrn.encoders.mhgrn import LayerTrace
from mhgrn.explain.paths import Walk, best_walk, decode_walk, to_path
from mhgrn.kg import KnowledgeGraph
from mhgrn.nn.message_passing import WalkWeights
from mhgrn.text.grounding import Mentions


def random_weights(batch: GraphBatch, seed: int, coarse: bool) -> WalkWeights:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        return values.round() if coarse else values  # rounded logits tie often

    m = batch.relation_count
    return WalkWeights(draw(3)[batch.types], draw(batch.graph_count, m), draw(m, m))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), hops=st.integers(1, 4), coarse=st.booleans())
def test_best_walk_is_the_best_of_all_walks(seed: int, hops: int, coarse: bool) -> None:
    batch = oracles.random_batch(np.random.default_rng(seed), 2, 2, max_nodes=4, edges=4)
    weights = random_weights(batch, seed, coarse)
    edges = set(zip(*batch.edge_index.tolist(), batch.edge_type.tolist(), strict=True))
    every = list(oracles.walks(batch, hops))
    for node in range(len(batch.concepts)):
        scores = [float(oracles.log_alpha(w, weights, batch)) for w in every if w[0][-1] == node]
        found = best_walk(batch, weights, node, hops)
        if not scores:
            assert found is None
            continue
        assert found is not None
        assert found.nodes[-1] == node
        assert abs(found.log_weight - max(scores)) < 1e-9
        assert abs(float(oracles.log_alpha((found.nodes, found.relations), weights, batch)) - max(scores)) < 1e-9
        assert found.ties == sum(score > max(scores) - 1e-9 for score in scores)
        for a, r, b in zip(found.nodes, found.relations, found.nodes[1:], strict=False):
            assert (a, b, r) in edges


def test_the_next_best_length_is_used_where_the_best_has_no_walk() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school")])
    subgraph = Extractor(graph)(Mentions([0], [1]))
    batch = GraphBatch.collate([subgraph], 1)
    weights = WalkWeights(torch.tensor([0.0, -torch.inf]), torch.zeros(1, 2), torch.zeros(2, 2))
    trace = LayerTrace(weights, torch.arange(2), torch.tensor([[0.1, 0.9], [0.1, 0.9]]), torch.zeros(2, 2))
    walk = decode_walk(batch, [trace], 1)  # two hops into school would have to begin at school, whose weight is 0
    assert (walk.nodes, walk.relations) == ([0, 1], [0])


def test_an_entity_without_walks_stands_alone() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("sun", "AtLocation", "sky")])
    batch = GraphBatch.collate([Extractor(graph)(Mentions([0], [graph.id("sky")]))], 1)
    weights = WalkWeights(torch.zeros(2), torch.zeros(1, 2), torch.zeros(2, 2))
    trace = LayerTrace(weights, torch.arange(2), torch.full((2, 2), 0.5), torch.zeros(2, 2))
    path = to_path(decode_walk(batch, [trace], 1), batch, graph)
    assert (path.entity, path.facts) == ("sky", [])
    assert str(path) == "sky (no fact leads to it)"


def test_facts_are_shown_in_the_graphs_own_direction() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "class_room"), ("school", "HasPart", "class_room")])
    batch = GraphBatch.collate([Extractor(graph)(Mentions([0], [graph.id("school")]))], 2)
    child, school, room = 0, 1, 2
    path = to_path(Walk([child, room, school], [0, 3], 0.0), batch, graph)
    assert path.facts == [("child", "AtLocation", "class_room"), ("school", "HasPart", "class_room")]
    assert str(path) == "child —AtLocation→ class room ←HasPart— school"
