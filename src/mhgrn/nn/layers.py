"""Layers that graph encoders share."""

import math
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.nn.checks import check_sizes
from mhgrn.nn.segments import segment_softmax
from mhgrn.subgraphs.extract import ANSWER


def gelu(x: Tensor) -> Tensor:
    """GELU in the tanh approximation that the published model uses."""
    return functional.gelu(x, approximate="tanh")


Scale = float | Literal["level"]  # of initial weights: a standard deviation, or "level", which preserves a signal's variance


class _Drop(torch.autograd.Function):
    """x · mask · scale. The backward pass keeps one byte per entry."""

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
    """``nn.Dropout``, faster on the CPU: one random number decides four entries.

    The probability is rounded to a multiple of 2⁻¹⁶, and kept entries are scaled accordingly.
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

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, dropout: float, layers: int = 1) -> None:
        widths = [in_channels, *[hidden_channels] * layers]
        hidden = [(nn.Linear(a, b), Dropout(dropout), nn.LayerNorm(b), nn.GELU(approximate="tanh")) for a, b in pairwise(widths)]
        super().__init__(*(module for block in hidden for module in block), nn.Linear(widths[-1], out_channels))


class Constant(nn.Module):
    """A learned vector, the same for every row: replaces a function of s where there is no s."""

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(out_channels))

    def forward(self, s: Tensor) -> Tensor:
        return self.value.expand(len(s), -1)


class TypedLinear(nn.Module):
    """U_{φ(i)} x_i + b_{φ(i)}: one linear map per node type (equation 5)."""

    def __init__(self, in_channels: int, out_channels: int, num_types: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_types, out_channels, in_channels))
        self.bias = nn.Parameter(torch.empty(num_types, out_channels))

    def forward(self, x: Tensor, node_type: Tensor) -> Tensor:
        # one product per type, over the nodes of that type
        order = torch.argsort(node_type, stable=True)
        sizes = torch.bincount(node_type, minlength=len(self.weight)).tolist()
        parts = torch.split(x.index_select(0, order), sizes)
        out = [functional.linear(part, U, b) for part, U, b in zip(parts, self.weight, self.bias, strict=True)]
        return torch.cat(out).index_select(0, torch.argsort(order))


class AttentivePooling(nn.Module):
    """Multi-head attention over some nodes of each graph, with a query from s. A graph without such nodes gives 0.

    Args:
        query_channels: width of s.
        channels: width of the pooled nodes and of the result.
        heads: number of attention heads; must divide ``channels``.
        dropout: probability, for the attention weights and for the result.
    """

    def __init__(self, query_channels: int, channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        check_sizes(channels=channels, heads=heads)
        if channels % heads:
            raise UserError(f"{heads} heads cannot share a width of {channels}: choose a number of heads that divides it.")
        self.heads = heads
        self.query = nn.Linear(query_channels, channels)
        self.key = nn.Linear(channels, channels)
        self.value = nn.Linear(channels, channels)
        self.dropout = Dropout(dropout)

    def forward(self, s: Tensor, x: Tensor, batch: Tensor, log_count: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Pool x [n, d], the nodes of the graphs ``batch`` [n], by s [G, S]: result [G, d] and attention [n, heads].

        ``log_count`` [n] is the logarithm of how many equal nodes a row of x stands for; 0 by default.
        """
        width = x.shape[1] // self.heads
        query = self.query(s).view(-1, self.heads, width)[batch]  # [n, heads, width]
        logit = (query * self.key(x).view(-1, self.heads, width)).sum(-1) / math.sqrt(width)  # [n, heads]
        if log_count is not None:
            logit = logit + log_count[:, None]
        attention = torch.stack([segment_softmax(column, batch, len(s))[0] for column in logit.unbind(1)], dim=1)
        value = self.value(x).view(-1, self.heads, width) * self.dropout(attention)[..., None]
        pooled = value.new_zeros(len(s), x.shape[1]).index_add(0, batch, value.flatten(1))
        return self.dropout(pooled), attention


class Projection(nn.Module):
    """Projects node features to an encoder's width: dropout(GELU(W x + b)).

    Args:
        in_channels: width of the features.
        out_channels: width of the result.
        dropout: probability, for each node separately.
        trained: False keeps W and b at their initial values.
    """

    def __init__(self, in_channels: int, out_channels: int, dropout: float, trained: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, out_channels).requires_grad_(trained)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, row: Tensor | None = None) -> Tensor:
        """Project x [rows, in_channels]. ``row`` [N] gives the row of each node where nodes share rows (``feature_row``)."""
        h: Tensor = gelu(self.linear(x))
        h = self.dropout(h if row is None else h.index_select(0, row))
        return h


def initialize(module: nn.Module, scale: Scale = "level") -> None:
    """Draw linear maps and embeddings from N(0, scale²) and set biases to 0.

    ``"level"`` chooses scales that preserve the variance of a signal through linear maps and through products of embeddings.
    """
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
    """Return the numbers of the answer nodes, or of all nodes."""
    if which == "all":
        return torch.arange(batch.num_nodes, device=batch.node_type.device)
    return (batch.node_type == ANSWER).nonzero()[:, 0]
