"""QA-GNN (Yasunaga et al. 2021): attention along edges, with a context node and the relevance of nodes."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders import DEEPEST, MOST_HEADS, WIDEST
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding, TrainedSettings
from mhgrn.nn.layers import MLP, AttentivePooling, Projection, gelu, initialize
from mhgrn.nn.segments import SparsePattern, entry_products, segment_softmax, weighted_sum
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens

CONTEXT = 3  # the type of the context node, beside QUESTION, ANSWER and OTHER
NODE_TYPES = 4
LINKED = (QUESTION, ANSWER)  # the types of nodes that the context node is linked to
CONTEXT_RELATIONS = 2 * len(LINKED)  # context → node and node → context, for each type


class QAGNNSettings(TrainedSettings):
    """Settings of ``qagnn``."""

    layers: int = Field(5, ge=1, le=DEEPEST, description="number of layers")
    hidden_dim: int = Field(200, ge=2, le=WIDEST, description="width of node vectors and messages")
    heads: int = Field(2, ge=1, le=MOST_HEADS, description="attention heads of edges and of the pooling; they divide hidden_dim")
    dropout: float = Field(0.2, ge=0, lt=1, description="dropout rate")
    self_loops: bool = Field(True, description="let a node also send a message to itself, as in the paper")

    @field_validator("heads")
    @classmethod
    def _heads_divide_the_width(cls, heads: int, info: ValidationInfo) -> int:
        width = info.data.get("hidden_dim", heads)
        if width % heads:
            raise ValueError(f"the number of heads divides hidden_dim, {width}")
        return heads


@dataclass(frozen=True)
class ContextGraph:
    """A batch with a context node for each graph, which follow the N others.

    The kind of an edge is its relation and the types of its two nodes. What depends on two of source, target and kind is computed
    once for each pair that occurs.
    """

    node_type: Tensor  # [N + G]
    kinds: Tensor  # [kinds, 3] relation, type of the source, type of the target
    source: Tensor  # [edges]
    joined: SparsePattern  # source → target
    leaving: SparsePattern  # kind → source
    entering: SparsePattern  # kind → target
    joins: Tensor  # [edges] entry of ``joined``
    leaves: Tensor  # [edges] entry of ``leaving``
    enters: Tensor  # [edges] entry of ``entering``

    @classmethod
    def of(cls, batch: GraphBatch) -> Self:
        return cls._of(batch, self_loops=False)

    @classmethod
    def with_loops(cls, batch: GraphBatch) -> Self:
        return cls._of(batch, self_loops=True)

    @classmethod
    def _of(cls, batch: GraphBatch, self_loops: bool) -> Self:
        N, G, m = batch.num_nodes, batch.num_graphs, batch.num_relations
        node_type = torch.cat([batch.node_type, batch.node_type.new_full((G,), CONTEXT)])
        source, target, relation = [batch.edge_index[0]], [batch.edge_index[1]], [batch.edge_type]
        for number, linked in enumerate(LINKED):
            nodes = (batch.node_type == linked).nonzero()[:, 0]
            context = N + batch.batch[nodes]
            source += [context, nodes]
            target += [nodes, context]
            relation += [torch.full_like(nodes, m + 2 * number), torch.full_like(nodes, m + 2 * number + 1)]
        if self_loops:
            every = torch.arange(N + G, device=node_type.device)
            source, target = [*source, every], [*target, every]
            relation = [*relation, torch.full_like(every, m + CONTEXT_RELATIONS)]
        a, b, r = torch.cat(source), torch.cat(target), torch.cat(relation)
        key = (r * NODE_TYPES + node_type[a]) * NODE_TYPES + node_type[b]
        occurs = torch.bincount(key, minlength=1) > 0
        found, number_of = occurs.nonzero()[:, 0], occurs.cumsum(0) - 1
        kind = number_of[key]
        joined, joins = _distinct(a, b, N + G, N + G)
        leaving, leaves = _distinct(kind, a, len(found), N + G)
        entering, enters = _distinct(kind, b, len(found), N + G)
        kinds = torch.stack([found // NODE_TYPES**2, found // NODE_TYPES % NODE_TYPES, found % NODE_TYPES], dim=1)
        return cls(node_type, kinds, a, joined, leaving, entering, joins, leaves, enters)


def _distinct(source: Tensor, target: Tensor, num_sources: int, num_targets: int) -> tuple[SparsePattern, Tensor]:
    """The distinct pairs as a pattern, and the entry of each pair."""
    size = max(num_sources, 1)
    key, entry = torch.unique(target * size + source, return_inverse=True)
    return SparsePattern.of(key % size, key // size, num_sources, num_targets), entry


class RelationVectors(nn.Module):
    """r_st = f_r(e_st, u_s, u_t), a two-layer MLP of one-hot vectors; its first layer is a sum of embeddings."""

    def __init__(self, num_relations: int, channels: int) -> None:
        super().__init__()
        self.relation = nn.Embedding(num_relations, channels)
        self.source_type = nn.Embedding(NODE_TYPES, channels)
        self.target_type = nn.Embedding(NODE_TYPES, channels)
        self.norm = nn.LayerNorm(channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, kinds: Tensor) -> Tensor:
        """[kinds, 3] → [kinds, channels]"""
        relation, source, target = kinds.unbind(1)
        out: Tensor = self.out(gelu(self.norm(self.relation(relation) + self.source_type(source) + self.target_type(target))))
        return out


class QAGNNLayer(nn.Module):
    """h'_t = f_n(Σ_s α_st m_st) + h_t with m_st = f_m(h_s, u_s, r_st).

    α_st is a softmax over the targets t of each source s of ⟨f_q(h_s, u_s, ρ_s), f_k(h_t, u_t, ρ_t, r_st)⟩ / √D. f_m and f_k are
    linear, so their parts for nodes and for relations are computed apart and added.
    """

    def __init__(self, channels: int, extra: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(channels + 2 * extra, channels)
        self.key = nn.Linear(channels + 2 * extra, channels)
        self.key_relation = nn.Linear(channels, channels, bias=False)
        self.message = nn.Linear(channels + extra, channels)
        self.message_relation = nn.Linear(channels, channels, bias=False)
        self.update = MLP(channels, channels, channels, dropout)

    def forward(self, h: Tensor, u: Tensor, rho: Tensor, r: Tensor, graph: ContextGraph) -> Tensor:
        """Node vectors h [n, D], types u and relevance rho [n, extra], relation vectors r [kinds, D] → h' [n, D]."""
        n, width = len(h), h.shape[1] // self.heads
        described = torch.cat([h, u, rho], dim=1)
        query = self.query(described) / math.sqrt(width)
        rows = query, self.key(described), self.key_relation(r), self.message(torch.cat([h, u], dim=1)), self.message_relation(r)
        heads = []
        for q, k, k_relation, m, m_relation in zip(*(row.split(width, dim=1) for row in rows), strict=True):
            of_nodes, of_kinds = entry_products(q, k, graph.joined), entry_products(k_relation, q, graph.leaving)
            logit = of_nodes.index_select(0, graph.joins) + of_kinds.index_select(0, graph.leaves)  # [edges]
            share, _ = segment_softmax(logit, graph.source, n)
            heads.append(_summed(share, graph.joins, m, graph.joined) + _summed(share, graph.enters, m_relation, graph.entering))
        out: Tensor = self.update(torch.cat(heads, dim=1)) + h
        return out


def _summed(share: Tensor, entry: Tensor, rows: Tensor, pattern: SparsePattern) -> Tensor:
    """Sum the rows of all edges' sources, weighted by shares [edges], at their targets; ``entry`` [edges] is in the pattern."""
    return weighted_sum(share.new_zeros(len(pattern.source)).index_add(0, entry, share), rows, pattern)


class QAGNN(GraphEncoder):
    """A context node with the statement's vector joins the graph, linked to the mentioned concepts; g is its vector and a pool.

    Different from the paper: layer norm instead of batch norm, so that a score does not depend on the batch; GELU instead of ReLU;
    relevance by cosine similarity instead of a language model's score. The relevance of the context node is 1.
    """

    name = "qagnn"
    summary = "QA-GNN: attention along edges, with the text as a node of the graph and the relevance of nodes"
    equation = "h_t ← f_n(Σ_s α_st f_m(h_s, u_s, r_st)) + h_t, α over the targets of s, g = [h_z; pool] (Yasunaga et al. 2021)"
    Settings = QAGNNSettings
    shares_features = True
    uses_relevance = True

    def __init__(self, dims: Dims, settings: QAGNNSettings) -> None:
        super().__init__(dims, settings)
        width, extra = settings.hidden_dim, settings.hidden_dim // 2
        self.out_dim = 2 * width
        self.self_loops = settings.self_loops
        self.project = Projection(dims.feature_dim, width, settings.dropout)
        self.context = Projection(dims.sentence_dim, width, settings.dropout)
        self.types = nn.Embedding(NODE_TYPES, extra)
        self.relevance_map = nn.Sequential(nn.Linear(1, extra), nn.GELU(approximate="tanh"), nn.Linear(extra, extra))
        self.relations = RelationVectors(dims.num_relations + CONTEXT_RELATIONS + settings.self_loops, width)
        self.layers = nn.ModuleList(QAGNNLayer(width, extra, settings.heads, settings.dropout) for _ in range(settings.layers))
        self.pool = AttentivePooling(dims.sentence_dim, width, settings.heads, settings.dropout)
        initialize(self, settings.initial_scale)

    def prepare(self, batch: GraphBatch) -> None:
        self._graph(batch)

    def _graph(self, batch: GraphBatch) -> ContextGraph:
        return batch.derived(ContextGraph.with_loops if self.self_loops else ContextGraph.of)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        graph, N = self._graph(batch), batch.num_nodes
        h = torch.cat([self.project(features, batch.feature_row), self.context(s)])
        u = self.types(graph.node_type).to(h.dtype)
        relevance = self.relevance(batch, s.dtype)
        rho = self.relevance_map(torch.cat([relevance, relevance.new_ones(batch.num_graphs)])[:, None])
        r = self.relations(graph.kinds)
        for layer in self.layers:
            h = layer(h, u, rho, r, graph)
        pooled, attention = self.pool(s, h[:N], batch.batch)
        return GraphEncoding(torch.cat([h[N:], pooled], dim=1), torch.arange(N, device=h.device), attention)
