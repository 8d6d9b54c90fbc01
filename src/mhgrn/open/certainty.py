"""How sure a model of open questions is: probabilities, confidence, calibration, and sets of answers with a coverage.

The **confidence** is the probability that the first answer is right. For a model that ranks, it is the softmax of the scores. For
one that gives sets of answers, it is σ(score + bias), since all right answers share the softmax. Scores are divided by a
temperature, which minimizes the negative log-likelihood of the first answer being right or wrong on held-out questions. A question
whose answer no walk reaches counts as wrong. The temperature changes neither the order of answers nor the set of answers.

A set with **coverage** 1 - α contains all right answers of a question with a probability of at least 1 - α: split-conformal
prediction (:mod:`mhgrn.calibration.conformal`). The nonconformity score of a candidate is the negative logarithm of its
probability, that of a question the largest one of its right answers. If walks do not reach all right answers, it is infinite,
stored as 1.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.calibration import Calibration, Reliability, RiskCoverage, conformal_threshold, softmax
from mhgrn.calibration.conformal import DIGITS
from mhgrn.calibration.stored import FEWEST, MOST
from mhgrn.calibration.temperature import HIGHEST, LOWEST

if TYPE_CHECKING:
    from mhgrn.open.run import OpenRun

Array = NDArray[Any]
FARTHEST = 700.0  # the largest negative logarithm of a probability; nonconformity is divided by it, so that it is at most 1
TIED = 1e-9  # scores that are nearer to each other are equal
SMALLEST = 1e-12  # probabilities in losses are not nearer to 0 and 1
STEPS = 60  # of the search for a temperature


def shares(run: "OpenRun", scores: Array) -> Array:
    """The probabilities of all candidates. A model of sets shares them among several right answers, at temperature 1."""
    return softmax(scores, 1.0 if run.gives_sets else run.temperature) if len(scores) else np.zeros(0)


def confidence_at(scores: Array, bias: float | None, temperature: float) -> float:
    """The probability that the best candidate is right; 0 without candidates.

    Args:
        scores: Of all candidates.
        bias: Of a model that gives sets, otherwise None.
        temperature: Scores are divided by it.

    >>> confidence_at(np.array([0.0, 0.0]), None, 1.0), confidence_at(np.array([0.0, -1.0]), 0.0, 1.0)
    (0.5, 0.5)
    """
    if not len(scores):
        return 0.0
    if bias is None:
        return float(softmax(scores, temperature).max())
    return float(np.exp(-np.logaddexp(0.0, -(scores.max() + bias) / temperature)))


def nonconformity(scores: Array, bias: float | None, temperature: float, of: Array | None = None) -> Array:
    """The nonconformity score of candidates, from 0 to 1. Better candidates have lower ones.

    Args:
        scores: Of all candidates.
        bias: Of a model that gives sets, otherwise None.
        temperature: Scores are divided by it.
        of: The scores of the candidates that are wanted. None: all.

    >>> nonconformity(np.array([0.0, 0.0]), None, 1.0) * FARTHEST
    array([0.69314718, 0.69314718])
    """
    of = scores if of is None else of
    if bias is None:
        top = scores.max(initial=-np.inf)
        found = np.log(np.exp((scores - top) / temperature).sum()) - (of - top) / temperature if len(scores) else of
    else:
        found = np.logaddexp(0.0, -(of + bias) / temperature)
    limited: Array = np.minimum(found / FARTHEST, 1.0)
    return limited


class Judged(NamedTuple):
    """What calibration reads of one question with known answers."""

    scores: Array  # of all candidates; only the best one if the model gives sets
    worst: float  # the lowest score of a right answer; -inf if walks do not reach all of them
    is_right: float  # whether the first answer is right; a share if several are first

    @classmethod
    def of(cls, concepts: Array, scores: Array, answers: Array, bias: float | None) -> "Judged":
        """Of the candidates of a question and its right answers, both ascending."""
        found = np.isin(concepts, answers)
        is_reached = len(answers) > 0 and int(found.sum()) == len(answers)
        first = scores >= scores.max(initial=-np.inf) - TIED
        kept = scores[first][:1] if bias is not None else scores
        is_right = float(found[first].mean()) if len(scores) else 0.0
        return cls(kept, float(scores[found].min()) if is_reached else -math.inf, is_right)

    def nonconformity(self, bias: float | None, temperature: float) -> float:
        """The nonconformity score of the question, rounded up."""
        if self.worst == -math.inf:
            return 1.0
        steps, of = 10.0**DIGITS, np.array([self.worst])
        found = float(nonconformity(self.scores, bias, temperature, of)[0])
        return min(1.0, math.ceil(round(found * steps, 3)) / steps)


def fit_open(judged: Sequence[Judged], bias: float | None, source: str) -> Calibration:
    """Fit the temperature, and compute the nonconformity scores of questions. With fewer than 50 questions it stays 1."""
    temperature = _fitted(judged, bias) if len(judged) >= FEWEST else 1.0
    found = [one.nonconformity(bias, temperature) for one in judged]
    if len(found) > MOST:
        found = np.random.default_rng(0).choice(found, MOST, replace=False).tolist()
    return Calibration(temperature, tuple(sorted(found)), len(judged), source)


def _fitted(judged: Sequence[Judged], bias: float | None) -> float:
    """The temperature of the smallest loss: the best of a grid, then golden-section search around it."""

    def loss(log_temperature: float) -> float:
        sure = [confidence_at(one.scores, bias, math.exp(log_temperature)) for one in judged]
        return log_loss(sure, [one.is_right for one in judged])

    grid = np.linspace(math.log(LOWEST), math.log(HIGHEST), 25).tolist()
    best = min(range(len(grid)), key=lambda place: loss(grid[place]))
    low, high = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(STEPS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if loss(left) <= loss(right) else (left, high)
        if high - low < 1e-6:
            break
    return min(max(math.exp((low + high) / 2), LOWEST), HIGHEST)


def log_loss(sure: Sequence[float], right: Sequence[float]) -> float:
    """The mean negative log-likelihood of answers that are right with the probabilities ``sure``.

    >>> log_loss([0.5, 0.5], [1.0, 0.0]) == math.log(2)
    True
    """
    p, y = np.clip(np.asarray(sure), SMALLEST, 1 - SMALLEST), np.asarray(right)
    return float(-(y * np.log(p) + (1 - y) * np.log(1 - p)).mean())


def covering(run: "OpenRun", concepts: Array, scores: Array, coverage: float) -> Array:
    """The candidates that contain all right answers with a probability, best first; the best one is always among them."""
    assert run.calibration is not None
    threshold = conformal_threshold(run.calibration.scores, coverage)
    scored = nonconformity(scores, run.set_bias, run.temperature)
    order = np.lexsort((concepts, -scores))
    inside = scored[order] <= threshold + 1e-9
    inside[:1] = True
    found: Array = concepts[order][inside]
    return found


def can_cover(calibration: Calibration, coverage: float) -> bool:
    """Whether sets can have a coverage: there are enough questions, and walks reach the right answers of enough of them."""
    return calibration.reaches(coverage) and conformal_threshold(calibration.scores, coverage) < 1.0


def measure_open(sure: Sequence[float], is_right: Sequence[float]) -> dict[str, Any]:
    """Calibration measures of first answers, as JSON values; the names are those of :func:`mhgrn.calibration.measure`.

    Args:
        sure: The confidence of each question.
        is_right: Whether its first answer is right, or the share of its first answers that are.
    """
    p, y = np.asarray(sure, dtype=np.float64), np.asarray(is_right, dtype=np.float64)
    reliability, selective = Reliability.of(p, y), RiskCoverage.of(p, y)  # type: ignore[arg-type]  # shares count as well
    return {
        "expected_calibration_error": reliability.error,
        "adaptive_calibration_error": reliability.adaptive_error,
        "brier_score": float(((p - y) ** 2).mean()),
        "negative_log_likelihood": log_loss(sure, is_right),
        "mean_confidence": float(p.mean()),
        "area_under_risk_coverage": selective.area,
        "least_area_under_risk_coverage": selective.least_area,
        "reliability": [vars(one) for one in reliability.bins],
        "risk_coverage": {"coverage": selective.coverage, "risk": selective.risk},
    }
