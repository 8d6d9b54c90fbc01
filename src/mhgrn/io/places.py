"""Places of other folders that a folder names: found again after both were moved together."""

import os
from collections.abc import Iterator
from pathlib import Path


def relative_place(target: str | Path, folder: Path) -> str | None:
    """Return the path from ``folder`` to ``target``, to be stored beside the absolute path. None if there is none.

    >>> relative_place("/data/graph", Path("/data/runs/one"))
    '../../graph'
    """
    try:
        return Path(os.path.relpath(Path(target).resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive of Windows
        return None


def places(folder: Path, relative: object, absolute: object) -> Iterator[Path]:
    """Yield the places where a stored path may be now and something exists: relative to ``folder``, then the absolute one.

    Args:
        folder: the folder that names the place.
        relative: what :func:`relative_place` returned when it was stored.
        absolute: the absolute path when it was stored.
    """
    found: list[Path] = []
    for base, stored in ((folder, relative), (None, absolute)):
        if not isinstance(stored, str) or not stored or "\0" in stored:
            continue
        place = Path(os.path.normpath(base.resolve() / stored)) if base is not None else Path(stored)
        if os.path.exists(place) and place.resolve() not in found:  # unlike Path.exists, no error for a long name
            found.append(place.resolve())
            yield place
