"""Objects that many threads share, although only one thread at a time may use each: scratch arrays, caches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Pool(Generic[Item]):
    """As many objects as there are threads that use one at the same time. No thread waits for another.

    Args:
        make: Makes one object.

    >>> pool = Pool(list)
    >>> with pool.taken() as scratch:
    ...     scratch.append(1)
    >>> with pool.taken() as scratch:
    ...     scratch
    [1]
    """

    def __init__(self, make: Callable[[], Item]) -> None:
        self._make = make
        self._free: list[Item] = []  # append and pop are atomic

    @contextmanager
    def taken(self) -> Iterator[Item]:
        """Yield an object that no other thread has. An object whose use failed is dropped, because it may be half changed."""
        try:
            item = self._free.pop()
        except IndexError:
            item = self._make()
        yield item
        self._free.append(item)
