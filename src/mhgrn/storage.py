"""Folders of arrays that are whole or absent: written beside their place and renamed into it."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mhgrn.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

PARTIAL = ".partial-"
OLD = ".old.partial-"


def fingerprint(*parts: object) -> str:
    """Twenty hexadecimal digits that stand for ``parts`` (bytes, arrays, or anything JSON can hold)."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data.cast("B") if part.size else b"")
        elif isinstance(part, bytes):
            digest.update(part)
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:20]


def file_fingerprint(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:20]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove_abandoned(target: Path) -> None:
    """Remove what a killed process left half-written beside ``target``, and put back what it had moved out of the way."""
    for left in target.parent.iterdir():
        for prefix, was_target in ((f".{target.name}{PARTIAL}", False), (f".{target.name}{OLD}", True)):
            pid = left.name.removeprefix(prefix)
            if pid == left.name or not pid.isdigit() or (int(pid) != os.getpid() and _is_alive(int(pid))):
                continue
            if was_target and not target.exists():
                left.rename(target)
            else:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def new_folder(target: Path, marker: str) -> Iterator[Path]:
    """A folder to fill; it takes ``target``'s place when the block ends, and vanishes if the block fails.

    ``marker`` is the file that makes a folder one of ours: only such a folder, or an empty one, is ever replaced.
    """
    target = target.absolute()
    check_replaceable(target, marker)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    partial = target.parent / f".{target.name}{PARTIAL}{os.getpid()}"
    partial.mkdir()
    try:
        yield partial
        if target.exists():
            _swap(partial, target)
        else:
            partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _swap(partial: Path, target: Path) -> None:
    old = target.parent / f".{target.name}{OLD}{os.getpid()}"
    target.rename(old)
    try:
        partial.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old)


def check_replaceable(target: Path, marker: str) -> None:
    """Refuse to write over what is not ours; better before the work than after it."""
    if target.is_file():
        raise UserError(f"{target} is a file; name a folder to write to.")
    if target.is_dir() and any(target.iterdir()) and not (target / marker).is_file():
        raise UserError(f"{target} exists and holds other things (no {marker}); name another folder.")


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}{PARTIAL}{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def save_tensors(path: Path, tensors: "dict[str, Tensor]") -> None:
    """Write safetensors, all of it or nothing."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}{PARTIAL}{os.getpid()}")
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_tensors(path: Path) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it and make it again.") from None
    return tensors


def read_marker(folder: Path, marker: str, kind: str, version: int, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    """The JSON object in ``folder/marker``, after checking that it is a ``kind`` of a format this version reads."""
    path = folder / marker
    if PARTIAL in folder.name:
        raise UserError(f"{folder} was left half-written by an interrupted command; delete it and run that command again.")
    if not folder.exists():
        raise UserError(f"{folder} does not exist; name the folder of a {kind}.")
    if not path.is_file():
        raise UserError(f"{folder} is not a {kind}: it holds no {marker}.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}); build the {kind} again.") from None
    if not isinstance(found, dict) or found.get("format") != version:
        has = found.get("format") if isinstance(found, dict) else None
        raise UserError(
            f"{path} has format {has}, this version of mhgrn reads format {version}; build the {kind} again"
            " or install the version that made it."
        )
    if missing := [key for key in keys if key not in found]:
        raise UserError(f"{path} is damaged (no {missing[0]}); build the {kind} again.")
    return found


def load_array(path: Path) -> NDArray[Any]:
    """A ``.npy`` array, memory-mapped; never unpickles."""
    try:
        # a plain view: slicing a numpy.memmap is several times slower
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; build its folder again.") from None
    except (ValueError, EOFError, OSError) as error:
        raise UserError(f"{path} is damaged ({error}); build its folder again.") from None
    return array


class ArrayWriter:
    """Append to a one-dimensional ``.npy`` file whose length is not known beforehand."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = path.open("wb+")
        self._write_header()

    def _write_header(self) -> None:
        # numpy pads the header so that the length can grow in place
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length,)})

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, dtype=self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        """Write the length into the header; a file that was not closed reads as empty."""
        self._write_header()
        self._file.close()
