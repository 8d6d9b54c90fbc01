"""One layer of the multi-hop graph relation network (equations 5-11), for the encoder and for PyTorch Geometric models."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from reprlib import repr as shown
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.nn.checks import check_choice, check_dropout, check_sizes
from mhgrn.nn.components import Component, components
from mhgrn.nn.layers import MLP, Constant, Dropout, Scale, TypedLinear, gelu, initialize
from mhgrn.nn.message_passing import Backend, MultiHopMessagePassing, RelationWeights, WalkWeights
from mhgrn.subgraphs.extract import ANSWER, QUESTION

NODE_TYPES = 3
PUBLISHED_SCALE = 0.02


@dataclass(frozen=True)
class LayerTrace:
    """The attention of one layer, from which walks are decoded."""

    weights: WalkWeights
    nodes: Tensor  # [n] the nodes it computed, ascending
    length: Tensor  # [n, K] attention over lengths
    log_d: Tensor  # [K, n]
    node_log_weight: Tensor | None = None  # [N] added to log α of a walk for each node it leaves

    def row(self, node: int) -> int:
        """Return the position of a node in ``nodes``."""
        row = int(torch.searchsorted(self.nodes, node))
        if row == len(self.nodes) or int(self.nodes[row]) != node:
            raise UserError(f"the layer did not compute node {node}, so its attention over lengths is unknown.")
        return row


class MHGRNLayer(nn.Module):
    """One MHGRN layer: typed transformation, multi-hop messages under structured attention, shortcut (equations 5-11).

    .. math:: h'_i = σ(V h_i + V' z_i), \\quad z_i = Σ_k softmax_k(⟨W s, z_i^k⟩/√d) z_i^k

    :class:`MHGRNConv` wraps it for PyTorch Geometric models.

    Args:
        in_channels: width of the node vectors h.
        message_channels: width of the messages, the paper's x and z.
        out_channels: width of the result h'.
        num_relations: m, the number of relations in ``GraphBatch.edge_type``.
        hops: K, the length of the longest walks.
        context_channels: width of the context s. With 0, attention to node types and relations is learned without a context.
        num_node_types: number of node types in ``GraphBatch.node_type``.
        relation_weights: form of the matrices W_r: ``"diagonal"``, ``"full"`` or ``"basis"``.
        relation_bases: number of matrices that relations share with ``relation_weights="basis"``.
        attention_channels: hidden width of the MLPs that compute attention from s.
        dropout: probability, for the result and within these MLPs.
        activation: σ.
        epsilon: added to the normalizer d of equation 7.
        walks_from: ``"question"`` keeps only walks that start at question nodes.
        walks_to: ``"answer"`` computes messages for answer nodes only; other nodes receive 0.
        zero_hop: let a node also attend to its own message, as a walk of length 0.
        without: components to remove, see :data:`mhgrn.nn.components.Component`.
        context_transition: add an MLP of s to the transition weights τ.
        published_count: keep parameters without effect on the result, as the published model does: g, which cancels (see
            :class:`~mhgrn.nn.message_passing.WalkWeights`), W⁰_1, which no walk uses, and the attention over lengths where there
            is one length. Their gradient is zero.
        backend: form of the message passing, see :func:`~mhgrn.nn.message_passing.multi_hop_messages`.

    >>> zeros, edge_index = torch.zeros(3, dtype=torch.long), torch.tensor([[0, 1], [1, 2]])
    >>> batch = GraphBatch(torch.arange(3), zeros, zeros, edge_index, torch.tensor([0, 2]), num_graphs=1, num_relations=3)
    >>> layer = MHGRNLayer(in_channels=8, message_channels=8, out_channels=4, num_relations=3, hops=2, context_channels=5)
    >>> layer.reset_messages()
    >>> out, trace = layer(torch.randn(3, 8), torch.randn(1, 5), batch)
    >>> out.shape, trace.length.shape  # attention over lengths 1 and 2
    (torch.Size([3, 4]), torch.Size([3, 2]))
    """

    def __init__(
        self,
        *,
        in_channels: int,
        message_channels: int,
        out_channels: int,
        num_relations: int,
        hops: int,
        context_channels: int = 0,
        num_node_types: int = NODE_TYPES,
        relation_weights: RelationWeights = "diagonal",
        relation_bases: int = 8,
        attention_channels: int = 50,
        dropout: float = 0.1,
        activation: Callable[[Tensor], Tensor] = gelu,
        epsilon: float = 0.0,
        walks_from: Literal["any", "question"] = "any",
        walks_to: Literal["any", "answer"] = "any",
        zero_hop: bool = False,
        without: Collection[Component] = (),
        context_transition: bool = False,
        published_count: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        check_sizes(
            in_channels=in_channels,
            message_channels=message_channels,
            out_channels=out_channels,
            num_relations=num_relations,
            num_node_types=num_node_types,
            attention_channels=attention_channels,
        )
        check_sizes(least=0, context_channels=context_channels)
        check_dropout(dropout)
        check_choice("walks_from", walks_from, ("any", "question"))
        check_choice("walks_to", walks_to, ("any", "answer"))
        for component in without:
            check_choice("without", component, get_args(Component))
        if not callable(activation):
            raise UserError(f"activation is {shown(activation)}; it must be a function of a tensor, for example torch.relu.")
        if not 0 <= epsilon < math.inf:
            raise UserError(f"epsilon is {shown(epsilon)}; it must be 0 or more.")
        self.hops, self.epsilon, self.activation = hops, epsilon, activation
        self.walks_from, self.walks_to, self.zero_hop = walks_from, walks_to, zero_hop
        self.num_relations = num_relations
        removed = components(without)

        def from_context(out: int) -> nn.Module:
            return MLP(context_channels, attention_channels, out, dropout) if context_channels else Constant(out)

        typed, types, unary, transition = (c not in removed for c in ("typed_transform", "type_attention", "unary", "transition"))
        if not typed and in_channels != message_channels:
            raise UserError(
                f"Without typed_transform, message_channels must equal in_channels: got {message_channels} and {in_channels}."
            )
        self.typed = TypedLinear(in_channels, message_channels, num_node_types) if typed else None
        self.f = from_context(num_node_types) if types else None
        self.g = from_context(num_node_types) if types and published_count else None
        self.delta = from_context(num_relations) if unary else None
        self.tau = nn.Parameter(torch.zeros(num_relations, num_relations)) if transition else None
        self.messages = MultiHopMessagePassing(
            message_channels, num_relations, hops, relation_weights, backend, relation_bases, published_count
        )
        self.length_query: nn.Module | None = None
        if hops > 1 or zero_hop or published_count:
            self.length_query = nn.Linear(context_channels, message_channels) if context_channels else Constant(message_channels)
        self.V = nn.Linear(in_channels, out_channels)
        self.V_message = nn.Linear(message_channels, out_channels)
        self.dropout = Dropout(dropout)
        self.context_tau = from_context(num_relations**2) if transition and context_transition and context_channels else None

    def reset_messages(self, initial_scale: Scale = "level", mean: float = 1.0) -> None:
        """Initialize relation weights with a scale, U small, and half of the typed bias with 1.

        Messages then start as products of relation weights (the paper's appendix F); training adds the dependence on the sender.
        """
        self.messages.reset_parameters(None if initial_scale == "level" else initial_scale, mean)
        if self.typed is not None:
            nn.init.normal_(self.typed.weight, std=PUBLISHED_SCALE if initial_scale == "level" else initial_scale)
            nn.init.zeros_(self.typed.bias)
            with torch.no_grad():
                self.typed.bias[:, : self.messages.channels // 2] = 1

    def forward(
        self,
        x: Tensor,
        s: Tensor,
        batch: GraphBatch,
        needed: Tensor | None = None,
        edge_log_weight: Tensor | None = None,
        node_log_weight: Tensor | None = None,
        presence: Tensor | None = None,
    ) -> tuple[Tensor, LayerTrace]:
        """Compute h' and the attention of the layer.

        Args:
            x: [N, in_channels] node vectors, the paper's h.
            s: [G, context_channels] context of each graph.
            batch: the graphs.
            needed: [n] nodes to compute h' for, ascending; all by default.
            edge_log_weight: [E] added to log α of a walk for each edge it takes.
            node_log_weight: [N] added to log α of a walk for each node it leaves.
            presence: [K, N] factors of the messages, see :func:`mhgrn.nn.presence.walk_presence`.

        Returns:
            h' [n, out_channels] of the needed nodes, and the :class:`LayerTrace`.
        """
        if needed is None:
            needed = torch.arange(len(x), device=x.device)
        sent = x if self.typed is None else self.typed(x, batch.node_type)  # [N, d] the paper's x
        weights, more = self.walk_weights(s, batch), (edge_log_weight, node_log_weight)
        if self.walks_to == "answer":
            ends = (batch.node_type[needed] == ANSWER).nonzero()[:, 0]
            z_ends, log_d_ends = self.messages(sent, weights, batch, needed[ends], *more)
            z = z_ends.new_zeros(self.hops, len(needed), z_ends.shape[2]).index_copy(1, ends, z_ends)
            log_d = log_d_ends.new_full((self.hops, len(needed)), -torch.inf).index_copy(1, ends, log_d_ends)
        else:
            z, log_d = self.messages(sent, weights, batch, needed, *more)  # [K, n, d], [K, n]
        if self.epsilon:
            z = z * torch.sigmoid(log_d - math.log(self.epsilon)).to(z.dtype)[..., None]  # d / (d + ε)
        if presence is not None:
            z = z * presence[:, needed, None].to(z.dtype)
        if self.zero_hop:
            z = torch.cat([sent[needed][None], z])  # [1 + K, n, d]
        if self.length_query is None:
            length = z.new_ones(len(needed), 1)
        else:
            query = self.length_query(s)[batch.batch[needed]].to(z.dtype)  # [n, d]
            length = torch.softmax(torch.einsum("nd,knd->nk", query, z) / math.sqrt(z.shape[-1]), dim=1)  # [n, K]
        z_mean = torch.einsum("nk,knd->nd", length, z)
        z_mean = z_mean.to(self.V_message.weight.dtype)  # messages of a layer in half precision are computed in single precision
        out = self.dropout(self.activation(self.V(x[needed]) + self.V_message(z_mean)))
        return out, LayerTrace(weights, needed, length[:, -self.hops :], log_d, node_log_weight)

    def walk_weights(self, s: Tensor, batch: GraphBatch) -> WalkWeights:
        """Compute the structured attention (equation 10) from s; removed components count 0."""
        m = self.num_relations
        start = self.f(s)[batch.batch, batch.node_type] if self.f is not None else s.new_zeros(batch.num_nodes)
        if self.walks_from == "question":
            start = start.masked_fill(batch.node_type != QUESTION, -torch.inf)
        relation = self.delta(s) if self.delta is not None else s.new_zeros(len(s), m)
        turn = self.tau if self.tau is not None else s.new_zeros(m, m)
        if self.context_tau is not None:
            turn = turn + self.context_tau(s).view(-1, m, m)
        # parameters without effect receive a zero gradient instead of None
        idle = [*(self.g.parameters() if self.g is not None else ()), *([turn, self.messages.W_pad] if self.hops == 1 else ())]
        return WalkWeights(start, relation + 0.0 * sum(p.sum() for p in idle), turn)


class MHGRNConv(nn.Module):
    """:class:`MHGRNLayer` for PyTorch Geometric models: over any directed edges with types, with or without a context.

    Messages run over all walks of 1 … ``hops`` edges, in the direction of the edges. Reverse edges are not implied.

    Parameters and x may be ``float64``, ``float32``, ``bfloat16`` or ``float16``. In half precision, messages and attention are
    computed in ``float32``, and the result has the type of x. ``torch.autocast`` works, too.

    Args:
        in_channels: width of x.
        out_channels: width of the result, and of messages.
        num_relations: number of relations in ``edge_type``.
        num_node_types: number of node types in ``node_type``.
        hops: K, the length of the longest walks.
        context_channels: width of the context of each graph, on which attention to node types and relations depends. With 0,
            attention is learned without a context.
        relation_weights: form of the relation matrices: ``"diagonal"``, ``"full"`` or ``"basis"``.
        relation_bases: number of matrices that relations share with ``relation_weights="basis"``.
        attention_channels: hidden width of the MLPs that compute attention from the context.
        dropout: probability, for the result and within these MLPs.
        activation: applied to the result; GELU by default. ``torch.nn.Identity()`` makes the output linear.

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
        idle: list[Component] = []  # components without effect: attention to the only type, transitions in walks of one edge
        if num_node_types == 1:
            idle.append("type_attention")
        if hops == 1:
            idle.append("transition")
        self.layer = MHGRNLayer(
            in_channels=in_channels,
            message_channels=out_channels,
            out_channels=out_channels,
            num_relations=num_relations,
            hops=hops,
            context_channels=context_channels,
            num_node_types=num_node_types,
            relation_weights=relation_weights,
            relation_bases=relation_bases,
            attention_channels=attention_channels,
            dropout=dropout,
            activation=activation,
            without=idle,
            published_count=False,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize such that linear maps and hops preserve the scale of a signal and attention is uniform."""
        initialize(self.layer)
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
        """Compute new node vectors [N, out_channels].

        Args:
            x: [N, in_channels] node vectors.
            edge_index: [2, E] source and target of each edge. An edge given twice counts twice.
            edge_type: [E] relation of each edge.
            node_type: [N] type of each node; 0 by default.
            context: [G, context_channels] context of each graph; None if ``context_channels`` is 0.
            batch: [N] graph of each node, ascending, 0 … G - 1; one graph by default. Edges stay within a graph.
            edge_weight: [E], not negative. The weight α of a walk is multiplied by the weights of its edges, before weights are
                normalized among the walks of the same length into a node. An edge of weight 0 counts as absent.
            output_mask: [N] the nodes to compute. Other rows are 0, and edges that cannot reach these nodes cost nothing.
        """
        given = (x, edge_index, edge_type, node_type, context, batch, edge_weight, output_mask)
        if torch.compiler.is_compiling():  # all shapes depend on the data: one graph break instead of dozens
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
        given = {"x": x, "edge_index": edge_index, "edge_type": edge_type}
        optional = {
            "node_type": node_type,
            "context": context,
            "batch": batch,
            "edge_weight": edge_weight,
            "output_mask": output_mask,
        }
        for name, tensor in (given | {name: tensor for name, tensor in optional.items() if tensor is not None}).items():
            if not isinstance(tensor, Tensor):
                raise UserError(f"{name} is of type {type(tensor).__name__}; it must be a torch.Tensor.")
        N = len(x) if x.dim() else 0
        if batch is None:
            batch = torch.zeros(N, dtype=torch.long, device=x.device)
        if node_type is None:
            node_type = torch.zeros(N, dtype=torch.long, device=x.device)
        if context is None:
            context = x.new_zeros(int(batch[-1]) + 1 if batch.numel() and batch.dim() == 1 else 1, 0)
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
        """Check shapes, types and ranges, which would otherwise raise an obscure error, or none."""
        N, E, channels = len(batch), edge_index.shape[-1] if edge_index.dim() else 0, self.context_channels
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
                raise UserError(f"{name} has shape {list(tensor.shape)}; it should have shape {shape}.")
        dtype = self.layer.V.weight.dtype
        cast = torch.is_autocast_enabled(x.device.type)
        for name, tensor in (("x", x), ("context", context)):
            if tensor.dtype != dtype and not (cast and tensor.is_floating_point()):
                raise UserError(f"{name} has dtype {tensor.dtype}, but the layer has {dtype}; convert one of them.")
        if edge_weight is not None and not edge_weight.is_floating_point():
            raise UserError(f"edge_weight has dtype {edge_weight.dtype}; it must have a floating-point type.")
        for name, tensor, count in (
            ("edge_index", edge_index, N),
            ("edge_type", edge_type, self.num_relations),
            ("node_type", node_type, self.num_node_types),
            ("batch", batch, len(context)),
        ):
            if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
                raise UserError(f"{name} has dtype {tensor.dtype}; it must have an integer type, such as torch.long.")
            if tensor.numel() and not 0 <= int(tensor.min()) <= int(tensor.max()) < count:
                raise UserError(
                    f"{name} has values from {int(tensor.min())} to {int(tensor.max())}; they must lie between 0 and {count - 1}."
                )
        if bool((batch[1:] < batch[:-1]).any()):
            raise UserError("batch is not ascending; the nodes of a graph must be adjacent, as in PyTorch Geometric.")
        if N and len(context) != int(batch[-1]) + 1:
            graphs = f"batch has {int(batch[-1]) + 1} graphs"
            raise UserError(f"context has {len(context)} rows, but {graphs}; give one row per graph, and batch for several graphs.")
        owner = batch[edge_index]
        if bool((across := owner[0] != owner[1]).any()):
            edge = int(across.nonzero()[0, 0])
            (j, i), (of_j, of_i) = edge_index[:, edge].tolist(), owner[:, edge].tolist()
            raise UserError(f"edge {edge} connects node {j} of graph {of_j} with node {i} of graph {of_i}; see batch.")
        if edge_weight is not None and not bool(((edge_weight >= 0) & (edge_weight < torch.inf)).all()):
            raise UserError("edge_weight has negative, infinite or NaN values; edge weights must be finite and 0 or more.")
        if output_mask is not None and output_mask.dtype != torch.bool:
            raise UserError(f"output_mask has dtype {output_mask.dtype}; it should be torch.bool.")

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, hops={self.hops}"
