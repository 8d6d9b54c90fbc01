"""At the start of training, what a hop carries is neither lost nor blown up, however deep."""

from typing import Literal

import numpy as np
import pytest
import torch

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.nn.message_passing import Messages, MultiHopMessagePassing
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph

HOPS, NODES, SCHEMA = 8, 40, 17


@pytest.mark.parametrize("relation_weights", ["diagonal", "full"])
def test_default_weights_keep_the_size_of_messages_and_of_gradients_over_hops(
    relation_weights: Literal["diagonal", "full"],
) -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    head, tail = rng.integers(0, NODES, (2, 8 * NODES))
    types = np.where(np.arange(NODES) % 2, ANSWER, QUESTION).astype(np.uint8)
    graph = Subgraph(np.arange(NODES), types, head, rng.integers(0, SCHEMA, len(head)), tail)
    model = MHGRN(Dims(16, 32, 2 * SCHEMA), MHGRNSettings(hops=HOPS, relation_weights=relation_weights)).eval()
    found: list[Messages] = []
    (passing,) = (module for module in model.modules() if isinstance(module, MultiHopMessagePassing))
    passing.register_forward_hook(lambda module, given, messages: found.append(messages))
    model(torch.randn(1, 16), torch.randn(NODES, 32), GraphBatch.collate([graph], SCHEMA)).g.square().sum().backward()
    size = found[0].z.detach().square().mean((1, 2)).sqrt()
    assert passing.W.grad is not None
    gradient = torch.stack([of_hop.norm() for of_hop in passing.W.grad])
    uses = torch.arange(HOPS, 0, -1)  # W^k has a part in the messages of k hops and more
    for values in (size, gradient / uses):
        assert values.max() < 4 * values.min()
