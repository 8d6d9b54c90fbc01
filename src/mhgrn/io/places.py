"""Places of other folders that a folder names: found again after both were moved together, on this machine or to a URL."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from mhgrn.io.remote import cached_versions, joined, local_folder, origin_of, url_of
from mhgrn.printing import shown

LONGEST = 200  # characters of a place in a message


def relative_place(target: str | Path, folder: Path) -> str | None:
    """Return the path from ``folder`` to ``target``, to be stored beside the absolute path. None if there is none.

    >>> relative_place("/data/graph", Path("/data/runs/one"))
    '../../graph'
    """
    if origin_of(Path(target)) is not None:
        return None  # a place in the cache has nothing to do with the folder's
    try:
        return Path(os.path.relpath(Path(target).resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive of Windows
        return None


def places(folder: Path, relative: object, absolute: object) -> Iterator[Path]:
    """Yield the places where a stored path may be now and something exists: relative to ``folder``, then the absolute one.

    What was beside a folder that was fetched from a URL is fetched too. A URL that is stored as the absolute place is only looked
    for in the cache: no server is asked because a file names it.

    Args:
        folder: the folder that names the place.
        relative: what :func:`relative_place` returned when it was stored.
        absolute: the absolute path or the URL when it was stored.
    """
    found: list[Path] = []
    for place in chain(_beside(folder, relative), _at(absolute)):
        if os.path.exists(place) and place.resolve() not in found:  # unlike Path.exists, no error for a long name
            found.append(place.resolve())
            yield place


def _beside(folder: Path, relative: object) -> Iterator[Path]:
    if not isinstance(relative, str) or not relative or "\0" in relative:
        return
    place = Path(os.path.normpath(folder.resolve() / relative))
    url = origin_of(folder)
    if url is None or (place.is_relative_to(folder.resolve()) and os.path.exists(place)):
        yield place
    elif (other := joined(url, relative)) is not None:
        from mhgrn.io.transfer import Missing

        with suppress(Missing):
            yield local_folder(other)


def _at(absolute: object) -> Iterator[Path]:
    if not isinstance(absolute, str) or not absolute or "\0" in absolute:
        return
    url = url_of(absolute)
    yield from [Path(absolute)] if url is None else cached_versions(url)


def whereabouts(stored: str) -> str:
    """Say that a stored place is of no use, for a message.

    >>> whereabouts("/data/graph")
    '/data/graph, which does not exist'
    """
    is_url = url_of(stored) is not None
    return f"{shown(stored, LONGEST)}, which {'is not in the cache' if is_url else 'does not exist'}"
