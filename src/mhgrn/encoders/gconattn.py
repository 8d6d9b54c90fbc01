"""Graph concept attention (Wang et al. 2018): compares question and answer concepts, without edges."""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.encoders import WIDEST
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding, TrainedSettings
from mhgrn.nn.layers import Dropout, Projection, initialize
from mhgrn.nn.segments import segment_softmax
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


class GconAttnSettings(TrainedSettings):
    """Settings of ``gconattn``."""

    hidden_dim: int = Field(300, ge=1, le=WIDEST, description="width of node vectors")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate")
    train_projection: bool = Field(
        True, description="train the projection of node features (the published code keeps it at its random initialization)"
    )


class GconAttn(GraphEncoder):
    """Every concept attends to those of the other side (question or answer); both are matched by an MLP, then pooled.

    A side without concepts pools to 0. If the other side has no concepts, the attended vector is 0.
    """

    name = "gconattn"
    summary = "attention between the question's and the answer's concepts; no edges"
    equation = "m_x = MLP([h_x; h̃_x; h_x − h̃_x; h_x ∘ h̃_x]), g = mean and max of m over Q and over A (Wang et al. 2018)"
    Settings = GconAttnSettings
    as_published: ClassVar[dict[str, Any]] = {"initial_scale": 0.02, "train_projection": False}
    published_with: ClassVar[dict[str, Any]] = {"text": {"frozen_epochs": 0}, "training": {"learning_rate": 3e-4}}
    reach = Reach((QUESTION, ANSWER), 0)

    def __init__(self, dims: Dims, settings: GconAttnSettings) -> None:
        super().__init__(dims, settings)
        width = settings.hidden_dim
        self.out_dim = 4 * width
        self.project = Projection(dims.feature_dim, width, settings.dropout, settings.train_projection)
        self.match = nn.Sequential(
            nn.Linear(4 * width, width), Dropout(settings.dropout), nn.GELU(approximate="tanh"), nn.Linear(width, width)
        )
        initialize(self, settings.initial_scale)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        q, a = ((batch.node_type == kind).nonzero()[:, 0] for kind in (QUESTION, ANSWER))
        h_q, h_a = self.project(features[q]), self.project(features[a])
        left, right = pairs(batch.batch[q], batch.batch[a], batch.num_graphs)
        logit = (h_q[left] * h_a[right]).sum(1)
        sides = []
        for h, here, other, there, nodes in ((h_q, left, h_a, right, q), (h_a, right, h_q, left, a)):
            share, _ = segment_softmax(logit, here, len(h))
            found = torch.zeros_like(h).index_add(0, here, share[:, None] * other[there])
            m = self.match(torch.cat([h, found, h - found, h * found], dim=1))
            sides += mean_and_max(m, batch.batch[nodes], batch.num_graphs)
        return GraphEncoding(torch.cat(sides, dim=1))


def pairs(first: Tensor, second: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """All pairs of an element of ``first`` and one of ``second`` in the same group; both are sorted by group.

    >>> pairs(torch.tensor([0, 1, 1]), torch.tensor([1, 1, 2]), 3)
    (tensor([1, 1, 2, 2]), tensor([0, 1, 0, 1]))
    """
    counts = torch.bincount(second, minlength=groups)
    start = counts.cumsum(0) - counts
    times = counts[first]
    left = torch.repeat_interleave(torch.arange(len(first), device=first.device), times)
    within = torch.arange(len(left), device=first.device) - (times.cumsum(0) - times)[left]
    return left, start[first[left]] + within


def mean_and_max(x: Tensor, group: Tensor, groups: int) -> list[Tensor]:
    """Mean and maximum of the rows of each group; 0 for an empty group."""
    count = torch.bincount(group, minlength=groups).clamp(min=1)[:, None]
    empty = x.new_zeros(groups, x.shape[1])
    top = empty.scatter_reduce(0, group[:, None].expand_as(x), x, "amax", include_self=False)
    return [empty.index_add(0, group, x) / count, top]
