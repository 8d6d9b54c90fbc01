"""A baseline without training: the choice whose concepts have most edges to the question's."""

from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.config import MostEdgesConfig
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


class MostEdges(GraphEncoder):
    """The score of a choice is the number of facts between the question's concepts and its own; of tied choices the first wins."""

    name = "most-edges"
    summary = "the choice with most edges to the question's concepts; no training"
    equation = "score = |{(j, r, i) ∈ E : j ∈ Q, i ∈ A}|"
    Settings = MostEdgesConfig
    uses_features = False
    uses_text = False
    reach = Reach((ANSWER,), 1)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        source, target = batch.edge_index
        # every fact gives two edges, one of which leads from the question to the answer
        joins = (batch.node_type[source] == QUESTION) & (batch.node_type[target] == ANSWER)
        count = s.new_zeros(batch.num_graphs).index_add(0, batch.batch[target], joins.to(s.dtype))
        return GraphEncoding(s.new_zeros(batch.num_graphs, 0), score=count)
