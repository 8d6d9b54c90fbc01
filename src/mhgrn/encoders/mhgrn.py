"""The multi-hop graph relation network: section 4 of the paper."""

import torch
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.config import MHGRNConfig
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding
from mhgrn.nn.conv import MHGRNLayer
from mhgrn.nn.layers import AttentivePooling, Dropout, Scale, gelu, initialize
from mhgrn.nn.message_passing import Backend, WalkWeights
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


class WalkCounts(nn.Module):
    """What walks there are, beside what they say: a term of the score.

    .. math:: Σ_{k,r} w_{k,r} \\log(1 + Σ_j c_{jkr}) + Σ_k v_k Σ_j \\log(1 + Σ_r c_{jkr})

    c_jkr is the weight α, by the layer's own structured attention, of the walks of k hops from the question's concept j to the
    pooled nodes whose first relation is r. The first sum counts walks by relation, the second the concepts that have any. Messages,
    means over walks, are the same for one walk and for a thousand like it.
    """

    def __init__(self, hops: int, num_relations: int) -> None:
        super().__init__()
        self.by_relation = nn.Parameter(torch.zeros(hops, num_relations))
        self.by_concept = nn.Parameter(torch.zeros(hops))

    def forward(self, weights: WalkWeights, batch: GraphBatch, pooled: Tensor) -> Tensor:
        """[G]. From the pooled nodes backwards, so that a walk ends up where it begins: one number an edge and hop."""
        K, m = self.by_relation.shape
        (source, target), kind = batch.edge_index, batch.edge_type
        start, relation, turn = (weight.double().exp() for weight in weights)
        is_asked = batch.node_type == QUESTION
        asked = is_asked.nonzero()[:, 0]
        graph = batch.batch[asked]
        after = relation.new_zeros(len(is_asked)).index_fill(0, pooled, 1.0)[target]  # the weight of what follows an edge
        score = relation.new_zeros(batch.num_graphs)
        for k in range(K):
            edges = ((after > 0) & is_asked[source] if k + 1 == K else after > 0).nonzero()[:, 0]
            begins, by = source[edges], kind[edges]
            weight = relation[batch.batch[begins], by] * after[edges]
            begun = relation.new_zeros(len(is_asked) * m).index_add(0, begins * m + by, weight).view(-1, m)
            counts = begun[asked] * start[asked, None]
            walks = counts.new_zeros(batch.num_graphs, m).index_add(0, graph, counts).log1p()
            concepts = counts.new_zeros(batch.num_graphs).index_add(0, graph, counts.sum(1).log1p())
            score = score + walks @ self.by_relation[k].double() + concepts * self.by_concept[k].double()
            if k + 1 < K:
                onward = begun @ turn.T if turn.dim() == 2 else torch.einsum("nr,nsr->ns", begun, turn[batch.batch])
                after = onward[target, kind]
        return score.to(self.by_relation.dtype)


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
                in_channels=width,
                message_channels=message_dim,
                out_channels=self.out_dim,
                num_relations=dims.num_relations,
                hops=hops,
                context_channels=dims.sentence_dim,
                relation_weights=settings.relation_weights,
                relation_bases=settings.relation_bases,
                attention_channels=settings.attention_dim,
                dropout=settings.dropout,
                epsilon=settings.epsilon,
                walks_from=settings.walks_from,
                walks_to=settings.walks_to,
                zero_hop=settings.zero_hop,
                without=settings.without,
                context_transition=settings.context_transition,
                backend=backend,
            )
            for width in [hidden_dim, *[self.out_dim] * (layers - 1)]
        )
        self.counts = WalkCounts(hops, dims.num_relations) if settings.counting else None
        self.pool = AttentivePooling(dims.sentence_dim, self.out_dim, settings.heads, settings.dropout)
        self.dropout = Dropout(settings.dropout)
        self.reset_parameters(settings.initial_scale, settings.initial_mean)

    def reset_parameters(self, initial_scale: Scale, mean: float = 1.0) -> None:
        """With a number, everything is drawn from N(0, scale²) (published: 0.02). ``"level"`` keeps the scale of a signal
        through linear maps and hops, so that long walks start as audible as short ones: W is drawn around ``mean`` · I. Either
        way W⁰ = I, τ = 0, and half of the typed bias is 1 while U is small: messages begin as products of relation weights
        alone (the paper's appendix F), and who sent them comes in as training needs it."""
        initialize(self, initial_scale)
        for layer in self.layers:
            assert isinstance(layer, MHGRNLayer)
            layer.reset_messages(initial_scale, mean)

    def prepare(self, batch: GraphBatch) -> None:
        _ = batch.walk_index if batch.node_type.device.type == "cpu" else batch.states

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
        g, attention = self.pool(s, h, batch.batch[pooled])
        score = self.counts(traces[-1].weights, batch, pooled) if self.counts is not None else None
        return GraphEncoding(g, pooled, attention, traces, score=score)

    def _pooled_nodes(self, batch: GraphBatch) -> Tensor:
        if self.pooled_types is None:
            return torch.arange(batch.num_nodes, device=batch.node_type.device)
        pooled = torch.isin(batch.node_type, torch.tensor(self.pooled_types, device=batch.node_type.device))
        if self.pool_first_node:
            has = torch.zeros(batch.num_graphs, dtype=torch.bool, device=pooled.device)
            has[batch.batch[pooled]] = True
            first = torch.ones_like(pooled)
            first[1:] = batch.batch[1:] != batch.batch[:-1]
            pooled = pooled | (first & ~has[batch.batch])
        return pooled.nonzero()[:, 0]
