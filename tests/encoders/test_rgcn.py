import subprocess
import sys
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from encoder_cases import SharingCase, pooled_naively
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders.base import Dims, GraphEncoder
from mhgrn.encoders.rgcn import RGCN, Neighbourhoods, RGCNLayer
from mhgrn.model import assemble, parameter_count
from mhgrn.nn.layers import gelu
from mhgrn.subgraphs.extract import ANSWER
from mhgrn.text.tokens import Tokens


class TestRGCN(SharingCase):
    name = "rgcn"
    settings: ClassVar = {"hidden_dim": 4, "dropout": 0.0, "bases": 3}
    variants: ClassVar = [
        {},
        {"bases": None, "layers": 1},
        {"normalize": "per_relation", "self_loop": True, "pool": "all", "train_projection": False, "layers": 3},
        {"self_loop": True},
    ]

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, RGCN)
        N, m = len(features), batch.num_relations
        edges = list(zip(*batch.edge_index.tolist(), batch.edge_type.tolist(), strict=True))
        if encoder.self_loop:
            edges += [(i, i, m) for i in range(N)]
        h = gelu(encoder.project.linear(features))
        for layer in encoder.layers:
            assert isinstance(layer, RGCNLayer)
            rows = []
            for i in range(N):
                total = torch.zeros_like(h[i])
                degree = sum(1 for _, target, _ in edges if target == i)
                for r in range(m + encoder.self_loop):
                    W = (
                        layer.basis[r]
                        if layer.coefficient is None
                        else sum(a * V for a, V in zip(layer.coefficient[r], layer.basis, strict=True))
                    )
                    near = [j for j, target, relation in edges if (target, relation) == (i, r)]
                    for j in near:
                        total = total + W @ h[j] / (degree if encoder.normalize == "total" else len(near))
                rows.append(gelu(total))
            h = torch.stack(rows) if rows else h
        nodes = [i for i in range(N) if encoder.pool_over == "all" or batch.node_type[i] == ANSWER]
        return pooled_naively(encoder.pool, s, h, batch, nodes)

    @pytest.mark.parametrize("normalise", ["total", "per_relation"])
    @pytest.mark.parametrize("bases", [None, 2])
    @pytest.mark.parametrize("seed", range(3))
    def test_a_layer_equals_torch_geometric_s(self, seed: int, bases: int | None, normalise: str) -> None:
        nn = pytest.importorskip("torch_geometric.nn")
        batch, _, x, _ = self.random(seed)
        aggregate = "add" if normalise == "total" else "mean"
        theirs = nn.RGCNConv(
            x.shape[1], 3, batch.num_relations, num_bases=bases, aggr=aggregate, root_weight=False, bias=False
        ).double()
        ours = RGCNLayer(x.shape[1], 3, batch.num_relations, bases).double()
        with torch.no_grad():
            ours.basis.copy_(theirs.weight.transpose(1, 2))
            if ours.coefficient is not None:
                ours.coefficient.copy_(theirs.comp)
        wanted = theirs(x, batch.edge_index, batch.edge_type)
        if normalise == "total":
            wanted = wanted / torch.bincount(batch.edge_index[1], minlength=len(x)).clamp(min=1)[:, None]
        torch.testing.assert_close(
            ours(x, Neighbourhoods.of(batch, normalise, False, torch.ones(len(x), dtype=torch.bool))), wanted
        )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "count"), [([], 364_665), (["rgcn.train_projection=true"], 467_165), (["rgcn.layers=2"], 284_385)]
)
def test_published_parameter_counts(changes: list[str], count: int) -> None:
    config = Config.load(overrides=["preset=as_published", "graph_encoder=rgcn", *changes])
    assert parameter_count(assemble(config, 1024, Dims(1024, 1024, 34))) == count


# as many nodes and edges as 160 real graphs have
LARGE = """
import torch
from mhgrn.encoders.rgcn import RGCNSettings
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims
from mhgrn.encoders.rgcn import RGCN

torch.set_num_threads(1)
N, facts, G, m = 26_000, 430_000, 160, 17
torch.manual_seed(0)
graph = torch.arange(N) * G // N
first = torch.searchsorted(graph, torch.arange(G))
head = torch.randint(N, (facts,))
size = torch.bincount(graph)
tail = first[graph[head]] + torch.randint(10**6, (facts,)) % size[graph[head]]
relation = torch.randint(m, (facts,))
batch = GraphBatch(torch.arange(N), torch.randint(3, (N,)), graph, torch.stack([torch.cat([head, tail]), torch.cat([tail, head])]),
                   torch.cat([relation, relation + m]), G, 2 * m)
before = peak()
RGCN(Dims(1024, 384, 2 * m), RGCNSettings())(torch.randn(G, 1024), torch.randn(N, 384), batch).g.sum().backward()
print(peak() - before)
"""
PEAK = "import resource\ndef peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is counted in other units")
@pytest.mark.long
def test_a_step_on_a_batch_of_real_size_takes_less_than_two_gigabytes() -> None:
    done = subprocess.run([sys.executable, "-c", PEAK + LARGE], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 2 * 1024**3
