"""Measures of how well probabilities fit what is right: calibration error, Brier score, likelihood, risk at coverage."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BINS = 15
SMALLEST = 1e-300  # a probability of 0 would have an infinite loss


@dataclass(frozen=True)
class Bin:
    """The questions whose confidence is above ``low`` and at most ``high``."""

    low: float
    high: float
    questions: int
    confidence: float | None  # mean; None without questions
    accuracy: float | None


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: confidence against accuracy in 15 bins of equal width.

    ``error`` is the expected calibration error: the mean of |confidence - accuracy| over bins, weighted by their questions.
    ``adaptive_error`` is the same with 15 bins of equal numbers of questions.

    >>> round(Reliability.of([0.9, 0.9, 0.9, 0.9], [True, True, True, False]).error, 9)
    0.15
    """

    error: float
    adaptive_error: float
    bins: list[Bin]

    @classmethod
    def of(cls, confidence: Sequence[float] | Floats, is_right: Sequence[bool] | NDArray[np.bool_]) -> "Reliability":
        """Of questions with their confidence, the probability of the chosen choice."""
        sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(is_right, dtype=np.float64)
        number = np.clip(np.ceil(sure * BINS).astype(int) - 1, 0, BINS - 1)
        bins = []
        for k in range(BINS):
            inside = number == k
            some = bool(inside.any())
            means = (float(sure[inside].mean()), float(right[inside].mean())) if some else (None, None)
            bins.append(Bin(k / BINS, (k + 1) / BINS, int(inside.sum()), *means))
        parts = [np.flatnonzero(number == k) for k in range(BINS)]
        order, averaged = _by_confidence(sure, right)
        equal = [part for part in np.array_split(np.arange(len(order)), BINS) if len(part)]
        return cls(_error(sure, right, parts), _error(sure[order], averaged, equal), bins)


@dataclass(frozen=True)
class RiskCoverage:
    """The share of wrong answers if only the most confident ones are given.

    ``risk[k]`` is the share of wrong answers among the ``coverage[k]`` most confident. ``area`` is the mean risk over all coverages
    (AURC), ``least_area`` what it would be if confidence ranked all right answers before all wrong ones.

    >>> RiskCoverage.of([0.9, 0.8], [True, False]).risk
    [0.0, 0.5]
    """

    coverage: list[float]
    risk: list[float]
    area: float
    least_area: float

    @classmethod
    def of(cls, confidence: Sequence[float] | Floats, is_right: Sequence[bool] | NDArray[np.bool_]) -> "RiskCoverage":
        sure, right = np.asarray(confidence, dtype=np.float64), np.asarray(is_right, dtype=np.float64)
        _, averaged = _by_confidence(sure, right)
        risk, least = (_risks(1 - ranked) for ranked in (averaged[::-1], np.sort(right)[::-1]))
        coverage = (np.arange(1, len(sure) + 1) / len(sure)).tolist()
        return cls(coverage, risk.tolist(), float(risk.mean()), float(least.mean()))

    def at(self, coverage: float) -> float:
        """The risk at a coverage, of the smallest number of questions that reaches it."""
        return self.risk[max(0, math.ceil(coverage * len(self.risk) - 1e-9) - 1)]


def measure(probabilities: Sequence[Sequence[float] | Floats], chosen: Sequence[int], answers: Sequence[int]) -> dict[str, Any]:
    """All measures of a split, as JSON values.

    Args:
        probabilities: Of each question's choices.
        chosen: The choice that was made for each question.
        answers: The right choice of each question.

    >>> measure([[0.75, 0.25]] * 4, [0] * 4, [0, 0, 0, 1])["expected_calibration_error"]
    0.0
    """
    confidence = np.array([of[c] for of, c in zip(probabilities, chosen, strict=True)])
    right = np.array([c == answer for c, answer in zip(chosen, answers, strict=True)])
    losses = [-math.log(max(of[answer], SMALLEST)) for of, answer in zip(probabilities, answers, strict=True)]
    brier = [
        math.fsum((p - (c == answer)) ** 2 for c, p in enumerate(of)) for of, answer in zip(probabilities, answers, strict=True)
    ]
    reliability, selective = Reliability.of(confidence, right), RiskCoverage.of(confidence, right)
    return {
        "expected_calibration_error": reliability.error,
        "adaptive_calibration_error": reliability.adaptive_error,
        "brier_score": math.fsum(brier) / len(brier),
        "negative_log_likelihood": math.fsum(losses) / len(losses),
        "mean_confidence": float(confidence.mean()),
        "area_under_risk_coverage": selective.area,
        "least_area_under_risk_coverage": selective.least_area,
        "reliability": [asdict(one) for one in reliability.bins],
        "risk_coverage": {"coverage": selective.coverage, "risk": selective.risk},
    }


def _by_confidence(sure: Floats, right: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The order of confidence, and in this order who is right; questions of equal confidence share their mean.

    So the order of the questions in their file does not matter.
    """
    order = np.argsort(sure, kind="stable")
    averaged = right[order]
    changes = np.flatnonzero(np.diff(sure[order])) + 1
    for start, stop in pairwise([0, *changes.tolist(), len(order)]):
        averaged[start:stop] = averaged[start:stop].mean()
    return order, averaged


def _error(sure: Floats, right: Floats, parts: Sequence[NDArray[np.int64]]) -> float:
    gaps = [abs(float(sure[part].sum() - right[part].sum())) for part in parts]
    return math.fsum(gaps) / len(sure)


def _risks(wrong: Floats) -> Floats:
    risks: Floats = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    return risks
