"""The multi-hop graph relation network: section 4 of the paper."""

import torch
from torch import Tensor, nn

from mhgrn.config import MHGRNConfig
from mhgrn.data.batch import GraphBatch, Reach
from mhgrn.data.subgraphs import ANSWER, QUESTION
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding, Tokens
from mhgrn.nn.conv import MHGRNLayer
from mhgrn.nn.layers import AttentivePooling, Dropout, Scale, gelu, initialise
from mhgrn.nn.message_passing import Backend, WalkWeights, multi_hop_messages


class WalkCounts(nn.Module):
    """What walks there are, beside what they say: a term of the score.

    .. math:: Σ_{k,r} w_{k,r} \\log(1 + Σ α(walk))

    over the walks of k hops from the question's concepts to the pooled nodes whose first relation is r, weighted by the layer's
    own structured attention. Its messages, means over walks, are the same for one walk and for a thousand like it.
    """

    def __init__(self, hops: int, relation_count: int, backend: Backend) -> None:
        super().__init__()
        self.backend: Backend = backend
        self.weight = nn.Parameter(torch.zeros(hops, relation_count))

    def forward(self, weights: WalkWeights, batch: GraphBatch, pooled: Tensor) -> Tensor:
        """[G]"""
        K, m = self.weight.shape
        asked = batch.types == QUESTION
        weights = weights._replace(start=weights.start.masked_fill(~asked, -torch.inf))
        first = torch.ones(K, m, m, device=asked.device)
        first[0] = torch.eye(m)  # a walk's message is 1 at its first relation
        share, log_d = multi_hop_messages(
            first.new_ones(len(asked), m), weights, first, first.new_ones(K - 1, m), batch, self.backend, pooled
        )
        of_node = share.double() * log_d.exp()[..., None]  # [K, n, m]
        counts = of_node.new_zeros(K, batch.graph_count, m).index_add(1, batch.graph[pooled], of_node)
        return torch.einsum("km,kgm->g", self.weight, counts.log1p().to(self.weight.dtype))


class MHGRN(GraphEncoder):
    """Projected node features, one or more :class:`MHGRNLayer`, attentive pooling over the answer nodes (or others: ``pool``)."""

    name = "mhgrn"
    summary = "multi-hop graph relation network: attends to walks of up to K hops"
    equation = "equations 5-11 of the paper"
    Settings = MHGRNConfig
    has_paths = True
    shares_features = True

    def __init__(self, dims: Dims, settings: MHGRNConfig, backend: Backend = "auto") -> None:
        super().__init__(dims, settings)
        hops, layers = settings.hops, settings.layers
        hidden_dim = settings.hidden_dim
        message_dim, self.out_dim = settings.message_dim or hidden_dim, settings.out_dim or hidden_dim
        self.hops = hops
        self.pooled_types = {"answer": (ANSWER,), "question": (QUESTION,), "all": None}[settings.pool]
        self.pool_first_node = settings.pool_first_node_if_no_answer
        if self.pooled_types is not None:
            self.reach = Reach(self.pooled_types, hops * layers, self.pool_first_node)
        self.project = nn.Linear(dims.feature_dim, hidden_dim)
        self.layers = nn.ModuleList(
            MHGRNLayer(
                width,
                message_dim,
                self.out_dim,
                dims.sentence_dim,
                dims.relation_count,
                hops,
                settings.relation_weights,
                settings.attention_dim,
                settings.dropout,
                settings.epsilon,
                settings.walks_from,
                settings.zero_hop,
                backend,
                walks_to=settings.walks_to,
                without=settings.without,
                context_transition=settings.context_transition,
                relation_bases=settings.relation_bases,
            )
            for width in [hidden_dim, *[self.out_dim] * (layers - 1)]
        )
        self.counts = WalkCounts(hops, dims.relation_count, backend) if settings.counting else None
        self.pool = AttentivePooling(dims.sentence_dim, self.out_dim, settings.heads, settings.dropout)
        self.dropout = Dropout(settings.dropout)
        self.reset_parameters(settings.initial_scale, settings.initial_mean)

    def reset_parameters(self, initial_scale: Scale, mean: float = 1.0) -> None:
        """With a number, everything is drawn from N(0, scale²) (published: 0.02). ``"level"`` keeps the scale of a signal
        through linear maps and hops, so that long walks start as audible as short ones: W is drawn around ``mean`` · I. Either
        way W⁰ = I, τ = 0, and half of the typed bias is 1 while U is small: messages begin as products of relation weights
        alone (the paper's appendix F), and who sent them comes in as training needs it."""
        initialise(self, initial_scale)
        for layer in self.layers:
            assert isinstance(layer, MHGRNLayer)
            layer.reset_messages(initial_scale, mean)

    def prepare(self, batch: GraphBatch) -> None:
        _ = batch.walk_index if batch.types.device.type == "cpu" else batch.states

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        h = gelu(self.project(features))
        if batch.feature_row is not None:
            h = h.index_select(0, batch.feature_row)
        h = self.dropout(h)
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
        score = self.counts(traces[-1].weights, batch, pooled) if self.counts is not None else None
        return GraphEncoding(g, pooled, attention, traces, score=score)

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
