"""Folders that are complete or absent: filled beside their place, sealed with checksums, flushed to the disk, then renamed."""

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.checksums import CHECKSUMS, seal
from mhgrn.io.remote import refuse_url
from mhgrn.io.replacing import PARTIAL, flush, partial_name

OLD = ".old"  # in the name of a folder that is being replaced, where two folders cannot be exchanged in one step
STAGES = ".stages"  # in the name of the folder of unfinished work, see mhgrn.io.stages
_held: dict[Path, int] = {}  # descriptors of the partial folders of this process; each has a lock


@contextmanager
def new_folder(target: Path, marker: str, holds: Sequence[str] | None = None, keep: Sequence[str] = ()) -> Iterator[Path]:
    """Yield an empty folder to fill. It replaces ``target`` when the block ends and is deleted if the block fails.

    Args:
        target: the folder to create or replace.
        marker: see :func:`check_replaceable`.
        holds: see :func:`check_replaceable`.
        keep: names of sub-folders of the old folder that the new one takes over.
    """
    partial = begin_folder(target, marker, holds)
    try:
        yield partial
        replace_folder(partial, target, keep)
    finally:
        delete_partial(partial)


def begin_folder(target: Path, marker: str, holds: Sequence[str] | None = None) -> Path:
    """Create an empty folder beside ``target``; :func:`replace_folder` puts it in place once it is filled.

    The process holds a lock on the folder, by which other processes, also those of other containers, know that it is in use.
    """
    target = check_replaceable(target, marker, holds)
    target.parent.mkdir(parents=True, exist_ok=True)
    _clean_up_after_killed_processes(target)
    while True:
        partial = target.parent / partial_name(target)
        partial.mkdir()
        descriptor = lock_folder(partial)
        if descriptor is not None:
            _held[partial] = descriptor
        if partial.exists():
            return partial
        _release(partial)  # another process cleaned up before it was locked


def delete_partial(partial: Path) -> None:
    """Delete a partial folder, if it is still there, and release its lock."""
    shutil.rmtree(partial, ignore_errors=True)
    _release(partial)


def replace_folder(partial: Path, target: Path, keep: Sequence[str] = (), grows: Sequence[str] = ()) -> None:
    """Rename ``partial`` to ``target`` and only then delete the old folder.

    Args:
        partial: the filled folder, of :func:`begin_folder`.
        target: the folder to create or replace.
        keep: names of sub-folders of the old folder that the new one takes over.
        grows: names of files to which lines will be appended.
    """
    target = target.resolve()
    for name in keep:
        if (target / name).is_dir():
            shutil.copytree(target / name, partial / name, copy_function=link)  # both folders have them when they are exchanged
    seal(partial, grows)
    for path in partial.rglob("*"):
        flush(path)
    flush(partial)
    old = _put_in_place(partial, target)
    flush(target.parent)
    _release(partial)
    if old is not None:
        for name in keep:  # what another process has added meanwhile
            for path in (old / name).iterdir() if (old / name).is_dir() else ():
                if not (target / name / path.name).exists():
                    path.rename(target / name / path.name)
        shutil.rmtree(old, ignore_errors=True)


def _put_in_place(partial: Path, target: Path) -> Path | None:
    """Rename ``partial`` to ``target``. Returns the place of the folder that was there before."""
    while True:
        try:
            partial.rename(target)
            return None
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if _exchange(partial, target):
            return partial
        old = target.parent / partial_name(target).replace(PARTIAL, OLD + PARTIAL)
        descriptor = lock_folder(target)  # so that no other process takes it for the folder of a killed one
        try:
            target.rename(old)
            try:
                partial.rename(target)
            except BaseException:
                old.rename(target)
                raise
            return old
        finally:
            if descriptor is not None:
                os.close(descriptor)


def link(source: str, target: str) -> None:
    """Give a file a second name; copy it where that is not possible."""
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def check_replaceable(target: Path, marker: str, holds: Sequence[str] | None = None, force: bool = True) -> Path:
    """Raise a :class:`UserError` unless ``target`` can be created or replaced. Call it before long work, not after it.

    Only an empty folder or a folder of the same kind is ever replaced.

    Args:
        target: the folder to write.
        marker: the JSON file, an object with the key ``format``, by which a folder of this kind is recognized.
        holds: what else such a folder may contain: names or patterns such as ``*.npy``. Any other file stops the replacement,
            because it would be deleted too. None allows every file.
        force: replace a folder of the same kind. False refuses, unless the folder is empty.

    Returns:
        ``target`` with symbolic links resolved.
    """
    refuse_url(target)
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
        ours = ["*"] if holds is None else [marker, CHECKSUMS, *holds]
        names = [path.name for path in target.iterdir() if PARTIAL not in path.name]  # a killed process may leave partial files
        others = [name for name in names if not any(fnmatch(name, pattern) for pattern in ours)]
        if others:
            raise UserError(f"{target} also contains other files ({min(others)}), which would be lost; name another folder.")
        if not force:
            raise UserError(f"{target} exists; name another folder, or replace it with --force.")
    return target


def _is_marker(path: Path) -> bool:
    """Whether a file with a marker's name is one. A damaged one counts: its folder is rebuilt."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return True
    return isinstance(found, dict) and "format" in found


def _clean_up_after_killed_processes(target: Path) -> None:
    """Delete partial folders that killed processes left beside ``target``; move back a folder that one had moved away."""
    for left in target.parent.iterdir():
        was_target = left.name.startswith(f".{target.name}{OLD}{PARTIAL}")
        is_unfinished = left.name == f".{target.name}{STAGES}"  # of another command, since this one would have a lock on it
        if not was_target and not is_unfinished and not left.name.startswith(f".{target.name}{PARTIAL}"):
            continue
        with suppress(OSError):  # another process may clean up at the same time
            descriptor = lock_folder(left, wait=False)
            if descriptor is None:
                continue  # in use
            try:
                if was_target and not target.exists():
                    left.rename(target)
                else:
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
    unfinished = target.parent / f".{target.name}{STAGES}"
    if not unfinished.exists():
        unfinished.with_name(f"{unfinished.name}.json").unlink(missing_ok=True)  # see mhgrn.io.stages.Stages.delete


def lock_folder(folder: Path, wait: bool = True, busy: str = "") -> int | None:
    """Lock a folder. Returns its open descriptor; None if another process has the lock or there are no locks here.

    Args:
        folder: the folder.
        wait: wait until another process releases the lock.
        busy: the message of the :class:`UserError` if another process has the lock; none is raised without it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(descriptor)
        if busy and isinstance(error, BlockingIOError):
            raise UserError(busy) from None
        return None
    return descriptor


def _release(partial: Path) -> None:
    descriptor = _held.pop(partial, None)
    if descriptor is not None:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, so that neither is ever missing. Returns False where the system cannot do that."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    current_folder, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return rename is not None and rename(current_folder, os.fsencode(one), current_folder, os.fsencode(other), exchange) == 0
