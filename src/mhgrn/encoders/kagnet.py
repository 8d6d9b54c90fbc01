"""KagNet (Lin et al. 2019): an LSTM over the paths between concepts with hierarchical attention."""

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders import WIDEST
from mhgrn.encoders._paths import AttendedPaths, PathEncoder
from mhgrn.encoders.base import Dims, GraphEncoding, TrainedSettings
from mhgrn.encoders.gcn import Convolution
from mhgrn.encoders.gconattn import pairs
from mhgrn.errors import UserError
from mhgrn.features.folder import FeatureFolder
from mhgrn.io.remote import url_of
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.nn.layers import MLP, Dropout, Projection, initialize
from mhgrn.nn.segments import segment_softmax, weighted_sum
from mhgrn.nn.walks import find_walks, in_chunks
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


class KagNetSettings(TrainedSettings):
    """Settings of ``kagnet``."""

    hops: int = Field(2, ge=1, le=5, description="K, length of the longest path; the number of paths grows exponentially with K")
    max_paths: int | None = Field(5000, ge=1, description="paths to read of a statement, shortest first; null: all")
    hidden_dim: int = Field(100, ge=1, le=WIDEST, description="width of projected nodes and of relations")
    gcn_dim: int = Field(50, ge=1, le=WIDEST, description="width between the two graph convolutions")
    node_dim: int = Field(25, ge=1, le=WIDEST, description="width of nodes after the graph convolutions")
    path_dim: int = Field(128, ge=1, le=WIDEST, description="width of the LSTM")
    pair_dim: int = Field(128, ge=1, le=WIDEST, description="width of the vector of a pair of concepts")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate")
    prune_with: str | None = Field(None, description="folder of `mhgrn features build --from transe`; its scores prune paths")
    prune_below: float = Field(0.12, ge=0, le=1, description="paths with a lower score are pruned")


class KagNet(PathEncoder):
    """Equation 4 of the paper with KagNet's hierarchical attention.

    v are the nodes after a graph convolution, L(P) is the last state of an LSTM over the triples [v_head; e_r; v_tail] of a simple
    path P of at most K hops from q ∈ Q to a ∈ A.

    .. math:: T_{qa} = MLP([s; v_q; v_a]), \\quad R_{qa} = Σ_P softmax_P(T_{qa}^⊤ W_1 L(P)) L(P)
    .. math:: g = Σ_{qa} softmax_{qa}(s^⊤ W_2 T_{qa}) [R_{qa}; T_{qa}]

    With ``prune_with``, a folder of ``mhgrn features build --from transe``, paths with a low TransE score are not read.
    """

    name = "kagnet"
    summary = "KagNet: an LSTM over every simple path from question to answer concepts, with attention to pairs and paths"
    equation = "the paper's equation 4, and Lin et al. 2019: g = Σ_qa β_qa [Σ_P α_P LSTM(P); MLP([s; v_q; v_a])]"
    Settings = KagNetSettings
    as_published: ClassVar[dict[str, Any]] = {"initial_scale": 0.02, "hops": 3, "dropout": 0.0}
    shares_features = True
    limit_setting = "kagnet.max_paths"

    def __init__(self, dims: Dims, settings: KagNetSettings) -> None:
        super().__init__(dims, settings)
        self.settings = settings
        self.project = Projection(dims.feature_dim, settings.hidden_dim, settings.dropout)
        widths = [settings.hidden_dim, settings.gcn_dim, settings.node_dim]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.relations = nn.Embedding(dims.num_relations, settings.hidden_dim)
        pair = settings.pair_dim
        self.pair = MLP(dims.sentence_dim + 2 * settings.node_dim, pair, pair, settings.dropout)
        self.lstm = nn.LSTM(2 * settings.node_dim + settings.hidden_dim, settings.path_dim, batch_first=True)
        self.path_query = nn.Linear(pair, settings.path_dim, bias=False)  # W1
        self.pair_query = nn.Linear(dims.sentence_dim, pair, bias=False)  # W2
        self.dropout = Dropout(settings.dropout)
        self.out_dim = settings.path_dim + pair
        self.transe: FeatureFolder | None = None
        initialize(self, settings.initial_scale)

    def attach(self, graph: KnowledgeGraph) -> None:
        if self.settings.prune_with is None:
            return
        if url_of(self.settings.prune_with) is not None:  # a run may name any URL
            raise UserError(f"kagnet.prune_with={self.settings.prune_with}: name a folder of this machine.")
        folder = FeatureFolder.load(Path(self.settings.prune_with), graph)
        if folder.relations is None:
            raise UserError(f"{folder.folder} has no relation vectors; build it with: mhgrn features build --from transe")
        self.transe = folder

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        settings = self.settings
        scores = None if self.transe is None else edge_scores(batch, self.transe)
        found = find_walks(batch, settings.hops, settings.max_paths, True, scores, settings.prune_below)
        v = self.project(features, batch.feature_row)
        weight, links = Convolution(batch).at(torch.ones_like(batch.node_type, dtype=torch.bool))
        for layer in self.layers:
            x = layer(v)
            v = self.dropout(torch.relu(weighted_sum(weight.to(x.dtype), x, links)))
        q, a = ((batch.node_type == kind).nonzero()[:, 0] for kind in (QUESTION, ANSWER))
        left, right = pairs(batch.batch[q], batch.batch[a], batch.num_graphs)
        q, a, pair_graph = q[left], a[right], batch.batch[q[left]]
        T = self.pair(torch.cat([s[pair_graph], v[q], v[a]], dim=1))  # [pairs, pair]
        pair_number = q * batch.num_nodes + a  # ascending
        on_paths, row = torch.unique(torch.cat([walks.nodes.flatten() for walks in found.lengths]), return_inverse=True)
        rows = row.split([walks.nodes.numel() for walks in found.lengths])
        states = partial(self._states, *self._gates(v[on_paths]))
        L, pair = [], []
        for walks, row in zip(found.lengths, rows, strict=True):
            L.append(in_chunks(lambda *path: states(*path)[0], row.view_as(walks.nodes), walks.relations))
            pair.append(torch.searchsorted(pair_number, walks.nodes[:, 0] * batch.num_nodes + walks.nodes[:, -1]))
        paths, of_pair = torch.cat(L).to(T), torch.cat(pair)  # [P, path], [P]
        logit = (self.path_query(T)[of_pair] * paths).sum(1).to(s.dtype)
        alpha, _ = segment_softmax(logit, of_pair, len(q))
        R = paths.new_zeros(len(q), settings.path_dim).index_add(0, of_pair, alpha[:, None].to(paths) * paths)
        logit = (self.pair_query(s)[pair_graph] * T).sum(1).to(s.dtype)
        beta, _ = segment_softmax(logit, pair_graph, len(s))
        both = torch.cat([R, T], dim=1) * beta[:, None].to(T)
        g = both.new_zeros(len(s), self.out_dim).index_add(0, pair_graph, both)
        trace = AttendedPaths(found.lengths, torch.ones_like(of_pair), (alpha * beta[of_pair]).detach())
        return GraphEncoding(g, traces=[trace], cut=found.cut)

    def _gates(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The contributions of head nodes [n, gates], relations [m, gates] and tail nodes [n, gates] to the LSTM's gates."""
        width, lstm = v.shape[1], self.lstm
        widths = [width, self.relations.embedding_dim, width]
        W_head, W_relation, W_tail = torch.split(lstm.get_parameter("weight_ih_l0"), widths, dim=1)
        bias = lstm.get_parameter("bias_ih_l0") + lstm.get_parameter("bias_hh_l0")
        return v @ W_head.T, (self.relations.weight @ W_relation.T + bias).to(v), v @ W_tail.T

    def _states(self, head: Tensor, relation: Tensor, tail: Tensor, nodes: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """The LSTM's last h (which is L) and c for paths of one length, from the gate contributions of :meth:`_gates`.

        A common prefix of consecutive paths is computed once, as is an equal last relation and node. Depth-first search lists
        paths with a common prefix one after another.

        Args:
            head, relation, tail: The gate contributions.
            nodes: [P, k + 1]
            relations: [P, k]
        """
        start, by = nodes[:, :-1], relations[:, :-1]
        is_new = torch.ones_like(start[:, 0], dtype=torch.bool)
        is_new[1:] = (start[1:] != start[:-1]).any(1) | (by[1:] != by[:-1]).any(1)
        number, start, by = is_new.cumsum(0) - 1, start[is_new], by[is_new]
        gates = head.index_select(0, start[:, -1])
        kept: Tensor | None = None
        if by.shape[1]:
            h, c = self._states(head, relation, tail, start, by)
            gates = gates + h @ self.lstm.get_parameter("weight_hh_l0").T
            kept = c.index_select(0, number)
        end, ended = torch.unique(relations[:, -1] * len(tail) + nodes[:, -1], return_inverse=True)
        last = relation.index_select(0, end // len(tail)) + tail.index_select(0, end % len(tail))
        gates = gates.index_select(0, number) + last.index_select(0, ended)
        write, keep, new, read = gates.chunk(4, dim=1)
        c = torch.sigmoid(write) * torch.tanh(new)
        if kept is not None:
            c = c + torch.sigmoid(keep) * kept
        return torch.sigmoid(read) * torch.tanh(c), c


def edge_scores(batch: GraphBatch, transe: FeatureFolder) -> Tensor:
    """The TransE score of each edge's pair of nodes: the largest (1 + cos(r, t − h)) / 2 over the relations between them.

    A pair scores 1 if one of its concepts has no vector, so that missing vectors prune nothing.
    """
    assert transe.relations is not None
    half = batch.num_relations // 2
    concepts = batch.concepts.cpu().numpy()
    row, known = transe.find(concepts)
    vectors = torch.zeros(len(concepts), transe.about["dim"])
    vectors[torch.from_numpy(known)] = torch.from_numpy(transe.rows(row[known]).astype(np.float32))
    forward = (batch.edge_type < half).cpu()
    source, target = batch.edge_index.cpu()
    head, tail = torch.where(forward, source, target), torch.where(forward, target, source)
    relation = torch.from_numpy(np.array(transe.relations))[batch.edge_type.cpu() % half]
    score = (1 + torch.cosine_similarity(relation, vectors[tail] - vectors[head])) / 2
    has = torch.from_numpy(known)
    score = torch.where(has[head] & has[tail], score, torch.ones_like(score))
    pair, number = torch.unique(source * len(concepts) + target, return_inverse=True)
    return score.new_zeros(len(pair)).scatter_reduce(0, number, score, "amax")[number]
