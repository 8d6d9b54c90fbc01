"""JSON files, and the marker file that says what kind of folder it is in."""

import json
from pathlib import Path
from typing import Any

from mhgrn.io.atomic import write_bytes
from mhgrn.io.checksums import CHECKSUMS, SEALED
from mhgrn.io.replacing import PARTIAL
from mhgrn.io.stored import read_folder


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as JSON, completely or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))  # a lone surrogate, as in file names, becomes a JSON escape


def write_marker(path: Path, about: dict[str, Any]) -> None:
    """Write the marker of a folder. If the folder has checksums or will have them, it says so: without them it is damaged."""
    is_sealed = PARTIAL in path.parent.name or (path.parent / CHECKSUMS).exists()
    write_json(path, about | ({SEALED: True} if is_sealed else {}))


def read_marker(folder: Path, marker: str, kind: str, version: int, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read the JSON object in ``folder/marker`` and check its format.

    Args:
        folder: the folder to open.
        marker: the name of the marker file.
        kind: what the folder should be, for messages: "knowledge graph".
        version: the format that this version of the package reads.
        keys: keys that the object must have.
    """
    return read_folder(folder, marker, kind, version, lambda stored: stored.about, dict.fromkeys(keys, object))
