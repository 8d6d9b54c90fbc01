"""The text encoder alone, without a graph."""

from typing import Any, ClassVar

from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoder, GraphEncoding, TrainedSettings
from mhgrn.text.tokens import Tokens


class NoGraphSettings(TrainedSettings):
    """Settings of ``none``."""


class NoGraph(GraphEncoder):
    """The text encoder alone: g has width 0."""

    name = "none"
    summary = "the text encoder alone"
    equation = "score = Linear(s)"
    Settings = NoGraphSettings
    as_published: ClassVar[dict[str, Any]] = {"initial_scale": 0.02}
    published_with: ClassVar[dict[str, Any]] = {
        "score_dropout": 0.1,
        "text": {"frozen_epochs": 0},
        "training": {"learning_rate": 1e-5},
    }
    uses_graph = False
    uses_features = False

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        return GraphEncoding(s.new_zeros(len(s), 0))
