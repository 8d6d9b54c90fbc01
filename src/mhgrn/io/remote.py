"""Folders at URLs: ``s3://``, ``gs://``, ``http://``, ``https://``, ``file://`` and ``memory://``.

A folder at a URL is fetched once into the user's cache folder and used there like any other folder. Each version of its content
has a place of its own in the cache::

    CACHE/fetched/KEY/origin.json   the URL
    CACHE/fetched/KEY/NAME/         the folder, complete and verified
"""

import json
import os
import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.cache import user_cache

SCHEMES = ("s3", "gs", "http", "https", "file", "memory")
FETCHED = "fetched"
ORIGIN = "origin.json"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)(.*)", re.DOTALL)
_SUPPORTED = "use a folder of this machine, s3://, gs://, http://, https:// or file://"


def url_of(folder: str | PathLike[str]) -> str | None:
    """Return the URL that an argument names, normalized; None if it is a path.

    A :class:`~pathlib.Path` has one slash where the URL has two.

    >>> url_of("s3://bucket/graph/"), url_of(Path("s3://bucket/graph")), url_of("data/graph")
    ('s3://bucket/graph', 's3://bucket/graph', None)
    """
    match = _URL.fullmatch(os.fspath(folder))
    if match is None:
        return None
    scheme, slashes, rest = match[1].lower(), match[2], match[3]
    shown = f"{match[1]}://{rest}"[:200]
    if scheme not in SCHEMES:
        if len(slashes) == 1:
            return None  # a path
        raise UserError(f"{shown}: {scheme}:// is not supported; {_SUPPORTED}.")
    if scheme in ("http", "https"):
        if "@" in rest.split("/")[0]:
            raise UserError(f"a URL of {scheme} has a user name or a password, which would be stored; use a URL without them.")
        if "?" in rest or "#" in rest:
            raise UserError(f"{shown}: the URL of a folder has no ? and no #.")
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in rest:
        raise UserError(f"{shown} names no folder; write for example s3://bucket/folder.")
    return f"{scheme}://{'/' * (scheme == 'file')}{'/'.join(parts)}"


def joined(url: str, relative: str) -> str | None:
    """Return the URL of a path relative to a folder at a URL. None if it leads to another bucket or server.

    >>> joined("s3://bucket/runs/one", "../../graph"), joined("s3://bucket/run", "../../other/graph")
    ('s3://bucket/graph', None)
    """
    scheme, rest = url.split("://", 1)
    floor = 0 if scheme in ("file", "memory") else 1  # the bucket or server
    parts = rest.strip("/").split("/")
    for part in relative.split("/"):
        if part == "..":
            if len(parts) <= floor:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return f"{scheme}://{'/' * (scheme == 'file')}{'/'.join(parts)}" if len(parts) > floor else None


def local_folder(folder: str | PathLike[str]) -> Path:
    """Return the folder on this machine that a path or a URL names. A folder at a URL is fetched, unless the cache has it."""
    url = url_of(folder)
    if url is None:
        return Path(folder)
    from mhgrn.io.transfer import fetch

    return fetch(url)


def origin_of(folder: Path) -> str | None:
    """Return the URL from which a folder was fetched, or a folder inside such a folder; None for all others."""
    root = (user_cache() / FETCHED).resolve()
    try:
        key, _, *inside = folder.resolve().relative_to(root).parts
    except ValueError:
        return None
    url = _stored_url(root / key)
    return None if url is None else "/".join([url, *inside])


def place_of(folder: Path) -> str:
    """Return the place of a folder as other folders store it: its URL if it was fetched, otherwise its absolute path."""
    return origin_of(folder) or str(folder.absolute())


def cached_versions(url: str) -> Iterator[Path]:
    """Yield the folders in the cache that were fetched from a URL. The network is not used."""
    root = user_cache() / FETCHED
    for entry in sorted(root.iterdir()) if root.is_dir() else ():
        if _stored_url(entry) == url and (place := entry / name_of(url)).is_dir():
            yield place


def name_of(url: str) -> str:
    """Return the name of the folder at a URL."""
    return url.rsplit("/", 1)[1]


def _stored_url(entry: Path) -> str | None:
    try:
        about = json.loads((entry / ORIGIN).read_bytes())
        return url_of(about["url"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, UserError):
        return None


def refuse_url(target: str | PathLike[str]) -> None:
    """Raise a :class:`UserError` if a place to write to is a URL."""
    if (url := url_of(target)) is not None:
        raise UserError(f"{url}: nothing is written to URLs; write to a folder of this machine, then upload it.")


def refuse_fetched(folder: Path, what: str) -> None:
    """Raise a :class:`UserError` if a folder was fetched from a URL: what is stored in it would be lost.

    Args:
        folder: the folder to write to.
        what: what would be stored, for the message.
    """
    if (url := origin_of(folder)) is not None:
        raise UserError(f"{what} cannot be stored at {url}; copy the folder to this machine and name the copy.")
