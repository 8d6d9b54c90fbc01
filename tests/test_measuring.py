"""The arithmetic of benchmarks/measuring.py, with clocks that tests set."""

from collections.abc import Iterator
from functools import partial
from itertools import cycle

import pytest

import measuring
from measuring import Sample


def comparison_of(threads: int = 2, cores: int = 2, **samples: list[tuple[float, ...]]) -> measuring.Comparison:
    return measuring.Comparison({name: [Sample(*one) for one in of] for name, of in samples.items()}, threads, cores)


def test_forms_take_turns_and_the_warm_up_does_not_count() -> None:
    order: list[str] = []

    def take(name: str, times: Iterator[int]) -> measuring.Sample:
        order.append(name)
        return Sample(next(times), 1, 0)

    forms = {name: partial(take, name, iter(range(100))) for name in "ABC"}
    found = measuring.compare(forms, rounds=3, warm_up=2)
    assert "".join(order) == "ABC" * 5
    assert [s.wall for s in found.samples["B"]] == [2, 3, 4]


def test_a_ratio_is_the_median_over_rounds_not_the_ratio_of_medians() -> None:
    # Every round a neighbor slows both forms by the same factor; the ratio stays 4 though the medians differ by another factor.
    factors = [1, 10, 3, 7, 2]
    found = comparison_of(slow=[(4 * f, 8, 0) for f in factors], fast=[(f, 2, 0) for f in factors])
    assert found.ratio("slow", "fast") == ((4, 4, 4), (4, 4, 4))
    outlier = comparison_of(slow=[(4, 4, 0)] * 4 + [(400, 4, 0)], fast=[(1, 1, 0)] * 5)
    assert outlier.ratio("slow", "fast").wall == (4, 4, 4)


def test_quartiles_show_the_spread() -> None:
    assert measuring.Spread.of([5, 1, 3, 2, 4]) == (3, 2, 4)
    assert measuring.Spread.of([1, 2]) == (1.5, 1.25, 1.75)
    assert measuring.Spread.of([7]) == (7, 7, 7)


def test_seconds_are_those_of_one_call() -> None:
    found = comparison_of(step=[(3, 6, 0, 30), (4, 8, 0, 20)])
    assert found.seconds("step").wall.median == pytest.approx(0.15)
    assert found.seconds("step").cpu.median == pytest.approx(0.3)


def test_a_formula_sees_the_seconds_of_one_round() -> None:
    found = comparison_of(a=[(1, 10, 0), (2, 20, 0)], b=[(3, 30, 0), (4, 40, 0)])
    assert found.per_round(lambda t: t["a"] + t["b"]) == (measuring.Spread.of([4, 6]), measuring.Spread.of([40, 60]))
    assert found.seconds("a").scaled(2).cpu.median == 30


def test_the_share_of_the_processor() -> None:
    # 3 processor seconds within 2 wall-clock seconds: all of 1.5 threads, three quarters of 2.
    found = comparison_of(a=[(2, 3, 3), (2, 3, 3)], b=[(1, 1, 2)] * 2)
    assert (found.share("a"), found.share("b")) == (0.75, 0.5)
    assert found.others == pytest.approx(2 / (2 * 6))  # one processor second a round while b ran


@pytest.mark.parametrize(("used", "busy"), [(1.0, False), (1.19, False), (1.21, True), (2.0, True)])
def test_a_neighbor_that_takes_more_than_a_tenth_is_named(used: float, busy: bool) -> None:
    found = comparison_of(a=[(1, 1, used)] * 3)
    assert ("BUSY MACHINE" in found.conditions()) == busy


def test_rounding_of_ticks_does_not_make_time_of_others_negative() -> None:
    assert comparison_of(a=[(1, 1, 0.99)]).others == 0


def test_a_system_that_does_not_say_how_busy_it_is() -> None:
    found = comparison_of(a=[(1, 1, 0)])
    assert found.others is None
    assert "other processes: unknown" in found.conditions()
    assert found.as_json()["others_share"] is None


def test_short_steps_are_repeated_until_the_clock_says_enough() -> None:
    calls: list[int] = []
    wall = cycle([0.0, 0.5, 1.0, 1.5])  # at the start and after each call
    clock = measuring.Clock(partial(next, wall), iter([0.0, 2.0]).__next__, iter([10.0, 15.0]).__next__)
    assert measuring.sample(lambda: calls.append(1), 1.5, clock) == Sample(1.5, 2.0, 5.0, 3)
    assert len(calls) == 3


@pytest.mark.parametrize(("value", "text"), [(0.012345, "0.0123"), (1.0, "1.00"), (27.84, "27.8"), (1032.4, "1,032"), (0, "0")])
def test_three_significant_digits(value: float, text: str) -> None:
    assert measuring.significant(value) == text


def test_each_form_has_a_process_of_its_own() -> None:
    makers = {name: partial(partial, isinstance, name, str) for name in ("a", "b")}
    found = measuring.compare_processes(makers, rounds=2, least_seconds=0)
    assert {name: [s.calls for s in of] for name, of in found.samples.items()} == {"a": [1, 1], "b": [1, 1]}
    assert list(found.memory) == ["a", "b"]
    with pytest.raises(ZeroDivisionError):
        measuring.compare_processes({"a": partial(partial, divmod, 1, 0)}, rounds=1)
