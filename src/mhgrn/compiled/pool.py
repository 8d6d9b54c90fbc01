"""Objects that threads share: those that one thread at a time may use, and those that are made once."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from threading import RLock
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Pool(Generic[Item]):
    """As many objects as there are threads that use one at the same time. No thread waits for another.

    Args:
        make: Makes one object.
        keep: Whether an object is kept after its use, for example because it has not grown too large.

    >>> pool = Pool(list)
    >>> with pool.taken() as scratch:
    ...     scratch.append(1)
    >>> with pool.taken() as scratch:
    ...     scratch
    [1]
    """

    def __init__(self, make: Callable[[], Item], keep: Callable[[Item], bool] = lambda _: True) -> None:
        self._make, self._keep = make, keep
        self._free: list[Item] = []  # append and pop are atomic

    @contextmanager
    def taken(self) -> Iterator[Item]:
        """Yield an object that no other thread has. An object whose use failed is dropped, because it may be half changed."""
        try:
            item = self._free.pop()
        except IndexError:
            item = self._make()
        yield item
        if self._keep(item):
            self._free.append(item)


class SharedLock:
    """A lock for threads. After a fork it is free in the child, where the thread that held it does not exist."""

    def __init__(self) -> None:
        self._make()
        os.register_at_fork(after_in_child=self._make)

    def _make(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class once(Generic[Item]):
    """Like ``functools.cache`` for a function without arguments, but threads that call it at the same time wait for one result.

    >>> @once
    ... def answer() -> int:
    ...     print("computed")
    ...     return 42
    >>> answer() + answer()
    computed
    84
    """

    def __init__(self, make: Callable[[], Item]) -> None:
        self._make, self._made, self._lock = make, list[Item](), SharedLock()
        update_wrapper(self, make)

    def __call__(self) -> Item:
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]

    def cache_clear(self) -> None:
        self._made.clear()
