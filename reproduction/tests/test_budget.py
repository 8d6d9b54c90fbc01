"""A budget reduces seeds first, then epochs, then questions, and no more than necessary."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.progress import seconds_of
from mhgrn_reproduction.budget import LEAST_EPOCHS, Plan, Speed, cost_of, shrink

plans = st.builds(Plan, st.integers(1, 6), st.integers(1, 40))


def cost(plan: Plan) -> float:
    assert plan.epochs is not None
    return plan.seeds * (plan.epochs * (100 * plan.share + 10) + 20)


@given(plans, st.floats(1, 30_000))
def test_the_largest_part_that_fits_is_run(whole: Plan, budget: float) -> None:
    plan = shrink(budget, whole, cost)
    assert plan.epochs is not None
    assert whole.epochs is not None
    smallest = Plan(1, min(LEAST_EPOCHS, (whole.epochs + 1) // 2), 0.01)
    assert cost(plan) <= budget or plan == smallest
    if plan.share < 1:
        assert (plan.seeds, plan.epochs) == (1, smallest.epochs)
        assert cost(replace(plan, share=plan.share + 0.01)) > budget
    elif plan.epochs < whole.epochs:
        assert plan.seeds == 1
        assert cost(replace(plan, epochs=plan.epochs + 1)) > budget
    elif plan.seeds < whole.seeds:
        assert cost(replace(plan, seeds=plan.seeds + 1)) > budget
    else:
        assert plan == whole


def test_costs_count_what_is_trained_and_what_is_measured() -> None:
    questions, speed = {"train": 100, "dev": 10, "test": 20}, Speed(train=1.0, evaluate=0.1)
    config = Config.load(overrides=["training.epochs=4"])
    assert cost_of(config, questions, speed, None, 1.0) == pytest.approx(4 * (100 + 1) + 3)
    assert cost_of(config, questions, speed, 2, 0.5) == pytest.approx(2 * (50 + 1) + 3)
    config = Config.load(overrides=["training.epochs=4", "training.max_questions=10", "training.train_fraction=0.5"])
    assert cost_of(config, questions, speed, None, 1.0) == pytest.approx(4 * (10 + 1) + 3)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("2 d", 172800), ("7", 7)])
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "30 minutes", "-5m", "0h", "1e3", "inf"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="write a time such as"):
        seconds_of(text)
