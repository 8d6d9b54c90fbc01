"""Locks between processes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from mhgrn.errors import UserError


@contextmanager
def locked(path: Path, wait: bool = False, busy: str = "") -> Iterator[None]:
    """Hold the lock file ``path`` while the block runs, then delete it. The lock of a killed process is free at once.

    Args:
        path: the lock file; its folder is created if needed.
        wait: wait until another process releases the lock, instead of failing.
        busy: the message of the :class:`UserError` if another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(busy) from None
    try:
        yield
    finally:
        # Deleted before it is released: filelock retries when the file it locked has no name any more.
        with suppress(OSError):  # Windows deletes no open file; filelock does it on release there
            path.unlink()
        lock.release()
