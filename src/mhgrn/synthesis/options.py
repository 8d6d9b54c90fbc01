"""Options of synthesis."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from mhgrn.errors import UserError, did_you_mean
from mhgrn.printing import shortened, shown
from mhgrn.questions.reading import SPLITS

Strategy = Literal["random", "same-relation", "near-graph", "near-text"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
MIXED = "mixed"
MOST_CHOICES = 100


@dataclass(frozen=True)
class SynthesisOptions:
    """How questions are made from a graph.

    Args:
        count: Number of questions.
        choices: Choices of a question.
        hops: Facts that a question is made of: 1, 2, or both in equal parts.
        distractors: How wrong choices are found: ``random``, ``same-relation``, ``near-graph``, ``near-text``, or ``mixed``, which
            uses all of them.
        hide: Share of the questions whose facts are hidden from their own subgraphs.
        combined: Share of the questions about one fact that also say a second fact of the answer. Up to three wrong choices fit the
            first fact only, as in CommonsenseQA. Fewer are made where the graph has no such choices.
        negated: Share of the questions about one fact that ask for what does not fit, "Where would you not find a fish?". The other
            choices fit. Fewer are made where the graph has too few choices that fit.
        split: Shares of train, dev and test. Their sum is 1; a split with a share of 0 is not written.
        seed: The same graph, options and seed give the same questions.
        temperature: Relations are drawn by the number of their facts to this power. 1 draws them as often as they occur, 0 equally
            often.
        min_degree: Concepts with fewer neighbors are not used.
        max_words: Concepts with more words are not used; 4 at most.
        workers: Number of threads. They do not change the result.

    >>> SynthesisOptions(hide=2)
    Traceback (most recent call last):
    mhgrn.errors.UserError: hide is 2; it should be a number from 0 to 1.
    """

    count: int = 50_000
    choices: int = 5
    hops: Sequence[int] = (1, 2)
    distractors: str = MIXED
    hide: float = 0.5
    combined: float = 0.0
    negated: float = 0.0
    split: Sequence[float] = (0.96, 0.02, 0.02)
    seed: int = 0
    temperature: float = 0.5
    min_degree: int = 2
    max_words: int = 4
    workers: int = os.cpu_count() or 1

    def __post_init__(self) -> None:
        ranges = {
            "count": (1, 10**9),
            "choices": (2, MOST_CHOICES),
            "min_degree": (1, 10**6),
            "max_words": (1, 4),
            "seed": (0, 2**63 - 1),
            "workers": (1, 10**4),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UserError(f"{name} is {shortened(value)}; it should be an integer from {low:,} to {high:,}.")
        for name in ("hide", "combined", "negated", "temperature"):
            if not _is_share(value := getattr(self, name)):
                raise UserError(f"{name} is {shortened(value)}; it should be a number from 0 to 1.")
        if not isinstance(self.hops, Sequence) or not self.hops or not all(hop in (1, 2) for hop in self.hops):
            raise UserError(f"hops is {shortened(self.hops)}; give 1, 2 or both.")
        if self.distractors not in (known := [*STRATEGIES, MIXED]):
            raise UserError(f"distractors is {shortened(self.distractors)}.{did_you_mean(shown(self.distractors), known)}")
        is_list = isinstance(self.split, Sequence) and not isinstance(self.split, str) and len(self.split) == len(SPLITS)
        if not is_list or not all(map(_is_share, self.split)) or abs(sum(self.split) - 1) > 1e-6:
            raise UserError(f"split is {shortened(self.split)}; give the shares of train, dev and test; their sum is 1.")

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The strategies that choose wrong choices."""
        return STRATEGIES if self.distractors == MIXED else tuple(s for s in STRATEGIES if s == self.distractors)

    def sizes(self) -> dict[str, int]:
        """The number of questions of each split."""
        ends = [round(self.count * sum(self.split[: i + 1])) for i in range(len(SPLITS))]
        found = {split: end - start for split, start, end in zip(SPLITS, [0, *ends], ends, strict=False)}
        for (split, size), share in zip(found.items(), self.split, strict=True):
            if share and not size:
                raise UserError(f"count is {self.count:,}: {split} would have no questions; make more, or use other shares.")
        return {split: size for split, size in found.items() if size}


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1
