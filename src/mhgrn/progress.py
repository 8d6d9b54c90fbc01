"""One way to show progress: a bar with an estimate on a terminal, nothing in a pipe, always on standard error."""

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Protocol, TypeVar

Item = TypeVar("Item")
_silent = False


class Advance(Protocol):
    def __call__(self, done: int, label: str | None = None) -> None: ...


def silence() -> None:
    """Show and say nothing from now on: of several processes that work together, one speaks."""
    global _silent  # noqa: PLW0603
    _silent = True


@contextmanager
def bar(label: str, total: int | None) -> Iterator[Advance]:
    """A bar; call what it yields with how much is done in all, and a new label if need be."""
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
        task = progress.add_task(label, total=total)
        yield lambda done, label=None: progress.update(task, completed=done, description=label)


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Yield ``items`` while a bar with the time left is shown."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with bar(label, total) as advance:
        for done, item in enumerate(items, start=1):
            yield item
            advance(done)


def say(message: str) -> None:
    """A line for the person who waits; results go to standard output, this does not."""
    if not _silent:
        print(message, file=sys.stderr, flush=True)
