"""Compiled kernels: numba functions that are compiled once on a machine, and say so when they are."""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event

from mhgrn.progress import say


class _Announcer(event.Listener):  # type: ignore[misc]
    """Compiling takes seconds and happens once on a machine: say so, once."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        if not self.said and (event.data["dispatcher"].py_func.__module__ or "").startswith("mhgrn."):
            self.said = True
            say("compiling for this machine, once (up to half a minute) …")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call; the result is kept on disk, and it runs without Python's lock."""
    return _compiled(function, fastmath=False)


def sum_kernel(function: Callable[..., Any]) -> Any:
    """A :func:`kernel` whose sums of floats may be taken in another order, many terms at once. Infinities stay exact."""
    return _compiled(function, fastmath={"reassoc", "contract"})


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    try:
        return njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # no folder to keep it in
        return njit(nogil=True, **options)(function)
