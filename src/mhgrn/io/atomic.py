"""Files that are written completely or not at all: written beside their place, then renamed."""

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mhgrn.errors import UserError

PARTIAL = ".partial-"  # in the name of every file and folder that is not complete yet


def partial_suffix(process: int | None = None) -> str:
    """Return the end of a partial file's name: this machine (or container), then a process number.

    The machine is part of the name because a process number says nothing about the processes of another machine.
    """
    machine = re.sub(r"[^A-Za-z0-9]", "", platform.node())[:24]
    return f"{machine}-{os.getpid() if process is None else process}"


@contextmanager
def partial_file(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; it replaces ``path`` when the block ends and is deleted if the block fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}{PARTIAL}{partial_suffix()}")
    try:
        with naming_file(path):
            yield partial
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Add the file's name to an ``OSError`` of the block: Python omits it when a write fails."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``, completely or not at all."""
    with partial_file(path) as partial:
        partial.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` as UTF-8, completely or not at all."""
    write_bytes(path, text.encode("utf-8"))


def append_text(path: Path, text: str) -> int:
    """Append ``text`` to ``path``, completely or not at all. Returns the number of bytes added."""
    content = text.encode("utf-8")
    with naming_file(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(before)
            raise
    return len(content)


def check_file_writable(path: Path) -> None:
    """Raise a :class:`UserError` if the file ``path`` cannot be written. Call it before long work, not after it."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file to write to.")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir():
        raise UserError(f"{parent} is not a folder, so {path} cannot be written; name another file.")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise UserError(f"{path} is not writable; name another file.")
