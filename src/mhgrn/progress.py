"""Progress bars and messages on standard error, and durations. Bars are shown on a terminal and in notebooks."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypeVar

from mhgrn.errors import UserError
from mhgrn.printing import printable

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # seconds
Item = TypeVar("Item")
Event = tuple[str, Any, Any]  # a kind, and what it is about: see `send_to`
SECONDS = 0.2  # between two updates of a bar that is shown elsewhere
_silent = False
_send: Callable[[Event], object] | None = None


class Advance(Protocol):
    """Update a progress bar to ``done`` items in total, with a new label if given."""

    def __call__(self, done: int, label: str | None = None) -> None: ...


def silence() -> None:
    """Turn off bars and messages, for all but one of several processes that work together."""
    global _silent  # noqa: PLW0603
    _silent = True


def send_to(send: Callable[[Event], object] | None) -> None:
    """Send bars and messages to another process, which shows them with :class:`Relayed`. None: show them here."""
    global _send  # noqa: PLW0603
    _send = send


class Relayed:
    """Shows the bars and messages of another process."""

    def __init__(self) -> None:
        self._bar = ExitStack()
        self._advance: Advance | None = None

    def show(self, event: Event) -> None:
        """Show what the other process sent."""
        kind, first, second = event
        if kind == "message":
            say(first)
        elif kind == "bar":
            self.close()
            self._advance = self._bar.enter_context(bar(first, second))
        elif kind == "advance" and self._advance is not None:
            self._advance(first, second)
        elif kind == "end":
            self.close()

    def close(self) -> None:
        """Remove the bar, if there is one."""
        self._bar.close()
        self._advance = None


@contextmanager
def bar(label: str, total: int | None) -> Iterator[Advance]:
    """Show a progress bar and yield the function that updates it.

    Args:
        label: the text before the bar.
        total: the number of items; None if unknown.
    """
    if not _silent and _send is not None:
        _send(("bar", label, total))
        try:
            yield _sent_bar(_send, total)
        finally:
            _send(("end", None, None))
        return
    if not _silent and (display := _notebook_display()) is not None:
        yield _notebook_bar(display, label, total)
        return
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


def _sent_bar(send: Callable[[Event], object], total: int | None) -> Advance:
    """A bar that another process shows, updated at most five times a second and when it is full."""
    sent_at = 0.0

    def advance(done: int, label: str | None = None) -> None:
        nonlocal sent_at
        if done == total or time.monotonic() - sent_at >= SECONDS:
            sent_at = time.monotonic()
            send(("advance", done, label))

    return advance


def _notebook_display() -> "Callable[..., Any] | None":
    """The function that shows something in the output of a notebook's cell; None outside of notebooks."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    show: Callable[..., Any] = display
    return show


def _notebook_bar(display: "Callable[..., Any]", label: str, total: int | None) -> Advance:
    """A bar in the output of a notebook's cell. It is drawn again at most five times a second, and when it is full."""
    handle = display({"text/plain": _notebook_line(label, 0, total)}, raw=True, display_id=True)
    shown, drawn_at = label, 0.0

    def advance(done: int, label: str | None = None) -> None:
        nonlocal shown, drawn_at
        shown = shown if label is None else label
        if done == total or time.monotonic() - drawn_at >= 0.2:
            drawn_at = time.monotonic()
            handle.update({"text/plain": _notebook_line(shown, done, total)}, raw=True)

    return advance


def _notebook_line(label: str, done: int, total: int | None) -> str:
    """A bar of text.

    >>> _notebook_line("letters", 5, 10)
    'letters ██████████░░░░░░░░░░ 5/10'
    """
    if not total:
        return f"{printable(label)} {done:,}"
    full = 20 * min(done, total) // total
    return f"{printable(label)} {'█' * full}{'░' * (20 - full)} {done:,}/{total:,}"


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
    if _silent:
        return
    if _send is not None:
        _send(("message", message, None))
    else:
        print(printable(message, keep="\n"), file=sys.stderr, flush=True)


def seconds_of(text: str, option: str = "--budget") -> float:
    """The seconds of a duration such as 30m.

    Args:
        text: a number with s, m, h or d; without one it is seconds.
        option: the name of the option in the error message.

    >>> seconds_of("30m"), seconds_of("1.5h"), seconds_of("90")
    (1800.0, 5400.0, 90.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    if match is None or not float(match[1]):
        raise UserError(f"{option} {printable(text)[:100]}: write a time such as 90s, 30m, 2h or 1d.")
    return float(match[1]) * UNITS[match[2] or "s"]
