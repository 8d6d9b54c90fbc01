"""Means, deviations and paired intervals, compared with numpy and with a naive bootstrap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mhgrn_reproduction.leaderboard import majority
from mhgrn_reproduction.summary import paired_difference, spread, summarize

accuracies = st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=6)
rights = st.tuples(st.integers(1, 4), st.integers(1, 30)).flatmap(
    lambda shape: st.tuples(arrays(np.bool_, shape), arrays(np.bool_, shape))
)


@given(accuracies)
def test_spread_is_that_of_numpy(values: list[float]) -> None:
    found = spread(values)
    assert found["mean"] == round(float(np.mean(values)), 6)
    assert found["std"] == (round(float(np.std(values, ddof=1)), 6) if len(values) > 1 else None)
    assert len(found["runs"]) == len(values)


@given(rights)
def test_a_difference_turns_round_with_its_sides(pair: tuple[np.ndarray, np.ndarray]) -> None:
    ours, theirs = pair
    one, other = paired_difference(ours, theirs, 500), paired_difference(theirs, ours, 500)
    assert one["mean"] == round(float(ours.mean() - theirs.mean()), 6) or abs(one["mean"] - ours.mean() + theirs.mean()) < 2e-6
    assert np.allclose([one["mean"], one["low"], one["high"]], [-other["mean"], -other["high"], -other["low"]], atol=2e-6)
    assert -1 <= one["low"] <= one["high"] <= 1
    assert paired_difference(ours, ours, 500) == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_the_interval_is_the_bootstraps_over_questions() -> None:
    rng = np.random.default_rng(5)
    ours, theirs = rng.random((3, 200)) < 0.6, rng.random((3, 200)) < 0.5
    gain = ours.mean(0) - theirs.mean(0)
    means = [gain[rng.integers(200, size=200)].mean() for _ in range(20_000)]
    found = paired_difference(ours, theirs)
    assert np.allclose([found["low"], found["high"]], np.quantile(means, [0.025, 0.975]), atol=0.004)


def cell(seed: int, right: str, ids: str = "i") -> dict[str, object]:
    accuracy = right.count("1") / len(right)
    splits = {"dev": {"accuracy": accuracy, "right": right, "ids": ids}}
    return {"seed": seed, "splits": splits, "parameters": 7, "epochs": 2, "seconds": 1.5}


def test_systems_are_compared_over_the_seeds_they_share() -> None:
    cells = {"a": [cell(0, "1100"), cell(1, "1111")], "b": [cell(1, "0011"), cell(2, "0000")]}
    found = summarize(cells, ["dev"], "b")
    assert found["a"]["dev"] == {"mean": 0.75, "std": round(2**-0.5 / 2, 6), "runs": [0.5, 1.0]}
    assert found["a"]["difference"]["dev"]["mean"] == 0.5  # seed 1 alone
    assert "difference" not in found["b"]
    assert found["a"]["seconds"] == 3.0


def test_other_questions_are_not_compared() -> None:
    found = summarize({"a": [cell(0, "11", "x")], "b": [cell(0, "00", "y")]}, ["dev"], "b")
    assert found["a"]["difference"] == {}
    assert summarize({"a": [cell(0, "11")]}, ["dev"], "b")["a"].get("difference") is None


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.text("01234", min_size=4, max_size=4), min_size=n, max_size=n)))
def test_a_majority_has_most_votes_and_of_equals_the_first_choice(chosen: list[str]) -> None:
    together = majority(chosen)
    for place, choice in enumerate(together):
        votes = [run[place] for run in chosen]
        assert all((votes.count(choice), -int(choice)) >= (votes.count(other), -int(other)) for other in votes)
