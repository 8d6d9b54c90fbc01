"""The systems that count edges: most-edges, edge-types and the graph soft counter."""

import math
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

import oracles
from encoder_cases import EncoderCase
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders.base import GraphEncoder
from mhgrn.encoders.edge_types import EdgeTypes
from mhgrn.encoders.gsc import GraphSoftCounter
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION
from mhgrn.subgraphs.prepared import PreparedData, edges_between
from mhgrn.text.tokens import Tokens
from mhgrn.training.evaluation import evaluate
from mhgrn.training.loop import train


def edges(batch: GraphBatch, graph: int) -> list[tuple[int, int, int]]:
    every = zip(*batch.edge_index.tolist(), batch.edge_type.tolist(), strict=True)
    return [(j, r, i) for j, i, r in every if batch.batch[i] == graph]


class TestMostEdges(EncoderCase):
    name = "most-edges"
    learns = False

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        return torch.tensor(
            [
                float(sum(batch.node_type[j] == QUESTION and batch.node_type[i] == ANSWER for j, _, i in edges(batch, graph)))
                for graph in range(batch.num_graphs)
            ],
            dtype=torch.float64,
        )

    def test_of_tied_choices_the_first_wins(self, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
        run = train(small_data, Config.of({"graph_encoder": "most-edges"}), tmp_path / "run", starter_graph)
        right = 0
        for q in small_data.split("test"):
            counts = [edges_between(subgraph) for subgraph in small_data.subgraphs(q)]
            right += small_data.questions[q].answer == counts.index(max(counts))
        assert evaluate(run, small_data, "test")["accuracy"] == right / len(small_data.split("test"))
        assert (tmp_path / "run" / "metrics.jsonl").is_file()
        assert run.about["finished"]


class TestEdgeTypes(EncoderCase):
    name = "edge-types"
    learns = False

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, EdgeTypes)
        rows = []
        for graph in range(batch.num_graphs):
            score = torch.zeros((), dtype=torch.float64)
            for row, kind in enumerate((QUESTION, OTHER)):
                for r in range(batch.num_relations):
                    count = sum(
                        batch.node_type[j] == kind and batch.node_type[i] == ANSWER and r == relation
                        for j, relation, i in edges(batch, graph)
                    )
                    score = score + encoder.weight[row, r] * math.log(1 + count)
            rows.append(score)
        return torch.stack(rows)


class TestEdgeTypesAndText(TestEdgeTypes):
    name = "edge-types-text"


class TestGraphSoftCounter(EncoderCase):
    name = "gsc"
    settings: ClassVar = {"hidden_dim": 4}
    variants: ClassVar = [{}, {"rounds": 3}]
    learns = False

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        """By enumeration: x_i^T is the sum over walks of 1 … T edges into i of the weight of their first edge."""
        assert isinstance(encoder, GraphSoftCounter)
        total = [torch.zeros((), dtype=torch.float64) for _ in range(batch.num_graphs)]
        for length in range(1, encoder.rounds + 1):
            for nodes, relations in oracles.walks(batch, length):
                if batch.node_type[nodes[-1]] != ANSWER:
                    continue
                one_hot = torch.zeros(6 + batch.num_relations, dtype=torch.float64)
                one_hot[batch.node_type[nodes[0]]] = one_hot[3 + batch.node_type[nodes[1]]] = one_hot[6 + relations[0]] = 1
                graph = int(batch.batch[nodes[-1]])
                total[graph] = total[graph] + torch.sigmoid(encoder.weigh(one_hot)[0])
        return torch.stack(total)
