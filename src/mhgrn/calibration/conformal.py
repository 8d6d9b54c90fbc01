"""Split-conformal sets of choices: sets that contain the right choice with a chosen probability.

The nonconformity score of a question is 1 - p(right choice). For a coverage of 1 - α, the threshold is the ⌈(n+1)(1-α)⌉-th smallest
score of n calibration questions, and the set has the choices with 1 - p at most the threshold. If the calibration questions and the
new one are exchangeable, for example drawn at random from the same source, the set contains the right choice with a probability of
at least 1 - α (Vovk et al. 2005; Sadinle et al. 2019).
"""

import math
from collections.abc import Sequence

DIGITS = 5  # of stored scores, which are rounded up: sets become larger rather than smaller
ROUNDING = 1e-6  # the last digits of a probability depend on the batch


def nonconformity(probability: float) -> float:
    """The score of a question whose right choice has this probability, rounded up.

    >>> nonconformity(0.75)
    0.25
    """
    steps = 10.0**DIGITS
    return min(1.0, math.ceil(round((1 - probability) * steps, 3)) / steps)


def conformal_threshold(scores: Sequence[float], coverage: float) -> float:
    """The largest nonconformity score of a choice in the set; 1, so that all choices are, if there are too few scores.

    Args:
        scores: Of the calibration questions, in ascending order.
        coverage: The probability with which a set should contain the right choice.

    >>> conformal_threshold([0.1, 0.2, 0.3, 0.4], 0.6), conformal_threshold([0.1, 0.2, 0.3, 0.4], 0.9)
    (0.3, 1.0)
    """
    rank = math.ceil(round((len(scores) + 1) * coverage, 9))
    return scores[rank - 1] if rank <= len(scores) else 1.0


def conformal_set(probabilities: Sequence[float], threshold: float, best: int) -> list[int]:
    """The choices of a set, most probable first. The chosen one is always in it, so that no set is empty.

    >>> conformal_set([0.2, 0.5, 0.3], 0.7, best=1)
    [1, 2]
    """
    inside = [choice for choice, p in enumerate(probabilities) if choice == best or 1 - p <= threshold + ROUNDING]
    return sorted(inside, key=lambda choice: (choice != best, -probabilities[choice]))
