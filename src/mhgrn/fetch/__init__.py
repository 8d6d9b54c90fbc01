"""Data sets from where they are published, from a mirror or from a local copy, checked by SHA-256."""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import yaml

from mhgrn.errors import UserError, did_you_mean
from mhgrn.fetch.http import CHUNK, NoAnswer, download, forget, partial_of
from mhgrn.io.markers import write_json
from mhgrn.progress import bar

RECORD = "sha256.json"
DATA_SETS = ("conceptnet", "commonsenseqa", "openbookqa", "conceptnet-subset")


@dataclass(frozen=True)
class File:
    """A published file. ``members`` are what is unpacked from an archive, each with its checksum."""

    url: str
    sha256: str | None = None
    members: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Fetched:
    """A file in its place. ``checked``: against the checksum this package carries, one recorded before, or none yet."""

    path: Path
    size: int
    sha256: str
    source: str
    checked: Literal["known", "recorded", "first seen"]

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "path": str(self.path)}


def sources() -> dict[str, Any]:
    """The addresses, packages and checksums of ``sources.yaml``."""
    found: dict[str, Any] = yaml.safe_load(resources.files("mhgrn.fetch").joinpath("sources.yaml").read_text(encoding="utf-8"))
    return found


def files_of(what: str, release: str | None = None) -> list[File]:
    """The published files of a data set.

    >>> [file.name for file in files_of("conceptnet")]
    ['conceptnet-assertions-5.6.0.csv.gz']
    """
    if what not in DATA_SETS:
        raise UserError(f"unknown data set {what!r}.{did_you_mean(what, DATA_SETS)}")
    entry = sources()[what]
    releases = entry.get("releases", {})
    if release is not None and release not in releases:
        advice = did_you_mean(release, releases) if releases else " Leave out --release."
        raise UserError(f"{what} has no release {release!r}.{advice}")
    rows = releases[release or entry["default"]] if releases else entry.get("files", [])
    return [File(row["url"], row.get("sha256"), tuple(row.get("members", {}).items())) for row in rows]


def fetch(
    what: str,
    to: str | Path | None = None,
    mirror: str | Path | None = None,
    release: str | None = None,
    extra: Sequence[str] = (),
) -> list[Fetched]:
    """Bring the files of a data set into the folder ``to`` (unset: one of its name); what is there already is only checked.

    ``mirror`` is another address, a folder or a file to take them from. ``release`` is one of ConceptNet's. ``extra`` may name
    ``wordnet``, to go with ``conceptnet-subset``. A download that was cut off is gone on with.
    """
    files = files_of(what, release)
    if extra and what != "conceptnet-subset":
        raise UserError(f"nothing goes with {what}; {extra[0]} goes with conceptnet-subset.")
    place = _Place(mirror, files)
    with _locked(Path(to or what)) as folder:
        record = Record(folder)
        if what == "conceptnet-subset":
            from mhgrn.fetch.subset import fetch_subset

            return fetch_subset(folder, record, place.local(), extra)
        try:
            return [fetched for file in files for fetched in (_archive if file.members else _file)(file, folder, record, place)]
        except NoAnswer as error:
            raise UserError(f"{error}. {_by_hand(files, folder)}") from None


class Record:
    """The checksums of a folder's files, as they were when each came in."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RECORD
        self.sums: dict[str, str] = {}
        if self.path.exists():
            try:
                self.sums = dict(json.loads(self.path.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as error:
                raise UserError(
                    f"{self.path} is damaged ({error}); delete it, and the files beside it are taken as they are."
                ) from None

    def check(self, found: Path, target: Path, known: str | None, source: str) -> Fetched:
        """Compare ``found``, which is or is to become ``target``, with the checksum that target should have."""
        with found.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            first = file.read(2)
        expected = known or self.sums.get(target.name)
        if expected is None and target.suffix == ".gz" and first != b"\x1f\x8b":
            raise UserError(f"{source} is no gzip file, as {target.name} should be; nothing was changed.")
        if expected is not None and sha256 != expected:
            told = "it should have" if known else f"{self.path} says"
            if found == target:
                advice = "delete it and run the command again"
            else:
                advice = "it was not taken" + ("" if known else f". If the change is meant, delete {target.name} from that list")
            raise UserError(f"{source} has SHA-256 {sha256}, {told} {expected}; {advice}.")
        return Fetched(target, found.stat().st_size, sha256, source, "known" if known else "recorded" if expected else "first seen")

    def add(self, fetched: Fetched) -> None:
        if self.sums.get(fetched.path.name) != fetched.sha256:
            self.sums[fetched.path.name] = fetched.sha256
            write_json(self.path, dict(sorted(self.sums.items())))

    def in_place(self, target: Path, known: str | None = None) -> Fetched | None:
        """A file that is there already, checked; None if there is none."""
        if not target.exists():
            return None
        fetched = self.check(target, target, known, str(target))
        forget(target)
        self.add(fetched)
        return fetched


class _Place:
    """Where files are taken from: their own addresses, another address, a local folder, or one local file."""

    def __init__(self, mirror: str | Path | None, files: list[File]) -> None:
        self.base = str(mirror).rstrip("/") if str(mirror).startswith(("http://", "https://")) else None
        self.path = Path(mirror) if mirror is not None and self.base is None else None
        if self.path is not None and not self.path.exists():
            raise UserError(f"--mirror {mirror} is neither an address (http://…, https://…) nor a folder or file that exists.")
        names = [file.name for file in files]
        if self.path is not None and self.path.is_file() and names not in ([], [self.path.name]):
            raise UserError(f"--mirror {mirror} is a file, not {names[0]}; name the folder that holds {', '.join(names)}.")

    def local(self) -> Path | None:
        """The local folder or file, where only that will do."""
        if self.base is not None:
            raise UserError(
                f"--mirror {self.base}: this comes through npm, which knows its own mirrors; name a folder of packages."
            )
        return self.path

    def find(self, name: str) -> Path | None:
        """A file of the local copy."""
        if self.path is None or self.path.is_file():
            return self.path
        return path if (path := self.path / name).is_file() else None

    def bring(self, file: File, target: Path) -> tuple[Path, str]:
        """The file, gathered beside ``target``, and where it comes from."""
        if self.path is not None:
            if (path := self.find(file.name)) is None:
                raise NoAnswer(f"{self.path} holds no {file.name}")
            with path.open("rb") as stream:
                return write_stream(stream, target, path.stat().st_size), str(path)
        url = f"{self.base}/{file.name}" if self.base else file.url
        return download(url, target), url


def write_stream(stream: BinaryIO, target: Path, size: int) -> Path:
    """Copy a stream beside ``target``."""
    forget(target)
    partial = partial_of(target)
    done = 0
    try:
        with partial.open("wb") as file, bar(target.name, size) as advance:
            while chunk := stream.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                advance(done)
    except BaseException as error:
        forget(target)
        if isinstance(error, OSError):
            error.filename = error.filename or str(partial)
        raise
    return partial


def take(found: Path, target: Path, known: str | None, record: Record, source: str) -> Fetched:
    """Check what was gathered beside ``target`` and put it in its place; what does not fit is removed."""
    try:
        fetched = record.check(found, target, known, source)
    except UserError:
        forget(target)
        raise
    found.replace(target)
    forget(target)
    record.add(fetched)
    return fetched


def _file(file: File, folder: Path, record: Record, place: _Place) -> list[Fetched]:
    target = folder / file.name
    if fetched := record.in_place(target, file.sha256):
        return [fetched]
    found, source = place.bring(file, target)
    return [take(found, target, file.sha256, record, source)]


def _archive(file: File, folder: Path, record: Record, place: _Place) -> list[Fetched]:
    """Unpack an archive's members by their last names; a local copy may hold them unpacked."""
    known = {folder / Path(member).name: sha256 for member, sha256 in file.members}
    there = [record.in_place(target, sha256) for target, sha256 in known.items()]
    missing = [target for target, fetched in zip(known, there, strict=True) if fetched is None]
    copies = {target: place.find(target.name) for target in missing}
    done = [fetched for fetched in there if fetched]
    if not missing or (place.find(file.name) is None and all(copies.values())):
        for target, copy in copies.items():
            with cast(Path, copy).open("rb") as stream:
                found = write_stream(stream, target, cast(Path, copy).stat().st_size)
            done.append(take(found, target, known[target], record, str(copy)))
        return done
    archive = folder / file.name
    found, source = (archive, str(archive)) if archive.exists() else place.bring(file, archive)
    try:
        whole = record.check(found, archive, file.sha256, source)
        with zipfile.ZipFile(found) as opened:
            for member, sha256 in file.members:
                if (target := folder / Path(member).name) in missing:
                    with opened.open(member) as stream:
                        part = write_stream(cast(BinaryIO, stream), target, opened.getinfo(member).file_size)
                    done.append(take(part, target, sha256, record, f"{source}:{member}"))
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        forget(archive)
        advice = " Delete it and run the command again." if found == archive else ""
        raise UserError(
            f"{source} is damaged or not the archive it should be ({error}); nothing was taken from it.{advice}"
        ) from None
    except UserError:
        forget(archive)
        raise
    if found != archive:
        found.replace(archive)
        forget(archive)
    record.add(whole)  # only now that its contents were found to be right
    return done


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """The folder, made if need be, for one command at a time; what was made for nothing is removed again."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; name a folder to write to.")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _lock(folder):
            yield folder
    finally:
        with suppress(OSError):  # not empty
            for path in made:
                path.rmdir()


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # not on this system
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another command is fetching into {folder}; wait for it, or name another folder with --to.") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


def _by_hand(files: list[File], folder: Path) -> str:
    def is_there(file: File) -> bool:
        return all((folder / Path(member).name).exists() for member, _ in file.members or ((file.name, ""),))

    rows = "".join(f"\n  {file.name} from {file.url}" for file in files if not is_there(file))
    return (
        f"Put what is missing into the folder {folder} and run the command again, or name a folder that holds it, or another"
        f" address, with --mirror:{rows}"
    )
