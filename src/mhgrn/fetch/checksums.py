"""Check files by SHA-256, against published checksums or those recorded at the first download."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mhgrn.errors import UserError
from mhgrn.fetch.http import discard
from mhgrn.io.markers import write_json
from mhgrn.progress import say

RECORD = "sha256.json"


@dataclass(frozen=True)
class Fetched:
    """A file in its place.

    Args:
        path: the file.
        size: its length in bytes.
        sha256: its checksum.
        source: the address or file it comes from.
        checked: what the checksum was compared with: a ``known`` one that this package contains, one ``recorded`` at an earlier
            download, or none (``first seen``).
    """

    path: Path
    size: int
    sha256: str
    source: str
    checked: Literal["known", "recorded", "first seen"]

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "path": str(self.path)}


class Checksums:
    """The checksums recorded in a folder, in the file ``sha256.json``."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RECORD
        self.recorded: dict[str, str] = {}
        if self.path.exists():
            try:
                self.recorded = dict(json.loads(self.path.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as error:
                raise UserError(
                    f"{self.path} is damaged ({error}); delete it to record the checksums of the files beside it again."
                ) from None

    def check(self, found: Path, target: Path, known: str | None, source: str) -> Fetched:
        """Compare the checksum of ``found``, which is ``target`` or will be renamed to it, with the expected one."""
        with found.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            first = file.read(2)
        expected = known or self.recorded.get(target.name)
        if expected is None and target.suffix == ".gz" and first != b"\x1f\x8b":
            raise UserError(f"{source} is not a gzip file, as {target.name} should be; nothing was changed.")
        if expected is not None and sha256 != expected:
            wanted = f"expected {expected}" if known else f"{self.path} records {expected}"
            if found == target:
                advice = "delete it and run the command again"
            else:
                advice = "it was rejected" + ("" if known else f". If the change is intended, delete {target.name} from that list")
            raise UserError(f"{source} has SHA-256 {sha256}, {wanted}; {advice}.")
        if expected is None:
            say(
                f"warning: no checksum of {target.name} is known, so its content is not verified. Its SHA-256 is {sha256}; it is"
                f" recorded in {self.path}, and a later download that differs is refused."
            )
        return Fetched(target, found.stat().st_size, sha256, source, "known" if known else "recorded" if expected else "first seen")

    def check_existing(self, target: Path, known: str | None = None) -> Fetched | None:
        """Check a file that is already in its place. Returns None if there is none."""
        if not target.exists():
            return None
        fetched = self.check(target, target, known, str(target))
        discard(target)
        self.record(fetched)
        return fetched

    def install(self, found: Path, target: Path, known: str | None, source: str) -> Fetched:
        """Check the partial file ``found``, rename it to ``target`` and record its checksum; delete it if the check fails."""
        try:
            fetched = self.check(found, target, known, source)
        except UserError:
            discard(target)
            raise
        found.replace(target)
        discard(target)
        self.record(fetched)
        return fetched

    def record(self, fetched: Fetched) -> None:
        """Add a file's checksum to ``sha256.json``."""
        if self.recorded.get(fetched.path.name) != fetched.sha256:
            self.recorded[fetched.path.name] = fetched.sha256
            write_json(self.path, dict(sorted(self.recorded.items())))
