"""Results of finished parts, stored beside the output until it is complete."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from xxhash import xxh64_hexdigest

from mhgrn.io.atomic import write_bytes
from mhgrn.io.locks import locked

_DIGITS = 16


class StoredParts:
    """A folder with one file for each finished part: a checksum, then the result.

    Args:
        folder: The folder; created when the first part is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, key: str) -> bool:
        """Whether a part is stored and undamaged."""
        return self._content(key) is not None

    def read(self, key: str) -> bytes:
        """The result of a part that is stored."""
        content = self._content(key)
        if content is None:
            raise OSError(
                0, "the stored part was deleted or damaged while it was in use; run the command again", str(self._path(key))
            )
        return content

    def write(self, key: str, result: bytes) -> None:
        """Store the result of a part, completely or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self._path(key), xxh64_hexdigest(result).encode() + result)

    def remove(self, key: str) -> None:
        """Delete the result of a part that is not needed any more."""
        self._path(key).unlink(missing_ok=True)

    def _content(self, key: str) -> bytes | None:
        with suppress(FileNotFoundError):
            content = self._path(key).read_bytes()
            if xxh64_hexdigest(content[_DIGITS:]).encode() == content[:_DIGITS]:
                return content[_DIGITS:]
        return None

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.part"


@contextmanager
def parts_beside(output: Path | None) -> Iterator[StoredParts]:
    """The stored parts of ``output``, in a folder beside it, which is deleted if the block ends without an error.

    Without an output they are in a temporary folder.
    """
    if output is None:
        with TemporaryDirectory(prefix="mhgrn-parts-") as temporary:
            yield StoredParts(Path(temporary))
        return
    output = output.resolve()
    folder = output.with_name(f".{output.name}.parts")
    busy = f"another process computes {output} on a cluster; wait for it, or name another place."
    with locked(output.with_name(f".{output.name}.parts.lock"), busy=busy):
        yield StoredParts(folder)
        shutil.rmtree(folder, ignore_errors=True)
