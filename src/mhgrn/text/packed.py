"""BERT without padding, for training and for answering, there also with 8-bit matrix products.

A short text costs as little as it is long: the tokens of all texts are the rows of one matrix, and only attention sees which text
they belong to. The weights are those of the model it is made of; 8-bit weights are a copy.
"""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from mhgrn.errors import UserError
from mhgrn.printing import shortened
from mhgrn.text.adapters import MappedModel
from mhgrn.text.bert import BertOutput

TextPrecision = Literal["float32", "int8"]
COUNTS_TOKENS = ("roberta", "xlm-roberta", "camembert")  # their positions are counted from the padding token's number
LEAST = 1e-12  # the smallest range of a quantized row
OUTLIERS = 8  # inputs of a linear map that are not quantized. A few inputs of BERT are much larger than the others

Linear = Callable[[Tensor], Tensor]


def check_precision(precision: object) -> None:
    """Raise a :class:`UserError` for an unknown precision."""
    known = get_args(TextPrecision)
    if precision not in known:
        raise UserError(f"text_precision is {shortened(precision)}; it should be {' or '.join(known)}.")


def packed(model: Any, precision: TextPrecision, sample: Mapping[str, Tensor]) -> "Callable[..., BertOutput] | None":
    """The forward pass of a model without padding; None for models of another kind than BERT and RoBERTa.

    Args:
        model: The model.
        precision: Of matrix products.
        sample: Tokenized texts, which show the inputs of linear maps that are not to be quantized.

    Raises:
        UserError: The processor has no exact 8-bit products.
    """
    inner = _without_map(model)
    if not _is_bert(inner):
        return None
    if precision == "int8" and not has_exact_int8():
        raise UserError("text_precision=int8 needs a processor with exact 8-bit products (VNNI); use float32.")
    bert = PackedBert(inner)
    if precision == "int8":
        bert.quantize(sample)
    return _with_map(bert, model)


def unpadded(model: Any) -> "Callable[..., BertOutput] | None":
    """The forward pass of a model without padding for training; None for models of another kind, such as one with a LoRA."""
    inner = _without_map(model)
    return _with_map(PackedBert(inner), model) if _is_bert(inner) and _has_plain_weights(inner) else None


def _without_map(model: Any) -> Any:
    return model.model if isinstance(model, MappedModel) else model


def _with_map(bert: "PackedBert", model: Any) -> "Callable[..., BertOutput]":
    """The forward pass of ``model``, given that of the model that it maps the vectors of."""
    if not isinstance(model, MappedModel):
        return bert
    return lambda **inputs: BertOutput(bert(**inputs).last_hidden_state @ model.weight.T, None)


def _has_plain_weights(model: Any) -> bool:
    """Whether the weights are those of BERT itself, not those of an adapter around them."""
    names = {name for name, _ in model.named_parameters()}
    return names.issuperset(f"encoder.layer.0.{name}.weight" for name in READ)


def _is_bert(model: Any) -> bool:
    config = getattr(model, "config", None)
    return (
        getattr(config, "model_type", None) in ("bert", *COUNTS_TOKENS)
        and getattr(config, "hidden_act", None) == "gelu"
        and getattr(config, "position_embedding_type", "absolute") == "absolute"
        and not getattr(config, "is_decoder", False)
        and model.embeddings.word_embeddings.weight.dtype == torch.float32
    )


@cache
def has_exact_int8() -> bool:
    """Whether 8-bit products are summed without saturation. Processors without VNNI sum pairs of them in 16 bits."""
    x = torch.full((32, 64), -128, dtype=torch.int8)
    x[::2] = 127
    try:
        product = torch._int_mm(x, torch.full((64, 32), 127, dtype=torch.int8))
    except RuntimeError:
        return False
    return torch.equal(product, 64 * 127 * x[:, :1].int().expand(-1, 32))


class PackedBert:
    """The forward pass of a BERT or RoBERTa for texts of different lengths. Any number of threads may use it.

    It can be differentiated. Dropout is that of the model, if the model is in training.

    Args:
        model: The model, with the parameter names of its published weights. Its weights are shared.
    """

    def __init__(self, model: Any) -> None:
        self._weights: dict[str, Tensor] = dict(model.named_parameters())
        config = model.config
        self._heads, self._eps, self._width = config.num_attention_heads, config.layer_norm_eps, config.hidden_size
        self._counts_from = config.pad_token_id if config.model_type in COUNTS_TOKENS else None
        self._layers = [_Layer(self, f"encoder.layer.{i}.") for i in range(config.num_hidden_layers)]
        self._dropout: float = config.hidden_dropout_prob if model.training else 0.0
        self.attention_dropout: float = config.attention_probs_dropout_prob if model.training else 0.0

    def quantize(self, sample: Mapping[str, Tensor]) -> None:
        """Use 8-bit matrix products in the layers. Attention, normalization and the pooler keep 32 bits.

        Args:
            sample: Tokenized texts: the largest inputs of a linear map are not quantized.
        """
        seen: dict[Float32Linear, Tensor] = {}
        for layer in self._layers:
            layer.maps = {name: _recorded(linear, seen) for name, linear in layer.maps.items()}
        with torch.inference_mode():
            self(**sample)
        linears = iter(seen.items())  # in the order of their use
        for layer in self._layers:
            layer.maps = {
                name: Int8Linear(linear.weight, linear.bias, x)
                for name, (linear, x) in zip(MAPS, islice(linears, len(MAPS)), strict=True)
            }

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> BertOutput:
        lengths, order = attention_mask.sum(1).sort(stable=True)
        seen, back = attention_mask[order].bool(), order.argsort()
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        ids, types, places = (of[order][seen] for of in (input_ids, types, self._positions(input_ids)))
        x = self._embedded(ids, types, places)  # [tokens, width], shortest text first
        parts = _parts(lengths)
        for layer in self._layers:
            x = layer(x, parts)
        hidden = x.new_zeros(*seen.shape, self._width)
        hidden[seen] = x
        hidden = hidden[back]
        return BertOutput(hidden, self._pooled(hidden[:, 0]))

    def _positions(self, ids: Tensor) -> Tensor:
        if self._counts_from is None:
            return torch.arange(ids.shape[1]).expand_as(ids)
        is_token = ids.ne(self._counts_from).long()
        places: Tensor = is_token.cumsum(1) * is_token + self._counts_from
        return places

    def _embedded(self, ids: Tensor, types: Tensor, places: Tensor) -> Tensor:
        words, kinds, positions = (
            functional.embedding(of, self._weights[f"embeddings.{name}_embeddings.weight"])
            for name, of in (("word", ids), ("token_type", types), ("position", places))
        )
        return self.dropped(self.normalized((words + kinds).add_(positions), "embeddings.LayerNorm."))

    def _pooled(self, first: Tensor) -> Tensor | None:
        if "pooler.dense.weight" not in self._weights:
            return None
        return torch.tanh(functional.linear(first, self._weights["pooler.dense.weight"], self._weights["pooler.dense.bias"]))

    def normalized(self, x: Tensor, name: str) -> Tensor:
        return functional.layer_norm(x, (self._width,), self._weights[name + "weight"], self._weights[name + "bias"], self._eps)

    def dropped(self, x: Tensor) -> Tensor:
        """Dropout; nothing in evaluation."""
        return functional.dropout(x, self._dropout) if self._dropout else x

    def linear(self, *names: str) -> "Float32Linear":
        """The linear maps of these names, whose results stand side by side."""
        return Float32Linear(*([self._weights[f"{name}.{of}"] for name in names] for of in ("weight", "bias")))

    @property
    def heads(self) -> int:
        return int(self._heads)


def _parts(lengths: Tensor) -> list[tuple[slice, int, int]]:
    """The rows of texts of equal length, their number and their length. ``lengths`` is sorted."""
    distinct, counts = torch.unique_consecutive(lengths, return_counts=True)
    parts, start = [], 0
    for length, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        if length:
            parts.append((slice(start, start + count * length), count, length))
            start += count * length
    return parts


READ = tuple(f"attention.self.{of}" for of in ("query", "key", "value"))
MAPS = ("read", "attended", "inner", "outer")  # the linear maps of a layer in the order of their use


class _Layer:
    def __init__(self, bert: PackedBert, name: str) -> None:
        self._bert, self._name = bert, name
        read = bert.linear(*(name + of for of in READ))
        others = (bert.linear(f"{name}{of}.dense") for of in ("attention.output", "intermediate", "output"))
        self.maps: dict[str, Linear] = dict(zip(MAPS, (read, *others), strict=True))

    def __call__(self, x: Tensor, parts: list[tuple[slice, int, int]]) -> Tensor:
        bert, maps = self._bert, self.maps
        attend = _differentiable_attention if torch.is_grad_enabled() else functional.scaled_dot_product_attention
        read = maps["read"](x)
        attended = []
        for rows, count, length in parts:
            q, k, v = read[rows].view(count, length, 3, bert.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = attend(q, k, v, dropout_p=bert.attention_dropout)
            attended.append(mixed.transpose(1, 2).reshape(count * length, -1))
        x = bert.normalized(bert.dropped(maps["attended"](torch.cat(attended))) + x, f"{self._name}attention.output.LayerNorm.")
        written = maps["outer"](functional.gelu(maps["inner"](x)))
        return bert.normalized(bert.dropped(written) + x, f"{self._name}output.LayerNorm.")


def _differentiable_attention(q: Tensor, k: Tensor, v: Tensor, dropout_p: float) -> Tensor:
    """Attention by matrix products, in 32 bits: on a processor, torch's own is slow to differentiate for short texts."""
    with torch.autocast(q.device.type, enabled=False):
        q, k, v = q.float(), k.float(), v.float()
        weights = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1)
        return (functional.dropout(weights, dropout_p) if dropout_p else weights) @ v


class Float32Linear:
    """Linear maps of the same input, whose results stand side by side."""

    def __init__(self, weights: list[Tensor], biases: list[Tensor]) -> None:
        self._weights, self._biases = weights, biases

    @property
    def weight(self) -> Tensor:
        return torch.cat(self._weights).detach()

    @property
    def bias(self) -> Tensor:
        return torch.cat(self._biases).detach()

    def __call__(self, x: Tensor) -> Tensor:
        if len(self._weights) == 1:
            return functional.linear(x, self._weights[0], self._biases[0])
        return torch.cat([functional.linear(x, weight, bias) for weight, bias in zip(self._weights, self._biases, strict=True)], 1)


def _recorded(linear: Any, seen: dict[Float32Linear, Tensor]) -> Linear:
    def run(x: Tensor) -> Tensor:
        seen[linear] = x.clone()
        result: Tensor = linear(x)
        return result

    return run


class Int8Linear:
    """A linear map with 8-bit weights, scaled by output, and 8-bit inputs, scaled and shifted by row. Few inputs keep 32 bits.

    The rows do not depend on each other, so that a text has almost the same vector whatever texts it is encoded with.

    Args:
        weight: [out, in]
        bias: [out]
        sample: Rows of inputs, [n, in]. Those that are farthest from the mean of their row keep 32 bits.

    >>> Int8Linear(torch.eye(32), torch.zeros(32), torch.ones(1, 32))(torch.ones(1, 32)).round(decimals=2).unique()
    tensor([1.])
    """

    def __init__(self, weight: Tensor, bias: Tensor, sample: Tensor) -> None:
        far = (sample - sample.mean(1, keepdim=True)).abs().amax(0)
        self._outliers = far.topk(min(OUTLIERS, len(far))).indices.sort().values
        self._is_rounded = torch.ones(len(far)).index_fill_(0, self._outliers, 0.0)  # 1, or 0 for an outlier
        self._exact, self._bias = weight[:, self._outliers].t().contiguous(), bias
        weight = weight * self._is_rounded
        self._scale = weight.abs().amax(1).div_(127).clamp_(min=LEAST)  # [out]
        rounded = (weight / self._scale[:, None]).round_()
        self._weight = rounded.to(torch.int8).t()  # [in, out]
        self._sums = rounded.sum(1) * self._scale  # of the weights of each output

    def __call__(self, x: Tensor) -> Tensor:
        result = torch.addmm(self._bias, x.index_select(1, self._outliers), self._exact)
        x = x * self._is_rounded
        low, high = torch.aminmax(x, dim=1, keepdim=True)
        step = (high - low).clamp_(min=LEAST).div_(255)
        middle = low + 128 * step
        rounded = x.sub_(middle).div_(step).round_().clamp_(-128, 127).to(torch.int8)
        product = torch._int_mm(rounded, self._weight).float().mul_(self._scale)
        return result.addcmul_(middle, self._sums).addcmul_(product, step)
