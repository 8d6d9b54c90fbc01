"""JSON files, and the marker file that says what kind of folder it is in."""

import json
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.io.atomic import PARTIAL, write_bytes


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as JSON, completely or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))  # a lone surrogate, as in file names, becomes a JSON escape


def read_marker(folder: Path, marker: str, kind: str, version: int, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read the JSON object in ``folder/marker`` and check its format.

    Args:
        folder: the folder to open.
        marker: the name of the marker file.
        kind: what the folder should be, for messages: "knowledge graph".
        version: the format that this version of the package reads.
        keys: keys that the object must have.
    """
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
