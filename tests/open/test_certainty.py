"""Confidence, temperature, and the guarantee of sets with a coverage."""

import numpy as np
import pytest
import torch
from tests.open.test_part import random_run
from tests.open.test_recursion import random_graph

from mhgrn.calibration import Calibration
from mhgrn.open.certainty import Judged, can_cover, confidence_at, covering, fit_open, log_loss, measure_open, nonconformity
from mhgrn.open.evaluation import chosen_set


def drawn(rng, count, bias, unreached=0.0):
    """Questions whose candidates have random scores, and whose right answers are drawn by the probabilities of these scores."""
    found = []
    for _ in range(count):
        size = int(rng.integers(25, 60))
        concepts, scores = np.arange(size), rng.normal(0, 2, size)
        if bias is None:
            share = np.exp(scores / 2.0) / np.exp(scores / 2.0).sum()  # as at temperature 2
            right = rng.choice(size, 1, p=share)
        else:
            right = np.flatnonzero(rng.random(size) < 1 / (1 + np.exp(-(scores + bias) / 2.0)))
            right = right if len(right) else np.array([size + 5])
        if rng.random() < unreached:
            right = np.array([size + 5])
        found.append((concepts, scores, right))
    return found


@pytest.mark.parametrize("bias", [None, -3.0])
@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_sets_contain_all_right_answers_as_often_as_they_promise(bias, coverage):
    rng, unreached = np.random.default_rng(0), 0.05 if bias is None else 0.0  # some have no right answer anyway
    run, _ = random_run(0, random_graph(0), sets=bias is not None)
    if bias is not None:
        run.model.bias.data.fill_(bias)
    contains = []
    for _ in range(30):  # splits: the guarantee is on average over calibration questions and new ones
        questions = drawn(rng, 160, bias, unreached)
        judged = [Judged.of(*one, bias) for one in questions[:120]]
        run.calibration = fit_open(judged, bias, "dev")
        assert can_cover(run.calibration, coverage)
        contains += [np.isin(right, covering(run, c, s, coverage)).all() for c, s, right in questions[120:]]
    assert np.mean(contains) >= coverage - 0.02  # 1,200 questions
    assert np.mean(contains) <= coverage + 0.06  # sets are not larger than they need be


def test_unreached_answers_limit_the_coverage():
    rng = np.random.default_rng(1)
    judged = [Judged.of(*one, None) for one in drawn(rng, 200, None, unreached=0.3)]
    calibration = fit_open(judged, None, "dev")
    assert can_cover(calibration, 0.5)
    assert not can_cover(calibration, 0.9)  # walks reach the right answers of 70 %
    assert calibration.scores[-1] == 1.0


@pytest.mark.parametrize("bias", [None, -3.0])
def test_the_temperature_of_the_data_is_found(bias):
    questions = drawn(np.random.default_rng(2), 3_000, bias)
    judged = [Judged.of(*one, bias) for one in questions]
    fitted = fit_open(judged, bias, "dev")
    assert fitted.temperature == pytest.approx(2.0, rel=0.25)
    right = [one.is_right for one in judged]
    losses = [log_loss([confidence_at(one.scores, bias, t) for one in judged], right) for t in (fitted.temperature, 0.8, 1.0, 4.0)]
    assert losses[0] == min(losses)
    sure = [confidence_at(one.scores, bias, fitted.temperature) for one in judged]
    assert measure_open(sure, right)["expected_calibration_error"] < 0.06


def test_few_questions_keep_the_temperature():
    judged = [Judged.of(*one, None) for one in drawn(np.random.default_rng(0), 20, None)]
    assert fit_open(judged, None, "dev").temperature == 1.0


def test_the_temperature_changes_neither_the_order_nor_the_set():
    scores, concepts, bias = np.array([0.3, -1.0, 2.0, -0.2]), np.arange(4), 0.1
    for temperature in (0.2, 1.0, 7.0):
        for b in (None, bias):
            assert np.argsort(nonconformity(scores, b, temperature)).tolist() == [2, 0, 3, 1]
        inside = nonconformity(scores, bias, temperature) <= nonconformity(np.array([0.0]), 0.0, temperature)[0]
        assert concepts[inside].tolist() == chosen_set(concepts, scores, bias).tolist()


def test_confidence_and_calibration_of_extreme_scores():
    assert confidence_at(np.zeros(0), None, 1.0) == 0.0
    assert confidence_at(np.array([-1e6, 1e6]), None, 0.05) == 1.0
    assert confidence_at(np.array([-1e6]), 0.0, 1.0) == 0.0
    far = Judged.of(np.arange(2), np.array([0.0, -1e9]), np.array([1]), None)
    assert far.nonconformity(None, 1.0) == 1.0
    run, _ = random_run(0, random_graph(0), sets=False)
    run.calibration = Calibration(1.0, (0.0,) * 9, 9, "dev")
    assert covering(run, np.array([3, 5]), np.array([0.0, 0.0]), 0.5).tolist() == [3]  # the first one is always in the set
    assert torch.isfinite(torch.tensor(nonconformity(np.array([0.0, -800.0]), None, 1.0))).all()
