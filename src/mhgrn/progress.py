"""Progress bars and messages on standard error. Bars are shown on a terminal only."""

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Protocol, TypeVar

from mhgrn.printing import printable

Item = TypeVar("Item")
_silent = False


class Advance(Protocol):
    """Update a progress bar to ``done`` items in total, with a new label if given."""

    def __call__(self, done: int, label: str | None = None) -> None: ...


def silence() -> None:
    """Turn off bars and messages, for all but one of several processes that work together."""
    global _silent  # noqa: PLW0603
    _silent = True


@contextmanager
def bar(label: str, total: int | None) -> Iterator[Advance]:
    """Show a progress bar and yield the function that updates it.

    Args:
        label: the text before the bar.
        total: the number of items; None if unknown.
    """
    if _silent or not sys.stderr.isatty():
        yield lambda done, label=None: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<34}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(_plain(label), total=total)
        yield lambda done, label=None: progress.update(task, completed=done, description=None if label is None else _plain(label))


def _plain(label: str) -> str:
    """A label without control characters, and without what rich takes for markup."""
    return printable(label).replace("[", "\\[")


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Yield ``items`` and show a progress bar.

    >>> list(track("abc", "letters"))
    ['a', 'b', 'c']
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with bar(label, total) as advance:
        for done, item in enumerate(items, start=1):
            yield item
            advance(done)


def say(message: str) -> None:
    """Print a message to standard error. Standard output is for results."""
    if not _silent:
        print(printable(message, keep="\n"), file=sys.stderr, flush=True)
