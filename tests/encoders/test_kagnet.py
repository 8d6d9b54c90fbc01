from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import oracles
from encoder_cases import SharingCase
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims, GraphEncoder
from mhgrn.encoders.kagnet import KagNet, KagNetSettings, edge_scores
from mhgrn.errors import UserError
from mhgrn.features.folder import FeatureFolder, Request
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


def simple_paths(batch: GraphBatch, q: int, a: int, hops: int) -> list[oracles.Walk]:
    return [
        (nodes, relations)
        for k in range(1, hops + 1)
        for nodes, relations in oracles.walks(batch, k)
        if nodes[0] == q and nodes[-1] == a and len(set(nodes)) == len(nodes)
    ]


def last_state(lstm: nn.LSTM, steps: list[Tensor]) -> Tensor:
    """The LSTM's equations, step by step."""
    h = c = steps[0].new_zeros(lstm.hidden_size)
    for x in steps:
        gates = lstm.weight_ih_l0 @ x + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ h + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h


def normalised(batch: GraphBatch) -> Tensor:
    """D^{-1/2} (A + I) D^{-1/2} of the simple graph."""
    A = torch.eye(batch.num_nodes, dtype=torch.float64)
    A[batch.edge_index[1], batch.edge_index[0]] = 1
    d = A.sum(1)
    return A / (d[:, None] * d[None]).sqrt()


class TestKagNet(SharingCase):
    name = "kagnet"
    settings: ClassVar = {"hidden_dim": 4, "gcn_dim": 5, "node_dim": 3, "path_dim": 6, "pair_dim": 5, "dropout": 0.0}
    variants: ClassVar = [{}, {"hops": 3}]
    edges = 3

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, KagNet)
        v = functional.gelu(encoder.project.linear(features), approximate="tanh")
        for layer in encoder.layers:
            v = torch.relu(normalised(batch) @ layer(v))
        e = encoder.relations.weight
        rows = []
        for graph in range(batch.num_graphs):
            nodes = (batch.batch == graph).nonzero()[:, 0].tolist()
            both, logits = [], []
            for q in (n for n in nodes if batch.node_type[n] == QUESTION):
                for a in (n for n in nodes if batch.node_type[n] == ANSWER):
                    T = encoder.pair(torch.cat([s[graph], v[q], v[a]]))
                    paths = simple_paths(batch, q, a, encoder.settings.hops)
                    R = s.new_zeros(6)
                    if paths:
                        triples = [
                            [torch.cat([v[i], e[r], v[j]]) for i, r, j in zip(n, rs, n[1:], strict=False)] for n, rs in paths
                        ]
                        L = torch.stack([last_state(encoder.lstm, steps) for steps in triples])
                        R = torch.softmax(L @ encoder.path_query(T), 0) @ L
                    both.append(torch.cat([R, T]))
                    logits.append(encoder.pair_query(s[graph]) @ T)
            rows.append(torch.softmax(torch.stack(logits), 0) @ torch.stack(both) if both else s.new_zeros(11))
        return torch.stack(rows)

    def test_its_paths_are_simple_and_their_weights_those_of_pair_and_path(self) -> None:
        encoder = self.encoder(hops=3)
        assert isinstance(encoder, KagNet)
        batch, s, features, _ = self.random(17)
        encoding = encoder(s, features, batch)
        for graph in range(3):
            walks = encoder.attended_walks(encoding, batch, graph, 1000)
            ends = {(w.nodes[0], w.nodes[-1]) for w in walks}
            assert len(walks) == sum(len(simple_paths(batch, q, a, 3)) for q, a in ends)
            assert all(len(set(w.nodes)) == len(w.nodes) for w in walks)
            assert sum(np.exp(w.log_weight) for w in walks) < 1 + 1e-9


@pytest.fixture
def folder(starter_graph: KnowledgeGraph, tmp_path: Path) -> FeatureFolder:
    """Vectors of all concepts but the last, and of relations, as TransE leaves them."""
    rng = np.random.default_rng(0)
    concepts = np.arange(len(starter_graph) - 1)
    request = Request(starter_graph, concepts, {"from": "transe"})
    relations = rng.normal(size=(len(starter_graph.schema), 4))
    return request.write(tmp_path / "transe", concepts, [rng.normal(size=(len(concepts), 4))], 4, relations)


def test_an_edge_scores_as_the_likeliest_relation_between_its_ends(starter_graph: KnowledgeGraph, folder: FeatureFolder) -> None:
    m, last = len(starter_graph.schema), len(starter_graph) - 1
    # 0 -0→ 1, 1 -2→ 0, 0 -1→ 2 (which has no vector)
    forward = torch.tensor([[0, 1, 0], [1, 0, 2]])
    index = torch.cat([forward, forward.flip(0)], dim=1)
    types = torch.tensor([0, 2, 3])[:0]
    batch = GraphBatch(torch.tensor([5, 6, last]), types, types, index, torch.tensor([0, 2, 1, m, 2 + m, 1 + m]), 1, 2 * m)
    assert folder.relations is not None

    def likelihood(head: int, relation: int, tail: int) -> float:
        difference = folder.vectors[tail].astype(float) - folder.vectors[head].astype(float)
        r = folder.relations[relation]  # type: ignore[index]
        return float((1 + r @ difference / np.linalg.norm(r) / np.linalg.norm(difference)) / 2)

    best = max(likelihood(5, 0, 6), likelihood(6, 2, 5))
    torch.testing.assert_close(edge_scores(batch, folder), torch.tensor([best, best, 1.0, best, best, 1.0]))


def test_unlikely_paths_are_not_read(starter_graph: KnowledgeGraph, folder: FeatureFolder) -> None:
    m = len(starter_graph.schema)
    rng = np.random.default_rng(0)
    batch = oracles.random_batch(rng, 6, m, max_nodes=6, edges=12)
    s, features = torch.randn(6, 4), torch.randn(batch.num_nodes, 3)
    counts = []
    for least in (0.0, 0.3, 1.0):
        encoder = KagNet(Dims(4, 3, 2 * m), KagNetSettings(hops=3, prune_with=str(folder.folder), prune_below=least))
        encoder.attach(starter_graph)
        found = encoder(s, features, batch).traces[0].lengths
        counts.append(sum(map(len, found)))
        score = dict(zip(zip(*batch.edge_index.tolist(), strict=True), edge_scores(batch, folder).tolist(), strict=True))
        for walks in found:
            for nodes in walks.nodes.tolist():
                assert np.prod([score[step] for step in pairwise(nodes)]) >= least
    assert counts[0] > counts[1] > counts[2]


def test_pruning_needs_relations(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    concepts = np.arange(3)
    Request(starter_graph, concepts, {"from": "names"}).write(tmp_path / "names", concepts, [np.ones((3, 2))], 2)
    encoder = KagNet(Dims(4, 3, 4), KagNetSettings(prune_with=str(tmp_path / "names")))
    with pytest.raises(UserError, match="has no relation vectors"):
        encoder.attach(starter_graph)
