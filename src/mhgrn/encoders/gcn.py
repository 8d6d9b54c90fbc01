"""Graph convolution (Kipf & Welling 2017), which ignores relations."""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.encoders import DEEPEST, MOST_HEADS, WIDEST
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding, TrainedSettings
from mhgrn.nn.layers import AttentivePooling, Dropout, Projection, gelu, initialize, pooled_nodes
from mhgrn.nn.segments import SparsePattern, weighted_sum
from mhgrn.subgraphs.extract import ANSWER
from mhgrn.text.tokens import Tokens


class GCNSettings(TrainedSettings):
    """Settings of ``gcn``."""

    layers: int = Field(2, ge=1, le=DEEPEST, description="number of layers")
    hidden_dim: int = Field(100, ge=1, le=WIDEST, description="width of node vectors")
    heads: int = Field(2, ge=1, le=MOST_HEADS, description="attention heads of the pooling; together they are hidden_dim wide")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate")
    pool: Literal["answer", "all"] = Field("answer", description="the nodes that are pooled")


class Convolution:
    """D^(-1/2) (A + I) D^(-1/2) of the simple graph, in which several edges between two nodes count once."""

    def __init__(self, batch: GraphBatch) -> None:
        self.count = N = batch.num_nodes
        source, target = batch.edge_index
        loop = torch.arange(N, device=source.device) * (N + 1)
        key = torch.unique(torch.cat([target * N + source, loop]))
        self.target, self.source = key // max(N, 1), key % max(N, 1)
        scale = torch.bincount(self.target, minlength=N).double().rsqrt()
        self.weight = scale[self.source] * scale[self.target]

    def at(self, nodes: Tensor) -> tuple[Tensor, SparsePattern]:
        """The rows of the nodes in a mask [N]; all other rows are empty."""
        kept = nodes[self.target].nonzero()[:, 0]
        return self.weight[kept], SparsePattern.of(self.source[kept], self.target[kept], self.count, self.count)


class GCN(GraphEncoder):
    """Projected node features, graph convolutions on the simple graph, attentive pooling by s."""

    name = "gcn"
    summary = "graph convolution on the simple graph, without relations"
    equation = "H ← σ(Â H W), Â = D^(-1/2) (A + I) D^(-1/2) (Kipf & Welling 2017)"
    Settings = GCNSettings
    shares_features = True

    def __init__(self, dims: Dims, settings: GCNSettings) -> None:
        super().__init__(dims, settings)
        self.out_dim = width = settings.hidden_dim
        self.pool_over = settings.pool
        if settings.pool == "answer":
            self.reach = Reach((ANSWER,), settings.layers + 1)  # the degrees of the outermost nodes need their neighbours
        self.project = Projection(dims.feature_dim, width, settings.dropout)
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(settings.layers))
        self.pool = AttentivePooling(dims.sentence_dim, width, settings.heads, settings.dropout)
        self.dropout = Dropout(settings.dropout)
        initialize(self, settings.initial_scale)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        h = self.project(features, batch.feature_row)
        convolution = Convolution(batch)
        pooled = pooled_nodes(batch, self.pool_over)
        distance = batch.distances(pooled, len(self.layers))
        for steps, layer in zip(reversed(range(len(self.layers))), self.layers, strict=True):
            # nodes further from the pooled ones than the remaining layers cannot influence them
            weight, links = convolution.at(distance <= steps)
            x = layer(h)
            h = self.dropout(gelu(weighted_sum(weight.to(x.dtype), x, links)))
        g, attention = self.pool(s, h[pooled], batch.batch[pooled])
        return GraphEncoding(g, pooled, attention)
