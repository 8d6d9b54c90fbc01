"""One layer of the multi-hop graph relation network (equations 5-11), for its encoder and for PyTorch Geometric models."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.nn.components import Component, components
from mhgrn.nn.layers import MLP, Constant, Dropout, Scale, TypedLinear, gelu, initialise
from mhgrn.nn.message_passing import Backend, MultiHopMessagePassing, RelationWeights, WalkWeights
from mhgrn.subgraphs.extract import ANSWER, QUESTION

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
        row = int(torch.searchsorted(self.nodes, node))
        if row == len(self.nodes) or int(self.nodes[row]) != node:
            raise UserError(f"the layer delivered nothing to node {node}: no attention over its lengths is known.")
        return row


class MHGRNLayer(nn.Module):
    """One layer: typed transformation, multi-hop message passing under structured attention, shortcut (equations 5-11).

    .. math:: h'_i = σ(V h_i + V' z_i), \\quad z_i = Σ_k softmax_k(⟨W s, z_i^k⟩/√d) z_i^k

    Widths are free: ``in_dim`` of h, ``message_dim`` of x and z, ``out_dim`` of h'; ``sentence_dim=0`` is no sentence, and what
    would depend on it is learned as it is. ``without`` names components to leave out (:data:`mhgrn.nn.components.Component`);
    ``context_transition`` adds to τ an MLP of s. Walks into other nodes than answers bring nothing with ``walks_to="answer"``.

    g(φ(i), s) cancels (see :class:`~mhgrn.nn.message_passing.WalkWeights`), W⁰_1 is never used, and one length leaves no choice:
    ``published_count`` keeps such parameters, because the published number of parameters has them, with a zero gradient.
    """

    def __init__(
        self,
        in_dim: int,
        message_dim: int,
        out_dim: int,
        sentence_dim: int,
        relation_count: int,
        hops: int,
        relation_weights: RelationWeights = "diagonal",
        attention_dim: int = 50,
        dropout: float = 0.1,
        epsilon: float = 0.0,
        walks_from: Literal["any", "question"] = "any",
        zero_hop: bool = False,
        backend: Backend = "auto",
        activation: Callable[[Tensor], Tensor] = gelu,
        walks_to: Literal["any", "answer"] = "any",
        without: Collection[Component] = (),
        context_transition: bool = False,
        relation_bases: int = 8,
        node_types: int = NODE_TYPES,
        published_count: bool = True,
    ) -> None:
        super().__init__()
        self.hops, self.epsilon, self.activation = hops, epsilon, activation
        self.walks_from, self.walks_to, self.zero_hop = walks_from, walks_to, zero_hop
        self.relation_count = relation_count
        left_out = components(without)

        def from_sentence(out: int) -> nn.Module:
            return MLP(sentence_dim, attention_dim, out, dropout) if sentence_dim else Constant(out)

        typed, types, unary, transition = (c not in left_out for c in ("typed_transform", "type_attention", "unary", "transition"))
        if not typed and in_dim != message_dim:
            raise UserError(f"without the typed transformation messages are as wide as nodes: {in_dim}, not {message_dim}.")
        self.typed = TypedLinear(in_dim, message_dim, node_types) if typed else None
        self.f = from_sentence(node_types) if types else None
        self.g = from_sentence(node_types) if types and published_count else None
        self.delta = from_sentence(relation_count) if unary else None
        self.tau = nn.Parameter(torch.zeros(relation_count, relation_count)) if transition else None
        self.messages = MultiHopMessagePassing(
            message_dim, relation_count, hops, relation_weights, backend, relation_bases, published_count
        )
        self.length_query: nn.Module | None = None
        if hops > 1 or zero_hop or published_count:
            self.length_query = nn.Linear(sentence_dim, message_dim) if sentence_dim else Constant(message_dim)
        self.V = nn.Linear(in_dim, out_dim)
        self.V_message = nn.Linear(message_dim, out_dim)
        self.dropout = Dropout(dropout)
        self.context_tau = from_sentence(relation_count**2) if transition and context_transition and sentence_dim else None

    def reset_messages(self, initial_scale: Scale = "level", mean: float = 1.0) -> None:
        """Relation weights of that scale, and half of the typed bias 1 while U is small: messages begin as products of
        relation weights alone (the paper's appendix F), and who sent them comes in as training needs it."""
        self.messages.reset_parameters(None if initial_scale == "level" else initial_scale, mean)
        if self.typed is not None:
            nn.init.normal_(self.typed.weight, std=PUBLISHED_SCALE if initial_scale == "level" else initial_scale)
            nn.init.zeros_(self.typed.bias)
            with torch.no_grad():
                self.typed.bias[:, : self.messages.dim // 2] = 1

    def forward(
        self, h: Tensor, s: Tensor, batch: GraphBatch, needed: Tensor | None = None, edge_log_weight: Tensor | None = None
    ) -> tuple[Tensor, LayerTrace]:
        """h [N, in_dim], s [G, S] → h' [n, out_dim] of the needed nodes (ascending; all by default)."""
        if needed is None:
            needed = torch.arange(len(h), device=h.device)
        x = h if self.typed is None else self.typed(h, batch.types)
        weights = self.walk_weights(s, batch)
        if self.walks_to == "answer":
            ends = (batch.types[needed] == ANSWER).nonzero()[:, 0]
            z_ends, log_d_ends = self.messages(x, weights, batch, needed[ends], edge_log_weight)
            z = z_ends.new_zeros(self.hops, len(needed), z_ends.shape[2]).index_copy(1, ends, z_ends)
            log_d = log_d_ends.new_full((self.hops, len(needed)), -torch.inf).index_copy(1, ends, log_d_ends)
        else:
            z, log_d = self.messages(x, weights, batch, needed, edge_log_weight)  # [K, n, d], [K, n]
        if self.epsilon:
            z = z * torch.sigmoid(log_d - math.log(self.epsilon)).to(z.dtype)[..., None]  # d / (d + ε)
        if self.zero_hop:
            z = torch.cat([x[needed][None], z])  # [1 + K, n, d]
        if self.length_query is None:
            length = z.new_ones(len(needed), 1)
        else:
            query = self.length_query(s)[batch.graph[needed]]  # [n, d]
            length = torch.softmax(torch.einsum("nd,knd->nk", query, z) / math.sqrt(z.shape[-1]), dim=1)  # [n, K]
        z_mean = torch.einsum("nk,knd->nd", length, z)
        out = self.dropout(self.activation(self.V(h[needed]) + self.V_message(z_mean)))
        return out, LayerTrace(weights, needed, length[:, -self.hops :], log_d)

    def walk_weights(self, s: Tensor, batch: GraphBatch) -> WalkWeights:
        """The structured attention that s calls for (equation 10); 0 for what is left out."""
        m = self.relation_count
        start = self.f(s)[batch.graph, batch.types] if self.f is not None else s.new_zeros(len(batch.graph))
        if self.walks_from == "question":
            start = start.masked_fill(batch.types != QUESTION, -torch.inf)
        relation = self.delta(s) if self.delta is not None else s.new_zeros(len(s), m)
        turn = self.tau if self.tau is not None else s.new_zeros(m, m)
        if self.context_tau is not None:
            turn = turn + self.context_tau(s).view(-1, m, m)
        # parameters without effect get a zero gradient, not none
        idle = [*(self.g.parameters() if self.g is not None else ()), *([turn, self.messages.W_pad] if self.hops == 1 else ())]
        return WalkWeights(start, relation + 0.0 * sum(p.sum() for p in idle), turn)


class MHGRNConv(nn.Module):
    """:class:`MHGRNLayer` as a layer of PyTorch Geometric models: over any typed, directed edges, with or without a context.

    Messages run over all walks of 1 … ``hops`` edges in the edges' direction; relations are those of ``edge_type``, and none is
    implied by another. Attention to node types and relations depends on the context of a node's graph; with
    ``context_channels=0`` it is learned as it is. Of an ``activation`` other than GELU, ``torch.nn.Identity()`` leaves the
    output linear.

    >>> conv = MHGRNConv(8, 16, num_relations=3, hops=2)
    >>> edge_index, edge_type = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0, 2, 1])
    >>> conv(torch.randn(4, 8), edge_index, edge_type).shape
    torch.Size([4, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        num_node_types: int = 1,
        hops: int = 2,
        context_channels: int = 0,
        relation_weights: RelationWeights = "diagonal",
        relation_bases: int = 8,
        attention_channels: int = 50,
        dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = gelu,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.context_channels = in_channels, out_channels, context_channels
        self.num_relations, self.num_node_types, self.hops = num_relations, num_node_types, hops
        idle: list[Component] = []  # what cancels: the weight of the only type, turns where no walk has any
        if num_node_types == 1:
            idle.append("type_attention")
        if hops == 1:
            idle.append("transition")
        self.layer = MHGRNLayer(
            in_channels,
            out_channels,
            out_channels,
            context_channels,
            num_relations,
            hops,
            relation_weights,
            attention_channels,
            dropout,
            activation=activation,
            without=idle,
            relation_bases=relation_bases,
            node_types=num_node_types,
            published_count=False,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Such that a signal keeps its scale through maps and hops; no type, relation, turn or length is preferred."""
        initialise(self.layer)
        self.layer.messages.reset_parameters()
        assert self.layer.typed is not None
        for U in self.layer.typed.weight:
            nn.init.xavier_uniform_(U)
        nn.init.zeros_(self.layer.typed.bias)
        for module in self.layer.modules():
            if isinstance(module, Constant):
                nn.init.zeros_(module.value)
        if self.layer.tau is not None:
            nn.init.zeros_(self.layer.tau)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_type: Tensor,
        node_type: Tensor | None = None,
        context: Tensor | None = None,
        batch: Tensor | None = None,
        edge_weight: Tensor | None = None,
        output_mask: Tensor | None = None,
    ) -> Tensor:
        """x [N, in_channels] → [N, out_channels].

        ``edge_index`` [2, E] holds sources and targets, ``edge_type`` [E] their relations; an edge given twice counts twice.
        ``node_type`` [N] may be None where all nodes are of one type, ``context`` [G, context_channels] where there is none, and
        ``batch`` [N], the graph of each node, ascending, where there is one graph.

        ``edge_weight`` [E], not negative, multiplies the weight α of a walk by the weights of the edges it takes, before weights
        are normalised among the walks of the same length into a node; an edge of weight 0 is as if it were absent.
        ``output_mask`` [N] says which nodes are wanted: other rows are 0, and edges that no walk to a wanted node takes cost
        nothing.
        """
        given = (x, edge_index, edge_type, node_type, context, batch, edge_weight, output_mask)
        if torch.compiler.is_compiling():  # shapes depend on the data throughout: one break rather than dozens
            out: Tensor = torch.compiler.disable(self._forward)(*given)  # type: ignore[no-untyped-call]
            return out
        return self._forward(*given)

    def _forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_type: Tensor,
        node_type: Tensor | None,
        context: Tensor | None,
        batch: Tensor | None,
        edge_weight: Tensor | None,
        output_mask: Tensor | None,
    ) -> Tensor:
        N = len(x)
        if batch is None:
            batch = torch.zeros(N, dtype=torch.long, device=x.device)
        if node_type is None:
            node_type = torch.zeros(N, dtype=torch.long, device=x.device)
        if context is None:
            context = x.new_zeros(int(batch[-1]) + 1 if N else 1, 0)
        self._check(x, edge_index, edge_type, node_type, context, batch, edge_weight, output_mask)
        needed = torch.arange(N, device=x.device) if output_mask is None else output_mask.nonzero()[:, 0]
        graph = GraphBatch(
            torch.arange(N, device=x.device),
            node_type.long(),
            batch.long(),
            edge_index.long(),
            edge_type.long(),
            len(context),
            self.num_relations,
        )
        kept = torch.ones_like(edge_type, dtype=torch.bool)
        if output_mask is not None:
            kept = graph.distances(needed, self.hops - 1)[edge_index[1]] < self.hops
        if edge_weight is not None:
            kept = kept & (edge_weight > 0)
        graph = replace(graph, edge_index=graph.edge_index[:, kept], edge_type=graph.edge_type[kept])
        out: Tensor = self.layer(x, context, graph, needed, None if edge_weight is None else edge_weight[kept].log())[0]
        return out if output_mask is None else out.new_zeros(N, self.out_channels).index_copy(0, needed, out)

    def _check(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_type: Tensor,
        node_type: Tensor,
        context: Tensor,
        batch: Tensor,
        edge_weight: Tensor | None,
        output_mask: Tensor | None,
    ) -> None:
        """Shapes that do not fit would raise something obscure, numbers out of range could go unnoticed."""
        N, E, channels = len(x), edge_index.shape[-1], self.context_channels
        if context.dim() != 2 or context.shape[1] != channels:
            fit = f"[graphs, {channels}]" if channels else "None (context_channels is 0)"
            raise UserError(f"context has shape {list(context.shape)}; this layer takes {fit}.")
        for name, tensor, shape in (
            ("x", x, [N, self.in_channels]),
            ("edge_index", edge_index, [2, E]),
            ("edge_type", edge_type, [E]),
            ("node_type", node_type, [N]),
            ("batch", batch, [N]),
            ("edge_weight", edge_weight, [E]),
            ("output_mask", output_mask, [N]),
        ):
            if tensor is not None and list(tensor.shape) != shape:
                raise UserError(f"{name} has shape {list(tensor.shape)}, not {shape}.")
        for name, tensor, count in (
            ("edge_index", edge_index, N),
            ("edge_type", edge_type, self.num_relations),
            ("node_type", node_type, self.num_node_types),
            ("batch", batch, len(context)),
        ):
            if tensor.numel() and not 0 <= int(tensor.min()) <= int(tensor.max()) < count:
                raise UserError(f"{name} holds {int(tensor.min())} … {int(tensor.max())}; it should be within 0 … {count - 1}.")
        if bool((batch[1:] < batch[:-1]).any()):
            raise UserError("batch is not ascending; put the nodes of a graph beside each other, as PyTorch Geometric does.")
        if edge_weight is not None and bool((edge_weight < 0).any()):
            raise UserError("an edge_weight is negative; the weight of a walk is a product of positive numbers.")
        if output_mask is not None and output_mask.dtype != torch.bool:
            raise UserError("output_mask is not of booleans; it says of every node whether it is wanted.")

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, hops={self.hops}"
