from typing import Any, ClassVar

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

import oracles
from encoder_cases import FEATURES, RELATIONS, EncoderCase, S
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders.base import Dims, GraphEncoder
from mhgrn.encoders.khop_rn import KHopRN, KHopRNSettings
from mhgrn.encoders.rn import RN, RNSettings
from mhgrn.errors import UserError
from mhgrn.model import KnowledgeAwareQA, assemble, parameter_count
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph
from mhgrn.text.tokens import Tokens


def gelu(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")


def between(batch: GraphBatch, graph: int, hops: int) -> list[oracles.Walk]:
    return [
        (nodes, relations)
        for nodes, relations in oracles.walks(batch, hops)
        if batch.batch[nodes[0]] == graph and batch.node_type[nodes[0]] == QUESTION and batch.node_type[nodes[-1]] == ANSWER
    ]


class TestRN(EncoderCase):
    name = "rn"
    settings: ClassVar = {"hidden_dim": 4, "mlp_dim": 5, "out_dim": 6, "dropout": 0.0}
    variants: ClassVar = [{}, {"mlp_layers": 1, "transform": "linear"}]

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, RN)
        h, e = gelu(encoder.project.linear(features)), encoder.relations.weight
        rows = []
        for graph in range(batch.num_graphs):
            vectors = [encoder.transform(torch.cat([h[n[0]], e[r[0]], h[n[1]]])) for n, r in between(batch, graph, 1)]
            rows.append(torch.stack(vectors).mean(0) if vectors else s.new_zeros(6))
        return torch.stack(rows)


class TestKHopRN(EncoderCase):
    name = "khop-rn"
    settings: ClassVar = {**TestRN.settings, "heads": 2}
    variants: ClassVar = [
        {},
        {"hops": 1, "pooling": "mean"},
        {"pooling": "multihead"},
        {"pooling": "definition"},
        {"pooling": "definition", "transform": "linear"},
        {"pooling": "definition", "transform": "linear", "hops": 3},
    ]
    edges = 4

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, KHopRN)
        K, pooling = encoder.settings.hops, encoder.settings.pooling
        h, e = gelu(encoder.project.linear(features)), encoder.relations.weight
        rows = []
        for graph in range(batch.num_graphs):
            answers = int(((batch.node_type == ANSWER) & (batch.batch == graph)).sum())
            walks = [w for k in range(1, K + 1) for w in between(batch, graph, k)]
            if not walks:
                rows.append(s.new_zeros(6))
                continue
            x = torch.stack(
                [encoder.transform(torch.cat([h[n[0]], torch.stack([e[i] for i in r]).prod(0), h[n[-1]]])) for n, r in walks]
            )
            ends = [(n[-1], len(r)) for n, r in walks]
            if pooling == "mean":
                rows.append(x.mean(0))
            elif pooling == "definition":
                rows.append(sum(v / (K * answers * ends.count(end)) for v, end in zip(x, ends, strict=True)))
            elif encoder.query is not None:
                rows.append(torch.softmax(x @ encoder.query(s[graph]) / 6**0.5, 0) @ x)
            else:
                assert encoder.pool is not None
                query, key, value = encoder.pool.query(s[graph]), encoder.pool.key(x), encoder.pool.value(x)
                heads = [
                    torch.softmax(key[:, part] @ query[part] / 3**0.5, 0) @ value[:, part] for part in (slice(0, 3), slice(3, 6))
                ]
                rows.append(torch.cat(heads))
        return torch.stack(rows)

    @pytest.mark.parametrize("settings", [{}, {"pooling": "mean"}, {"pooling": "multihead"}, {"pooling": "definition"}])
    def test_walks_come_with_their_part_in_the_vector(self, settings: dict[str, Any]) -> None:
        """g is the weighted sum of the walks' vectors, so their weights tell all (of heads, their mean)."""
        encoder = self.encoder(**settings)
        assert isinstance(encoder, KHopRN)
        batch, s, features, _ = self.random(171)
        encoding = encoder(s, features, batch)
        h = gelu(encoder.project.linear(features))
        for graph in range(batch.num_graphs):
            every = [w for k in (1, 2) for w in between(batch, graph, k)]
            walks = encoder.attended_walks(encoding, batch, graph, 1000)
            assert [w.log_weight for w in walks] == sorted((w.log_weight for w in walks), reverse=True)
            for walk in walks:
                assert (walk.nodes, walk.relations) in every
                assert 1 <= walk.ties <= len([w for w in every if w[0][-1] == walk.nodes[-1] and len(w[1]) == len(walk.relations)])
            assert encoder.attended_walks(encoding, batch, graph, 2) == walks[:2]
            kinds = {(w.nodes[0], tuple(w.relations), w.nodes[-1]): np.exp(w.log_weight) for w in walks}
            assert kinds.keys() == {(n[0], tuple(r), n[-1]) for n, r in every}
            if encoder.pool is None:
                total = sum(
                    kinds[n[0], tuple(r), n[-1]]
                    * encoder.transform(torch.cat([h[n[0]], encoder.relations.weight[r].prod(0), h[n[-1]]]))
                    for n, r in every
                )
                torch.testing.assert_close(encoding.g[graph], total if every else torch.zeros_like(encoding.g[graph]))

    def test_the_recursion_tells_its_walks_too(self) -> None:
        encoders = [self.encoder(pooling="definition", transform=t) for t in ("linear", "mlp")]
        batch, s, features, _ = self.random(171)
        walks = []
        for encoder in encoders:
            assert isinstance(encoder, KHopRN)
            encoding = encoder(s, features, batch)
            walks.append([encoder.attended_walks(encoding, batch, g, 100) for g in range(3)])
        assert walks[0] == walks[1]
        assert any(walks[0])

    def test_what_a_limit_cuts_is_counted(self) -> None:
        batch, s, features, _ = self.random(171)
        counts = torch.tensor([len([w for k in (1, 2) for w in between(batch, g, k)]) for g in range(3)])
        assert counts.max() > 2
        encoding = self.encoder(max_paths=2)(s, features, batch)
        assert encoding.cut is not None
        assert encoding.cut.tolist() == (counts - 2).clamp(min=0).tolist()
        assert not self.encoder()(s, features, batch).cut.any()


@hypothesis.settings(max_examples=40)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 3))
def test_the_recursion_equals_the_appendix(seed: int, K: int) -> None:
    """Definition 1 by enumeration, against the encoder that enumerates nothing."""
    batch = oracles.random_batch(np.random.default_rng(seed), 1, RELATIONS, max_nodes=4, edges=5)
    config = KHopRNSettings(hops=K, hidden_dim=3, out_dim=4, pooling="definition", transform="linear")
    encoder = KHopRN(Dims(S, FEATURES, 2 * RELATIONS), config).double()
    features = torch.randn(batch.num_nodes, FEATURES, dtype=torch.float64)
    assert isinstance(encoder.transform, torch.nn.Linear)
    W = list(encoder.transform.weight.split(3, dim=1))
    wanted = oracles.k_hop_rn(gelu(encoder.project.linear(features)), encoder.relations.weight, W, K, batch)
    torch.testing.assert_close(encoder(torch.zeros(1, S), features, batch).g[0], wanted)


# ---- as published


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("rn", {}, 399_421),
        ("khop-rn", {"pooling": "attention"}, 399_421 + 131_200),
        ("khop-rn", {"pooling": "multihead"}, 399_421 + 164_224),
    ],
)
def test_published_parameter_counts(name: str, settings: dict[str, Any], count: int) -> None:
    config = Config.of({"preset": "as_published", "graph_encoder": name, name.replace("-", "_"): settings})
    assert parameter_count(assemble(config, 1024, Dims(1024, 1024, 34))) == count


def test_the_fair_version_has_no_row_for_pairs_of_relations() -> None:
    assert parameter_count(KnowledgeAwareQA(RN(Dims(1024, 1024, 34), RNSettings()), 1024)) == 399_421 - 34 * 34 * 100


def fan(middles: int, relation: int) -> GraphBatch:
    """question → answer by relation 1, and by way of ``middles`` nodes with two facts of ``relation`` each."""
    n = middles + 2
    types = np.array([QUESTION, ANSWER, *[2] * middles], dtype=np.uint8)
    facts = [(0, 1, 1), *((0, relation, m) for m in range(2, n)), *((m, relation, 1) for m in range(2, n))]
    return GraphBatch.collate([Subgraph(np.arange(n), types, *np.array(facts).T)], RELATIONS)


def test_the_published_one_hop_network_also_read_two_hops_of_relation_0() -> None:
    torch.manual_seed(0)
    encoder = RN(Dims(S, FEATURES, 2 * RELATIONS), RNSettings(published_paths=True, dropout=0.0)).double()
    s = torch.randn(1, S, dtype=torch.float64)
    for relation, kinds in ((0, 2), (1, 1)):
        batch = fan(5, relation)
        features = torch.randn(batch.num_nodes, FEATURES, dtype=torch.float64)
        h = gelu(encoder.project.linear(features))
        parts = [encoder.relations.weight[1], encoder.relations.weight[0] ** 2][:kinds]
        wanted = torch.stack([encoder.transform(torch.cat([h[0], part, h[1]])) for part in parts]).mean(0)
        torch.testing.assert_close(encoder(s, features, batch).g[0], wanted)


def test_the_published_network_reads_an_empty_slot_where_there_is_no_path() -> None:
    encoder = RN(Dims(S, FEATURES, 2 * RELATIONS), RNSettings(published_paths=True, dropout=0.0)).double()
    alone = GraphBatch.collate([Subgraph(np.arange(1), np.zeros(1, np.uint8), *np.zeros((3, 0), int))], RELATIONS)
    g = [encoder(torch.zeros(1, S).double(), torch.randn(1, FEATURES).double(), alone).g for _ in range(2)]
    torch.testing.assert_close(*g)
    assert g[0].any()


def test_the_published_networks_take_the_first_200_kinds_by_pair() -> None:
    """Two question nodes, each with 15² kinds of walks of two hops: the second's are beyond the limit, even its edge."""
    half = 15
    types = np.array([QUESTION, QUESTION, ANSWER, 2], dtype=np.uint8)
    facts = [(q, r, 3) for q in (0, 1) for r in range(half)] + [(3, r, 2) for r in range(half)] + [(1, 0, 2)]
    batch = GraphBatch.collate([Subgraph(np.arange(4), types, *np.array(facts).T)], half)
    config = KHopRNSettings(published_paths=True, dropout=0.0)
    encoding = KHopRN(Dims(S, FEATURES, 2 * half), config)(torch.randn(1, S), torch.randn(4, FEATURES), batch)
    assert [len(w) for w in encoding.traces[0].lengths] == [0, 200]
    assert encoding.traces[0].lengths[1].nodes[:, 0].eq(0).all()
    assert encoding.cut is not None
    assert encoding.cut.tolist() == [2 * half**2 + 1 - 200]


def test_the_published_network_has_at_most_two_hops() -> None:
    with pytest.raises(UserError, match=r"khop_rn\.hops=2"):
        KHopRN(Dims(S, FEATURES, 4), KHopRNSettings(hops=3, published_paths=True))
