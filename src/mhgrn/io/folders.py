"""Folders that are complete or absent: filled beside their place, then renamed."""

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.atomic import PARTIAL, partial_suffix

OLD = f".old{PARTIAL}"  # a folder that is being replaced, where two folders cannot be exchanged in one step


@contextmanager
def new_folder(target: Path, marker: str, holds: Sequence[str] | None = None, keep: Sequence[str] = ()) -> Iterator[Path]:
    """Yield an empty folder to fill. It replaces ``target`` when the block ends and is deleted if the block fails.

    Args:
        target: the folder to create or replace.
        marker: see :func:`check_replaceable`.
        holds: see :func:`check_replaceable`.
        keep: names in the old folder that move to the new one.
    """
    partial = begin_folder(target, marker, holds)
    try:
        yield partial
        replace_folder(partial, target, keep)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def begin_folder(target: Path, marker: str, holds: Sequence[str] | None = None) -> Path:
    """Create an empty folder beside ``target``; :func:`replace_folder` puts it in place once it is filled."""
    target = check_replaceable(target, marker, holds)
    target.parent.mkdir(parents=True, exist_ok=True)
    _clean_up_after_killed_processes(target)
    partial = target.parent / f".{target.name}{PARTIAL}{partial_suffix()}"
    partial.mkdir()
    return partial


def replace_folder(partial: Path, target: Path, keep: Sequence[str] = ()) -> None:
    """Rename ``partial`` to ``target`` and only then delete the old folder, except the names in ``keep``, which move along."""
    target = target.resolve()
    if not target.exists():
        partial.rename(target)
        return
    old = partial
    if not _exchange(partial, target):
        old = target.parent / f".{target.name}{OLD}{partial_suffix()}"
        target.rename(old)
        try:
            partial.rename(target)
        except BaseException:
            old.rename(target)
            raise
    for name in keep:
        if (old / name).exists():
            (old / name).rename(target / name)
    shutil.rmtree(old)


def check_replaceable(target: Path, marker: str, holds: Sequence[str] | None = None) -> Path:
    """Raise a :class:`UserError` unless ``target`` can be created or replaced. Call it before long work, not after it.

    Only an empty folder or a folder of the same kind is ever replaced.

    Args:
        target: the folder to write.
        marker: the JSON file, an object with the key ``format``, by which a folder of this kind is recognized.
        holds: what else such a folder may contain: names or patterns such as ``*.npy``. Any other file stops the replacement,
            because it would be deleted too. None allows every file.

    Returns:
        ``target`` with symbolic links resolved.
    """
    target = target.resolve()
    if target.exists() and not target.is_dir():
        raise UserError(f"{target} is {'a file' if target.is_file() else 'not a folder'}; name a folder to write to.")
    if target.is_mount():
        raise UserError(f"{target} is a mount point and cannot be replaced; name a folder inside it.")
    parent = next(folder for folder in target.parents if folder.exists())
    if not os.access(parent, os.W_OK):
        raise UserError(f"{parent} is not writable; name another folder.")
    if target.is_dir() and any(target.iterdir()):
        if not (target / marker).is_file():
            raise UserError(f"{target} exists and contains other files (no {marker}); name another folder.")
        if not _is_marker(target / marker):
            raise UserError(f"{target} exists and contains other files (its {marker} is not mhgrn's); name another folder.")
        ours = ["*"] if holds is None else [marker, *holds]
        names = [path.name for path in target.iterdir() if PARTIAL not in path.name]  # a killed process may leave partial files
        others = [name for name in names if not any(fnmatch(name, pattern) for pattern in ours)]
        if others:
            raise UserError(f"{target} also contains other files ({min(others)}), which would be lost; name another folder.")
    return target


def _is_marker(path: Path) -> bool:
    """Whether a file with a marker's name is one. A damaged one counts: its folder is rebuilt."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return True
    return isinstance(found, dict) and "format" in found


def _clean_up_after_killed_processes(target: Path) -> None:
    """Delete partial folders that killed processes left beside ``target``; move back a folder that one had moved away."""
    for left in target.parent.iterdir():
        for prefix, was_target in ((f".{target.name}{PARTIAL}", False), (f".{target.name}{OLD}", True)):
            process = left.name.rpartition("-")[2]
            if not process.isdigit() or left.name != f"{prefix}{partial_suffix(int(process))}":
                continue
            if int(process) != os.getpid() and _is_alive(int(process)):
                continue
            if was_target and not target.exists():
                left.rename(target)
            else:
                shutil.rmtree(left, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, so that neither is ever missing. Returns False where the system cannot do that."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    current_folder, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(current_folder, os.fsencode(one), current_folder, os.fsencode(other), exchange) == 0
