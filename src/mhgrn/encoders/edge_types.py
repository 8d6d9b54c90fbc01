"""Logistic regression on edge counts: a baseline that knows relations, but no structure and no text."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.encoders.base import Dims, EncoderSettings, GraphEncoder, GraphEncoding
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION
from mhgrn.text.tokens import Tokens


class EdgeTypesSettings(EncoderSettings):
    """There is nothing to set."""


class EdgeTypes(GraphEncoder):
    """Counts the edges into the answer's concepts, by relation and by the type of the other node, and learns a weight for each.

    Softmax over the choices makes this a logistic regression. A constant term would cancel.
    """

    name = "edge-types"
    summary = "logistic regression on the counts of each relation at the answer's concepts"
    equation = "score = Σ_r v_r log(1 + |{(j, r, i) ∈ E : j ∈ Q, i ∈ A}|) + w_r log(1 + |{(j, r, i) ∈ E : j ∉ Q ∪ A, i ∈ A}|)"
    Settings: ClassVar[type[EncoderSettings]] = EdgeTypesSettings
    published_with: ClassVar[dict[str, Any]] = {"text": {"frozen_epochs": None}}
    uses_features = False
    uses_text = False
    reach = Reach((ANSWER,), 1)

    def __init__(self, dims: Dims, settings: EncoderSettings) -> None:
        super().__init__(dims, settings)
        self.weight = nn.Parameter(torch.zeros(2, dims.num_relations))

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        source, target = batch.edge_index
        graph, ends = batch.batch[target], batch.node_type[target] == ANSWER
        score = self.weight.new_zeros(batch.num_graphs)
        for weight, kind in zip(self.weight, (QUESTION, OTHER), strict=True):
            counted = (ends & (batch.node_type[source] == kind)).nonzero()[:, 0]
            place = graph[counted] * batch.num_relations + batch.edge_type[counted]
            count = torch.bincount(place, minlength=batch.num_graphs * batch.num_relations).view(-1, batch.num_relations)
            score = score + torch.log1p(count.to(weight.dtype)).mul(weight).sum(1)
        return GraphEncoding(s.new_zeros(batch.num_graphs, 0), score=score)
