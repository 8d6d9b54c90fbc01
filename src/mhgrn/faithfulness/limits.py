"""The attainable limits of the area over the perturbation curve (Edin et al. 2024).

The best and the worst order of facts depend on the model and the question. With thousands of facts they cannot be found exactly.
For 1 to 10 facts a beam search adds one fact at a time, from the facts that raise and lower the answer most when they are removed
or kept alone. The limits that it finds lie within the true ones.
"""

from collections.abc import Sequence

import numpy as np

from mhgrn.faithfulness.explained import Explained
from mhgrn.faithfulness.metrics import SIZES, Floats, Ints, probabilities
from mhgrn.inference.altered import score_masks

WIDTH = 2  # sets kept at each step
BRANCHES = 12  # facts tried at each step, at least the largest size


def size_limits(explained: Explained, candidates: Sequence[Ints], remove: bool) -> list[tuple[float, float]]:
    """The smallest and the largest mean fall of the answer's probability over ``SIZES``, of each question.

    Args:
        explained: Questions.
        candidates: The facts of each question to choose from.
        remove: Remove the facts; otherwise keep only them.
    """
    alone = _falls(explained, [[[fact] for fact in facts.tolist()] for facts in candidates], remove)
    found = []
    for sign in (-1, 1):
        branches = [
            facts[np.argsort(-sign * fall, kind="stable")[:BRANCHES]] for facts, fall in zip(candidates, alone, strict=True)
        ]
        found.append([sign * total for total in _beam(explained, branches, remove, sign)])
    return list(zip(*found, strict=True))


def _beam(explained: Explained, branches: Sequence[Ints], remove: bool, sign: int) -> list[float]:
    """The largest mean of sign · fall over ``SIZES`` that a beam search finds, of each question."""
    beams: list[dict[frozenset[int], float]] = [{frozenset(): 0.0} for _ in branches]  # set → sum of the falls so far
    last: list[dict[frozenset[int], float]] = [{} for _ in branches]
    for size in range(1, max(SIZES) + 1):
        wider: list[dict[frozenset[int], float]] = []
        for beam, facts in zip(beams, branches, strict=True):
            grown: dict[frozenset[int], float] = {}
            for chosen, total in beam.items():
                for fact in facts.tolist():
                    if fact not in chosen:
                        grown[chosen | {fact}] = max(total, grown.get(chosen | {fact}, -np.inf))
            wider.append(grown or beam)  # all facts are used
        falls = _falls(explained, [[sorted(chosen) for chosen in grown] for grown in wider], remove)
        for q, (grown, fall) in enumerate(zip(wider, falls, strict=True)):
            worth = dict(zip(grown, (sign * fall).tolist(), strict=True))
            sums = {chosen: total + (worth[chosen] if size in SIZES else 0.0) for chosen, total in grown.items()}
            best = sorted(sums, key=lambda chosen: (-(sums[chosen] + worth[chosen]), sorted(chosen)))[:WIDTH]
            beams[q] = {chosen: sums[chosen] for chosen in best}
            last[q] = beams[q]
    return [max(beam.values()) / len(SIZES) for beam in last]


def _falls(explained: Explained, sets: Sequence[Sequence[Sequence[int]]], remove: bool) -> list[Floats]:
    """How much the answer's probability falls without each set of facts, or with it alone, of each question."""
    asked = []
    for masks, mine in zip(explained.masks, sets, strict=True):
        keep = np.full((len(mine), len(masks.facts)), remove)
        for row, facts in enumerate(mine):
            keep[row, list(facts)] = not remove
        asked.append((masks, keep))
    found = []
    for q, score in enumerate(score_masks(asked)):
        answer = explained.read.best[q]
        found.append(probabilities(explained.masks[q].score.numpy())[answer] - probabilities(score.numpy())[:, answer])
    return found
