"""Key-value memory (Mihaylov & Frank 2018): every token of the statement looks up the triples of its graph."""

import torch
from torch import Tensor, nn

from mhgrn.config import KVMemConfig
from mhgrn.data.batch import GraphBatch
from mhgrn.data.subgraphs import OTHER
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding, Tokens
from mhgrn.nn.layers import Dropout, Projection, initialise


class KVMem(GraphEncoder):
    """Triples as a memory that tokens read.

    .. math:: m_t = BiGRU(h_{head}, e_r, h_{tail}), \\quad c_l = Σ_t softmax_t(p_l · m_t) m_t, \\quad g = max_l (p_l + c_l)/2

    p are the text encoder's token states, projected; g is the maximum over the text's own tokens. At most ``max_triples`` of a
    statement are read: those between mentioned concepts first, then those with one, then the others.
    """

    name = "kvmem"
    summary = "key-value memory: each token of the text attends to the triples of the graph"
    equation = "Mihaylov & Frank 2018: g = max_l ½(p_l + Σ_t softmax_t(p_l·m_t) m_t), m_t = BiGRU(h_head, e_r, h_tail)"
    Settings = KVMemConfig
    uses_tokens = True
    limit_setting = "kvmem.max_triples"

    def __init__(self, dims: Dims, settings: KVMemConfig) -> None:
        super().__init__(dims, settings)
        self.settings = settings
        self.out_dim = settings.memory_dim
        self.project = Projection(dims.feature_dim, settings.hidden_dim, settings.dropout, settings.train_projection)
        self.relations = nn.Embedding(dims.relation_count // 2, settings.hidden_dim)
        self.memory = nn.GRU(settings.hidden_dim, settings.memory_dim // 2, num_layers=2, bidirectional=True, batch_first=True)
        self.token = nn.Linear(dims.token_dim, settings.memory_dim)
        self.dropout = Dropout(settings.dropout)
        initialise(self, settings.initial_scale)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        assert tokens is not None
        head, relation, tail, place, cut = _triples(batch, self.settings.max_triples)
        used, row = torch.unique(torch.cat([head, tail]), return_inverse=True)
        h_head, h_tail = self.project(features[used])[row].chunk(2)
        sequence = torch.stack([h_head, self.relations(relation).to(h_head), h_tail], dim=1)  # [T, 3, d]
        graph = batch.graph[head]
        last = self.memory(sequence)[1] if len(sequence) else sequence.new_zeros(2, 0, self.out_dim // 2)
        m = torch.cat([last[-2], last[-1]], dim=1)  # [T, memory]
        p = self.token(tokens.states)  # [G, L, memory]
        width = int(place.max()) + 1 if len(place) else 1
        memory = p.new_zeros(len(s), width, self.out_dim).index_put((graph, place), m.to(p))
        filled = torch.zeros(len(s), width, dtype=torch.bool, device=p.device).index_put(
            (graph, place), torch.tensor(True, device=p.device)
        )
        logit = (p @ memory.transpose(1, 2)).to(s.dtype).masked_fill(~filled[:, None], -torch.inf)  # [G, L, triples]
        some = filled.any(1)[:, None, None]
        attention = torch.softmax(torch.where(some, logit, torch.zeros_like(logit)), dim=2)
        # an empty memory holds zeros, whatever is attended to
        o = (p + attention.to(p) @ memory) / 2
        g = (
            o.masked_fill(~tokens.content[..., None], -torch.inf).amax(1)
            if o.shape[1]
            else o.new_full((len(s), self.out_dim), -torch.inf)
        )
        g = torch.where(tokens.content.any(1)[:, None], g, torch.zeros_like(g))
        return GraphEncoding(self.dropout(g), cut=cut)


def _triples(batch: GraphBatch, limit: int | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Head, relation and tail of the facts to be read, their place among their graph's, and how many of each graph are left out."""
    facts = (batch.edge_type < batch.relation_count // 2).nonzero()[:, 0]
    head, tail = batch.edge_index[:, facts]
    tier = (batch.types[head] == OTHER).long() + (batch.types[tail] == OTHER).long()
    order = torch.argsort(batch.graph[head] * 3 + tier, stable=True)
    facts, head, tail = facts[order], head[order], tail[order]
    size = torch.bincount(batch.graph[head], minlength=batch.graph_count)
    place = torch.arange(len(head), device=head.device) - (size.cumsum(0) - size)[batch.graph[head]]
    kept = place < (len(place) if limit is None else limit)
    cut = (size - torch.bincount(batch.graph[head[kept]], minlength=batch.graph_count)).double().cpu()
    return head[kept], batch.edge_type[facts[kept]], tail[kept], place[kept], cut
