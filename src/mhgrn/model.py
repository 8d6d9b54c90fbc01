"""The whole model: the plausibility of a choice from its text and its subgraph (the paper's section 4.5)."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.nn.layers import MLP, Dropout
from mhgrn.text.tokens import Tokens


class Scores(NamedTuple):
    score: Tensor  # [G] one for each statement
    encoding: GraphEncoding


class KnowledgeAwareQA(nn.Module):
    """ρ(q, a) = Linear([g ; s]), or an MLP with one hidden layer of ``score_hidden`` units, plus what a graph encoder adds.

    The graph encoder sees the first ``query_dim`` components of s: all of it, or the stem's vector alone. One that uses no text
    gives the score itself.
    """

    def __init__(
        self,
        graph_encoder: GraphEncoder,
        sentence_dim: int,
        query_dim: int | None = None,
        score: Literal["linear", "mlp"] = "linear",
        score_hidden: int = 200,
        dropout: float = 0.2,
        initial_scale: float | Literal["level"] = "level",
    ) -> None:
        super().__init__()
        self.graph_encoder = graph_encoder
        self.query_dim = query_dim
        self.dropout = Dropout(dropout)
        self.score: nn.Module | None = None
        if not graph_encoder.uses_text:
            return
        width = graph_encoder.out_dim + sentence_dim
        self.score = nn.Linear(width, 1) if score == "linear" else MLP(width, score_hidden, 1, dropout)
        linear = [module for module in self.score.modules() if isinstance(module, nn.Linear)]
        for layer in linear:
            nn.init.normal_(layer.weight, std=width**-0.5 if initial_scale == "level" else initial_scale)
            nn.init.zeros_(layer.bias)
        if initial_scale == "level":  # all choices begin alike, rather than in a random order that must be unlearnt
            nn.init.zeros_(linear[-1].weight)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> Scores:
        """s [G, S], features [N, feature_dim] → a score for each of the G statements."""
        encoding: GraphEncoding = self.graph_encoder(s[:, : self.query_dim], features, batch, tokens)
        parts = [] if encoding.score is None else [encoding.score]
        if self.score is not None:
            parts.append(self.score(self.dropout(torch.cat([encoding.g, s], dim=1)))[:, 0])
        return Scores(torch.stack(parts).sum(0), encoding)
