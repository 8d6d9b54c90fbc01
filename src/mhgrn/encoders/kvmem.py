"""Key-value memory (Mihaylov & Frank 2018): every token of the statement attends to the triples of its graph."""

from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders import WIDEST
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding, TrainedSettings
from mhgrn.nn.layers import Dropout, Projection, initialize
from mhgrn.subgraphs.extract import OTHER
from mhgrn.text.tokens import Tokens


class KVMemSettings(TrainedSettings):
    """Settings of ``kvmem``."""

    max_triples: int | None = Field(
        300, ge=1, description="maximum number of triples per statement; those of mentioned concepts have priority; null: all"
    )
    hidden_dim: int = Field(100, ge=1, le=WIDEST, description="width of projected nodes and of relations")
    memory_dim: int = Field(300, ge=2, le=WIDEST, multiple_of=2, description="width of keys and values of the memory")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate")
    train_projection: bool = Field(
        True, description="train the projection of node features (the published code keeps it at its random initialization)"
    )


class KVMem(GraphEncoder):
    """The triples of the graph are a memory that tokens attend to.

    .. math:: m_t = BiGRU(h_{head}, e_r, h_{tail}), \\quad c_l = Σ_t softmax_t(p_l · m_t) m_t, \\quad g = max_l (p_l + c_l)/2

    p are the projected token states of the text encoder. The maximum is over content tokens, without special ones. At most
    ``max_triples`` triples of a statement are read: first those between two mentioned concepts, then those with one.
    """

    name = "kvmem"
    summary = "key-value memory: each token of the text attends to the triples of the graph"
    equation = "Mihaylov & Frank 2018: g = max_l ½(p_l + Σ_t softmax_t(p_l·m_t) m_t), m_t = BiGRU(h_head, e_r, h_tail)"
    Settings = KVMemSettings
    as_published: ClassVar[dict[str, Any]] = {"initial_scale": 0.02, "train_projection": False}
    published_with: ClassVar[dict[str, Any]] = {"text": {"frozen_epochs": 0}}
    uses_tokens = True
    shares_features = True
    limit_setting = "kvmem.max_triples"

    def __init__(self, dims: Dims, settings: KVMemSettings) -> None:
        super().__init__(dims, settings)
        self.settings = settings
        self.out_dim = settings.memory_dim
        self.project = Projection(dims.feature_dim, settings.hidden_dim, settings.dropout, settings.train_projection)
        self.relations = nn.Embedding(dims.num_relations // 2, settings.hidden_dim)
        self.memory = nn.GRU(settings.hidden_dim, settings.memory_dim // 2, num_layers=2, bidirectional=True, batch_first=True)
        self.token = nn.Linear(dims.token_dim, settings.memory_dim)
        self.dropout = Dropout(settings.dropout)
        initialize(self, settings.initial_scale)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        assert tokens is not None
        head, relation, tail, place, cut = _triples(batch, self.settings.max_triples)
        graph = batch.batch[head]
        row = torch.arange(len(features), device=head.device) if batch.feature_row is None else batch.feature_row
        m = self._memory_of(features, row[head], relation, row[tail])  # [T, memory]
        p = self.token(tokens.states)  # [G, L, memory]
        width = int(place.max()) + 1 if len(place) else 1
        memory = p.new_zeros(len(s), width, self.out_dim).index_put((graph, place), m.to(p))
        filled = torch.zeros(len(s), width, dtype=torch.bool, device=p.device).index_put(
            (graph, place), torch.tensor(True, device=p.device)
        )
        logit = (p @ memory.transpose(1, 2)).to(s.dtype).masked_fill(~filled[:, None], -torch.inf)  # [G, L, triples]
        some = filled.any(1)[:, None, None]
        attention = torch.softmax(torch.where(some, logit, torch.zeros_like(logit)), dim=2)
        # an empty memory contains zeros
        o = (p + attention.to(p) @ memory) / 2
        g = (
            o.masked_fill(~tokens.content[..., None], -torch.inf).amax(1)
            if o.shape[1]
            else o.new_full((len(s), self.out_dim), -torch.inf)
        )
        g = torch.where(tokens.content.any(1)[:, None], g, torch.zeros_like(g))
        return GraphEncoding(self.dropout(g), cut=cut)

    def _memory_of(self, features: Tensor, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Compute m of triples: [T, memory]. ``head`` and ``tail`` are rows of ``features``.

        GRU states of equal inputs are computed once: in the first layer, the state after one step depends on the node, and after
        two steps on the node and the relation. A triple that occurs in several graphs is computed once.
        """
        used, row = torch.unique(torch.cat([head, tail]), return_inverse=True)
        head, tail = row.chunk(2)
        m, n = len(self.relations.weight), len(used)
        triple, same = torch.unique((head * m + relation) * n + tail, return_inverse=True)
        head, relation, tail = triple // (m * n), triple // n % m, triple % n
        begin, begun = torch.unique(head * m + relation, return_inverse=True)  # distinct (head, relation)
        end, ended = torch.unique(tail * m + relation, return_inverse=True)  # distinct (tail, relation)
        node = self.project(features[used])
        by = self.relations.weight.to(node)

        forward, backward = _Direction(self.memory, 0, ""), _Direction(self.memory, 0, "_reverse")
        to_node, to_relation = forward.to_gates(node), forward.to_gates(by)
        f1 = forward.step(to_node)
        f2 = forward.step(to_relation.index_select(0, begin % m), f1.index_select(0, begin // m))
        f3 = forward.step(to_node.index_select(0, tail), f2.index_select(0, begun))
        to_node, to_relation = backward.to_gates(node), backward.to_gates(by)
        b3 = backward.step(to_node)
        b2 = backward.step(to_relation.index_select(0, end % m), b3.index_select(0, end // m))
        b1 = backward.step(to_node.index_select(0, head), b2.index_select(0, ended))

        last = []
        for suffix, turn in (("", 1), ("_reverse", -1)):
            upper = _Direction(self.memory, 1, suffix)
            width = f1.shape[1]
            gates = [
                upper.to_gates(f1, 0).index_select(0, head) + upper.to_gates(b1, width),
                upper.to_gates(f2, 0).index_select(0, begun) + upper.to_gates(b2, width).index_select(0, ended),
                upper.to_gates(f3, 0) + upper.to_gates(b3, width).index_select(0, tail),
            ]
            first, second, third = gates[::turn]
            last.append(upper.step(third, upper.step(second, upper.step(first))))
        return torch.cat(last, dim=1).index_select(0, same)


class _Direction:
    """One direction of one layer of a GRU, step by step:

    .. math:: r, z = σ(W_{r,z} x + V_{r,z} h), \\quad n = tanh(W_n x + r V_n h), \\quad h' = (1 - z) n + z h
    """

    def __init__(self, gru: nn.GRU, layer: int, suffix: str) -> None:
        self.W, self.V, self.b, self.c = (
            gru.get_parameter(f"{name}_l{layer}{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )

    def to_gates(self, x: Tensor, column: int = 0) -> Tensor:
        """The product of a part of the input, from this column of W on, with W; the bias is added for column 0."""
        product = x @ self.W[:, column : column + x.shape[1]].T
        return product if column else product + self.b

    def step(self, gates: Tensor, h: Tensor | None = None) -> Tensor:
        """The next state; ``h`` is None before the first step."""
        recurrent = self.c if h is None else h @ self.V.T + self.c
        (r, z, n), (r_h, z_h, n_h) = gates.chunk(3, dim=-1), recurrent.chunk(3, dim=-1)
        new = torch.tanh(n + torch.sigmoid(r + r_h) * n_h)
        keep = torch.sigmoid(z + z_h)
        return (1 - keep) * new if h is None else torch.lerp(new, h, keep)


def _triples(batch: GraphBatch, limit: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Head, relation and tail of the facts to read, their position in their graph, and the number of omitted facts per graph."""
    facts = (batch.edge_type < batch.num_relations // 2).nonzero()[:, 0]
    head, tail = batch.edge_index[:, facts]
    tier = (batch.node_type[head] == OTHER).long() + (batch.node_type[tail] == OTHER).long()
    order = torch.argsort(batch.batch[head] * 3 + tier, stable=True)
    facts, head, tail = facts[order], head[order], tail[order]
    size = torch.bincount(batch.batch[head], minlength=batch.num_graphs)
    place = torch.arange(len(head), device=head.device) - (size.cumsum(0) - size)[batch.batch[head]]
    kept = place < (len(place) if limit is None else limit)
    cut = (size - torch.bincount(batch.batch[head[kept]], minlength=batch.num_graphs)).double().cpu()
    return head[kept], batch.edge_type[facts[kept]], tail[kept], place[kept], cut
