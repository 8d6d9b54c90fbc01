"""BERT in plain torch, with the parameter names of its published weights.

The built-in text encoder uses it, because importing the transformers library takes longer than answering a question. Its output
equals that of ``transformers.BertModel`` bit for bit, in evaluation and in training.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class BertOutput(NamedTuple):
    """The states of all tokens, and the pooled state of the first."""

    last_hidden_state: Tensor  # [texts, tokens, width]
    pooler_output: Tensor | None  # [texts, width]; None without a pooler


class Bert(nn.Module):
    """A BERT encoder with absolute positions and GELU.

    Args:
        config: the content of the model's ``config.json``.
        has_pooler: whether the weights have a pooler.
    """

    def __init__(self, config: dict[str, Any], has_pooler: bool = True) -> None:
        super().__init__()
        self.config = SimpleNamespace(**config)
        width, dropout, eps = config["hidden_size"], config["hidden_dropout_prob"], config["layer_norm_eps"]
        inner, heads, attention = (
            config["intermediate_size"],
            config["num_attention_heads"],
            config["attention_probs_dropout_prob"],
        )
        self.embeddings = _Embeddings(config)
        layers = [_Layer(width, inner, heads, attention, dropout, eps) for _ in range(config["num_hidden_layers"])]
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})
        self.pooler = nn.ModuleDict({"dense": _Linear(width, width)}) if has_pooler else None

    @property
    def device(self) -> torch.device:
        return self.embeddings.word_embeddings.weight.device

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> BertOutput:
        hidden = self.embeddings(input_ids, token_type_ids)
        # without padding, no mask: other kernels are used then, which round differently
        mask = None if bool(attention_mask.all()) else attention_mask.bool()[:, None, None, :]
        layers: Any = self.encoder["layer"]
        for layer in layers:
            hidden = layer(hidden, mask)
        return BertOutput(hidden, None if self.pooler is None else torch.tanh(self.pooler["dense"](hidden[:, 0])))


class _Embeddings(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.word_embeddings = _embedding(config["vocab_size"], width, padding_idx=config["pad_token_id"])
        self.position_embeddings = _embedding(config["max_position_embeddings"], width)
        self.token_type_embeddings = _embedding(config["type_vocab_size"], width)
        self.LayerNorm = nn.LayerNorm(width, eps=config["layer_norm_eps"])
        self.dropout = nn.Dropout(config["hidden_dropout_prob"])

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        words = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        embedded: Tensor = self.dropout(self.LayerNorm(words + self.position_embeddings.weight[: input_ids.shape[1]]))
        return embedded


def _embedding(rows: int, width: int, padding_idx: int | None = None) -> nn.Embedding:
    return nn.Embedding(rows, width, padding_idx, _weight=torch.empty(rows, width))


class _Linear(nn.Module):
    """A linear map. Unlike ``nn.Linear`` it draws no random numbers for weights that are loaded from a file."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(width_out, width_in)), nn.Parameter(torch.empty(width_out))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


class _AddNorm(nn.Module):
    """A linear map whose result is added to the input of the block, and normalized."""

    def __init__(self, inner: int, width: int, dropout: float, eps: float) -> None:
        super().__init__()
        self.dense = _Linear(inner, width)
        self.LayerNorm = nn.LayerNorm(width, eps=eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, residual: Tensor) -> Tensor:
        normalized: Tensor = self.LayerNorm(self.dropout(self.dense(hidden)) + residual)
        return normalized


class _Layer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, attention_dropout: float, dropout: float, eps: float) -> None:
        super().__init__()
        self.heads, self.attention_dropout = heads, attention_dropout
        maps = nn.ModuleDict({name: _Linear(width, width) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": maps, "output": _AddNorm(width, width, dropout, eps)})
        self.intermediate = nn.ModuleDict({"dense": _Linear(width, inner)})
        self.output = _AddNorm(inner, width, dropout, eps)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        n, length, width = hidden.shape
        maps: Any = self.attention["self"]
        q, k, v = (maps[name](hidden).view(n, length, self.heads, -1).transpose(1, 2) for name in ("query", "key", "value"))
        dropout = self.attention_dropout if self.training else 0.0
        read = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        read = self.attention["output"](read.transpose(1, 2).reshape(n, length, width), hidden)
        written: Tensor = self.output(functional.gelu(self.intermediate["dense"](read)), read)
        return written
