"""The multi-hop graph relation network: section 4 of the paper."""

from typing import Annotated, Any, ClassVar, Literal, get_args

import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.encoders import DEEPEST, MOST_HEADS, WIDEST
from mhgrn.encoders.base import Dims, EncoderSettings, GraphEncoder, GraphEncoding
from mhgrn.nn.components import Component, components
from mhgrn.nn.conv import MHGRNLayer
from mhgrn.nn.layers import AttentivePooling, Dropout, Scale, gelu, initialize
from mhgrn.nn.message_passing import Backend, WalkWeights
from mhgrn.nn.presence import walk_presence
from mhgrn.nn.states import States
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


class MHGRNSettings(EncoderSettings):
    """Settings of ``mhgrn``."""

    hops: int = Field(2, ge=1, le=DEEPEST, description="K, length of the longest walk")
    layers: int = Field(1, ge=1, le=DEEPEST, description="number of layers")
    hidden_dim: int = Field(100, ge=1, le=WIDEST, description="width of node vectors")
    message_dim: int | None = Field(None, ge=1, le=WIDEST, description="width of messages; null: hidden_dim")
    out_dim: int | None = Field(None, ge=1, le=WIDEST, description="width of the output; null: hidden_dim")
    relation_weights: Literal["diagonal", "full", "basis"] = Field(
        "diagonal", description="form of the matrices W of relations: diagonal, full, or combinations of a few basis matrices"
    )
    initial_scale: Annotated[float, Field(gt=0)] | Literal["level"] = Field(
        "level", description="standard deviation of the initial weights; level: chosen by layer so that signals keep their scale"
    )
    heads: int = Field(2, ge=1, le=MOST_HEADS, description="attention heads of the pooling")
    attention_dim: int = Field(50, ge=1, le=WIDEST, description="hidden width of the networks that compute attention")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate")
    epsilon: float = Field(0.0, ge=0, description="added to the denominator of the attention (published: 1e-15)")
    walks_from: Literal["any", "question"] = Field("any", description="where walks start: anywhere, or at the question's concepts")
    zero_hop: bool = Field(False, description="let a node also attend to its own x, so that it can ignore its walks")
    pool_first_node_if_no_answer: bool = Field(False, description="pool node 0 if there is no node to pool (published)")
    relation_bases: int = Field(8, ge=1, le=MOST_HEADS, description="number of basis matrices, with relation_weights: basis")
    without: list[Component] = Field(
        [], description="components to remove: " + ", ".join(get_args(Component)) + "; the first four are the paper's table 6"
    )
    context_transition: bool = Field(False, description="let the transition scores between relations depend on the text")
    walks_to: Literal["any", "answer"] = Field("any", description="where walks end: anywhere, or at the choice's concepts")
    pool: Literal["answer", "question", "all"] = Field("answer", description="the nodes that are pooled")
    initial_mean: float = Field(
        1.0, description="mean of the initial relation weights, with initial_scale: level (times I, if full)"
    )
    counting: bool = Field(
        False, description="add a term to the score that counts the walks from question to choice, which a mean of messages hides"
    )
    relevance_feature: bool = Field(
        False, description="add a learned vector times the relevance of a node to the question to the node's vector"
    )
    relevance_prior: bool = Field(
        False, description="add a learned number times the relevance of each node that a walk leaves to the walk's log-weight"
    )

    @field_validator("heads")
    @classmethod
    def _heads_divide_the_output(cls, heads: int, info: ValidationInfo) -> int:
        width = info.data.get("out_dim") or info.data.get("hidden_dim", heads)
        if width % heads:
            raise ValueError(f"the number of heads divides the output's width, {width}")
        return heads

    @field_validator("without")
    @classmethod
    def _widths_fit(cls, without: list[Component], info: ValidationInfo) -> list[Component]:
        hidden, messages, out, layers = (info.data.get(name) for name in ("hidden_dim", "message_dim", "out_dim", "layers"))
        if "typed_transform" in without and (messages not in (None, hidden) or (layers != 1 and out not in (None, hidden))):
            raise ValueError("without typed_transform, message_dim must be hidden_dim, and so must out_dim with several layers")
        return without

    @field_validator("context_transition")
    @classmethod
    def _there_are_transitions(cls, context: bool, info: ValidationInfo) -> bool:
        if context and "transition" in components(info.data.get("without", ())):
            raise ValueError("mhgrn.without removes the transition scores, so they cannot depend on the text")
        return context


class WalkCounts(nn.Module):
    """A term of the score that counts walks.

    .. math:: Σ_{k,r} w_{k,r} \\log(1 + Σ_j c_{jkr}) + Σ_k v_k Σ_j \\log(1 + Σ_r c_{jkr})

    c_jkr is the weight α, by the layer's structured attention, of the walks of k hops from the question's concept j to the pooled
    nodes whose first relation is r. The first sum counts walks by relation, the second the question concepts that have any.
    Messages are means over walks, which are the same for one walk and for a thousand equal ones.
    """

    def __init__(self, hops: int, num_relations: int) -> None:
        super().__init__()
        self.by_relation = nn.Parameter(torch.zeros(hops, num_relations))
        self.by_concept = nn.Parameter(torch.zeros(hops))

    def forward(self, weights: WalkWeights, batch: GraphBatch, pooled: Tensor, node_log_weight: Tensor | None = None) -> Tensor:
        """Compute the term [G], from the pooled nodes backwards, with one number per state or exit and hop."""
        K, m = self.by_relation.shape
        states = batch.derived(States.of)
        start, relation, turn = (weight.double().exp() for weight in weights)
        exit_graph = batch.batch[states.exit_node]
        delta = relation[exit_graph, states.exit_relation]  # [exits]
        turns = states.relation[states.turn_state], states.exit_relation[states.turn_exit]
        tau = turn[turns] if turn.dim() == 2 else turn[exit_graph[states.turn_exit], *turns]  # [turns]
        if node_log_weight is not None:
            leave = node_log_weight.double().exp()
            start, tau = start * leave, tau * leave[states.exit_node[states.turn_exit]]
        asked = (batch.node_type == QUESTION).nonzero()[:, 0]
        first = (batch.node_type[states.exit_node] == QUESTION).nonzero()[:, 0]  # exits where counted walks begin
        first_node = states.exit_node[first]
        cell = exit_graph[first] * m + states.exit_relation[first]
        after = relation.new_zeros(batch.num_nodes).index_fill(0, pooled, 1.0)[states.node]  # weight of what follows a state
        weight = None if batch.edge_weight is None else batch.edge_weight[torch.from_numpy(batch.edge_order).to(relation.device)]
        score = relation.new_zeros(batch.num_graphs)
        for k in range(K):
            ahead = after[states.edge_state] if weight is None else weight * after[states.edge_state]  # [E]
            begun = delta * delta.new_zeros(len(delta)).index_add(0, states.edge_exit, ahead)
            counts = begun[first] * start[first_node]
            walks = counts.new_zeros(batch.num_graphs * m).index_add(0, cell, counts).view(-1, m).log1p()
            by_concept = counts.new_zeros(batch.num_nodes).index_add(0, first_node, counts)[asked].log1p()
            concepts = counts.new_zeros(batch.num_graphs).index_add(0, batch.batch[asked], by_concept)
            score = score + walks @ self.by_relation[k].double() + concepts * self.by_concept[k].double()
            if k + 1 < K:
                after = tau.new_zeros(len(states.node)).index_add(0, states.turn_state, tau * begun[states.turn_exit])
        return score.to(self.by_relation.dtype)


class MHGRN(GraphEncoder):
    """Projected node features, one or more :class:`MHGRNLayer`, attentive pooling over the answer nodes (or others: ``pool``)."""

    name = "mhgrn"
    summary = "multi-hop graph relation network: attends to walks of up to K hops"
    equation = "equations 5-11 of the paper"
    Settings = MHGRNSettings
    paper: ClassVar[dict[str, Any]] = {"relation_weights": "full"}
    as_published: ClassVar[dict[str, Any]] = {
        "relation_weights": "diagonal",
        "initial_scale": 0.02,
        "epsilon": 1e-15,
        "pool_first_node_if_no_answer": True,
    }
    has_paths = True
    shares_features = True
    weighs_edges = True

    def __init__(self, dims: Dims, settings: MHGRNSettings, backend: Backend = "auto") -> None:
        super().__init__(dims, settings)
        hops, layers = settings.hops, settings.layers
        hidden_dim = settings.hidden_dim
        message_dim, self.out_dim = settings.message_dim or hidden_dim, settings.out_dim or hidden_dim
        self.hops, self.walks_from = hops, settings.walks_from
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
        # both start with 0, which is the model without relevance
        self.relevance_vector = nn.Parameter(torch.zeros(hidden_dim)) if settings.relevance_feature else None
        self.relevance_scale = nn.Parameter(torch.zeros(layers)) if settings.relevance_prior else None
        self.uses_relevance = settings.relevance_feature or settings.relevance_prior
        self.pool = AttentivePooling(dims.sentence_dim, self.out_dim, settings.heads, settings.dropout)
        self.dropout = Dropout(settings.dropout)
        self.reset_parameters(settings.initial_scale, settings.initial_mean)

    def reset_parameters(self, initial_scale: Scale, mean: float = 1.0) -> None:
        """Draw all parameters.

        Either way W⁰ = I, τ = 0, half of the typed bias is 1 and U is small. Messages therefore start as products of relation
        weights (the paper's appendix F), and training adds the dependence on their first node.

        Args:
            initial_scale: A standard deviation (published: 0.02), or ``"level"``: keep the scale of a signal through linear maps
                and hops, so that long walks start with as much influence as short ones. W is then drawn around ``mean`` · I.
            mean: The mean of the diagonal of W with ``"level"``.
        """
        initialize(self, initial_scale)
        for layer in self.layers:
            assert isinstance(layer, MHGRNLayer)
            layer.reset_messages(initial_scale, mean)

    def prepare(self, batch: GraphBatch) -> None:
        _ = batch.walk_index if batch.node_type.device.type == "cpu" else batch.derived(States.of)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        h = gelu(self.project(features))
        if batch.feature_row is not None:
            h = h.index_select(0, batch.feature_row)
        if self.relevance_vector is not None:
            h = h + self.relevance(batch, h.dtype)[:, None] * self.relevance_vector
        h = self.dropout(h)
        prior = [None] * len(self.layers)
        if self.relevance_scale is not None:
            prior = list(self.relevance(batch, self.relevance_scale.dtype) * self.relevance_scale[:, None])
        pooled = self._pooled_nodes(batch)
        steps = [self.hops * above for above in reversed(range(len(self.layers)))]  # from a layer's output to a pooled node
        distance = batch.distances(pooled, steps[0]) if steps[0] else None
        log_weight = presence = None
        if batch.edge_weight is not None:
            log_weight, presence = batch.edge_weight.log(), walk_presence(batch.edge_weight, self._starts(batch), batch, self.hops)
        traces = []
        for layer, most, leave in zip(self.layers, steps, prior, strict=True):
            needed = pooled if distance is None or not most else (distance <= most).nonzero()[:, 0]
            out, trace = layer(h, s, batch, needed, log_weight, leave, presence)
            traces.append(trace)
            # the next layer does not read the other rows
            h = out if needed is pooled else out.new_zeros(len(h), out.shape[1]).index_copy(0, needed, out)
        g, attention = self.pool(s, h, batch.batch[pooled])
        score = self.counts(traces[-1].weights, batch, pooled, prior[-1]) if self.counts is not None else None
        return GraphEncoding(g, pooled, attention, traces, score=score)

    def _starts(self, batch: GraphBatch) -> Tensor:
        """[N] whether walks may start at a node."""
        return batch.node_type == QUESTION if self.walks_from == "question" else torch.ones_like(batch.node_type, dtype=torch.bool)

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
