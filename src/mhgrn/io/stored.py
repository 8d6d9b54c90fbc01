"""Read folders from the disk: one version of a folder, and nothing of it unchecked.

A folder may be damaged, crafted, or replaced by another process while it is read. All its files are therefore opened relative to
one open folder; types, shapes and values are checked, because kernels index memory with them; and the checksums of all bytes that
are used are compared. Files up to ``EAGER`` bytes are checked when they are loaded, larger ones block by block when they are used.
"""

import errno
import json
import math
import mmap
import os
import stat
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.checksums import BLOCK, CHECKSUMS, SEALED, FileChecksums, Recorded, block_sums, parse_checksums
from mhgrn.io.remote import origin_of
from mhgrn.io.replacing import PARTIAL

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")

EAGER = 16 * BLOCK  # bytes; larger arrays are checked when they are used, so that any graph opens in a tenth of a second
VERIFY = "MHGRN_VERIFY"  # environment variable: check every file completely when it is loaded
_LARGEST_TEXT = 1 << 30  # bytes of a text or JSON file that is read whole
_LARGEST_HEADER = 4096  # bytes of the header of a .npy file
_TRIES = 100  # times a folder that is replaced while it is read is read again

UNCHECKED, GOOD, BAD = 0, 1, 2  # states of a block
NO_LIMIT = 2**63 - 1  # greatest value of an array that may have any

_DAMAGED_HEADER = (ValueError, TypeError, SyntaxError, TokenError, OverflowError, MemoryError, RecursionError, EOFError, KeyError)


class Guard(NamedTuple):
    """What kernels need to check a block of an array before they use it; see :func:`mhgrn.compiled.guards.readable`.

    All arrays are empty if the array was checked when it was loaded. They have the same types then: kernels are compiled once.
    """

    raw: NDArray[np.uint8]  # [bytes] the whole file
    sums: NDArray[np.uint64]  # [blocks] checksums; empty if the folder has none
    state: NDArray[np.uint8]  # [blocks]
    offset: int  # bytes before the first element
    low: int  # least value
    high: int  # greatest value
    is_pointer: bool  # values may not decrease


NO_GUARD = Guard(np.frombuffer(b"", np.uint8), np.zeros(0, np.uint64), np.zeros(0, np.uint8), 0, 0, 0, False)


class StoredArray:
    """A memory-mapped array and the state of its blocks.

    Args:
        path: the file, for messages.
        values: the array.
        guard: what is known of its blocks.
    """

    def __init__(self, path: Path, values: NDArray[Any], guard: Guard) -> None:
        self.path, self.values, self.guard = path, values, guard

    def ensure(self, start: int = 0, stop: int | None = None) -> None:
        """Check the blocks of the rows from ``start`` to ``stop`` that were not checked yet. Raises a :class:`UserError`."""
        state = self.guard.state
        if not len(state):
            return
        row = self.values.nbytes // max(len(self.values), 1)
        first = 0 if start == 0 else (self.guard.offset + start * row) // BLOCK  # the header belongs to the first block
        end = len(state) if stop is None else (self.guard.offset + stop * row - 1) // BLOCK + 1
        for block in np.flatnonzero(state[first:end] != GOOD).tolist():
            self._check(first + block)

    def ensure_rows(self, rows: NDArray[Any]) -> None:
        """Check the blocks of some rows."""
        if len(self.guard.state) and len(rows):
            size = self.values.nbytes // len(self.values)
            at = self.guard.offset + rows.astype(np.int64) * size
            for block in np.union1d(at // BLOCK, (at + size - 1) // BLOCK).tolist():
                if self.guard.state[block] != GOOD:
                    self._check(block)

    @property
    def whole(self) -> NDArray[Any]:
        """All values, after checking them."""
        self.ensure()
        return self.values

    def raise_if_damaged(self) -> None:
        """Raise a :class:`UserError` if a kernel found a damaged block."""
        for block in np.flatnonzero(self.guard.state == BAD).tolist():
            self._check(block)

    def _check(self, block: int) -> None:
        # A damaged block is not marked as bad here: only a good one is ever marked, so that threads need no lock.
        guard = self.guard
        content = guard.raw[block * BLOCK : (block + 1) * BLOCK]
        if len(guard.sums) and block_sums(content.data)[0] != guard.sums[block]:
            raise _damaged(self.path, f"bytes {block * BLOCK:,} to {block * BLOCK + len(content):,} have another checksum")
        size = self.values.itemsize
        first = max(0, -(-(block * BLOCK - guard.offset) // size))
        last = -(-((block + 1) * BLOCK - guard.offset) // size)
        _check_values(self.path, self.values.reshape(-1)[max(0, first - 1) : last], guard)
        guard.state[block] = GOOD


def in_memory(values: NDArray[Any] | StoredArray) -> StoredArray:
    """Return an array of memory as a stored one that needs no check. A stored array stays as it is."""
    return values if isinstance(values, StoredArray) else StoredArray(Path(), values, NO_GUARD)


def _check_values(path: Path, values: NDArray[Any], guard: Guard) -> None:
    if not values.size:
        return
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise _damaged(path, "it has values that are not finite")
        return
    least, greatest = int(values.min()), int(values.max())
    if least < guard.low or (greatest > guard.high and guard.high != NO_LIMIT):
        raise _damaged(path, f"it has the value {least if least < guard.low else greatest}, outside {guard.low} to {guard.high}")
    if guard.is_pointer and (values[1:] < values[:-1]).any():
        raise _damaged(path, "its values decrease")


def _damaged(path: Path, why: str) -> UserError:
    fetched = origin_of(path.parent)
    advice = "build its folder again" if fetched is None else f"delete {path.parent}, which is fetched again from {fetched}"
    return UserError(f"{path} is damaged ({why}); {advice}.")


class StoredFolder:
    """One version of a folder on the disk. Its files stay readable if the folder is replaced.

    Args:
        path: the folder.
        marker: the name of the JSON file that says what the folder is.
        kind: what the folder should be, for messages: "knowledge graph".
        version: the format that this version of the package reads.
        keys: keys that the JSON object must have, and their types.
    """

    def __init__(self, path: Path, marker: str, kind: str, version: int, keys: dict[str, Any]) -> None:
        self.path, self.marker, self.kind = path, marker, kind
        if PARTIAL in path.name:
            raise UserError(f"{path} was left half-written by an interrupted command; delete it and run that command again.")
        if not path.exists():
            raise UserError(f"{path} does not exist; name the folder of a {kind}.")
        if not path.is_dir():
            raise UserError(f"{path} is not a {kind}: it is not a folder.")
        self._folder = os.open(path, os.O_RDONLY) if _has_descriptors() else None
        try:
            if not self.has(marker):
                raise UserError(f"{path} is not a {kind}: it holds no {marker}.")
            self._recorded: Recorded = {}
            is_sealed = self.has(CHECKSUMS)
            if is_sealed:
                self._recorded = parse_checksums(self._read(CHECKSUMS), path / CHECKSUMS)
            self.about = self._read_marker(version, keys)
            if self.about.pop(SEALED, False) and not is_sealed:
                raise UserError(
                    f"{path / CHECKSUMS} is missing; build the {kind} again. To use the folder without checksums, delete the entry"
                    f' "{SEALED}" of {marker}.'
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def has(self, name: str) -> bool:
        """Whether the folder has a file of this name."""
        try:
            os.stat(self._name(name), dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def content(self, name: str) -> bytes:
        """Return the content of a file, after checking it completely."""
        content = self._read(name)
        self._check_bytes(name, content)
        return content

    def text(self, name: str) -> str:
        """Return the content of a UTF-8 file."""
        try:
            return self.content(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _damaged(self.path / name, f"no UTF-8: {error.reason}") from None

    def tensors(self, name: str) -> "dict[str, Tensor]":
        """Return the tensors of a safetensors file. They are finite."""
        from mhgrn.io.tensors import parse_tensors

        return parse_tensors(self.content(name), self.path / name)

    def array(
        self,
        name: str,
        dtype: str | tuple[str, ...],
        length: int | None = None,
        width: int | None = None,
        low: int = 0,
        high: int | None = None,
        is_pointer: bool = False,
    ) -> StoredArray:
        """Memory-map ``NAME.npy``.

        Args:
            name: the array's name.
            dtype: the type of its elements, or the types it may have: ``"int32"``.
            length: the number of rows it must have.
            width: the number of columns it must have; 0: any number. None: it has one dimension.
            low: the least value of an integer array.
            high: the greatest value of an integer array; None: the greatest of its type. Floats must be finite.
            is_pointer: the values begin with ``low``, do not decrease, and end with ``high`` (with ``high=None``: anywhere).
        """
        file = f"{name}.npy"
        path = self.path / file
        raw = self._map(file)
        found, shape, offset = _parse_header(raw, path)
        if found.name not in ((dtype,) if isinstance(dtype, str) else dtype):
            raise _damaged(path, f"its elements are {found}")
        if len(shape) != (1 if width is None else 2) or (width and shape[1] != width):
            raise _damaged(path, f"its shape is {shape}")
        if length is not None and shape[0] != length:
            raise UserError(f"{path} has {shape[0]} entries, not {length}; build its folder again.")
        values = np.frombuffer(raw, found, math.prod(shape), offset).reshape(shape) if math.prod(shape) else np.zeros(shape, found)
        values.flags.writeable = False
        if is_pointer and (not shape[0] or values[0] != low or (high is not None and values[-1] != high)):
            raise _damaged(path, "it does not begin and end as it should")
        sums = self._sums(file, raw)
        guard = Guard(
            raw, sums, np.zeros(-(-len(raw) // BLOCK), np.uint8), offset, low, NO_LIMIT if high is None else high, is_pointer
        )
        array = StoredArray(path, values, guard)
        if len(raw) <= EAGER or os.environ.get(VERIFY):
            array.ensure()
            array.guard = NO_GUARD
        return array

    def _sums(self, name: str, content: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Return the recorded checksums of a file; none if the folder or the file has none."""
        fitting = [one for one in self._recorded.get(name, ()) if one.size == len(content)]
        if not fitting:
            self._check_recorded(name, len(content))
            return np.zeros(0, np.uint64)
        return fitting[0].blocks

    def _check_recorded(self, name: str, size: int) -> None:
        if name in self._recorded:
            raise _damaged(self.path / name, f"{size:,} bytes instead of {self._recorded[name][0].size:,}")
        if self._recorded:
            raise _damaged(self.path / name, f"{CHECKSUMS} does not list it")

    def _check_bytes(self, name: str, content: bytes) -> None:
        expected = self._recorded.get(name, ())
        if any(_is_same(one, content) for one in expected):
            return
        if any(one.size == len(content) for one in expected):
            raise _damaged(self.path / name, "its checksum is another")
        self._check_recorded(name, len(content))

    def _name(self, name: str) -> str:
        if not name or name != os.path.basename(name) or name in (".", "..") or "\0" in name:
            raise UserError(f"{self.path / self.marker} is damaged (it names the file {name[:80]!r}); build the {self.kind} again.")
        return name if self._folder is not None else str(self.path / name)

    def _open(self, name: str) -> int:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(self._name(name), flags, dir_fd=self._folder)
        except FileNotFoundError:
            raise UserError(f"{self.path / name} is missing; build the {self.kind} again.") from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise _damaged(self.path / name, "not a file") from None
            error.filename = str(self.path / name)
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise _damaged(self.path / name, "not a file")
        return descriptor

    def _read(self, name: str) -> bytes:
        with open(self._open(name), "rb") as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_TEXT and not name.endswith(".safetensors"):
                raise _damaged(self.path / name, f"larger than {_LARGEST_TEXT:,} bytes")
            return file.read()

    def _map(self, name: str) -> NDArray[np.uint8]:
        descriptor = self._open(name)
        try:
            if not os.fstat(descriptor).st_size:
                raise _damaged(self.path / name, "it is empty")
            more: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
            return np.frombuffer(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ, **more), np.uint8)
        finally:
            os.close(descriptor)

    def _read_marker(self, version: int, keys: dict[str, Any]) -> dict[str, Any]:
        path = self.path / self.marker
        found = parse_json(self.content(self.marker), path, self.kind)
        if not isinstance(found, dict) or found.get("format") != version:
            has = found.get("format") if isinstance(found, dict) else None
            raise UserError(
                f"{path} has format {str(has)[:40] if isinstance(has, int | str | None) else '?'}, this version of mhgrn reads"
                f" format {version}; build the {self.kind} again or install the version that made it."
            )
        for key, of in keys.items():
            if key not in found:
                raise UserError(f"{path} is damaged (no {key}); build the {self.kind} again.")
            if not isinstance(found[key], of) or (isinstance(found[key], bool) and of is int):
                raise UserError(f"{path} is damaged ({key} has the wrong type); build the {self.kind} again.")
        return found


def read_folder(
    folder: Path, marker: str, kind: str, version: int, read: Callable[[StoredFolder], T], keys: dict[str, Any] | None = None
) -> T:
    """Read one version of a folder. If it is replaced meanwhile, it is read again.

    Args:
        folder: the folder.
        marker: the name of the JSON file that says what the folder is.
        kind: what the folder should be, for messages: "knowledge graph".
        version: the format that this version of the package reads.
        read: reads the open folder.
        keys: keys that the JSON object must have, and their types.
    """
    for tries_left in reversed(range(_TRIES)):
        before = _identity(folder)
        try:
            with StoredFolder(folder, marker, kind, version, keys or {}) as stored:
                result = read(stored)
            if _has_descriptors() or _identity(folder) == before:
                return result
        except (UserError, FileNotFoundError):
            if not tries_left or _identity(folder) == before:
                raise
    raise UserError(f"{folder} is being replaced again and again; try again later.")


def parse_json(content: bytes, path: Path, kind: str = "folder") -> Any:
    """Read JSON of a file, strictly: no NaN, no infinity."""
    try:
        return json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # also JSONDecodeError, UnicodeDecodeError and numbers of too many digits
        why = "too deeply nested" if isinstance(error, RecursionError) else str(error)[:200]
        raise UserError(f"{path} is damaged ({why}); build the {kind} again.") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _is_same(expected: FileChecksums, content: bytes) -> bool:
    if expected.grows:
        content = content[: expected.size]
    return expected.size == len(content) and block_sums(content) == expected.blocks.tolist()


def _parse_header(raw: NDArray[np.uint8], path: Path) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return type, shape and offset of a .npy file whose size agrees with them."""
    file = BytesIO(raw[:_LARGEST_HEADER].tobytes())
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("not version 1.0")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if is_fortran or dtype.hasobject or dtype.byteorder == ">" or any(type(size) is not int or size < 0 for size in shape):
            raise ValueError(f"{dtype} {shape}")
        if file.tell() % 64:
            raise ValueError("not aligned")
        is_whole = len(raw) == file.tell() + math.prod(shape) * dtype.itemsize
    except _DAMAGED_HEADER as error:
        raise _damaged(path, f"its header: {str(error)[:200]}") from None
    if not is_whole:
        raise _damaged(path, "its size does not agree with its header")
    return dtype, shape, file.tell()


def _identity(folder: Path) -> tuple[int, ...] | None:
    """Return what changes when a folder is replaced."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _has_descriptors() -> bool:
    """Whether files can be opened relative to an open folder."""
    return os.open in os.supports_dir_fd
