"""Results of single questions in a file, so that an interrupted measurement resumes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mhgrn.io.atomic import append_text
from mhgrn.progress import say


class Store:
    """Values by name. Each is appended to a file of JSON lines, and read from it if it was computed before.

    Args:
        path: The file; None keeps nothing.
        identity: Of the measurement. A file of another one is replaced.
    """

    def __init__(self, path: Path | None, identity: str) -> None:
        self.path = path
        self._known: dict[str, Any] = {}
        if path is None or not path.is_file():
            self._begin(identity)
            return
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if _parsed(lines[0] if lines else "") != {"measurement": identity}:
            path.unlink()
            self._begin(identity)
            return
        for line in lines[1:]:
            if isinstance(entry := _parsed(line), dict) and "name" in entry and "value" in entry:  # the last line may be cut
                self._known[entry["name"]] = entry["value"]
        if self._known:
            say(f"resuming: {len(self._known):,} results of {path} are used again.")

    def _begin(self, identity: str) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            append_text(self.path, json.dumps({"measurement": identity}) + "\n")

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __getitem__(self, name: str) -> Any:
        return self._known[name]

    def add_all(self, values: Mapping[str, Any]) -> None:
        self._known |= values
        if self.path is not None:
            append_text(self.path, "".join(json.dumps({"name": name, "value": value}) + "\n" for name, value in values.items()))

    def remove(self) -> None:
        """Delete the file after the result was written."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
