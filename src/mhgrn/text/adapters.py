"""Adapters: small files that change the vectors of a text encoder and leave its weights where they are.

An adapter is a folder. ``adapter.json`` with ``adapter.safetensors`` is a linear map of the vectors. ``adapter_config.json`` with
``adapter_model.safetensors`` is a LoRA in the format of the peft library; it is added to the weights when it is loaded, which needs
no peft.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mhgrn.errors import UserError
from mhgrn.io.tensors import load_tensors
from mhgrn.printing import shortened

LINEAR, LINEAR_WEIGHTS = "adapter.json", "adapter.safetensors"
LORA, LORA_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
LARGEST = 1 << 20  # bytes of the description
LORA_PREFIX = "base_model.model."
PLAIN_LORA = {  # other kinds of adapters are refused
    "peft_type": "LORA",
    "use_dora": False,
    "use_rslora": False,
    "lora_bias": False,
    "bias": "none",
    "fan_in_fan_out": False,
    "modules_to_save": None,
    "rank_pattern": {},
    "alpha_pattern": {},
}


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter instead of a model.

    >>> is_adapter(Path("."))
    False
    """
    return any((folder / name).is_file() for name in (LINEAR, LORA)) and not (folder / "config.json").is_file()


def is_linear(folder: Path) -> bool:
    """Whether the adapter of a folder is a linear map."""
    return (folder / LINEAR).is_file()


def adapter_base(folder: Path) -> str:
    """The text encoder that an adapter changes: a name, or a folder."""
    key = "base" if is_linear(folder) else "base_model_name_or_path"
    base = _about(folder).get(key)
    if not isinstance(base, str) or not base or "\0" in base:
        raise UserError(f"{folder} does not name the text encoder that it adapts ({key}).")
    return base


class MappedModel(nn.Module):
    """A model whose token states are mapped linearly. Means of token states are mapped alike.

    Args:
        model: The model.
        weight: The map, [width, width].
    """

    def __init__(self, model: Any, weight: Tensor) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.weight = nn.Parameter(weight)

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def forward(self, **inputs: Any) -> "MappedOutput":
        return MappedOutput(self.model(**inputs).last_hidden_state @ self.weight.T)


class MappedOutput:
    """The states of all tokens, [texts, tokens, width]."""

    def __init__(self, last_hidden_state: Tensor) -> None:
        self.last_hidden_state = last_hidden_state


def adapted(model: Any, folder: Path) -> Any:
    """The model with the adapter of a folder.

    Args:
        model: The model of the adapter's base. A LoRA changes it in place.
        folder: The folder of the adapter.
    """
    return _mapped(model, folder) if is_linear(folder) else _with_lora(model, folder)


def _mapped(model: Any, folder: Path) -> MappedModel:
    kind, width = _about(folder).get("kind"), int(model.config.hidden_size)
    if kind != "linear":
        raise UserError(f"{folder / LINEAR}: the kind of the adapter is {shortened(kind)}; only linear is known.")
    weight = load_tensors(folder / LINEAR_WEIGHTS).get("weight")
    if weight is None or weight.shape != (width, width) or weight.dtype != torch.float32:
        raise UserError(f"{folder / LINEAR_WEIGHTS} does not fit the text encoder: it needs a map of {width} by {width} numbers.")
    return MappedModel(model, weight)


def _with_lora(model: Any, folder: Path) -> Any:
    about, path = _about(folder), folder / LORA_WEIGHTS
    for key, plain in PLAIN_LORA.items():
        if (about.get(key) or plain) != plain:
            raise UserError(f"{folder / LORA}: {key} is {shortened(about[key])}; only plain LoRA adapters can be loaded.")
    rank, alpha = about.get("r"), about.get("lora_alpha")
    if type(rank) is not int or rank < 1 or not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise UserError(f"{folder / LORA} is damaged (r and lora_alpha).")
    tensors = load_tensors(path)
    if not tensors:
        raise UserError(f"{path} is damaged: it has no tensors.")
    weights = dict(model.named_parameters())
    left = set(tensors)
    with torch.no_grad():
        for name in sorted(tensors):
            if not name.endswith(".lora_A.weight"):
                continue
            other = name.replace(".lora_A.", ".lora_B.")
            target = weights.get(name.removeprefix(LORA_PREFIX).replace(".lora_A.weight", ".weight"))
            down, up = tensors[name], tensors.get(other)
            if target is None or up is None or down.dim() != 2 or up.dim() != 2 or (up.shape[0], down.shape[1]) != target.shape:
                raise UserError(f"{path} does not fit the text encoder ({name}).")
            if up.shape[1] != rank or down.shape[0] != rank:
                raise UserError(f"{path} is damaged: {name} has not the rank {rank}.")
            target += _product((alpha / rank) * up.float(), down.float()).to(target.dtype)
            left -= {name, other}
    if left:
        raise UserError(f"{path} has the tensor {min(left)}, which is no part of a LoRA.")
    return model


def _product(up: Tensor, down: Tensor) -> Tensor:
    """The product of two matrices, the same bits on every processor: libraries for it sum in different orders."""
    product = torch.zeros(up.shape[0], down.shape[1])
    for column, row in zip(up.unbind(1), down.unbind(0), strict=True):
        product += column[:, None] * row[None, :]
    return product


def _about(folder: Path) -> dict[str, Any]:
    path = folder / (LINEAR if is_linear(folder) else LORA)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        about = json.loads(content) if len(content) <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise UserError(f"{path} is damaged: it is not the description of an adapter.")
    return about
