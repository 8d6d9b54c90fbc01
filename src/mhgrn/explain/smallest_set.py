"""The smallest set of facts that carries an answer, found by search over the model's own scores.

Let p be the probability of the answer with all facts, and p₀ its probability without the graph. A set of facts is

- **sufficient** if with only these facts the answer stays the same;
- **necessary** if without them the answer changes, or more than half of what the graph gave is lost: p − p' > (p − p₀) / 2, where
  p' is the answer's probability without these facts, and the graph gave something: p > p₀.

If the answer is the same without the graph, every set is likely to be sufficient. Then a set is preferred that also **restores**
more than half of what the graph gave: with only these facts the answer's probability is above (p + p₀) / 2. It may have up to two
facts more.

An answer **depends** on the graph if without the graph the answer changes or its probability moves by more than 0.1.

The search asks for scores and gets exact ones, so a set that it reports has the properties it reports. It looks at sets of one
fact, then of two, and so on, up to six, and stops at the first size at which it finds a set that is both. At each size it scores a
bounded number of sets: the most promising extensions of the best smaller sets, by facts and by whole walks. So a smaller set may
be missed; ``tests/explain/test_smallest_set.py`` compares with an exhaustive search.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from mhgrn.explain.walk_graph import Floats, Ints, Mask

MOST_FACTS = 6  # of a set
MOST = 0.5  # of what the graph gave is lost without a necessary set
MOVED = 0.1  # the probability of an answer that depends on the graph moves by more
TIED = 1e-5  # numbers that differ by less are equal: the last digits of a score depend on the batch
MORE = 2  # facts that a set may have more to restore what the graph gave
THRIFTY = 500  # a question with more facts skips sizes at which
HOPELESS = 0.6  # … the effects of the best facts add up to a smaller part of the effect that is wanted
TRIES = 3  # … and removes at most so many times the number of sets of one size
BEAM = 6  # sets of each size that are extended
SINGLES = 16  # facts that sets are extended by
NEVER = -1e6  # the effect of a fact that is not known or not allowed
ONLY = 2  # sets that are tried alone for each that is removed: few facts are scored quickly

Set = tuple[int, ...]  # ascending numbers of facts


class Request(NamedTuple):
    """What the search asks for: the scores of masks [M, choices], or the derivative [F] of the answer's logit by the weights of
    facts where a mask [1, F] keeps some of them."""

    keep: Mask  # [M, F]
    gradient: bool = False
    everywhere: bool = True  # the derivative counts the graphs of all choices, not only the answer's


@dataclass(frozen=True)
class Judge:
    """Decides what the scores of a question mean for its answer.

    >>> judge = Judge(answer=0, score=np.array([2.0, 0.0]), without_graph=np.array([0.0, 0.0]))
    >>> judge.dependent, judge.sufficient(np.array([[0.1, 0.0], [0.0, 0.1]])).tolist()
    (True, [True, False])
    >>> judge.necessary(np.array([[0.5, 0.0], [1.9, 0.0]])).tolist()
    [True, False]
    """

    answer: int
    score: Floats  # [choices] with all facts
    without_graph: Floats  # [choices]

    @property
    def probability(self) -> float:
        return float(self.probabilities(self.score[None])[0])

    @property
    def probability_without_graph(self) -> float:
        return float(self.probabilities(self.without_graph[None])[0])

    @property
    def gave(self) -> float:
        """The part of the answer's probability that the graph gave; negative if the graph lowers it."""
        return self.probability - self.probability_without_graph

    @property
    def dependent(self) -> bool:
        """Whether without the graph the answer changes or its probability moves by more than 0.1."""
        return bool(self.answers(self.without_graph[None])[0] != self.answer) or abs(self.gave) > MOVED

    def probabilities(self, scores: Floats) -> Floats:
        """[M] the answer's probability, from scores [M, choices]."""
        share = np.exp(scores - scores.max(1, keepdims=True))
        found: Floats = share[:, self.answer] / share.sum(1)
        return found

    def answers(self, scores: Floats) -> Ints:
        """[M] the choice with the highest score; the first one if several are equal up to rounding."""
        found: Ints = (scores >= scores.max(1, keepdims=True) - TIED).argmax(1)
        return found

    def sufficient(self, only: Floats) -> Mask:
        """[M] whether the answer stays the same, from the scores [M, choices] with only some facts."""
        found: Mask = self.answers(only) == self.answer
        return found

    def necessary(self, without: Floats) -> Mask:
        """[M] whether the answer changes or loses most of what the graph gave, from the scores [M, choices] without some facts."""
        lost = self.probability - self.probabilities(without)
        found: Mask = (self.answers(without) != self.answer) | ((self.gave > 0) & (lost > MOST * self.gave))
        return found

    def restores(self, only: Floats) -> Mask:
        """[M] whether some facts alone give back most of what the graph gave; always, if the answer needs the graph."""
        found: Mask = self.unrestored(only) == 0
        return found

    def unrestored(self, only: Floats) -> Floats:
        """[M] how much the answer's log odds lack to give back most of what the graph gave."""
        if self.gave <= 0 or self.answers(self.without_graph[None])[0] != self.answer:
            return np.zeros(len(only))
        wanted = _logit(np.array(self.probability_without_graph + MOST * self.gave))
        found: Floats = np.maximum(0.0, wanted - self.logit(only))
        return found

    def margin(self, scores: Floats) -> Floats:
        """[M] how far the answer is ahead of the best other choice."""
        others = np.delete(scores, self.answer, axis=1)
        found: Floats = scores[:, self.answer] - others.max(1)
        return found

    def logit(self, scores: Floats) -> Floats:
        """[M] the log odds of the answer."""
        p = self.probabilities(scores)
        return _logit(p)

    @property
    def wanted(self) -> float:
        """How much the answer's log odds must fall before it loses most of what the graph gave, or changes."""
        change = float(self.margin(self.score[None])[0])
        if self.gave <= 0:
            return change
        half = _logit(np.array(self.probability - MOST * self.gave))
        return min(change, float(self.logit(self.score[None])[0] - half))

    def missing(self, only: Floats, without: Floats) -> Floats:
        """[M] how far sets are from being sufficient and necessary, in units of the score; 0 if they are both."""
        to_change = np.maximum(self.margin(without), 0.0)
        if self.gave > 0:
            to_lose = self.logit(without) - _logit(np.array(self.probability - MOST * self.gave))
            to_change = np.minimum(to_change, np.maximum(to_lose, 0.0))
        found: Floats = np.where(self.sufficient(only), 0.0, np.maximum(-self.margin(only), 0.0) + TIED)
        return found + np.where(self.necessary(without), 0.0, to_change + TIED)


def _logit(p: Floats) -> Floats:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    found: Floats = np.log(p) - np.log1p(-p)
    return found


@dataclass(frozen=True)
class SmallestSet:
    """A set of facts, by their numbers among the question's, and what the answer is with only them and without them."""

    facts: list[int]  # the one with the largest effect first
    dependent: bool  # whether the answer depends on the graph
    sufficient: bool
    necessary: bool
    probability: float  # of the answer
    without_graph: float  # … without the graph
    only: float  # … with only these facts
    without: float  # … without these facts
    without_each: list[float] = field(default_factory=list)  # … without each of the facts
    answer_without_graph: int = 0  # the choice that becomes the answer
    answer_only: int = 0
    answer_without: int = 0

    @property
    def carries(self) -> bool:
        """Whether the set is both sufficient and necessary."""
        return self.sufficient and self.necessary and bool(self.facts)


@dataclass(frozen=True)
class Candidates:
    """What a search starts with.

    Args:
        facts: Numbers of facts, most promising first; those of the answer's graph that are removed one at a time.
        walks: Sets of facts that may matter only together.
        mine: [F] the facts of the answer's graph.
        has_gradient: Whether derivatives can be asked for.
        complete: Add to a fact of the answer's graph those that make it a walk from the question to the answer, best first, given
            the effects [F] of all facts.
    """

    facts: Sequence[int]
    walks: Sequence[Set]
    mine: Mask
    has_gradient: bool = False
    complete: Callable[[int, Floats], Iterable[Set]] = lambda fact, effect: ()


def ranked(value: Floats, count: int | None = None) -> list[int]:
    """The places of the largest values, the largest first; equal ones, up to rounding, in their order.

    >>> ranked(np.array([1.0, 3.0 - 1e-9, 3.0]))
    [1, 2, 0]
    """
    order = np.argsort(-value, kind="stable")
    gap = np.diff(value[order], prepend=value[order[:1]])
    group = np.cumsum(gap < -TIED * np.maximum(1.0, np.abs(value[order])))
    found: list[int] = order[np.lexsort((order, group))].tolist()
    return found[:count]


Search = Generator[Request, Floats, SmallestSet]


@dataclass
class _Tried:
    """The sets that were scored."""

    judge: Judge
    size: int  # F
    only: dict[Set, Floats] = field(default_factory=dict)
    without: dict[Set, Floats] = field(default_factory=dict)

    def score(self, only: Iterable[Set], without: Iterable[Set]) -> Generator[Request, Floats, None]:
        alone = [one for one in dict.fromkeys(only) if one not in self.only]
        removed = [one for one in dict.fromkeys(without) if one not in self.without]
        if alone or removed:
            keep = np.zeros((len(alone) + len(removed), self.size), dtype=bool)
            for row, one in enumerate(alone + removed):
                keep[row, list(one)] = True
            keep[len(alone) :] ^= True
            scores = yield Request(keep)
            self.only |= dict(zip(alone, scores, strict=False))
            self.without |= dict(zip(removed, scores[len(alone) :], strict=True))

    def missing(self, sets: Sequence[Set]) -> Floats:
        if not sets:
            return np.zeros(0)
        return self.judge.missing(np.stack([self.only[one] for one in sets]), np.stack([self.without[one] for one in sets]))

    def restoring(self, sets: Sequence[Set]) -> list[Set]:
        """Those that alone give back most of what the graph gave."""
        return [one for one in sets if self.judge.restores(self.only[one][None])[0]]

    def both(self) -> list[Set]:
        return [one for one in self.without if one in self.only]

    def drop(self, sets: Sequence[Set]) -> Floats:
        """How much the answer's log odds fall without each of the sets."""
        full = self.judge.logit(self.judge.score[None])[0]
        found: Floats = full - self.judge.logit(np.stack([self.without[one] for one in sets])) if sets else np.zeros(0)
        return found


def search(judge: Judge, candidates: Candidates, width: int, most: int = MOST_FACTS) -> Search:
    """Find the smallest set of facts that is sufficient and necessary. A generator: it yields requests and is sent scores.

    Args:
        judge: The question's scores with all facts and without the graph.
        candidates: What to start with.
        width: Sets of each size to remove from the graphs.
        most: The largest size.

    Returns:
        The set; the one that comes nearest if none that was tried is both; no facts if the answer does not depend on the graph.
    """
    size = len(candidates.mine)
    tried = _Tried(judge, size)
    yield from tried.score([()], [()])
    if not judge.dependent or not size:
        return _result(tried, ())
    effect = np.full(size, NEVER)  # an estimate of how much the answer's log odds fall without each fact
    walks = list(candidates.walks)
    if candidates.has_gradient:
        effect = yield Request(np.ones((1, size), dtype=bool), gradient=True, everywhere=False)
        effect = effect.copy()
        best = [fact for fact in ranked(np.where(candidates.mine, effect, NEVER), SINGLES) if candidates.mine[fact]]
        taking_turns = [fact for pair in zip_longest(best, candidates.facts) for fact in pair if fact is not None]
        facts = list(dict.fromkeys(taking_turns))  # derivatives and attention propose different facts
    else:
        facts = list(candidates.facts)
    found = yield from _levels(tried, facts, walks, effect, candidates, width, most)
    if found is None and candidates.has_gradient:
        found = yield from _greedy(tried, most)
    if found is None:
        found = _nearest(tried, tried.both())
    return (yield from _finished(tried, found))


def _levels(
    tried: _Tried, facts: list[int], walks: list[Set], effect: Floats, candidates: Candidates, width: int, most: int
) -> Generator[Request, Floats, Set | None]:
    """Look at sets of 1, 2, … facts. ``effect`` is made exact where facts are removed."""
    removed = facts[: width if candidates.has_gradient else None]
    yield from tried.score([(fact,) for fact in facts], [(fact,) for fact in removed])
    effect[removed] = tried.drop([(fact,) for fact in removed])
    order = np.array(facts, dtype=np.int64)
    singles = order[ranked(effect[order], SINGLES)].tolist() if facts else []
    for fact in singles[:BEAM]:
        walks.extend(walk for walk in candidates.complete(fact, effect) if walk not in walks)
    units = [(fact,) for fact in singles] + [walk for walk in dict.fromkeys(walks) if len(walk) > 1]
    beams: dict[int, list[Set]] = {0: [()]}
    is_thrifty = len(candidates.mine) > THRIFTY
    smallest: Set | None = None  # that carries the answer, but does not restore what the graph gave
    for level in range(1, most + 1):
        if smallest is not None and level > len(smallest) + MORE:
            break
        if is_thrifty and len(tried.without) > TRIES * width:
            break
        proposed = {tuple(sorted({*base, *unit})) for beam in beams.values() for base in beam for unit in units}
        proposed |= {tuple(sorted(singles[:level]))}
        sets = sorted(one for one in proposed if len(one) == level)
        if is_thrifty and effect[singles[:level]].clip(0).sum() < HOPELESS * tried.judge.wanted:
            best = tuple(sorted(singles[:level]))
            sets = [one for one in sets if one in units or (level == most and one == best)]  # walks may do more together
        estimated = np.array([effect[list(one)].clip(-10, 10).sum() for one in sets])
        sets = [sets[place] for place in ranked(estimated, ONLY * width)]
        yield from tried.score(sets, ())
        if sets:  # those that are sufficient first, then by how much removing them is expected to do
            only = np.stack([tried.only[one] for one in sets])
            short = np.maximum(0.0, -tried.judge.margin(only)) + tried.judge.unrestored(only)
            sets = [sets[place] for place in ranked(-short, width)]
            yield from tried.score((), sets)
        level_sets = [one for one in tried.both() if len(one) == level]
        missing = tried.missing(level_sets)
        both = [one for one, far in zip(level_sets, missing.tolist(), strict=True) if far == 0]
        if restoring := tried.restoring(both):
            return _best(tried, restoring, candidates.mine)
        if both and smallest is None:
            smallest = _best(tried, both, candidates.mine)
        far = missing + tried.judge.unrestored(np.stack([tried.only[one] for one in level_sets])) if level_sets else missing
        beams[level] = [level_sets[place] for place in ranked(-far, BEAM)]
    return smallest


def _best(tried: _Tried, sets: Sequence[Set], mine: Mask) -> Set:
    """The one of several sets that carries the answer best: of facts of its graph, then by its effects with and without."""
    margin = np.minimum(tried.judge.margin(np.stack([tried.only[one] for one in sets])), 10)
    foreign = np.array([float((~mine[list(one)]).sum()) for one in sets])
    return sets[ranked(margin + np.minimum(tried.drop(sets), 10) - 100 * foreign, 1)[0]]


def _greedy(tried: _Tried, most: int) -> Generator[Request, Floats, Set | None]:
    """Extend the best half of a set by the facts of all choices that have the largest derivatives without it."""
    begun = _nearest(tried, [one for one in tried.both() if len(one) <= most // 2])
    keep = np.ones((1, tried.size), dtype=bool)
    keep[0, list(begun)] = False
    gradient = yield Request(keep, gradient=True)
    added = ranked(np.where(keep[0], gradient, NEVER), min(most, tried.size) - len(begun))
    sets = [tuple(sorted((*begun, *added[: count + 1]))) for count in range(len(added))]
    yield from tried.score(sets, sets)
    return next((one for one, far in zip(sets, tried.missing(sets).tolist(), strict=True) if far == 0), None)


def _nearest(tried: _Tried, sets: Sequence[Set]) -> Set:
    """The set that comes nearest to being sufficient and necessary."""
    far = np.round(tried.missing(sets), 4).tolist()
    return min(zip(far, map(len, sets), sets, strict=True))[2]


def _finished(tried: _Tried, found: Set) -> Search:
    """Drop facts that are not needed, and score each of the others alone."""
    is_both = bool(found) and tried.missing([found])[0] == 0
    while is_both and len(found) > 1:
        smaller = [tuple(one for one in found if one != fact) for fact in found]
        yield from tried.score(smaller, smaller)
        both = [one for one, far in zip(smaller, tried.missing(smaller).tolist(), strict=True) if far == 0]
        both = tried.restoring(both) if tried.restoring([found]) else both
        if not both:
            break
        found = _best(tried, both, np.ones(tried.size, dtype=bool))
    yield from tried.score((), [(fact,) for fact in found])
    return _result(tried, found)


def _result(tried: _Tried, found: Set) -> SmallestSet:
    judge = tried.judge
    only, without = tried.only[found][None], tried.without[found][None]
    order = [found[place] for place in ranked(tried.drop([(fact,) for fact in found]))]
    return SmallestSet(
        facts=order,
        dependent=judge.dependent,
        sufficient=bool(judge.sufficient(only)[0]),
        necessary=bool(judge.necessary(without)[0]),
        probability=judge.probability,
        without_graph=judge.probability_without_graph,
        only=float(judge.probabilities(only)[0]),
        without=float(judge.probabilities(without)[0]),
        without_each=[float(judge.probabilities(tried.without[fact,][None])[0]) for fact in order],
        answer_without_graph=int(judge.answers(judge.without_graph[None])[0]),
        answer_only=int(judge.answers(only)[0]),
        answer_without=int(judge.answers(without)[0]),
    )
