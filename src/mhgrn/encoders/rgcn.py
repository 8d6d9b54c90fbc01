"""Relational graph convolution (Schlichtkrull et al. 2018; the paper's equation 2)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.encoders import MOST_HEADS
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding
from mhgrn.encoders.gcn import GCNSettings
from mhgrn.nn.layers import AttentivePooling, Dropout, Projection, gelu, initialize, pooled_nodes
from mhgrn.nn.segments import SparsePattern, weighted_sum
from mhgrn.settings import FormerName
from mhgrn.subgraphs.extract import ANSWER
from mhgrn.text.tokens import Tokens

Normalization = Literal["total", "per_relation"]


class RGCNSettings(GCNSettings):
    """Settings of ``rgcn``."""

    bases: int | None = Field(
        8, ge=1, le=MOST_HEADS, description="number of basis matrices that relations share; null: a matrix for each"
    )
    normalize: Annotated[Normalization, FormerName("normalise")] = Field(
        "total", description="divide by all neighbours, as in equation 2, or by those of the same relation (published)"
    )
    self_loop: bool = Field(False, description="add a self-loop relation (published)")
    train_projection: bool = Field(
        True, description="train the projection of node features (the published code keeps it at its random initialization)"
    )


@dataclass(frozen=True)
class Neighbourhoods:
    """All non-empty neighbourhoods N_i^r, sorted by relation. Their members are summed before the linear map."""

    into: SparsePattern  # node → neighbourhood, one link for each edge
    onto: SparsePattern  # neighbourhood → its node
    weight: Tensor  # [edges] one over the number of neighbours
    sizes: list[int]  # [m] number of neighbourhoods of each relation

    @classmethod
    def of(cls, batch: GraphBatch, normalize: Normalization, self_loop: bool, at: Tensor) -> Self:
        """The neighbourhoods of the nodes in a mask [N]."""
        N, m = batch.num_nodes, batch.num_relations + self_loop
        kept = at[batch.edge_index[1]].nonzero()[:, 0]
        (source, target), relation = batch.edge_index[:, kept], batch.edge_type[kept]
        if self_loop:
            every = at.nonzero()[:, 0]
            source, target = torch.cat([source, every]), torch.cat([target, every])
            relation = torch.cat([relation, torch.full_like(every, batch.num_relations)])
        key, inverse = torch.unique(relation * N + target, return_inverse=True)
        count = len(key)
        node = key % max(N, 1)
        into = SparsePattern.of(source, inverse, N, count)
        among = node[into.target] if normalize == "total" else into.target
        weight = torch.bincount(among).double().reciprocal()[among]
        onto = SparsePattern.of(torch.arange(count, device=node.device), node, count, N)
        return cls(into, onto, weight, torch.bincount(key // max(N, 1), minlength=m).tolist())


class RGCNLayer(nn.Module):
    """h'_i = (1 / Σ_r |N_i^r|) Σ_r Σ_{j ∈ N_i^r} W_r h_j, or Σ_r of the means; W_r = Σ_b a_rb V_b, or a matrix of its own."""

    def __init__(self, in_channels: int, out_channels: int, num_relations: int, bases: int | None = None) -> None:
        super().__init__()
        self.basis = nn.Parameter(torch.empty(bases or num_relations, out_channels, in_channels))
        self.coefficient = nn.Parameter(torch.empty(num_relations, bases)) if bases is not None else None
        self.reset_parameters("level")

    def reset_parameters(self, scale: float | Literal["level"]) -> None:
        matrix = self.basis.shape[1:]
        nn.init.normal_(self.basis, std=(2 / sum(matrix)) ** 0.5 if scale == "level" else scale)
        if self.coefficient is not None:
            nn.init.normal_(self.coefficient, std=len(self.basis) ** -0.5 if scale == "level" else scale)

    def forward(self, h: Tensor, near: Neighbourhoods) -> Tensor:
        W = self.basis if self.coefficient is None else torch.einsum("rb,boi->roi", self.coefficient, self.basis)
        heard = weighted_sum(near.weight.to(h.dtype), h, near.into)
        said = torch.cat([part @ W_r.T for part, W_r in zip(torch.split(heard, near.sizes), W, strict=True)])
        return weighted_sum(torch.ones_like(near.onto.source, dtype=said.dtype), said, near.onto)


class RGCN(GraphEncoder):
    """Projected node features, relational graph convolutions, attentive pooling by s."""

    name = "rgcn"
    summary = "relational graph convolution: a matrix for each relation"
    equation = "equation 2 of the paper"
    Settings = RGCNSettings
    as_published: ClassVar[dict[str, Any]] = {
        "initial_scale": 0.02,
        "layers": 3,
        "normalize": "per_relation",
        "self_loop": True,
        "pool": "all",
        "train_projection": False,
    }
    published_with: ClassVar[dict[str, Any]] = {"score_dropout": 0.0, "text": {"frozen_epochs": 0}}
    shares_features = True

    def __init__(self, dims: Dims, settings: RGCNSettings) -> None:
        super().__init__(dims, settings)
        self.out_dim = width = settings.hidden_dim
        self.pool_over = settings.pool
        if settings.pool == "answer":
            self.reach = Reach((ANSWER,), settings.layers)
        self.normalize, self.self_loop = settings.normalize, settings.self_loop
        self.project = Projection(dims.feature_dim, width, settings.dropout, settings.train_projection)
        relations = dims.num_relations + settings.self_loop
        self.layers = nn.ModuleList(RGCNLayer(width, width, relations, settings.bases) for _ in range(settings.layers))
        self.pool = AttentivePooling(dims.sentence_dim, width, settings.heads, settings.dropout)
        self.dropout = Dropout(settings.dropout)
        initialize(self, settings.initial_scale)
        for layer in self.layers:
            assert isinstance(layer, RGCNLayer)
            layer.reset_parameters(settings.initial_scale)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        h = self.project(features, batch.feature_row)
        pooled = pooled_nodes(batch, self.pool_over)
        distance = batch.distances(pooled, len(self.layers))
        for steps, layer in zip(reversed(range(len(self.layers))), self.layers, strict=True):
            # nodes further from the pooled ones than the remaining layers cannot influence them
            near = Neighbourhoods.of(batch, self.normalize, self.self_loop, distance <= steps)
            h = self.dropout(gelu(layer(h, near)))
        g, attention = self.pool(s, h[pooled], batch.batch[pooled])
        return GraphEncoding(g, pooled, attention)
