"""No graph: what the text encoder does alone."""

from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import NoneConfig
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.text.tokens import Tokens


class NoGraph(GraphEncoder):
    """The text encoder alone: g has no components."""

    name = "none"
    summary = "the text encoder alone"
    equation = "score = Linear(s)"
    Settings = NoneConfig
    uses_graph = False
    uses_features = False

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        return GraphEncoding(s.new_zeros(len(s), 0))
