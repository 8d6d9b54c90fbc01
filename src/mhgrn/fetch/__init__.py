"""Download datasets from their publishers, a mirror or a local copy, and verify their SHA-256."""

import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, cast

from mhgrn.errors import UserError
from mhgrn.fetch.checksums import Checksums, Fetched
from mhgrn.fetch.http import Unavailable, discard
from mhgrn.fetch.origin import Origin, copy_file, copy_stream
from mhgrn.fetch.sources import File, files_of
from mhgrn.io.locks import locked


def fetch(
    dataset: str,
    to: str | Path | None = None,
    mirror: str | Path | None = None,
    release: str | None = None,
    extra: Sequence[str] = (),
) -> list[Fetched]:
    """Download a dataset, verify its SHA-256 and resume partial downloads. Existing files are only verified.

    Args:
        dataset: a name in :data:`mhgrn.fetch.sources.DATASETS`.
        to: the folder to write to; by default a folder with the dataset's name.
        mirror: another address, a folder or a file to take the files from.
        release: a release of ConceptNet.
        extra: ``["wordnet"]`` adds WordNet to ``conceptnet-subset``.
    """
    files = files_of(dataset, release)
    if extra and dataset != "conceptnet-subset":
        raise UserError(f"{dataset} has no additions; {extra[0]} goes with conceptnet-subset.")
    origin = Origin(mirror, files)
    with _locked_folder(Path(to or dataset)) as folder:
        checksums = Checksums(folder)
        if dataset == "conceptnet-subset":
            from mhgrn.fetch.subset import fetch_subset

            return fetch_subset(folder, checksums, origin.local(), extra)
        try:
            return [
                fetched
                for file in files
                for fetched in (_fetch_archive if file.members else _fetch_file)(file, folder, checksums, origin)
            ]
        except Unavailable as error:
            raise UserError(f"{error}. {_manual_download(files, folder)}") from None


def _fetch_file(file: File, folder: Path, checksums: Checksums, origin: Origin) -> list[Fetched]:
    target = folder / file.name
    if fetched := checksums.check_existing(target, file.sha256):
        return [fetched]
    found, source = origin.get(file, target)
    return [checksums.install(found, target, file.sha256, source)]


def _fetch_archive(file: File, folder: Path, checksums: Checksums, origin: Origin) -> list[Fetched]:
    """Unpack an archive's members without their folders. A local copy may hold them unpacked."""
    known = {folder / Path(member).name: sha256 for member, sha256 in file.members}
    existing = [checksums.check_existing(target, sha256) for target, sha256 in known.items()]
    missing = [target for target, fetched in zip(known, existing, strict=True) if fetched is None]
    copies = {target: path for target in missing if (path := origin.find(target.name))}
    done = [fetched for fetched in existing if fetched]
    if not missing or (origin.find(file.name) is None and len(copies) == len(missing)):
        for target, path in copies.items():
            done.append(checksums.install(copy_file(path, target), target, known[target], str(path)))
        return done
    archive = folder / file.name
    found, source = (archive, str(archive)) if archive.exists() else origin.get(file, archive)
    try:
        whole = checksums.check(found, archive, file.sha256, source)
        with zipfile.ZipFile(found) as opened:
            for member, sha256 in file.members:
                if (target := folder / Path(member).name) in missing:
                    with opened.open(member) as stream:
                        part = copy_stream(cast(BinaryIO, stream), target, opened.getinfo(member).file_size)
                    done.append(checksums.install(part, target, sha256, f"{source}:{member}"))
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError, RuntimeError) as error:
        discard(archive)
        advice = " Delete it and run the command again." if found == archive else ""
        raise UserError(f"{source} is damaged or the wrong archive ({error}); nothing was unpacked.{advice}") from None
    except UserError:
        discard(archive)
        raise
    if found != archive:
        found.replace(archive)
        discard(archive)
    checksums.record(whole)  # only after its members were verified
    return done


@contextmanager
def _locked_folder(folder: Path) -> Iterator[Path]:
    """Create and lock the folder; remove it again if it stays empty."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; name a folder to write to.")
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    busy = f"another command is fetching into {folder}; wait for it, or name another folder with --to."
    try:
        # A read-only folder can only be verified, which needs no lock.
        with locked(folder / ".fetch.lock", busy=busy) if os.access(folder, os.W_OK) else nullcontext():
            yield folder
    finally:
        with suppress(OSError):  # not empty
            for path in created:
                path.rmdir()


def _manual_download(files: list[File], folder: Path) -> str:
    def exists(file: File) -> bool:
        return all((folder / Path(member).name).exists() for member, _ in file.members or ((file.name, ""),))

    rows = "".join(f"\n  {file.name} from {file.url}" for file in files if not exists(file))
    return (
        f"Put the missing files into the folder {folder} and run the command again, or name a folder that holds them, or another"
        f" address, with --mirror:{rows}"
    )
