"""What a graph encoder is: a statement's vector and its subgraph in, one vector of the graph out."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mhgrn.data.batch import GraphBatch, Reach


@dataclass(frozen=True)
class GraphEncoding:
    """The graph's vector g, and what the encoder attended to where it can tell."""

    g: Tensor  # [G, out_dim]
    pooled: Tensor | None = None  # [n] nodes that were pooled
    attention: Tensor | None = None  # [n, heads]
    traces: list[Any] = field(default_factory=list)  # one a layer


class GraphEncoder(nn.Module):
    """Base class. ``out_dim`` is the width of g."""

    out_dim: int = 0
    reach: Reach | None = None  # what it reads of a graph; all by default

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch) -> GraphEncoding:
        """s [G, S], features [N, feature_dim] → g [G, out_dim]."""
        raise NotImplementedError


class NoGraph(GraphEncoder):
    """The text encoder alone: g has no components."""

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch) -> GraphEncoding:
        return GraphEncoding(s.new_zeros(len(s), 0, dtype=torch.float32))
