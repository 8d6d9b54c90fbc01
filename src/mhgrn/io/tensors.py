"""Tensors in safetensors files, with a checksum and JSON metadata in the same file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xxhash import xxh64

from mhgrn.errors import UserError, system_message
from mhgrn.io.atomic import write_bytes
from mhgrn.printing import shortened

if TYPE_CHECKING:
    from torch import Tensor

METADATA = "about"  # the key of our JSON text in the metadata of a safetensors file
CHECKSUM = "xxh64"  # the key of the checksum of metadata and tensors


def save_tensors(path: Path, tensors: "dict[str, Tensor]", metadata: dict[str, Any] | None = None) -> None:
    """Write a safetensors file, completely or not at all.

    Args:
        path: the file to write.
        tensors: the tensors by name.
        metadata: a JSON object to store in the same file; :func:`load_metadata` reads it.
    """
    from safetensors.torch import save  # not save_file: it leaves a temporary file behind when it is killed

    stored = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    text = {} if metadata is None else {METADATA: json.dumps(metadata)}
    write_bytes(path, save(stored, text | {CHECKSUM: _checksum(stored, text)}))


def load_tensors(path: Path, finite: bool = True, is_own: bool = False) -> "dict[str, Tensor]":
    """Read all tensors of a safetensors file.

    Args:
        path: the file.
        finite: refuse a file with a value that is not finite.
        is_own: refuse a file without the checksum that :func:`save_tensors` writes.
    """
    content = _content(path)
    tensors = parse_tensors(content, path, finite)
    if is_own and f'"{CHECKSUM}"'.encode() not in content[: 8 + int.from_bytes(content[:8], "little")]:
        raise UserError(f"{path} is damaged (it has no checksum); delete it and make it again.")
    return tensors


def parse_tensors(content: bytes, path: Path, finite: bool = True) -> "dict[str, Tensor]":
    """Read all tensors of the content of a safetensors file; see :func:`load_tensors`."""
    return _parse(content, path, finite)[0]


def load_metadata(path: Path) -> dict[str, Any]:
    """Read the ``metadata`` that :func:`save_tensors` stored."""
    return parse_metadata(_content(path), path)


def parse_metadata(content: bytes, path: Path) -> dict[str, Any]:
    """Read the metadata of the content of a safetensors file; see :func:`load_metadata`."""
    try:
        found = json.loads(_parse(content, path, finite=False)[1][METADATA])
        if not isinstance(found, dict):
            raise ValueError("its metadata is no object")
    except (KeyError, ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} is damaged ({str(error)[:200]}); delete it and make it again.") from None
    return found


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} is missing.") from None
    except IsADirectoryError:
        raise UserError(f"{path} is damaged (not a file); delete it and make it again.") from None
    except OSError as error:  # for example of a link into /proc
        error.filename = str(path)
        raise UserError(system_message(error)) from error


def _parse(content: bytes, path: Path, finite: bool) -> "tuple[dict[str, Tensor], dict[str, str]]":
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors: dict[str, Tensor] = load(content)
        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size]).get("__metadata__") or {}
    except (SafetensorError, ValueError, KeyError, RecursionError, OverflowError) as error:
        raise UserError(f"{path} is damaged ({str(error)[:200]}); delete it and make it again.") from None
    expected = metadata.pop(CHECKSUM, None)
    if expected is not None and expected != _checksum(tensors, metadata):
        raise UserError(f"{path} is damaged (its checksum is another); delete it and make it again.")
    if finite:
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise UserError(f"{path}: the tensor {name[:80]!r} has values that are not finite; make the file again.")
    return tensors, metadata


def _checksum(tensors: "dict[str, Tensor]", metadata: dict[str, str]) -> str:
    from torch import uint8

    digest = xxh64(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode("utf-8", "surrogatepass"))
        digest.update(tensor.cpu().contiguous().reshape(-1).view(uint8).numpy().data)
    return digest.hexdigest()


def check_tensors(found: "Mapping[str, Tensor]", expected: "Mapping[str, Tensor]", path: Path, prefix: str = "") -> None:
    """Raise a :class:`UserError` that names the first of the stored tensors that is missing, superfluous or of another kind."""
    wrong = ""
    for name in expected:
        if name not in found:
            wrong = f"it has no tensor {prefix + name}"
        elif found[name].shape != expected[name].shape:
            wrong = f"{prefix + name} has shape {list(found[name].shape)}, not {list(expected[name].shape)}"
        elif found[name].dtype != expected[name].dtype:
            wrong = f"{prefix + name} is of type {found[name].dtype}, not {expected[name].dtype}"
        if wrong:
            break
    else:
        others = sorted(found.keys() - expected.keys())
        wrong = f"it also has the tensor {shortened(prefix + others[0])}" if others else ""
    if wrong:
        raise UserError(f"{path} does not fit its settings ({wrong}); if another version of mhgrn wrote it, train again.")
