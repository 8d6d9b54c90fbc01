"""The multi-hop graph relation network: section 4 of the paper."""

from collections.abc import Collection
from typing import Literal

import torch
from torch import Tensor, nn

from mhgrn.config import Component
from mhgrn.data.batch import GraphBatch, Reach
from mhgrn.data.subgraphs import ANSWER, QUESTION
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.nn.conv import LayerTrace, MHGRNLayer
from mhgrn.nn.layers import AttentivePooling, Scale, gelu, initialise_linear
from mhgrn.nn.message_passing import Backend, RelationWeights

__all__ = ["MHGRN", "LayerTrace", "MHGRNLayer"]


class MHGRN(GraphEncoder):
    """Projected node features, one or more :class:`MHGRNLayer`, attentive pooling over the answer nodes (or others: ``pool``)."""

    def __init__(
        self,
        sentence_dim: int,
        feature_dim: int,
        relation_count: int,
        hops: int = 2,
        layers: int = 1,
        hidden_dim: int = 100,
        message_dim: int | None = None,
        out_dim: int | None = None,
        relation_weights: RelationWeights = "diagonal",
        initial_scale: Scale = "level",
        heads: int = 2,
        attention_dim: int = 50,
        dropout: float = 0.1,
        epsilon: float = 0.0,
        walks_from: Literal["any", "question"] = "any",
        zero_hop: bool = False,
        pool_first_node_if_no_answer: bool = False,
        backend: Backend = "auto",
        relation_bases: int = 8,
        without: Collection[Component] = (),
        context_transition: bool = False,
        walks_to: Literal["any", "answer"] = "any",
        pool: Literal["answer", "question", "all"] = "answer",
    ) -> None:
        super().__init__()
        message_dim, out_dim = message_dim or hidden_dim, out_dim or hidden_dim
        self.out_dim, self.hops = out_dim, hops
        self.pooled_types = {"answer": (ANSWER,), "question": (QUESTION,), "all": None}[pool]
        self.pool_first_node = pool_first_node_if_no_answer
        if self.pooled_types is not None:
            self.reach = Reach(self.pooled_types, hops * layers, pool_first_node_if_no_answer)
        self.project = nn.Linear(feature_dim, hidden_dim)
        widths = [hidden_dim, *[out_dim] * layers]
        self.layers = nn.ModuleList(
            MHGRNLayer(
                width,
                message_dim,
                out_dim,
                sentence_dim,
                relation_count,
                hops,
                relation_weights,
                attention_dim,
                dropout,
                epsilon,
                walks_from,
                zero_hop,
                backend,
                walks_to=walks_to,
                without=without,
                context_transition=context_transition,
                relation_bases=relation_bases,
            )
            for width in widths[:-1]
        )
        self.pool = AttentivePooling(sentence_dim, out_dim, heads, dropout)
        self.dropout = nn.Dropout(dropout)
        self.reset_parameters(initial_scale)

    def reset_parameters(self, initial_scale: Scale) -> None:
        """With a number, everything is drawn from N(0, scale²) (published: 0.02). ``"level"`` keeps the scale of a signal
        through linear maps and hops, so that long walks start as audible as short ones. Either way W⁰ = I, τ = 0, and half of
        the typed bias is 1 while U is small: messages begin as products of relation weights alone (the paper's appendix F), and
        who sent them comes in as training needs it."""
        initialise_linear(self, initial_scale)
        for layer in self.layers:
            assert isinstance(layer, MHGRNLayer)
            layer.reset_messages(initial_scale)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch) -> GraphEncoding:
        h = self.dropout(gelu(self.project(features)))
        pooled = self._pooled_nodes(batch)
        steps = [self.hops * above for above in reversed(range(len(self.layers)))]  # from what a layer delivers to a pooled node
        distance = batch.distances(pooled, steps[0]) if steps[0] else None
        traces = []
        for layer, most in zip(self.layers, steps, strict=True):
            needed = pooled if distance is None or not most else (distance <= most).nonzero()[:, 0]
            out, trace = layer(h, s, batch, needed)
            traces.append(trace)
            # rows that no walk carries further stay zero
            h = out if needed is pooled else out.new_zeros(len(h), out.shape[1]).index_copy(0, needed, out)
        g, attention = self.pool(s, h, batch.graph[pooled])
        return GraphEncoding(g, pooled, attention, traces)

    def _pooled_nodes(self, batch: GraphBatch) -> Tensor:
        if self.pooled_types is None:
            return torch.arange(len(batch.types), device=batch.types.device)
        pooled = torch.isin(batch.types, torch.tensor(self.pooled_types, device=batch.types.device))
        if self.pool_first_node:
            has = torch.zeros(batch.graph_count, dtype=torch.bool, device=pooled.device)
            has[batch.graph[pooled]] = True
            first = torch.ones_like(pooled)
            first[1:] = batch.graph[1:] != batch.graph[:-1]
            pooled = pooled | (first & ~has[batch.graph])
        return pooled.nonzero()[:, 0]
