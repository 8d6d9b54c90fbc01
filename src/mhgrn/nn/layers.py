"""Layers that graph encoders share."""

import math
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.nn.segments import segment_softmax
from mhgrn.subgraphs.extract import ANSWER


def gelu(x: Tensor) -> Tensor:
    """GELU in the tanh approximation that the published model uses."""
    return functional.gelu(x, approximate="tanh")


Scale = float | Literal["level"]  # of initial weights: a standard deviation, or so that a signal keeps its level


class _Drop(torch.autograd.Function):
    """x · mask · scale, with a byte an entry kept for the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return (x * mask).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return (grads[0] * mask).mul_(ctx.scale), None, None


class Dropout(nn.Dropout):
    """As ``nn.Dropout``, many times as fast on the processor: four entries are decided by one random number.

    Probabilities are whole multiples of 2⁻¹⁶; what is kept is scaled by what is really kept on average.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not self.p or input.device.type != "cpu":
            return super().forward(input)
        dropped = round(self.p * 2**16)
        bits = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        kept = bits.view(torch.int16)[: input.numel()].view(input.shape) >= dropped - 2**15
        result: Tensor = _Drop.apply(input, kept, 2**16 / (2**16 - dropped))  # type: ignore[no-untyped-call]
        return result


class MLP(nn.Sequential):
    """Linear → dropout → layer norm → GELU, once or more, then a linear output."""

    def __init__(self, in_dim: int, hidden_dim: int, out_dim: int, dropout: float, layers: int = 1) -> None:
        widths = [in_dim, *[hidden_dim] * layers]
        hidden = [(nn.Linear(a, b), Dropout(dropout), nn.LayerNorm(b), nn.GELU(approximate="tanh")) for a, b in pairwise(widths)]
        super().__init__(*(module for block in hidden for module in block), nn.Linear(widths[-1], out_dim))


class Constant(nn.Module):
    """The same learned vector for every row: a function of s where there is no s."""

    def __init__(self, out_dim: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(out_dim))

    def forward(self, s: Tensor) -> Tensor:
        return self.value.expand(len(s), -1)


class TypedLinear(nn.Module):
    """x_i = U_{φ(i)} h_i + b_{φ(i)} (equation 5)."""

    def __init__(self, in_dim: int, out_dim: int, type_count: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(type_count, out_dim, in_dim))
        self.bias = nn.Parameter(torch.empty(type_count, out_dim))

    def forward(self, h: Tensor, types: Tensor) -> Tensor:
        # one product a type over its own nodes
        order = torch.argsort(types, stable=True)
        sizes = torch.bincount(types, minlength=len(self.weight)).tolist()
        parts = torch.split(h.index_select(0, order), sizes)
        out = [functional.linear(part, U, b) for part, U, b in zip(parts, self.weight, self.bias, strict=True)]
        return torch.cat(out).index_select(0, torch.argsort(order))


class AttentivePooling(nn.Module):
    """Multi-head attention of a query from s over some nodes of each graph; a graph without such nodes gives 0."""

    def __init__(self, query_dim: int, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        if dim % heads:
            raise UserError(f"{heads} heads cannot share a width of {dim}: choose a number of heads that divides it.")
        self.heads = heads
        self.query = nn.Linear(query_dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.dropout = Dropout(dropout)

    def forward(self, s: Tensor, h: Tensor, graph: Tensor, log_count: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """s [G, S], h [n, d] of the pooled nodes, graph [n] → pooled [G, d] and attention [n, heads].

        A row of h may stand for several that are equal: ``log_count`` [n] is the logarithm of how many.
        """
        width = h.shape[1] // self.heads
        query = self.query(s).view(-1, self.heads, width)[graph]  # [n, heads, width]
        logit = (query * self.key(h).view(-1, self.heads, width)).sum(-1) / math.sqrt(width)  # [n, heads]
        if log_count is not None:
            logit = logit + log_count[:, None]
        attention = torch.stack([segment_softmax(column, graph, len(s))[0] for column in logit.unbind(1)], dim=1)
        value = self.value(h).view(-1, self.heads, width) * self.dropout(attention)[..., None]
        pooled = value.new_zeros(len(s), h.shape[1]).index_add(0, graph, value.flatten(1))
        return self.dropout(pooled), attention


class Projection(nn.Module):
    """Node features brought to an encoder's width: h = dropout(GELU(W e + b)). ``trained=False`` leaves W and b as they began."""

    def __init__(self, feature_dim: int, dim: int, dropout: float, trained: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(feature_dim, dim).requires_grad_(trained)
        self.dropout = Dropout(dropout)

    def forward(self, features: Tensor, row: Tensor | None = None) -> Tensor:
        """With ``row``, the row of features that each node has: a node's own h, from features that it may share."""
        h: Tensor = gelu(self.linear(features))
        h = self.dropout(h if row is None else h.index_select(0, row))
        return h


def initialise(module: nn.Module, scale: Scale = "level") -> None:
    """Linear maps and embeddings from N(0, scale²), biases 0; ``"level"`` keeps the scale of a signal through linear maps, and
    through products of embeddings."""
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=1.0 if scale == "level" else scale)
        elif isinstance(part, nn.Linear):
            if scale == "level":
                nn.init.xavier_uniform_(part.weight)
            else:
                nn.init.normal_(part.weight, std=scale)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def pooled_nodes(batch: GraphBatch, which: Literal["answer", "all"]) -> Tensor:
    """The nodes that an encoder pools: the answer's, or all."""
    if which == "all":
        return torch.arange(len(batch.types), device=batch.types.device)
    return (batch.types == ANSWER).nonzero()[:, 0]
