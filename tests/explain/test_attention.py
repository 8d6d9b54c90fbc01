import json
import math

import numpy as np
import pytest
import torch

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.encoders.none import NoGraph
from mhgrn.errors import UserError
from mhgrn.explain import WalkDistribution, attention
from mhgrn.grounding.grounder import Mentions
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.extract import Extractor


def test_a_walk_s_probability_can_be_computed_from_the_named_weights() -> None:
    graph = KnowledgeGraph.from_facts(
        [("child", "AtLocation", "class_room"), ("school", "HasPart", "class_room"), ("child", "AtLocation", "school")]
    )
    mentions = [Mentions([graph.id("child")], [graph.id("school")]), Mentions([graph.id("child")], [])]
    batch = GraphBatch.collate([Extractor(graph)(m) for m in mentions], 2)
    torch.manual_seed(0)
    encoder = MHGRN(
        Dims(5, 4, 4), MHGRNSettings(hops=2, layers=2, hidden_dim=6, initial_scale=0.7, walks_from="question", zero_hop=True)
    ).eval()
    with torch.inference_mode():
        encoding = encoder(torch.randn(2, 5), torch.randn(batch.num_nodes, 4), batch)
    named = attention(encoding, batch, {"school": 0, "nothing": 1}, graph)
    assert json.loads(json.dumps(named, allow_nan=False)) == named
    _, last = named["statements"]["school"]["layers"]
    turns = last["turns"]
    relations = ["AtLocation", "HasPart", "*AtLocation", "*HasPart"]
    assert list(last["relations"]) == list(turns) == list(turns["*HasPart"]) == relations
    assert last["types"] == {"question": pytest.approx(last["types"]["question"]), "answer": None, "other": None}
    assert named["statements"]["school"]["pooling"] == {"school": 1.0}
    assert sum(last["lengths"]["school"]) == pytest.approx(1)
    # child —AtLocation→ class_room ←HasPart— school is the only walk of two hops from child to school
    distribution = WalkDistribution.of(encoding, batch, 0)
    (walk,) = distribution.best_paths(9, hops=2).walks
    steps = [relations[r] for r in walk.relations]
    assert steps == ["AtLocation", "*HasPart"]
    weight = last["types"]["question"] + sum(last["relations"][r] for r in steps) + turns[steps[0]][steps[1]]
    assert weight == pytest.approx(walk.log_weight)
    assert walk.probability == pytest.approx(last["lengths"]["school"][2])
    assert named["statements"]["school"]["masses"] == distribution.masses
    empty = named["statements"]["nothing"]
    assert (empty["pooling"], empty["layers"][-1]["lengths"], set(empty["masses"].values())) == ({}, {}, {0.0})
    assert all(math.isfinite(w) for w in empty["layers"][0]["relations"].values())


def test_the_weights_of_concepts_are_named_where_relevance_weighs_walks() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "class_room"), ("school", "HasPart", "class_room")])
    batch = GraphBatch.collate([Extractor(graph)(Mentions([graph.id("child")], [graph.id("school")]))], 2)
    batch = batch.with_relevance(torch.linspace(0.1, 0.9, batch.num_nodes))
    torch.manual_seed(0)
    settings = MHGRNSettings(hidden_dim=6, initial_scale=0.7, walks_from="question", relevance_prior=True)
    encoder = MHGRN(Dims(5, 4, 4), settings).eval()
    assert encoder.relevance_scale is not None
    torch.nn.init.constant_(encoder.relevance_scale, 2.0)
    with torch.inference_mode():
        encoding = encoder(torch.randn(1, 5), torch.randn(batch.num_nodes, 4), batch)
    (layer,) = attention(encoding, batch, {"school": 0}, graph)["statements"]["school"]["layers"]
    assert batch.relevance is not None
    names = [graph.name(concept) for concept in batch.concepts.tolist()]
    assert layer["concepts"] == pytest.approx(dict(zip(names, (2 * batch.relevance).tolist(), strict=True)))
    (walk,) = WalkDistribution.of(encoding, batch, 0).best_paths(9, hops=2).walks
    left = layer["concepts"]["child"] + layer["concepts"]["class_room"]
    weight = layer["types"]["question"] + layer["relations"]["AtLocation"] + layer["relations"]["*HasPart"]
    assert walk.log_weight == pytest.approx(left + weight + layer["turns"]["AtLocation"]["*HasPart"])


def test_a_model_without_walks_has_no_such_attention() -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school")])
    batch = GraphBatch.collate([Extractor(graph)(Mentions([0], [1]))], 1)
    with pytest.raises(UserError, match="attends to no walks"):
        attention(
            NoGraph(Dims(3, 0, 2), NoGraph.Settings())(torch.zeros(1, 2), torch.from_numpy(np.zeros(0)), batch),
            batch,
            {"a": 0},
            graph,
        )
