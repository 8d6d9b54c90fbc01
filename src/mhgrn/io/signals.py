"""Signals that ask a long computation to stop."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_handling: "list[StopSignals]" = []


def ask_to_stop() -> bool:
    """Do what a signal would do, for a computation outside of the main thread. Returns whether there is one that can stop."""
    for signals in _handling:
        signals.asked_to_stop = True
    return bool(_handling)


class StopSignals:
    """SIGINT (Ctrl-C) and SIGTERM stop the training after the current step. A second signal stops it at once."""

    def __init__(self) -> None:
        self.asked_to_stop = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked_to_stop:
            raise KeyboardInterrupt
        self.asked_to_stop = True

    @contextmanager
    def handled(self) -> Iterator[None]:
        before: dict[signal.Signals, Any] = {}
        _handling.append(self)
        try:
            with suppress(ValueError):  # only the main thread can handle signals
                for number in (signal.SIGINT, signal.SIGTERM):
                    before[number] = signal.signal(number, self._handle)
            yield
        finally:
            _handling.remove(self)
            for number, handler in before.items():
                signal.signal(number, handler)
