"""Items are made one ahead, by a thread."""

import threading
import time
from collections.abc import Iterator

import pytest

from mhgrn.compiled.threads import one_ahead


def test_one_is_made_ahead_in_order_and_never_two() -> None:
    made: list[int] = []

    def make(item: int) -> int:
        made.append(item)
        return item * item

    for taken, result in enumerate(one_ahead(range(6), make)):
        assert result == taken * taken
        until = time.monotonic() + 10
        while len(made) < min(taken + 2, 6) and time.monotonic() < until:
            time.sleep(0.001)
        assert made == list(range(min(taken + 2, 6)))
    assert list(one_ahead([], make)) == []


def test_an_error_comes_where_its_item_would_and_leaving_early_ends_the_thread() -> None:
    before = threading.active_count()
    results: Iterator[float] = one_ahead([1, 2, 0, 4], lambda item: 1 / item)
    assert next(results) == 1
    assert next(results) == 0.5
    with pytest.raises(ZeroDivisionError):
        next(results)
    left: Iterator[int] = one_ahead(range(100), lambda item: item)
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
