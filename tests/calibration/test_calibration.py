"""Temperature, measures and sets of choices against brute force; the guarantee of sets against binomial bounds."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.calibration import (
    Calibration,
    Reliability,
    RiskCoverage,
    conformal_threshold,
    fit,
    fit_temperature,
    measure,
    softmax,
    sure_from,
)
from mhgrn.calibration.stored import FEWEST, MOST
from mhgrn.errors import UserError
from mhgrn.scoring import best_choice


def world(count: int, temperature: float, seed: int, choices: int = 4) -> tuple[list[np.ndarray], list[int]]:
    """Questions whose right choice is drawn from the softmax of their scores at a temperature."""
    random = np.random.default_rng(seed)
    scores = [3 * random.normal(size=int(random.integers(2, choices + 1))) for _ in range(count)]
    return scores, [int(random.choice(len(of), p=softmax(of, temperature))) for of in scores]


def loss(scores: list[np.ndarray], answers: list[int], temperature: float) -> float:
    return -sum(math.log(softmax(of, temperature)[answer]) for of, answer in zip(scores, answers, strict=True))


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_the_temperature_of_the_world_is_found_and_no_other_has_a_lower_loss(temperature: float) -> None:
    scores, answers = world(3000, temperature, seed=1)
    found = fit_temperature(scores, answers)
    assert found == pytest.approx(temperature, rel=0.1)
    assert all(loss(scores, answers, found) <= loss(scores, answers, found * factor) for factor in (0.5, 0.9, 0.999, 1.001, 1.1, 2))
    assert found == pytest.approx(fit_temperature(scores[::-1], answers[::-1]), rel=1e-9)
    assert fit_temperature([7 * of + 3 for of in scores], answers) == pytest.approx(7 * found, rel=1e-6)


def test_temperatures_have_bounds() -> None:
    assert fit_temperature([[1.0, 0.0]] * 9, [0] * 9) == 0.05
    assert fit_temperature([[1.0, 0.0]] * 9, [1] * 9) == 20
    assert fit_temperature([[1.0, 1.0]] * 9, [1] * 9) == 1
    scores, answers = world(FEWEST - 1, 3.0, seed=0)
    assert fit(scores, answers, "dev").temperature == 1  # too few questions


@given(st.lists(st.lists(st.floats(-20, 20), min_size=2, max_size=5), min_size=1, max_size=8), st.floats(0.05, 20))
def test_a_temperature_changes_no_choice(scores: list[list[float]], temperature: float) -> None:
    for of in scores:
        clear = sorted(of)[-1] - sorted(of)[-2]
        if clear > 1e-4 or clear == 0:
            assert best_choice(softmax(of).tolist()) == best_choice(softmax(of, temperature).tolist(), temperature)


def test_measures_equal_their_definitions() -> None:
    scores, answers = world(200, 2.0, seed=3)
    shares = [softmax(of).tolist() for of in scores]
    chosen = [best_choice(of) for of in shares]
    found = measure(shares, chosen, answers)
    error = 0.0
    for k in range(15):
        inside = [i for i, of in enumerate(shares) if k / 15 < max(of) <= (k + 1) / 15]
        right = sum(chosen[i] == answers[i] for i in inside)
        error += abs(sum(max(shares[i]) for i in inside) - right) / 200
        assert found["reliability"][k]["questions"] == len(inside)
    assert found["expected_calibration_error"] == pytest.approx(error)
    brier = sum(sum((p - (c == a)) ** 2 for c, p in enumerate(of)) for of, a in zip(shares, answers, strict=True)) / 200
    assert found["brier_score"] == pytest.approx(brier)
    assert found["negative_log_likelihood"] == pytest.approx(loss(scores, answers, 1.0) / 200)
    order = sorted(range(200), key=lambda i: -max(shares[i]))
    risks = [sum(chosen[i] != answers[i] for i in order[:k]) / k for k in range(1, 201)]
    assert found["risk_coverage"]["risk"] == pytest.approx(risks)
    assert found["area_under_risk_coverage"] == pytest.approx(sum(risks) / 200)
    assert found["least_area_under_risk_coverage"] <= found["area_under_risk_coverage"]
    after = measure([softmax(of, 2.0) for of in scores], chosen, answers)
    assert after["expected_calibration_error"] < found["expected_calibration_error"]
    assert json.loads(json.dumps(found)) == found


def test_the_order_of_equally_confident_questions_does_not_matter() -> None:
    sure, right = [0.5] * 6 + [0.9] * 4, [True, False, True, False, False, False, True, True, True, False]
    one, other = Reliability.of(sure, right), Reliability.of(sure[::-1], right[::-1])
    assert one.adaptive_error == pytest.approx(other.adaptive_error)
    assert RiskCoverage.of(sure, right).risk == pytest.approx(RiskCoverage.of(sure[::-1], right[::-1]).risk)
    assert RiskCoverage.of([0.9, 0.8, 0.7], [True, True, False]).at(0.5) == 0


@pytest.mark.parametrize("coverage", [0.7, 0.9, 0.95])
def test_sets_contain_the_right_choice_as_often_as_promised(coverage: float) -> None:
    """Many worlds: calibrated on n questions, asked one new question each. The number of hits is binomial."""
    n, repetitions = 60, 600
    random = np.random.default_rng(5)
    hits = sizes = 0
    for _ in range(repetitions):
        scores, answers = world(n + 1, 2.0, seed=int(random.integers(2**31)))
        calibration = fit(scores[:-1], answers[:-1], "dev")
        shares = softmax(scores[-1], calibration.temperature).tolist()
        inside = calibration.prediction_set(shares, best_choice(shares), coverage)
        hits, sizes = hits + (answers[-1] in inside), sizes + len(inside)
    margin = 3.5 * math.sqrt(coverage * (1 - coverage) / repetitions)
    assert hits / repetitions >= coverage - margin
    assert hits / repetitions <= coverage + 1 / (n + 1) + 0.03 + margin  # no larger than needed, but never empty
    assert sizes / repetitions < 3


def test_the_threshold_is_an_order_statistic() -> None:
    scores = [k / 100 for k in range(1, 100)]  # 99 of them: every per cent is exact
    assert [conformal_threshold(scores, c) for c in (0.5, 0.9, 0.99)] == [0.5, 0.9, 0.99]
    assert conformal_threshold(scores, 0.995) == 1
    calibration = Calibration(1.0, tuple(scores), 99, "dev")
    assert calibration.reaches(0.99)
    assert not calibration.reaches(0.995)
    assert calibration.prediction_set([0.1, 0.2, 0.7], 2, 0.1) == [2]
    assert calibration.prediction_set([0.1, 0.2, 0.7], 2, 0.995) == [2, 1, 0]


def test_what_is_stored_is_read_again_and_checked(tmp_path: Path) -> None:
    scores, answers = world(80, 2.0, seed=4)
    found = fit(scores, answers, "dev")
    found.save(tmp_path)
    path = tmp_path / "calibration.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert Calibration.parse(dict(stored), path) == found
    assert path.stat().st_size < 1200
    wrong = [{"temperature": 0}, {"temperature": "x"}, {"scores": [0.5, 0.1]}, {"scores": [-1]}, {"format": 2}, {"questions": None}]
    for change in wrong:
        with pytest.raises(UserError, match=r"is damaged .* `mhgrn calibrate`"):
            Calibration.parse(stored | change, path)
    with pytest.raises(UserError, match="is damaged"):
        Calibration.parse([], path)


def test_the_file_stays_small() -> None:
    assert len(fit([[1.0, 0.0]] * (MOST + 5), [0] * (MOST + 5), "dev").scores) == MOST


@given(st.lists(st.tuples(st.floats(0.2, 1.0), st.booleans()), min_size=1, max_size=30), st.floats(0.5, 0.99))
def test_the_least_sure_confidence(answers: list[tuple[float, bool]], accuracy: float) -> None:
    found = sure_from([confidence for confidence, _ in answers], [right for _, right in answers], accuracy)

    def reached(least: float) -> bool:
        given_answers = [right for confidence, right in answers if confidence >= least]
        return bool(given_answers) and sum(given_answers) >= accuracy * len(given_answers)

    thresholds = [k / 100 for k in range(1, 100)]
    assert found == next((least for least in thresholds if reached(least)), None)


def test_a_stored_least_confidence_is_checked(tmp_path: Path) -> None:
    Calibration(1.0, (0.5,), 1, "dev", 0.6).save(tmp_path)
    path = tmp_path / "calibration.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert Calibration.parse(dict(stored), path).abstain_below == 0.6
    without = {key: value for key, value in stored.items() if key != "abstain_below"}
    assert Calibration.parse(without, path).abstain_below is None
    for wrong in (0, 1.5, "high"):
        with pytest.raises(UserError, match="is damaged"):
            Calibration.parse(stored | {"abstain_below": wrong}, path)
