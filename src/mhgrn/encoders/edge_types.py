"""Logistic regression on how often each relation touches the answer: how far edge types alone go."""

import torch
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.config import EdgeTypesConfig, EdgeTypesTextConfig
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION
from mhgrn.text.tokens import Tokens


class EdgeTypes(GraphEncoder):
    """A weight for each relation, in each direction, from the question's concepts and from the others to the answer's.

    Softmax over the choices makes it a logistic regression; a constant term would cancel.
    """

    name = "edge-types"
    summary = "logistic regression on the counts of each relation at the answer's concepts"
    equation = "score = Σ_r v_r log(1 + |{(j, r, i) ∈ E : j ∈ Q, i ∈ A}|) + w_r log(1 + |{(j, r, i) ∈ E : j ∉ Q ∪ A, i ∈ A}|)"
    Settings = EdgeTypesConfig
    uses_features = False
    uses_text = False
    reach = Reach((ANSWER,), 1)

    def __init__(self, dims: Dims, settings: EdgeTypesConfig) -> None:
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


class EdgeTypesAndText(EdgeTypes):
    """:class:`EdgeTypes` beside the text: what a graph network must beat to show that it uses more than counts."""

    name = "edge-types-text"
    summary = "logistic regression on the text and the counts of each relation at the answer's concepts"
    equation = "the score of edge-types + Linear(s)"
    Settings = EdgeTypesTextConfig
    uses_text = True
