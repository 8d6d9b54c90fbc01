"""Files that are written completely or not at all. In a sealed folder, their checksums are recorded."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.checksums import record_checksum
from mhgrn.io.remote import refuse_url
from mhgrn.io.replacing import is_special, is_standard_output, naming_file, replacing


def partial_file(path: Path) -> AbstractContextManager[Path]:
    """A path beside ``path`` to write to; see :func:`mhgrn.io.replacing.replacing`."""
    return replacing(path, record_checksum)


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


def check_file_writable(path: Path, force: bool = True) -> None:
    """Raise a :class:`UserError` if the file ``path`` cannot be written. Call it before long work, not after it.

    Args:
        path: the file to write.
        force: replace an existing file. False refuses, unless the file is empty.
    """
    if is_standard_output(path):
        return
    refuse_url(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file to write to.")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir():
        raise UserError(f"{parent} is not a folder, so {path} cannot be written; name another file.")
    if not os.access(path if path.exists() else parent, os.W_OK):
        raise UserError(f"{path} is not writable; name another file.")
    if not force and not is_special(path) and path.exists() and path.stat().st_size:
        raise UserError(f"{path} exists; name another file, or replace it with --force.")
