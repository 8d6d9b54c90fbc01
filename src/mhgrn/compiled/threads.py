"""Threads: compiled kernels in parallel, and preparing the next item while the last one is used."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Made = TypeVar("Made")

_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive a fork


def parallel_for(task: Callable[[int, int], None], count: int) -> None:
    """Run ``task(first, last)`` for ranges that together cover 0 … count, in parallel. Tasks must not write to the same place.

    Each thread gets two ranges: a balance between idle threads and the cost of a call.

    >>> squares = [0] * 5
    >>> def task(first: int, last: int) -> None:
    ...     for i in range(first, last):
    ...         squares[i] = i * i
    >>> parallel_for(task, 5)
    >>> squares
    [0, 1, 4, 9, 16]
    """
    threads = min(torch.get_num_threads(), count)
    if threads <= 1:
        task(0, count)
        return
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="mhgrn")
    parts = min(count, 2 * threads)
    cuts = [count * part // parts for part in range(parts + 1)]
    for _ in _pools[threads].map(task, cuts[:-1], cuts[1:]):
        pass


def one_ahead(items: Iterable[Item], make: Callable[[Item], Made]) -> Iterator[Made]:
    """Yield ``make(item)`` for every item, in order. A thread makes the next one while the caller uses the last."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming: Future[Made] | None = None
        for item in items:
            ready, coming = coming, thread.submit(make, item)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()
