from typing import ClassVar

import pytest
import torch
from torch import Tensor

from encoder_cases import SharingCase, pooled_naively
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders.base import Dims, GraphEncoder
from mhgrn.encoders.qagnn import CONTEXT, QAGNN, QAGNNLayer
from mhgrn.errors import UserError
from mhgrn.model import assemble, parameter_count
from mhgrn.nn.layers import gelu
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


def context_edges(batch: GraphBatch, self_loops: bool) -> list[tuple[int, int, int]]:
    """(source, relation, target) of all edges; the context node of graph g is number N + g."""
    N, m = batch.num_nodes, batch.num_relations
    edges = [(j, r, i) for j, i, r in zip(*batch.edge_index.tolist(), batch.edge_type.tolist(), strict=True)]
    for node, (kind, graph) in enumerate(zip(batch.node_type.tolist(), batch.batch.tolist(), strict=True)):
        if kind == QUESTION:
            edges += [(N + graph, m, node), (node, m + 1, N + graph)]
        if kind == ANSWER:
            edges += [(N + graph, m + 2, node), (node, m + 3, N + graph)]
    return edges + [(i, m + 4, i) for i in range(N + batch.num_graphs) if self_loops]


class TestQAGNN(SharingCase):
    name = "qagnn"
    settings: ClassVar = {"hidden_dim": 4, "dropout": 0.0, "layers": 2}
    variants: ClassVar = [{}, {"heads": 1, "layers": 3}, {"self_loops": False}]

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, QAGNN)
        assert batch.relevance is not None
        N, n = batch.num_nodes, batch.num_nodes + batch.num_graphs
        edges = context_edges(batch, encoder.self_loops)
        kind = torch.tensor([*batch.node_type.tolist(), *[CONTEXT] * batch.num_graphs], dtype=torch.long)
        h = torch.cat([gelu(encoder.project.linear(features)), gelu(encoder.context.linear(s))])
        u = encoder.types.weight[kind]
        rho = encoder.relevance_map(torch.cat([batch.relevance, torch.ones(batch.num_graphs).double()])[:, None])
        a, e, b = (torch.tensor([edge[i] for edge in edges], dtype=torch.long) for i in range(3))
        f_r = encoder.relations
        hidden = f_r.relation.weight[e] + f_r.source_type.weight[kind[a]] + f_r.target_type.weight[kind[b]]
        r = f_r.out(gelu(f_r.norm(hidden)))  # of every edge
        for layer in encoder.layers:
            assert isinstance(layer, QAGNNLayer)
            width = h.shape[1] // layer.heads
            q = layer.query(torch.cat([h, u, rho], dim=1))[a]
            k = layer.key(torch.cat([h[b], u[b], rho[b]], dim=1)) + layer.key_relation(r)
            m = layer.message(torch.cat([h[a], u[a]], dim=1)) + layer.message_relation(r)
            heads = []
            for head in range(layer.heads):
                part = slice(head * width, (head + 1) * width)
                logit = (q[:, part] * k[:, part]).sum(1) / width**0.5
                share = torch.zeros_like(logit)
                for node in range(n):
                    share = torch.where(a == node, torch.softmax(logit.masked_fill(a != node, -torch.inf), 0).nan_to_num(), share)
                rows = [(share[:, None] * m[:, part])[b == node].sum(0) for node in range(n)]
                heads.append(torch.stack(rows) if rows else m[:0, part])
            h = layer.update(torch.cat(heads, dim=1)) + h
        pooled = pooled_naively(encoder.pool, s, h, batch, list(range(N)))
        return torch.cat([h[N:], pooled], dim=1)


def test_relevance_changes_the_result() -> None:
    case = TestQAGNN()
    batch, s, features, tokens = case.random(3)
    encoder = case.encoder()
    other = batch.with_relevance(torch.zeros(batch.num_nodes))
    assert not torch.allclose(encoder(s, features, batch, tokens).g, encoder(s, features, other, tokens).g)


def test_heads_divide_the_width() -> None:
    with pytest.raises(UserError, match="divides hidden_dim, 200"):
        Config.of({"graph_encoder": "qagnn", "qagnn": {"heads": 3}})


def test_parameter_count() -> None:
    D, width, relations = 200, 1024, 34 + 4 + 1
    projections = 2 * (width * D + D)
    described = 4 * 100 + (100 + 100) + (100 * 100 + 100)  # types and relevance
    f_r = (relations + 4 + 4) * D + 2 * D + D * D + D
    f_n = 2 * (D * D + D) + 2 * D
    layer = 2 * (2 * D * D + D) + 2 * D * D + (300 * D + D) + f_n
    pool = width * D + D + 2 * (D * D + D)
    count = projections + described + f_r + 5 * layer + pool + 2 * D + width + 1
    assert parameter_count(assemble(Config.of({"graph_encoder": "qagnn"}), 1024, Dims(1024, 1024, 34))) == count
