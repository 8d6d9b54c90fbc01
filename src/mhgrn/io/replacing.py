"""The steps of every safe write: a partial file beside the target, flushed to the disk, then renamed."""

import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL = ".partial-"  # in the name of every file and folder that is not complete yet
FSYNC = "MHGRN_FSYNC"
_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_SYSTEM = re.compile(r"/(dev|proc|sys)/")


def partial_name(path: Path) -> str:
    """Return a new name for the partial file or folder of ``path``. The random token is different for every writer."""
    return f".{path.name}{PARTIAL}{secrets.token_hex(8)}"


def is_standard_output(path: Path) -> bool:
    """Whether ``path`` stands for standard output: ``-``, or a name that the operating system has for it."""
    return str(path) in _STANDARD_OUTPUT


def is_special(path: Path) -> bool:
    """Whether ``path`` is standard output, a device, a FIFO or a socket."""
    if is_standard_output(path) or _SYSTEM.match(str(path.absolute())):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def replacing(path: Path, before: Callable[[Path, Path], None] | None = None) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; it replaces ``path`` when the block ends and is deleted if the block fails.

    A symbolic link is followed. A device or a FIFO is written to directly: it cannot be replaced. ``-`` is standard output.

    Args:
        path: the file to create or replace.
        before: called with ``path`` and the complete partial file before this is renamed.
    """
    if is_standard_output(path):
        with tempfile.TemporaryDirectory() as folder:
            partial = Path(folder) / "output"
            yield partial
            # not opened by its name: that would truncate a file that the shell appends to
            sys.stdout.flush()
            sys.stdout.buffer.write(partial.read_bytes())
            sys.stdout.buffer.flush()
        return
    if is_special(path):
        with naming_file(path):
            yield path
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(partial_name(path))
    try:
        with naming_file(path):
            yield partial
            with suppress(FileNotFoundError):
                shutil.copymode(path, partial)
            flush(partial)
            if before is not None:
                before(path, partial)
            partial.replace(path)
            flush(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until the disk has the content of a file, or the names in a folder. ``MHGRN_FSYNC=0`` skips this."""
    if os.environ.get(FSYNC) == "0":
        return
    if sys.platform == "win32" and path.is_dir():  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add the file's name to an ``OSError`` of the block: Python omits it when a write fails."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
