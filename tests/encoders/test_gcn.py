from typing import ClassVar

import pytest
import torch
from torch import Tensor

from encoder_cases import SharingCase, pooled_naively
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoder
from mhgrn.encoders.gcn import GCN, Convolution
from mhgrn.nn.layers import gelu
from mhgrn.nn.segments import weighted_sum
from mhgrn.subgraphs.extract import ANSWER
from mhgrn.text.tokens import Tokens


class TestGCN(SharingCase):
    name = "gcn"
    settings: ClassVar = {"hidden_dim": 4, "dropout": 0.0}
    variants: ClassVar = [{}, {"layers": 1, "pool": "all", "heads": 1}]

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, GCN)
        N = len(features)
        A = torch.eye(N, dtype=torch.float64)
        for j, i in batch.edge_index.T.tolist():
            A[i, j] = 1
        D = torch.diag(A.sum(1) ** -0.5)
        h = gelu(encoder.project.linear(features))
        for layer in encoder.layers:
            h = gelu(D @ A @ D @ h @ layer.weight.T)
        nodes = [i for i in range(N) if encoder.pool_over == "all" or batch.node_type[i] == ANSWER]
        return pooled_naively(encoder.pool, s, h, batch, nodes)

    @pytest.mark.parametrize("seed", range(5))
    def test_a_layer_equals_torch_geometric_s(self, seed: int) -> None:
        nn = pytest.importorskip("torch_geometric.nn")
        batch, _, x, _ = self.random(seed)
        theirs = nn.GCNConv(x.shape[1], 3, bias=False).double()
        simple = torch.unique(batch.edge_index, dim=1)
        weight, links = Convolution(batch).at(torch.ones_like(batch.node_type, dtype=torch.bool))
        torch.testing.assert_close(weighted_sum(weight, theirs.lin(x), links), theirs(x, simple))
