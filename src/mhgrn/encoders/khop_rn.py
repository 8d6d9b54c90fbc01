"""The K-hop relation network, over the walks from the question's concepts to the answer's."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders import DEEPEST, MOST_HEADS, WIDEST
from mhgrn.encoders._paths import AttendedPaths, PathEncoder
from mhgrn.encoders.base import Dims, EncoderSettings, GraphEncoding, TrainedSettings
from mhgrn.errors import UserError
from mhgrn.nn.layers import MLP, AttentivePooling, Projection, gelu, initialize
from mhgrn.nn.message_passing import WalkWeights, multi_hop_messages
from mhgrn.nn.segments import segment_softmax
from mhgrn.nn.walks import Walk, WalkList, distinct, find_walks, in_chunks
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens

PUBLISHED_LIMIT = 200  # walks of a statement


class RelationNetworkSettings(TrainedSettings):
    """Settings that both relation networks have."""

    hidden_dim: int = Field(100, ge=1, le=WIDEST, description="width of nodes and of relations")
    transform: Literal["mlp", "linear"] = Field("mlp", description="how a path's parts become its vector")
    mlp_dim: int = Field(256, ge=1, le=WIDEST, description="width of hidden layers")
    mlp_layers: int = Field(2, ge=1, le=DEEPEST, description="number of hidden layers")
    out_dim: int = Field(128, ge=1, le=WIDEST, description="width of the vector of a path")
    dropout: float = Field(0.3, ge=0, lt=1, description="dropout rate")
    published_paths: bool = Field(
        False, description="read the paths of the published code: the first 200, and with one hop also two hops of relation 0"
    )


class KHopRNSettings(RelationNetworkSettings):
    """Settings of ``khop-rn``."""

    hops: int = Field(2, ge=1, le=DEEPEST, description="K, length of the longest walk")
    pooling: Literal["attention", "multihead", "definition", "mean"] = Field(
        "attention", description="definition: equal weights of answer concepts and lengths, as in the paper's appendix E"
    )
    heads: int = Field(2, ge=1, le=MOST_HEADS, description="attention heads, with pooling: multihead")
    max_paths: int | None = Field(5000, ge=1, description="walks to read of a statement, shortest first; null: all")


@dataclass(frozen=True)
class Kinds:
    """The kinds of walks in a batch. Walks with equal ends and relations have equal vectors and are one kind."""

    lengths: list[WalkList]  # one walk of each kind
    count: Tensor  # [P] number of walks of this kind
    cut: Tensor  # [G] number of walks beyond the limit

    @property
    def first(self) -> Tensor:
        return torch.cat([w.nodes[:, 0] for w in self.lengths])

    @property
    def last(self) -> Tensor:
        return torch.cat([w.nodes[:, -1] for w in self.lengths])

    @property
    def graph(self) -> Tensor:
        return torch.cat([w.graph for w in self.lengths])

    @property
    def hops(self) -> Tensor:
        return torch.cat([torch.full_like(w.graph, w.hops) for w in self.lengths])


class KHopRN(PathEncoder):
    """The K-hop relation network: the paper's appendix E.

    .. math:: g = Pool\\{ MLP(h_j ⊕ (e_{r_1} ∘ … ∘ e_{r_k}) ⊕ h_i) : j ∈ Q, i ∈ A, walk\\ (j, r_1, …, r_k, i), k ≤ K \\}

    ``pooling`` is a mean over all walks, the appendix's ``definition`` (equal weights of answer concepts and lengths), or
    attention by s: ``attention`` (a softmax of ⟨W s, vector⟩) or ``multihead``. With ``transform = linear`` and
    ``pooling = definition`` walks are not listed, and there is no limit: g is the multi-hop recursion with f = −∞ outside the
    question's concepts, u = T = 1 and W_r = diag(1 ⊕ e_r), in time linear in the graph (the paper's appendix F).
    """

    name = "khop-rn"
    summary = "K-hop relation network: a vector for every walk from question to answer concepts, pooled"
    equation = "the paper's appendix E: g = Pool{MLP(h_j ⊕ e_r1 ∘ … ∘ e_rk ⊕ h_i)} over walks of at most K hops from Q to A"
    Settings: ClassVar[type[EncoderSettings]] = KHopRNSettings
    as_published: ClassVar[dict[str, Any]] = {"initial_scale": 0.02, "published_paths": True}
    published_with: ClassVar[dict[str, Any]] = {
        "score_dropout": 0.3,
        "text": {"frozen_epochs": 0},
        "training": {"learning_rate": 3e-4},
    }
    limit_setting = "khop_rn.max_paths"

    def __init__(self, dims: Dims, settings: KHopRNSettings) -> None:
        super().__init__(dims, settings)
        if settings.published_paths and settings.hops > 2:
            raise UserError("khop_rn.published_paths works with one or two hops; set khop_rn.hops=2, or published_paths=false.")
        self.settings = settings
        self.num_relations = m = dims.num_relations
        width = settings.hidden_dim
        self.out_dim = settings.out_dim
        self.project = Projection(dims.feature_dim, width, 0.0)
        # the published table also has an unused row for every pair of relations
        self.relations = nn.Embedding(m + m * m if settings.published_paths else m, width)
        self.transform: nn.Module
        if settings.transform == "linear":
            self.transform = nn.Linear(3 * width, self.out_dim, bias=False)
        else:
            layers = MLP(3 * width, settings.mlp_dim, self.out_dim, settings.dropout, settings.mlp_layers)
            self.transform = nn.Sequential(layers, nn.GELU(approximate="tanh"))
        self.query = nn.Linear(dims.sentence_dim, self.out_dim) if settings.pooling == "attention" else None
        self.pool = None
        if settings.pooling == "multihead":
            self.pool = AttentivePooling(dims.sentence_dim, self.out_dim, settings.heads, settings.dropout)
        initialize(self, settings.initial_scale)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        if self.settings.transform == "linear" and self.settings.pooling == "definition":
            return GraphEncoding(self._by_recursion(features, batch))
        kinds = self._kinds(batch)
        mentioned, row = torch.unique(torch.cat([kinds.first, kinds.last]), return_inverse=True)
        h = self.project(features[mentioned])
        first, last = h[row].chunk(2)  # [P, d]
        relations = torch.cat([self.relations(w.relations).prod(1) for w in kinds.lengths])  # [P, d]
        vectors = in_chunks(lambda *parts: self.transform(torch.cat(parts, dim=1)), first, relations, last)  # [P, out]
        g, weight = self._pool(s, vectors, kinds, batch)
        if self.settings.published_paths:
            g = self._first_slot(g, kinds.graph)
        return GraphEncoding(g, traces=[AttendedPaths(kinds.lengths, kinds.count, weight.detach())], cut=kinds.cut)

    def _kinds(self, batch: GraphBatch) -> Kinds:
        if self.settings.published_paths:
            return _published(batch, self.settings.hops)
        found = find_walks(batch, self.settings.hops, self.settings.max_paths)
        parts = [(walks, *distinct(walks)) for walks in found.lengths]
        return Kinds([walks.rows(one) for walks, one, _ in parts], torch.cat([count for *_, count in parts]), found.cut)

    def _pool(self, s: Tensor, vectors: Tensor, kinds: Kinds, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """g [G, out] and the weight of each kind of walk [P]."""
        graph, count = kinds.graph, kinds.count.to(s.dtype)
        if self.pool is not None:
            g, attention = self.pool(s, vectors, graph, count.log())
            return g, attention.mean(1)
        if self.query is not None:
            logit = (self.query(s)[graph] * vectors).sum(1).to(s.dtype) / math.sqrt(self.out_dim)
            weight, _ = segment_softmax(logit + count.log(), graph, len(s))
        elif self.settings.pooling == "mean":
            weight = count / count.new_zeros(len(s)).index_add(0, graph, count)[graph]
        else:
            weight = self._defined_weight(kinds, batch).to(s.dtype)
        g = vectors.new_zeros(len(s), self.out_dim).index_add(0, graph, weight[:, None].to(vectors.dtype) * vectors)
        return g, weight

    def _defined_weight(self, kinds: Kinds, batch: GraphBatch) -> Tensor:
        """β̃ of the definition [P]: the walks of a length into an answer concept share 1 / (K |A|)."""
        end = kinds.last * self.settings.hops + kinds.hops - 1
        alike = kinds.count.new_zeros(batch.num_nodes * self.settings.hops).index_add(0, end, kinds.count)[end]
        return kinds.count.double() / alike / (self.settings.hops * _answers(batch)[kinds.graph])

    def _by_recursion(self, features: Tensor, batch: GraphBatch) -> Tensor:
        """The definition in time linear in the graph, by the paper's appendix F."""
        K, m = self.settings.hops, self.num_relations
        h = self.project(features)  # [N, d]
        e = self.relations.weight  # [m, d]
        start = torch.where(batch.node_type == QUESTION, 0.0, -torch.inf).to(h)
        weights = WalkWeights(start, h.new_zeros(batch.num_graphs, m), h.new_zeros(m, m))
        W = torch.cat([torch.ones_like(e), e], dim=1).to(h).expand(K, -1, -1)
        x = torch.cat([h, torch.ones_like(h)], dim=1)
        z, log_d = multi_hop_messages(x, weights, W, x.new_ones(K - 1, x.shape[1]), batch)  # [K, N, 2d]
        answers = (batch.node_type == ANSWER).nonzero()[:, 0]
        reached = torch.isfinite(log_d[:, answers]).to(h)[..., None]  # [K, |A|, 1]
        parts: Tensor = self.transform(torch.cat([z[:, answers], reached * h[answers]], dim=2).sum(0) / K)
        graph = batch.batch[answers]
        share = parts / _answers(batch)[graph][:, None].to(parts)
        return parts.new_zeros(batch.num_graphs, self.out_dim).index_add(0, graph, share)

    def attended_walks(self, encoding: GraphEncoding, batch: GraphBatch, graph: int, count: int) -> list[Walk]:
        if encoding.traces:
            return super().attended_walks(encoding, batch, graph, count)
        kinds = self._kinds(batch)  # the recursion lists none
        return AttendedPaths(kinds.lengths, kinds.count, self._defined_weight(kinds, batch)).best(graph, count)

    def _first_slot(self, g: Tensor, graph: Tensor) -> Tensor:
        """As published, a statement without walks reads an empty slot: relation 0 between two nodes without features."""
        h = gelu(self.project.linear.bias)
        empty: Tensor = self.transform(torch.cat([h, self.relations.weight[0], h])[None])
        none = torch.ones(len(g), 1, dtype=torch.bool, device=g.device)
        none[graph] = False
        return torch.where(none, empty.to(g), g)


def _answers(batch: GraphBatch) -> Tensor:
    """The number of answer concepts of each graph [G]."""
    return torch.bincount(batch.batch[batch.node_type == ANSWER], minlength=batch.num_graphs)


def _published(batch: GraphBatch, hops: int) -> Kinds:
    """The walks behind the published numbers.

    For each pair of a question and an answer concept the published code reads every kind of simple path of one and two hops once,
    up to 200 in a statement. The one-hop network keeps those with relation numbers up to 34, which include the first kind of two
    hops, (0, 0). The order within a pair is not known; here it is that of :func:`~mhgrn.nn.walks.find_walks`.
    """
    found = find_walks(batch, 2, simple=True)
    lengths = [walks.rows(distinct(walks)[0]) for walks in found.lengths]
    first, last, graph = (
        torch.cat(part) for part in zip(*((w.nodes[:, 0], w.nodes[:, -1], w.graph) for w in lengths), strict=True)
    )
    order = torch.argsort(first * batch.num_nodes + last, stable=True)  # by pair; the graphs stay in order
    size = torch.bincount(graph, minlength=batch.num_graphs)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    early = place - (size.cumsum(0) - size)[graph] < PUBLISHED_LIMIT
    kept = [early[: len(lengths[0])], early[len(lengths[0]) :]]
    if hops == 1:
        kept[1] &= (lengths[1].relations == 0).all(1)
    lengths = [walks.rows(some.nonzero()[:, 0]) for walks, some in zip(lengths, kept, strict=True)]
    cut = (size - PUBLISHED_LIMIT).clamp(min=0).double().cpu()
    return Kinds(lengths, torch.ones(sum(map(len, lengths)), dtype=torch.int64, device=order.device), cut)
