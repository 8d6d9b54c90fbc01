"""The multi-hop graph relation network: section 4 of the paper."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mhgrn.data.batch import GraphBatch, Reach
from mhgrn.data.subgraphs import ANSWER, QUESTION
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.nn.layers import MLP, AttentivePooling, TypedLinear, gelu
from mhgrn.nn.message_passing import Backend, MultiHopMessagePassing, WalkWeights

NODE_TYPES = 3
PUBLISHED_SCALE = 0.02


@dataclass(frozen=True)
class LayerTrace:
    """What one layer attended to: enough to decode its walks."""

    weights: WalkWeights
    nodes: Tensor  # [n] the nodes it delivered, ascending
    length: Tensor  # [n, K] attention over lengths
    log_d: Tensor  # [K, n]

    def row(self, node: int) -> int:
        """Where a delivered node stands in ``nodes``."""
        return int(torch.searchsorted(self.nodes, node))


class MHGRNLayer(nn.Module):
    """One layer: typed transformation, multi-hop message passing under structured attention, shortcut (equations 5-11).

    .. math:: h'_i = σ(V h_i + V' z_i), \\quad z_i = Σ_k softmax_k(⟨W s, z_i^k⟩/√d) z_i^k

    Widths are free: ``in_dim`` of h, ``message_dim`` of x and z, ``out_dim`` of h'. ``relation_weights`` are diagonal or full
    matrices. g(φ(i), s) cancels (see :class:`~mhgrn.nn.message_passing.WalkWeights`): its parameters are kept because the
    published parameter count has them, and get a zero gradient.
    """

    def __init__(
        self,
        in_dim: int,
        message_dim: int,
        out_dim: int,
        sentence_dim: int,
        relation_count: int,
        hops: int,
        relation_weights: Literal["diagonal", "full"] = "diagonal",
        attention_dim: int = 50,
        dropout: float = 0.1,
        epsilon: float = 0.0,
        walks_from: Literal["any", "question"] = "any",
        zero_hop: bool = False,
        backend: Backend = "auto",
        activation: Callable[[Tensor], Tensor] = gelu,
    ) -> None:
        super().__init__()
        self.hops, self.epsilon, self.activation = hops, epsilon, activation
        self.walks_from, self.zero_hop = walks_from, zero_hop
        self.typed = TypedLinear(in_dim, message_dim, NODE_TYPES)
        self.f = MLP(sentence_dim, attention_dim, NODE_TYPES, dropout)
        self.g = MLP(sentence_dim, attention_dim, NODE_TYPES, dropout)
        self.delta = MLP(sentence_dim, attention_dim, relation_count, dropout)
        self.tau = nn.Parameter(torch.zeros(relation_count, relation_count))
        self.messages = MultiHopMessagePassing(message_dim, relation_count, hops, relation_weights, backend)
        self.length_query = nn.Linear(sentence_dim, message_dim)
        self.V = nn.Linear(in_dim, out_dim)
        self.V_message = nn.Linear(message_dim, out_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, s: Tensor, batch: GraphBatch, needed: Tensor | None = None) -> tuple[Tensor, LayerTrace]:
        """h [N, in_dim], s [G, S] → h' [n, out_dim] of the needed nodes (ascending; all by default)."""
        if needed is None:
            needed = torch.arange(len(h), device=h.device)
        x = self.typed(h, batch.types)
        unused = 0.0 * sum(p.sum() for p in self.g.parameters())
        start = self.f(s)[batch.graph, batch.types]
        if self.walks_from == "question":
            start = start.masked_fill(batch.types != QUESTION, -torch.inf)
        weights = WalkWeights(start, self.delta(s) + unused, self.tau)
        z, log_d = self.messages(x, weights, batch, needed)  # [K, n, d]
        if self.epsilon:
            z = z * torch.sigmoid(log_d - math.log(self.epsilon)).to(z.dtype)[..., None]  # d / (d + ε)
        if self.zero_hop:
            z = torch.cat([x[needed][None], z])  # [1 + K, n, d]
        query = self.length_query(s)[batch.graph[needed]]  # [n, d]
        length = torch.softmax(torch.einsum("nd,knd->nk", query, z) / math.sqrt(z.shape[-1]), dim=1)  # [n, K]
        z_mean = torch.einsum("nk,knd->nd", length, z)
        out = self.dropout(self.activation(self.V(h[needed]) + self.V_message(z_mean)))
        return out, LayerTrace(weights, needed, length[:, -self.hops :], log_d)


class MHGRN(GraphEncoder):
    """Projected node features, one or more :class:`MHGRNLayer`, attentive pooling over the answer nodes."""

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
        relation_weights: Literal["diagonal", "full"] = "diagonal",
        initial_scale: float | Literal["level"] = "level",
        heads: int = 2,
        attention_dim: int = 50,
        dropout: float = 0.1,
        epsilon: float = 0.0,
        walks_from: Literal["any", "question"] = "any",
        zero_hop: bool = False,
        pool_first_node_if_no_answer: bool = False,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        message_dim, out_dim = message_dim or hidden_dim, out_dim or hidden_dim
        self.out_dim, self.hops = out_dim, hops
        self.pool_first_node = pool_first_node_if_no_answer
        self.reach = Reach((ANSWER,), hops * layers, pool_first_node_if_no_answer)
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
            )
            for width in widths[:-1]
        )
        self.pool = AttentivePooling(sentence_dim, out_dim, heads, dropout)
        self.dropout = nn.Dropout(dropout)
        self.reset_parameters(initial_scale)

    def reset_parameters(self, initial_scale: float | Literal["level"]) -> None:
        """With a number, everything is drawn from N(0, scale²) (published: 0.02). ``"level"`` keeps the scale of a signal
        through linear maps and hops, so that long walks start as audible as short ones: W is drawn around I. Either way W⁰ = I,
        τ = 0, and half of the typed bias is 1 while U is small: messages begin as products of relation weights alone (the
        paper's appendix F), and who sent them comes in as training needs it."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                if initial_scale == "level":
                    nn.init.xavier_uniform_(module.weight)
                else:
                    nn.init.normal_(module.weight, std=initial_scale)
                nn.init.zeros_(module.bias)
        for layer in self.layers:
            assert isinstance(layer, MHGRNLayer)
            W = layer.messages.W
            width = W.shape[-1]
            level = 1.0 if W.dim() == 3 else 1.0 / math.sqrt(width)
            layer.messages.reset_parameters(level if initial_scale == "level" else initial_scale)
            if initial_scale == "level":  # a mean over relations of weights around 0 would halve messages at every hop
                with torch.no_grad():
                    W.add_(torch.ones(width) if W.dim() == 3 else torch.eye(width))
            nn.init.normal_(layer.typed.weight, std=PUBLISHED_SCALE if initial_scale == "level" else initial_scale)
            nn.init.zeros_(layer.typed.bias)
            with torch.no_grad():
                layer.typed.bias[:, : width // 2] = 1

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
        answer = batch.types == ANSWER
        if self.pool_first_node:
            has = torch.zeros(batch.graph_count, dtype=torch.bool, device=answer.device)
            has[batch.graph[answer]] = True
            first = torch.ones_like(answer)
            first[1:] = batch.graph[1:] != batch.graph[:-1]
            answer = answer | (first & ~has[batch.graph])
        return answer.nonzero()[:, 0]
