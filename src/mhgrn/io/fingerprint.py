"""Short SHA-256 fingerprints of values and files."""

import hashlib
import json
from pathlib import Path

import numpy as np


def fingerprint(*parts: object) -> str:
    """Hash ``parts`` to twenty hexadecimal digits.

    Args:
        parts: bytes, numpy arrays (hashed with their type and shape), or values that JSON can hold.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
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
    """Hash the bytes of a file to twenty hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:20]
