"""Folders of mhgrn in object storage, for tests."""

from collections.abc import Mapping
from pathlib import Path

import fsspec

from mhgrn.io.cache import user_cache
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_marker


def sealed(folder: Path, files: Mapping[str, bytes]) -> Path:
    """A complete folder with a marker, these files and checksums."""
    with new_folder(folder, "marker.json") as partial:
        for name, content in files.items():
            (partial / name).write_bytes(content)
        write_marker(partial / "marker.json", {"format": 1})
    return folder


def upload(folder: Path, url: str) -> str:
    """Copy all files of a folder, and of its sub-folders, to a URL."""
    files, root = fsspec.core.url_to_fs(url)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files.pipe_file(f"{root}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return url


def separate_cache(folder: Path) -> Path:
    """A new cache folder, with the compiled kernels of the user's: they are not compiled again."""
    folder.mkdir(parents=True)
    if (kernels := user_cache() / "kernels").is_dir():
        (folder / "kernels").symlink_to(kernels.resolve())
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder and of its sub-folders."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
