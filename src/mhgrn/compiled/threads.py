"""Running compiled kernels, which hold no lock, in as many threads as torch may use."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive a fork


def parallel_for(task: Callable[[int, int], None], count: int) -> None:
    """``task(first, last)`` for stretches that make up 0 … count, in parallel; the tasks write to places of their own.

    There are a few stretches for each thread, so that none waits long for the others, and no more: every call costs.
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
