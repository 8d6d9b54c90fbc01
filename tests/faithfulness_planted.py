"""A planted model, whose decisive facts are known: it counts the facts of some relations at the choice's concepts."""

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.config import Config
from mhgrn.encoders.base import Dims, EncoderSettings, GraphEncoder, GraphEncoding
from mhgrn.features import NoFeatures
from mhgrn.kg import KnowledgeGraph
from mhgrn.model import KnowledgeAwareQA
from mhgrn.nn.conv import LayerTrace
from mhgrn.nn.walk_weights import WalkWeights
from mhgrn.runs import Run, describe
from mhgrn.subgraphs.extract import ANSWER
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.tokens import Tokens

WORTH = 2.0  # of a decisive fact, in units of the score
SHARP = 6.0  # logit of the attention to a relation


class Planted(GraphEncoder):
    """score = 2 · the number of facts of decisive relations at a concept of the choice.

    It says that it attends to walks of one fact: to those of the decisive relations, or (``shuffled``) to random relations.
    """

    name, summary, equation, Settings = "planted", "counts decisive facts", "score = 2 |E|", EncoderSettings
    uses_features = uses_text = False
    has_paths = weighs_edges = True
    reach = Reach((ANSWER,), 1)

    def __init__(self, dims: Dims, decisive: list[int], attention: Literal["honest", "shuffled"]) -> None:
        super().__init__(dims, EncoderSettings())
        is_decisive = torch.zeros(dims.num_relations)
        for relation in decisive:
            is_decisive[[relation, relation + dims.num_relations // 2]] = 1
        self.register_buffer("is_decisive", is_decisive)
        self.attends = attention

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        source, target = batch.edge_index
        # a fact is two edges; one whose ends are both of the choice counts once
        share = 1 / (1 + (batch.node_type[source] == ANSWER).double())
        worth = self.is_decisive[batch.edge_type] * (batch.node_type[target] == ANSWER) * share * WORTH
        weight = torch.ones_like(worth) if batch.edge_weight is None else batch.edge_weight
        score = worth.new_zeros(batch.num_graphs).index_add(0, batch.batch[target], worth * weight)
        pooled = (batch.node_type == ANSWER).nonzero()[:, 0]
        counts = torch.bincount(batch.batch[pooled], minlength=batch.num_graphs)
        attention = 1 / counts[batch.batch[pooled]].double()
        relation = self.is_decisive.expand(batch.num_graphs, -1)
        if self.attends == "shuffled":
            generator = torch.Generator().manual_seed(int(batch.concepts.sum()))
            relation = torch.randn(relation.shape, generator=generator)
        m = batch.num_relations
        weights = WalkWeights(torch.zeros(batch.num_nodes), SHARP * relation, torch.zeros(m, m))
        trace = LayerTrace(weights, pooled, torch.ones(len(pooled), 1), torch.zeros(1, len(pooled)))
        return GraphEncoding(torch.zeros(batch.num_graphs, 0), pooled, attention[:, None], [trace], score=score.float())


def planted_run(
    folder: Path, graph: KnowledgeGraph, data: PreparedData, attention: Literal["honest", "shuffled"] = "honest"
) -> Run:
    """A run with the planted model; half of the relations decide."""
    config = Config.of({"graph_encoder": "most-edges"})
    text = load_text_encoder(config.text)
    about = describe(config, graph, text, NoFeatures(), {"folder": str(data.folder), "statement": "fill-in-the-blank"})
    dims = Dims(0, 0, 2 * len(graph.schema))
    model = KnowledgeAwareQA(Planted(dims, list(range(0, len(graph.schema), 2)), attention), 0)
    return Run(folder, about, config, graph, text, NoFeatures(), model)
