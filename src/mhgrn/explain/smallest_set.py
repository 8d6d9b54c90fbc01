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
be missed; ``tests/explain/test_smallest_set.py`` and ``tests/inference/test_all_sets.py`` compare with an exhaustive search.

In a small graph the effect of each candidate fact alone says which sets are promising. In a large one, and if that search finds
nothing, derivatives do: those by the facts that are left when a set is removed. A large graph has many facts that do little alone
and more once others are gone, also by way of the other choices.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from mhgrn.explain.judge import TIED, Judge
from mhgrn.explain.walk_graph import Floats, Mask

MOST_FACTS = 6  # of a set
MORE = 2  # facts that a set may have more to restore what the graph gave
THRIFTY = 500  # facts of a small graph; in a larger one derivatives lead the search. Without derivatives it skips sizes at which
HOPELESS = 0.6  # … the effects of the best facts add up to a smaller part of the effect that is wanted
TRIES = 3  # … and removes at most so many times the number of sets of one size
BEAM = 6  # sets of each size that are extended
SINGLES = 16  # facts that sets are extended by
LED = 2  # sets of each size that are extended by derivatives
ADDED = 4  # sets that are removed for each of them
FIRST = 0.6  # part of the width: single facts that are removed before derivatives lead
FRESH = (1, 2, 4)  # sizes of sets without which derivatives are computed again; between them they change little
OPTIMISM = 2.0  # a set is extended while so many times the derivatives of the best facts might reach the effect that is wanted
NEVER = -1e6  # the effect of a fact that is not known or not allowed
ONLY = 2  # sets that are tried alone for each that is removed: few facts are scored quickly

Set = tuple[int, ...]  # ascending numbers of facts


class Request(NamedTuple):
    """What the search asks for: the scores [M, choices] of masks, or the derivatives [M, F] of the answer's logit by the weights of
    the facts that masks keep."""

    keep: Mask  # [M, F]
    gradient: bool = False


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
        facts: Numbers of facts that are removed one at a time, most promising first.
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
    places = np.arange(len(value))
    if count and count < len(value):  # sort only what may be among the first, with some room for ties
        last = float(np.partition(value, len(value) - count)[len(value) - count])
        places = np.flatnonzero(value >= last - 100 * TIED * max(1.0, abs(last)))
        value = value[places]
    order = np.argsort(-value, kind="stable")
    gap = np.diff(value[order], prepend=value[order[:1]])
    group = np.cumsum(gap < -TIED * np.maximum(1.0, np.abs(value[order])))
    found: list[int] = places[order[np.lexsort((order, group))]].tolist()
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
    facts, found, slope = list(candidates.facts), None, None
    if candidates.has_gradient:
        (slope,) = yield Request(np.ones((1, size), dtype=bool), gradient=True)
        best = [fact for fact in ranked(np.where(candidates.mine, slope, NEVER), SINGLES) if candidates.mine[fact]]
        taking_turns = [fact for pair in zip_longest(best, facts) for fact in pair if fact is not None]
        facts = list(dict.fromkeys([*taking_turns, *ranked(slope, SINGLES)]))  # derivatives and attention propose different facts
    if slope is None or size <= THRIFTY:
        effect = np.full(size, NEVER) if slope is None else slope.copy()
        found = yield from _levels(tried, facts, effect, candidates, width, most)
    if slope is not None and found is None:
        found = yield from _descend(tried, facts[: max(ADDED, int(FIRST * width))], slope, candidates, most)
    if found is None:
        found = _nearest(tried, tried.both())
    return (yield from _finished(tried, found))


def _levels(
    tried: _Tried, facts: list[int], effect: Floats, candidates: Candidates, width: int, most: int
) -> Generator[Request, Floats, Set | None]:
    """Look at sets of 1, 2, … facts. ``effect`` estimates how much the answer's log odds fall without each fact; it is made exact
    where facts are removed."""
    removed = facts[: width if candidates.has_gradient else None]
    yield from tried.score([(fact,) for fact in facts], [(fact,) for fact in removed])
    effect[removed] = tried.drop([(fact,) for fact in removed])
    order = np.array(facts, dtype=np.int64)
    singles = order[ranked(effect[order], SINGLES)].tolist() if facts else []
    units = [(fact,) for fact in singles] + _walks(candidates, singles[:BEAM], effect)
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
        restoring, carrying, beams[level] = _of_size(tried, level, candidates.mine, BEAM)
        if restoring is not None:
            return restoring
        smallest = carrying if smallest is None else smallest
    return smallest


def _walks(candidates: Candidates, facts: Sequence[int], effect: Floats) -> list[Set]:
    """The proposed walks of several facts, and those that some facts are completed to."""
    completed = [walk for fact in facts for walk in candidates.complete(fact, effect)]
    return [walk for walk in dict.fromkeys([*candidates.walks, *completed]) if len(walk) > 1]


def _of_size(tried: _Tried, size: int, mine: Mask, count: int) -> tuple[Set | None, Set | None, list[Set]]:
    """Of the sets of one size: the best that carries the answer and restores what the graph gave, the best that carries it, and
    the ones that come nearest."""
    sets = [one for one in tried.both() if len(one) == size]
    if not sets:
        return None, None, []
    missing = tried.missing(sets)
    both = [one for one, far in zip(sets, missing.tolist(), strict=True) if far == 0]
    restoring = tried.restoring(both)
    far = missing + tried.judge.unrestored(np.stack([tried.only[one] for one in sets]))
    nearest = [sets[place] for place in ranked(-far, count)]
    return _best(tried, restoring, mine) if restoring else None, _best(tried, both, mine) if both else None, nearest


def _best(tried: _Tried, sets: Sequence[Set], mine: Mask) -> Set:
    """The one of several sets that carries the answer best: of facts of its graph, then by its effects with and without."""
    margin = np.minimum(tried.judge.margin(np.stack([tried.only[one] for one in sets])), 10)
    foreign = np.array([float((~mine[list(one)]).sum()) for one in sets])
    return sets[ranked(margin + np.minimum(tried.drop(sets), 10) - 100 * foreign, 1)[0]]


def _descend(
    tried: _Tried, facts: list[int], slope: Floats, candidates: Candidates, most: int
) -> Generator[Request, Floats, Set | None]:
    """Extend sets by the facts that have the largest derivatives without them. ``slope`` [F] has those with all facts."""
    judge = tried.judge
    singles = list(dict.fromkeys([*facts, *ranked(slope, ADDED)]))
    yield from tried.score([(fact,) for fact in singles], [(fact,) for fact in singles])
    effect = slope.copy()
    effect[singles] = tried.drop([(fact,) for fact in singles])
    bend = effect - slope  # the part of the effects that derivatives do not show
    best = [singles[place] for place in ranked(effect[singles], LED)]
    walks = _walks(candidates, best, effect)
    gains: dict[Set, Floats] = {(): effect}  # set → an estimate of what removing each other fact adds
    beam: list[Set] = [()]
    smallest: Set | None = None  # that carries the answer, but does not restore what the graph gave
    for level in range(1, most + 1):
        if smallest is not None and level > len(smallest) + MORE:
            break
        if level > 1:
            yield from _extend(tried, level, gains, walks, effect)
        restoring, carrying, beam = _of_size(tried, level, candidates.mine, LED)
        if restoring is not None:
            return restoring
        smallest = carrying if smallest is None else smallest
        if level == most:
            break
        known = {one: next((gain for base, gain in gains.items() if {*base} <= {*one}), effect) for one in beam}
        left = {one: judge.wanted - fallen for one, fallen in zip(beam, tried.drop(beam).tolist(), strict=True)}
        beam = [one for one in beam if OPTIMISM * _best_sum(known[one], one, most - level) >= left[one]]
        if not beam:
            break
        keep = np.ones((len(beam), tried.size), dtype=bool)
        for row, one in enumerate(beam):
            keep[row, list(one)] = False
        if level in FRESH:
            slopes = yield Request(keep, gradient=True)
            known = {one: of + bend for one, of in zip(beam, slopes, strict=True)}
        gains = {one: np.where(kept, known[one], NEVER) for one, kept in zip(beam, keep, strict=True)}
    return smallest


def _best_sum(gain: Floats, chosen: Set, count: int) -> float:
    """The sum of the largest gains of ``count`` facts that are not chosen yet."""
    others = np.delete(gain, list(chosen))
    first = len(others) - min(count, len(others))
    return float((others if not first else np.partition(others, first)[first:]).clip(0).sum())


def _extend(
    tried: _Tried, level: int, gains: dict[Set, Floats], walks: Sequence[Set], effect: Floats
) -> Generator[Request, Floats, None]:
    """Score sets of one size: extensions of smaller sets by a fact or by what they lack of a walk, and whole walks."""
    judge = tried.judge
    expected = {walk: float(effect[list(walk)].clip(-10, 10).sum()) for walk in walks if len(walk) == level}
    for (base, gain), fallen in zip(gains.items(), tried.drop(list(gains)).tolist(), strict=True):
        lacking = [(fact,) for fact in ranked(gain, 2 * ADDED)] + [tuple({*walk} - {*base}) for walk in walks]
        for new in lacking:
            if new and len(base) + len(new) == level:
                expected[tuple(sorted((*base, *new)))] = fallen + float(gain[list(new)].sum())
    sets = sorted(expected)
    sets = [sets[place] for place in ranked(np.array([expected[one] for one in sets]), ONLY * LED * ADDED)]
    if not sets:
        return
    yield from tried.score(sets, ())
    only = np.stack([tried.only[one] for one in sets])
    short = np.maximum(0.0, -judge.margin(only)) + judge.unrestored(only)
    enough = np.minimum([expected[one] for one in sets], judge.wanted)
    yield from tried.score((), [sets[place] for place in ranked(enough - short, LED * ADDED)])


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
