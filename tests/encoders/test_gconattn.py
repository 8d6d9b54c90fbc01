from typing import ClassVar

import pytest
import torch
from torch import Tensor

from encoder_cases import EncoderCase
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders.base import Dims, GraphEncoder
from mhgrn.encoders.gconattn import GconAttn
from mhgrn.model import assemble, parameter_count
from mhgrn.nn.layers import gelu
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens


class TestGconAttn(EncoderCase):
    name = "gconattn"
    settings: ClassVar = {"hidden_dim": 4, "dropout": 0.0}
    variants: ClassVar = [{}, {"train_projection": False}]

    def naive(self, encoder: GraphEncoder, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None) -> Tensor:
        assert isinstance(encoder, GconAttn)
        h = gelu(encoder.project.linear(features))
        rows = []
        for graph in range(batch.num_graphs):
            side = {
                kind: [i for i in range(len(h)) if batch.batch[i] == graph and batch.node_type[i] == kind]
                for kind in (QUESTION, ANSWER)
            }
            parts = []
            for kind, other in ((QUESTION, ANSWER), (ANSWER, QUESTION)):
                matched = []
                for x in side[kind]:
                    found = torch.zeros_like(h[x])
                    if side[other]:
                        share = torch.softmax(torch.stack([h[x] @ h[y] for y in side[other]]), 0)
                        found = sum((a * h[y] for a, y in zip(share, side[other], strict=True)), found)
                    matched.append(encoder.match(torch.cat([h[x], found, h[x] - found, h[x] * found])))
                nothing = features.new_zeros(4)
                parts += [torch.stack(matched).mean(0), torch.stack(matched).max(0).values] if matched else [nothing, nothing]
            rows.append(torch.cat(parts))
        return torch.stack(rows)


@pytest.mark.parametrize(("changes", "count"), [([], 452_825), (["gconattn.train_projection=true"], 760_325)])
def test_published_parameter_counts(changes: list[str], count: int) -> None:
    config = Config.load(overrides=["preset=as_published", "graph_encoder=gconattn", *changes])
    assert parameter_count(assemble(config, 1024, Dims(1024, 1024, 34))) == count
