"""The edge-count baseline: the choice whose concepts have the most edges to the question's concepts."""

from typing import Any, ClassVar

from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.encoders.base import EncoderSettings, GraphEncoder, GraphEncoding
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


class MostEdgesSettings(EncoderSettings):
    """There is nothing to set."""


class MostEdges(GraphEncoder):
    """The score of a choice is the number of facts between the question's concepts and its own. The first of tied choices wins."""

    name = "most-edges"
    summary = "edge-count baseline: the choice with the most edges to the question's concepts; no training"
    equation = "score = |{(j, r, i) ∈ E : j ∈ Q, i ∈ A}|"
    Settings = MostEdgesSettings
    published_with: ClassVar[dict[str, Any]] = {"text": {"frozen_epochs": None}}
    uses_features = False
    uses_text = False
    reach = Reach((ANSWER,), 1)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        source, target = batch.edge_index
        # a fact is two edges, and one of them leads from the question to the answer
        joins = (batch.node_type[source] == QUESTION) & (batch.node_type[target] == ANSWER)
        count = s.new_zeros(batch.num_graphs).index_add(0, batch.batch[target], joins.to(s.dtype))
        return GraphEncoding(s.new_zeros(batch.num_graphs, 0), score=count)
