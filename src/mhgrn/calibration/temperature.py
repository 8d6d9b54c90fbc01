"""Temperature scaling (Guo et al. 2017): scores are divided by one number before the softmax."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LOWEST, HIGHEST = 0.05, 20.0  # temperatures; a model that is always right would have 0, one that knows nothing infinity
STEPS = 100  # of the bisection: more than the digits of a float


def softmax(scores: Sequence[float] | Floats, temperature: float = 1.0) -> Floats:
    """The probabilities of a question's choices.

    >>> softmax([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """
    scaled = np.asarray(scores, dtype=np.float64) / temperature
    shares = np.exp(scaled - scaled.max())
    total: Floats = shares / shares.sum()
    return total


def fit_temperature(scores: Sequence[Sequence[float] | Floats], answers: Sequence[int]) -> float:
    """The temperature that minimizes the mean negative log-likelihood of the right choices.

    The loss Σ_q log Σ_c exp(β s_qc) - β s_q,right is convex in β = 1/T, so its derivative has one change of sign, which bisection
    finds. The result does not depend on the order of the questions beyond rounding.

    Args:
        scores: The scores of each question's choices, at temperature 1. Questions may have different numbers of choices.
        answers: The number of each question's right choice.

    Returns:
        A temperature from 0.05 to 20; 1 if no score of a question differs.

    >>> round(fit_temperature([[2.0, 0.0]] * 4, [0, 0, 0, 1]), 6)  # 3 of 4 are right: exp(2/T) is 3
    1.820478
    """
    table = _table(scores)  # [questions, most choices], -inf where a question has fewer
    known = np.where(np.isfinite(table), table, 0.0)
    right = table[np.arange(len(table)), np.asarray(answers)]

    def slope(beta: float) -> float:
        shares = np.exp(beta * (table - table.max(axis=1, keepdims=True)))
        expected = (shares * known).sum(axis=1) / shares.sum(axis=1)
        return float((expected - right).sum())

    low, high = 1 / HIGHEST, 1 / LOWEST
    at_ends = slope(low), slope(high)
    if at_ends[0] == at_ends[1] == 0:
        return 1.0
    if at_ends[0] >= 0:
        return HIGHEST
    if at_ends[1] <= 0:
        return LOWEST
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return 1 / low


def _table(scores: Sequence[Sequence[float] | Floats]) -> Floats:
    widest = max(map(len, scores))
    table = np.full((len(scores), widest), -np.inf)
    for row, of_question in zip(table, scores, strict=True):
        row[: len(of_question)] = of_question
    return table
