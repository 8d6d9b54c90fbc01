"""Running compiled kernels, which hold no lock, in as many threads as torch may use."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)  # threads do not survive a fork


def in_blocks(task: Callable[[int], None], count: int) -> None:
    """``task(0) … task(count - 1)``, in parallel; the tasks write to places of their own."""
    threads = min(torch.get_num_threads(), count)
    if threads <= 1:
        for block in range(count):
            task(block)
        return
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="mhgrn")
    for _ in _pools[threads].map(task, range(count)):
        pass
