"""The facts that an answer cannot do without, found by removing facts and ranking again.

An answer **is lost** without some facts if it is no answer any more (no walk reaches it, or the model prefers others) or if it
loses more than half of its probability. Facts are **necessary** if the answer is lost without them, and **sufficient** if it is an
answer with only them; compare :mod:`mhgrn.explain.smallest_set`.
"""

from dataclasses import dataclass

import numpy as np

from mhgrn.explain.judge import MOST
from mhgrn.explain.smallest_set import MOST_FACTS
from mhgrn.open.part import Standing, WalkedPart

TRIED = 6  # best remaining walks whose facts are tried


@dataclass(frozen=True)
class NeededFacts:
    """A small set of facts behind an answer, and what the model says with only them and without them.

    Args:
        facts: Their numbers, see :attr:`WalkedPart.facts`; those of the best walk first.
        full: What the model says about the answer with all facts.
        only: … with only these facts.
        without: … without these facts.
        without_each: … without each of them.
    """

    facts: list[int]
    full: Standing
    only: Standing
    without: Standing
    without_each: list[Standing]

    @property
    def sufficient(self) -> bool:
        return bool(self.facts) and self.only.is_answer

    @property
    def necessary(self) -> bool:
        return bool(self.facts) and is_lost(self.full, self.without)

    @property
    def needs_each(self) -> bool:
        """Whether the answer is lost without any single one of the facts."""
        return bool(self.facts) and all(is_lost(self.full, one) for one in self.without_each)


def is_lost(full: Standing, now: Standing) -> bool:
    """Whether a concept that was an answer is none any more, or has lost more than half of its probability."""
    return not now.is_answer or full.probability - now.probability > MOST * full.probability


def needed_facts(part: WalkedPart, answer: int) -> NeededFacts:
    """A set of facts that is sufficient and necessary for an answer, with few facts.

    The search starts with the facts of the best walk. It adds the fact of the best remaining walks that costs the answer most,
    until the answer is lost without the set, or the set has six facts. Then it leaves out facts that the set does not need. What
    it reports about the set is exact; a smaller set may be missed.

    Args:
        part: The part of the graph that the question's walks use.
        answer: The concept.
    """
    nothing = np.zeros(len(part), dtype=bool)

    def with_only(facts: list[int]) -> Standing:
        keep = nothing.copy()
        keep[facts] = True
        return part.standing(answer, keep)

    def without(facts: list[int]) -> Standing:
        return part.standing(answer, part.without(facts))

    full = part.standing(answer)
    chosen: list[int] = []
    for walk in part.best_walks(answer, 1):
        chosen = list(dict.fromkeys(part.fact_numbers(walk)))
    now = without(chosen) if chosen else full
    while chosen and not is_lost(full, now) and len(chosen) < MOST_FACTS:
        walks = part.best_walks(answer, TRIED, part.without(chosen))
        rest = [fact for walk in walks for fact in part.fact_numbers(walk)]
        tried = {fact: without([*chosen, fact]) for fact in dict.fromkeys(rest)}
        if not tried:
            break
        fact, now = min(tried.items(), key=lambda item: (not is_lost(full, item[1]), item[1].score))
        chosen.append(fact)
    for fact in list(chosen) if is_lost(full, now) else ():
        smaller = [other for other in chosen if other != fact]
        if smaller and is_lost(full, without(smaller)) and with_only(smaller).is_answer:
            chosen = smaller
    return NeededFacts(chosen, full, with_only(chosen), without(chosen), [without([fact]) for fact in chosen])
