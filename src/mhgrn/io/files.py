"""Folders of arrays that are whole or absent: written beside their place and renamed into it."""

import ctypes
import hashlib
import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mhgrn.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

PARTIAL = ".partial-"
OLD = ".old.partial-"
PIECE = 1 << 18  # bytes written at once: of more, Linux makes large pages in its cache, which are dear to come by
ABOUT = "about"  # the key of a JSON text among a safetensors file's own metadata


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


def user_cache() -> Path:
    """Where things are kept that can be made again: $MHGRN_CACHE, or the user's cache folder."""
    base = os.environ.get("MHGRN_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mhgrn"
    return Path(base)


def _here() -> str:
    """This machine, or container, in the names of what is half-written: only of its own processes it knows whether they live."""
    return re.sub(r"[^A-Za-z0-9]", "", platform.node())[:24] + "-"


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
        for prefix, was_target in ((f".{target.name}{PARTIAL}{_here()}", False), (f".{target.name}{OLD}{_here()}", True)):
            pid = left.name.removeprefix(prefix)
            if pid == left.name or not pid.isdigit() or (int(pid) != os.getpid() and _is_alive(int(pid))):
                continue
            if was_target and not target.exists():
                left.rename(target)
            else:
                shutil.rmtree(left, ignore_errors=True)


def begin_folder(target: Path, marker: str, holds: Sequence[str] | None = None) -> Path:
    """A new folder beside ``target`` to be filled, and to take its place by :func:`take_place`.

    Only an empty folder or one of ours is ever replaced: see :func:`check_replaceable`.
    """
    target = check_replaceable(target, marker, holds)
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target)
    partial = target.parent / f".{target.name}{PARTIAL}{_here()}{os.getpid()}"
    partial.mkdir()
    return partial


def take_place(partial: Path, target: Path, keep: Sequence[str] = ()) -> None:
    """Put a filled folder where ``target`` is; what was there goes only once the new one is in place, but for what is named
    in ``keep``."""
    target = target.resolve()
    if not target.exists():
        partial.rename(target)
        return
    old = partial
    if not _exchanged(partial, target):
        old = target.parent / f".{target.name}{OLD}{_here()}{os.getpid()}"
        target.rename(old)
        try:
            partial.rename(target)
        except BaseException:
            old.rename(target)
            raise
    for name in keep:
        if (old / name).exists():
            (old / name).rename(target / name)
    shutil.rmtree(old)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, so that there is no moment without either; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


@contextmanager
def new_folder(target: Path, marker: str, holds: Sequence[str] | None = None, keep: Sequence[str] = ()) -> Iterator[Path]:
    """A folder to fill; it takes ``target``'s place when the block ends, and vanishes if the block fails."""
    partial = begin_folder(target, marker, holds)
    try:
        yield partial
        take_place(partial, target, keep)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_replaceable(target: Path, marker: str, holds: Sequence[str] | None = None) -> Path:
    """Refuse to write over what is not ours, or where nothing can be written, better before the work than after it; the place
    itself, links followed.

    A folder is ours by its ``marker``, a JSON object with a format; and if ``holds`` says what else it may hold (names, or
    endings such as ``*.npy``), by holding nothing but that: what somebody put beside it would go with it.
    """
    target = target.resolve()
    if target.exists() and not target.is_dir():
        raise UserError(f"{target} is {'a file' if target.is_file() else 'not a folder'}; name a folder to write to.")
    if target.is_mount():
        raise UserError(f"a disk is mounted at {target}, so it cannot be replaced as a whole; name a folder in it.")
    parent = next(folder for folder in target.parents if folder.exists())
    if not os.access(parent, os.W_OK):
        raise UserError(f"nothing can be written in {parent}; name another folder.")
    if target.is_dir() and any(target.iterdir()):
        if not (target / marker).is_file():
            raise UserError(f"{target} exists and holds other things (no {marker}); name another folder.")
        if not _is_ours(target / marker):
            raise UserError(f"{target} exists and holds other things (its {marker} is another's); name another folder.")
        ours = ["*"] if holds is None else [marker, *holds]
        others = [path.name for path in target.iterdir() if not any(fnmatch(path.name, name) for name in ours)]
        if others:
            raise UserError(f"{target} also holds other things ({min(others)}), which would be lost; name another folder.")
    return target


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written, better before the work than after it."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file to write to.")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir():
        raise UserError(f"{parent} is not a folder, so {path} cannot be written; name another file.")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise UserError(f"{path} cannot be written; name another file.")


def _is_ours(marker: Path) -> bool:
    """Whether a file with the name of a marker is one; a damaged one counts, for its folder is to be made again."""
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return True
    return isinstance(found, dict) and "format" in found


@contextmanager
def held(path: Path, wait: bool = False, busy: str = "") -> Iterator[None]:
    """Hold the lock file ``path`` while the block runs; it goes with it, and a killed process holds nothing.

    Where another process holds it: wait for that one to end, or refuse with the message ``busy``.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows, where it is the user's to start only one
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            with suppress(FileNotFoundError):  # its holder has deleted it in the meantime
                if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                    break
        except BlockingIOError:
            file.close()
            raise UserError(busy) from None
        except BaseException:
            file.close()
            raise
        file.close()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Name the file in an error of writing, which Python leaves out."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}{PARTIAL}{_here()}{os.getpid()}")
    try:
        with _writing(path):
            partial.write_bytes(content)
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, all of it or nothing."""
    write_bytes(path, text.encode("utf-8"))


def append_text(path: Path, text: str) -> int:
    """Append ``text`` to ``path``, all of it or nothing; returns the bytes that were added."""
    content = text.encode("utf-8")
    with _writing(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(before)
            raise
    return len(content)


def write_json(path: Path, value: object) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))  # half a character, as of a file's name, as JSON escapes it


def save_tensors(path: Path, tensors: "dict[str, Tensor]", about: dict[str, Any] | None = None) -> None:
    """Write safetensors, all of it or nothing; ``about`` goes into the same file as JSON."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}{PARTIAL}{_here()}{os.getpid()}")
    try:
        metadata = None if about is None else {ABOUT: json.dumps(about)}
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, partial, metadata)
        mask = os.umask(0)  # which cannot be asked for without setting it
        os.umask(mask)
        partial.chmod(0o666 & ~mask)  # safetensors leaves it to its owner alone
        partial.replace(path)
    except SafetensorError as error:
        raise UserError(f"{path} cannot be written ({error}). Is the disk full? What was there before is untouched.") from None
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


def load_about(path: Path) -> dict[str, Any]:
    """What :func:`save_tensors` was given as ``about``."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            about: dict[str, Any] = json.loads((file.metadata() or {})[ABOUT])
    except FileNotFoundError:
        raise UserError(f"{path} is missing.") from None
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it and make it again.") from None
    return about


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
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; build its folder again.") from None
    except (ValueError, EOFError, OSError) as error:
        raise UserError(f"{path} is damaged ({error}); build its folder again.") from None
    if not isinstance(loaded, np.ndarray) or not loaded.ndim:
        raise UserError(f"{path} is damaged: not an array with rows; make it again.")
    return loaded.view(np.ndarray)  # slicing a numpy.memmap is several times slower


class ArrayWriter:
    """Append to a ``.npy`` file whose length is not known beforehand; of rows, if they have a ``width``."""

    def __init__(self, path: Path, dtype: DTypeLike, width: int | None = None) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._row = () if width is None else (width,)
        self._file = path.open("wb+")
        self._write_header()

    def _write_header(self) -> None:
        # numpy pads the header so that the length can grow in place
        self._file.seek(0)
        shape = (self.length, *self._row)
        np.lib.format.write_array_header_1_0(self._file, {"descr": self.dtype.str, "fortran_order": False, "shape": shape})

    def append(self, values: NDArray[Any]) -> None:
        content = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1).view(np.uint8)
        with _writing(self.path):
            for start in range(0, len(content), PIECE):
                self._file.write(content[start : start + PIECE].data)
        self.length += len(values)

    def close(self) -> None:
        """Write the length into the header; a file that was not closed reads as empty."""
        with _writing(self.path), self._file:
            self._write_header()


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array of one dimension or two; unlike numpy's own way, an error of writing says what and why."""
    writer = ArrayWriter(path, array.dtype, array.shape[1] if array.ndim > 1 else None)
    try:
        writer.append(array)
    finally:
        writer.close()
