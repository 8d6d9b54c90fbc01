"""Short SHA-256 fingerprints of values and files."""

import hashlib
import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_PIECE = 1 << 20  # bytes read at once


def fingerprint(*parts: object) -> str:
    """Hash ``parts`` to twenty hexadecimal digits.

    Args:
        parts: bytes, numpy arrays (hashed with their type and shape), the paths of arrays in ``.npy`` files (hashed as the arrays
            are, without loading them whole), or values that JSON can hold.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data.cast("B") if part.size else b"")
        elif isinstance(part, Path):
            with part.open("rb") as file:
                shape, dtype = _header(file)
                digest.update(f"{dtype.str}{shape}".encode())
                while piece := file.read(_PIECE):
                    digest.update(piece)
        elif isinstance(part, bytes):
            digest.update(part)
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:20]


def array_length(array: NDArray[Any] | Path) -> int:
    """Return the number of rows of an array, or of one in a ``.npy`` file."""
    if not isinstance(array, Path):
        return len(array)
    with array.open("rb") as file:
        return int(_header(file)[0][0])


def _header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype


def file_fingerprint(path: Path) -> str:
    """Hash the bytes of a file to twenty hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:20]
