"""Graph soft counter (Wang et al. 2022): a learned weight for each kind of edge, summed along walks."""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.encoders import DEEPEST, WIDEST
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding, TrainedSettings
from mhgrn.nn.layers import MLP, initialize
from mhgrn.subgraphs.extract import ANSWER
from mhgrn.text.tokens import Tokens

NODE_TYPES = 3
FIRST_LOGIT = -7.0  # initial weights of 0.001: thousands of walks end in an answer's concepts and would drown the text's score


class GSCSettings(TrainedSettings):
    """Settings of ``gsc``."""

    rounds: int = Field(2, ge=1, le=DEEPEST, description="length of the longest walk")
    hidden_dim: int = Field(32, ge=1, le=WIDEST, description="width of the network that computes edge weights")


class GraphSoftCounter(GraphEncoder):
    """Adds to the text's score a soft count of the walks of at most ``rounds`` edges that end in the answer's concepts.

    The weight of an edge depends on the types of its two nodes and on its relation only.
    """

    name = "gsc"
    summary = "graph soft counter: sums learned edge weights along walks"
    equation = "score = Linear(s) + Σ_{i ∈ A} x_i, x_i ← Σ_{e = (j, r, i)} (x_j + w_e) (Wang et al. 2022)"
    Settings = GSCSettings
    uses_features = False
    kinds: Tensor

    def __init__(self, dims: Dims, settings: GSCSettings) -> None:
        super().__init__(dims, settings)
        self.rounds = settings.rounds
        self.reach = Reach((ANSWER,), settings.rounds)
        sizes = (NODE_TYPES, NODE_TYPES, dims.num_relations)
        every = torch.cartesian_prod(*(torch.arange(size) for size in sizes))
        one_hot = [functional.one_hot(column, size) for column, size in zip(every.unbind(1), sizes, strict=True)]
        self.register_buffer("kinds", torch.cat(one_hot, dim=1).float(), persistent=False)
        self.weigh = MLP(sum(sizes), settings.hidden_dim, 1, dropout=0.0)
        initialize(self, settings.initial_scale)
        last = self.weigh[-1]
        assert isinstance(last, nn.Linear)
        nn.init.constant_(last.bias, FIRST_LOGIT)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        source, target = batch.edge_index
        kind = (batch.node_type[source] * NODE_TYPES + batch.node_type[target]) * batch.num_relations + batch.edge_type
        # sums of thousands of weights need at least single precision
        weights = torch.sigmoid(self.weigh(self.kinds)[:, 0])
        weight = weights.to(torch.promote_types(weights.dtype, torch.float32))[kind]  # [E]
        x = weight.new_zeros(batch.num_nodes)
        for _ in range(self.rounds):
            x = torch.zeros_like(x).index_add(0, target, x[source] + weight)
        answers = (batch.node_type == ANSWER).nonzero()[:, 0]
        total = x.new_zeros(batch.num_graphs).index_add(0, batch.batch[answers], x[answers])
        return GraphEncoding(s.new_zeros(batch.num_graphs, 0), score=total)
