"""Metrics of explanations, as functions of arrays.

An explanation of a question ranks its facts. The model answers again without the first n facts, and with these facts alone.
``score`` below is an array [..., choices] of scores, and ``answer`` the choice that the model gives with all facts.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mhgrn.scoring import TIED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

SIZES = (1, 2, 3, 5, 10)  # facts
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the question's facts
LEVELS = (*(f"{size}" for size in SIZES), *(f"{share:.0%}" for share in SHARES))


def level_sizes(facts: int) -> list[int]:
    """The number of facts at each of ``LEVELS`` for a question with this many facts.

    >>> level_sizes(30)
    [1, 2, 3, 5, 10, 1, 2, 3, 6, 15]
    >>> level_sizes(2)
    [1, 2, 2, 2, 2, 1, 1, 1, 1, 1]
    """
    wanted = [*SIZES, *(math.ceil(share * facts - 1e-9) for share in SHARES)]
    return [min(facts, size) for size in wanted]


def probabilities(score: Floats) -> Floats:
    """[..., choices] the softmax of scores."""
    weight = np.exp(score - score.max(-1, keepdims=True))
    shares: Floats = weight / weight.sum(-1, keepdims=True)
    return shares


def chosen(score: Floats) -> Ints:
    """[...] the choice with the highest score; the first one if several are equal up to rounding.

    >>> chosen(np.array([[0.0, 1.0, 1.0 + 1e-9], [2.0, 1.0, 0.0]])).tolist()
    [1, 0]
    """
    first: Ints = (score >= score.max(-1, keepdims=True) + math.log1p(-TIED)).argmax(-1)
    return first


def unfaithfulness(full: Floats, kept: Floats) -> Floats:
    """[...] the graph explanation unfaithfulness 1 − exp(−KL) of Agarwal et al. 2023.

    KL is the divergence of the probabilities with the explanation alone from those with all facts, in the order of
    ``torch_geometric.explain.metric.unfaithfulness``.

    Args:
        full: [..., choices] scores with all facts.
        kept: [..., choices] scores with the explanation alone.
    """
    masked = probabilities(kept)
    divergence = (masked * (np.log(np.maximum(masked, 1e-300)) - np.log(np.maximum(probabilities(full), 1e-300)))).sum(-1)
    gef: Floats = 1 - np.exp(-np.maximum(divergence, 0.0))
    return gef


def characterization(fidelity_plus: Floats, fidelity_minus: Floats) -> Floats:
    """The harmonic mean of fidelity+ and 1 − fidelity− (Amara et al. 2022); 0 where one of them is 0.

    >>> characterization(np.array([1.0, 0.5, 0.0]), np.array([0.0, 0.5, 0.2])).round(3).tolist()
    [1.0, 0.5, 0.0]
    """
    one, other = fidelity_plus, 1 - fidelity_minus
    total = one + other
    score: Floats = np.divide(2 * one * other, total, out=np.zeros_like(total), where=total > 0)
    return score


def aopc(drops: Floats) -> Floats:
    """The area over the perturbation curve: the mean fall [..., levels] of the answer's probability (DeYoung et al. 2020)."""
    area: Floats = drops.mean(-1)
    return area


def normalized(value: Floats, low: Floats, high: Floats) -> Floats:
    """A value between the attainable limits, from 0 to 1; NaN where the limits are equal (Edin et al. 2024).

    >>> normalized(np.array([0.2, 0.1]), np.array([0.0, 0.1]), np.array([0.4, 0.1])).tolist()
    [0.5, nan]
    """
    span = high - low
    share: Floats = np.divide(value - low, span, out=np.full_like(span, np.nan), where=span > 1e-9)
    return share


def top_mask(order: Ints, size: int) -> Mask:
    """[F] the first ``size`` facts of an order."""
    mask = np.zeros(len(order), dtype=bool)
    mask[order[:size]] = True
    return mask


def ranking(score: Floats, tie: Sequence[int] | Ints) -> Ints:
    """Facts by their score, highest first; equal ones by ``tie`` [F].

    Scores are rounded, because their last digits depend on the batch.

    >>> ranking(np.array([0.0, 1.0, 0.0]), tie=[2, 0, 1]).tolist()
    [1, 2, 0]
    """
    top = float(np.abs(score).max(initial=0.0)) or 1.0
    order: Ints = np.lexsort((np.asarray(tie), -np.round(score / top, 7)))
    return order
