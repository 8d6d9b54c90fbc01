"""Checksums of the files of a folder, by blocks, in its ``checksums.json``.

A folder is sealed when it is complete. If one of its files is rewritten later, the new checksum is recorded before the new file is
in place, and the one before it stays valid: a process that is killed in between leaves no false alarm.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh64_hexdigest, xxh64_intdigest

from mhgrn.errors import UserError
from mhgrn.io.replacing import PARTIAL, replacing

CHECKSUMS = "checksums.json"
SEALED = "checksums"  # the key of a marker that says that its folder has checksums
BLOCK = 1 << 20  # bytes
_FORMAT = 1
_DIGITS = 16
_CHUNK = 16 * BLOCK  # bytes read at once
_WITHOUT = (
    f'To use the folder without checksums, delete this file and the entry "{SEALED}" of the JSON file that describes the folder.'
)


@dataclass(frozen=True)
class FileChecksums:
    """The size of a file, and the XXH64 of each of its blocks.

    Args:
        size: in bytes.
        blocks: [blocks] one number for each ``BLOCK`` bytes; the last block may be shorter.
        grows: more bytes may follow the first ``size``.
    """

    size: int
    blocks: NDArray[np.uint64]
    grows: bool = False

    @classmethod
    def of(cls, path: Path) -> Self:
        """Compute the checksums of a file."""
        sums: list[int] = []
        size = 0
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                while len(chunk) % BLOCK and (more := file.read(BLOCK - len(chunk) % BLOCK)):
                    chunk += more
                size += len(chunk)
                sums += block_sums(chunk)
        return cls(size, np.array(sums, dtype=np.uint64))

    def to_json(self) -> dict[str, Any]:
        hexadecimal = "".join(f"{value:0{_DIGITS}x}" for value in self.blocks.tolist())
        return {"size": self.size, "xxh64": hexadecimal, **({"grows": True} if self.grows else {})}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        size, text, grows = value["size"], value["xxh64"], value.get("grows", False)
        if type(size) is not int or size < 0 or type(text) is not str or type(grows) is not bool:
            raise ValueError("wrong types")
        if len(text) != _DIGITS * -(-size // BLOCK):
            raise ValueError("wrong number of blocks")
        blocks = [int(text[at : at + _DIGITS], 16) for at in range(0, len(text), _DIGITS)]
        return cls(size, np.array(blocks, dtype=np.uint64), grows)


def block_sums(content: bytes | memoryview) -> list[int]:
    """Return the XXH64 of each block of ``content``."""
    view = memoryview(content)
    return [xxh64_intdigest(view[at : at + BLOCK]) for at in range(0, len(view), BLOCK)]


Recorded = dict[str, tuple[FileChecksums, ...]]  # by file name, the newest first; a file has one of these contents


def parse_checksums(content: bytes, path: Path | str) -> Recorded:
    """Read the content of ``checksums.json``, which has a checksum of itself."""
    try:
        found = json.loads(content)
        recorded = {name: tuple(map(FileChecksums.from_json, sums)) for name, sums in found["files"].items()}
        is_whole = found["format"] == _FORMAT and _to_bytes(recorded) == content
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise UserError(f"{path} is damaged; build its folder again. {_WITHOUT}")
    return recorded


def _to_bytes(recorded: Recorded) -> bytes:
    files = {name: [one.to_json() for one in sums] for name, sums in sorted(recorded.items())}
    checksum = xxh64_hexdigest(json.dumps(files).encode())
    return json.dumps({"format": _FORMAT, "block": BLOCK, "checksum": checksum, "files": files}, indent=1).encode() + b"\n"


def seal(folder: Path, grows: Iterable[str] = ()) -> None:
    """Record the checksums of all files of a folder; its sub-folders have their own.

    Args:
        folder: the folder.
        grows: names of files to which lines will be appended.
    """
    files = [path for path in folder.iterdir() if path.is_file() and path.name != CHECKSUMS and PARTIAL not in path.name]
    _write(folder, {path.name: (replace(FileChecksums.of(path), grows=path.name in grows),) for path in files})


def record_checksum(path: Path, content: Path) -> None:
    """Record that the file ``path`` of a sealed folder is about to be replaced by the file ``content``."""
    if (path.parent / CHECKSUMS).exists() and path.name != CHECKSUMS:
        with _locked(path.parent):
            recorded = _read(path.parent)
            recorded[path.name] = (FileChecksums.of(content), *recorded.get(path.name, ())[:1])
            _write(path.parent, recorded)


def remove_file(path: Path) -> None:
    """Delete a file of a folder that may be sealed."""
    if (path.parent / CHECKSUMS).exists():
        with _locked(path.parent):
            recorded = _read(path.parent)
            recorded.pop(path.name, None)
            _write(path.parent, recorded)
    path.unlink(missing_ok=True)


def verify(folder: Path) -> Iterator[tuple[Path, str]]:
    """Check every file of a folder and of its sub-folders against its checksums.

    Yields:
        Every file that was looked at, and what is wrong with it: "" if nothing.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name the folder of a graph, of prepared data, of node features or of a run.")
    found = sorted({path.parent for path in folder.rglob(CHECKSUMS)} | set(_unsealed(folder)))
    if not found:
        raise UserError(f"{folder} has no {CHECKSUMS}: an earlier version wrote it, or another program. Build it again to get one.")
    for place in found:
        try:
            recorded = _read(place)
        except UserError as error:
            yield place / CHECKSUMS, str(error).removeprefix(f"{place / CHECKSUMS} ").removesuffix(".")
            continue
        yield place / CHECKSUMS, ""
        for name, sums in recorded.items():
            yield place / name, _difference(place / name, sums)


def _unsealed(folder: Path) -> Iterator[Path]:
    """Yield the folders in a folder that should have checksums, according to their markers, and have none."""
    for path in folder.rglob("*.json"):
        if path.is_file() and not (path.parent / CHECKSUMS).exists():
            with suppress(OSError, ValueError, RecursionError):
                found = json.loads(path.read_bytes())
                if isinstance(found, dict) and found.get(SEALED) is True:
                    yield path.parent


def _difference(path: Path, expected: tuple[FileChecksums, ...]) -> str:
    if path.is_symlink() or not path.is_file():
        return "is missing" if not path.exists() else "is not a file"
    actual = FileChecksums.of(path)
    for one in expected:
        if one.grows and actual.size > one.size:
            with path.open("rb") as file:
                content = file.read(one.size)
            if block_sums(content) == one.blocks.tolist():
                return ""
        if actual.size == one.size and np.array_equal(actual.blocks, one.blocks):
            return ""
    newest = expected[0]
    if actual.size != newest.size:
        return f"is damaged: {actual.size:,} bytes instead of {newest.size:,}"
    first = int(np.flatnonzero(actual.blocks != newest.blocks)[0])
    return f"is damaged: bytes {first * BLOCK:,} to {min((first + 1) * BLOCK, newest.size):,} have another checksum"


def _read(folder: Path) -> Recorded:
    path = folder / CHECKSUMS
    if path.is_symlink() or not path.is_file():
        raise UserError(f"{path} is {'not a file' if path.exists() else 'missing'}; build its folder again.")
    return parse_checksums(path.read_bytes(), path)


def _write(folder: Path, recorded: Recorded) -> None:
    with replacing(folder / CHECKSUMS) as partial:
        partial.write_bytes(_to_bytes(recorded))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time change the checksums of a folder. The lock is on the folder itself: no file is left behind."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
