"""Objects that threads share."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock

import pytest

from mhgrn.compiled.pool import Pool


def test_an_object_is_used_by_one_thread_at_a_time() -> None:
    pool, barrier = Pool(Lock), Barrier(8)

    def use(_: int) -> None:
        barrier.wait()
        for _ in range(200):
            with pool.taken() as lock:
                assert lock.acquire(blocking=False)
                lock.release()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(8)))
    assert 1 <= len(pool._free) <= 8


def test_an_object_is_used_again_unless_its_use_failed() -> None:
    pool: Pool[list[int]] = Pool(list)
    with pool.taken() as first:
        pass
    with pool.taken() as again:
        assert again is first
    with pytest.raises(ZeroDivisionError), pool.taken():
        1 / 0  # noqa: B018
    with pool.taken() as other:
        assert other is not first


def test_an_object_that_is_not_to_be_kept_is_dropped() -> None:
    pool: Pool[list[int]] = Pool(list, lambda item: len(item) < 2)
    for size in (1, 2, 1):
        with pool.taken() as item:
            item.append(0)
            assert len(item) == size
