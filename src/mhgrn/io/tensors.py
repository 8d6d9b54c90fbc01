"""Tensors in safetensors files, with JSON metadata in the same file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_bytes

if TYPE_CHECKING:
    from torch import Tensor

METADATA = "about"  # the key of our JSON text in the metadata of a safetensors file


def save_tensors(path: Path, tensors: "dict[str, Tensor]", metadata: dict[str, Any] | None = None) -> None:
    """Write a safetensors file, completely or not at all.

    Args:
        path: the file to write.
        tensors: the tensors by name.
        metadata: a JSON object to store in the same file; :func:`load_metadata` reads it.
    """
    from safetensors.torch import save  # not save_file: it leaves a temporary file behind when it is killed

    text = None if metadata is None else {METADATA: json.dumps(metadata)}
    write_bytes(path, save({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, text))


def load_tensors(path: Path) -> "dict[str, Tensor]":
    """Read all tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it and make it again.") from None
    return tensors


def load_metadata(path: Path) -> dict[str, Any]:
    """Read the ``metadata`` that :func:`save_tensors` stored."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata: dict[str, Any] = json.loads((file.metadata() or {})[METADATA])
    except FileNotFoundError:
        raise UserError(f"{path} is missing.") from None
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it and make it again.") from None
    return metadata
