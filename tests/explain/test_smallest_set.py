"""The search for the smallest set of facts, against all sets of facts of small random questions."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from mhgrn.explain import smallest_set
from mhgrn.explain.judge import Judge
from mhgrn.explain.smallest_set import Candidates, SmallestSet, ranked, search
from mhgrn.explain.walk_graph import Floats, Mask

Scores = Callable[[Mask], Floats]


def random_scores(rng: np.random.Generator, facts: int, choices: int = 3) -> Scores:
    """Facts that count alone, facts that count only together, and a bend, so that effects do not add up."""
    alone = rng.normal(size=(facts, choices)) * (rng.random((facts, choices)) < 0.4)
    pairs = [tuple(rng.choice(facts, 2, replace=False)) for _ in range(facts)]
    together = 2 * rng.normal(size=(len(pairs), choices)) * (rng.random((len(pairs), choices)) < 0.4)
    base = rng.normal(size=choices)

    def scores(keep: Mask) -> Floats:
        whole = np.array([[row[a] and row[b] for a, b in pairs] for row in keep], dtype=float).reshape(len(keep), -1)
        found: Floats = base + 2 * np.tanh(keep @ alone + whole @ together)
        return found

    return scores


def run(scores: Scores, facts: int, judge: Judge, candidates: Candidates, width: int = 48) -> SmallestSet:
    one = search(judge, candidates, width)
    request = next(one)
    while True:
        if request.gradient:  # of a model that is not differentiable: the effect of each fact that is there
            keep = (request.keep[:, None] & ~np.eye(facts, dtype=bool)).reshape(-1, facts)
            after = judge.logit(scores(keep)).reshape(-1, facts)
            reply = (judge.logit(scores(request.keep))[:, None] - after) * request.keep
        else:
            reply = scores(request.keep)
        try:
            request = one.send(reply)
        except StopIteration as end:
            found: SmallestSet = end.value
            return found


def mask(facts: int, chosen: tuple[int, ...] | list[int]) -> Mask:
    keep = np.zeros((1, facts), dtype=bool)
    keep[0, list(chosen)] = True
    return keep


def question(seed: int, facts: int = 8) -> tuple[Scores, Judge]:
    rng = np.random.default_rng(seed)
    scores = random_scores(rng, facts)
    full = scores(np.ones((1, facts), dtype=bool))[0]
    return scores, Judge(int(full.argmax()), full, scores(np.zeros((1, facts), dtype=bool))[0])


def carries(scores: Scores, judge: Judge, facts: int, chosen: tuple[int, ...], restores: bool = False) -> bool:
    """Both conditions, written out again; and whether the facts restore what the graph gave, if that is asked for."""

    def share(score: Floats) -> float:
        return float((np.exp(score) / np.exp(score).sum())[judge.answer])

    keep = mask(facts, chosen)
    only, without = scores(keep)[0], scores(~keep)[0]
    gave = share(judge.score) - share(judge.without_graph)
    lost = share(judge.score) - share(without)
    if restores and gave > 0 and judge.without_graph.argmax() == judge.answer:
        restores = share(only) - share(judge.without_graph) <= gave / 2
    else:
        restores = False
    necessary = without.argmax() != judge.answer or (gave > 0 and lost > gave / 2)
    return bool(only.argmax() == judge.answer and necessary and not restores)


def smallest_size(scores: Scores, judge: Judge, facts: int, restores: bool = False) -> int | None:
    every = (chosen for size in range(1, 7) for chosen in combinations(range(facts), size))
    return next((len(chosen) for chosen in every if carries(scores, judge, facts, chosen, restores)), None)


@pytest.mark.parametrize(("has_gradient", "small", "misses"), [(False, 500, 0.03), (True, 500, 0.03), (True, 0, 0.1)])
def test_the_set_is_the_smallest_of_all_sets(
    has_gradient: bool, small: int, misses: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200 random questions, the search misses the smallest size in few, and never claims what is not so.

    The last case searches as in a large graph, where derivatives lead.
    """
    monkeypatch.setattr(smallest_set, "THRIFTY", small)
    facts, sought, missed = 8, 0, 0
    for seed in range(200):
        scores, judge = question(seed, facts)
        found = run(scores, facts, judge, Candidates(range(facts), (), np.ones(facts, dtype=bool), has_gradient))
        assert found.dependent == judge.dependent
        if not judge.dependent:
            assert found.facts == []
            continue
        keep = mask(facts, found.facts)
        shares = judge.probabilities(np.concatenate([scores(keep), scores(~keep)]))
        assert [found.only, found.without] == pytest.approx(shares.tolist())
        assert found.without_each == pytest.approx([judge.probabilities(scores(~mask(facts, [f])))[0] for f in found.facts])
        assert found.without_each == sorted(found.without_each)
        assert len(found.facts) <= 6
        plain, full = (smallest_size(scores, judge, facts, restores) for restores in (False, True))
        smallest = full if full is not None and plain is not None and full <= plain + 2 else plain
        if found.carries:
            assert plain is not None
            assert carries(scores, judge, facts, tuple(found.facts))
            assert len(found.facts) >= plain
            restores = carries(scores, judge, facts, tuple(found.facts), restores=True)
            for fact in found.facts:  # none can be dropped
                rest = tuple(one for one in found.facts if one != fact)
                assert not rest or not carries(scores, judge, facts, rest, restores)
        if smallest is not None:
            sought += 1
            missed += not found.carries or len(found.facts) != smallest
    assert sought > 80
    assert missed <= misses * sought


def test_facts_that_count_only_together_are_found_as_walks() -> None:
    """Neither fact of a pair has an effect alone, and a narrow search does not reach the pair by itself."""
    facts, pair = 60, (41, 57)

    def scores(keep: Mask) -> Floats:
        both = keep[:, pair[0]] & keep[:, pair[1]]
        found: Floats = np.stack([3.0 * both, np.ones(len(keep))], axis=1)
        return found

    judge = Judge(0, scores(np.ones((1, facts), dtype=bool))[0], np.array([0.0, 1.0]))
    everything = np.ones(facts, dtype=bool)
    found = run(scores, facts, judge, Candidates(range(8), [pair], everything), width=8)
    assert sorted(found.facts) == list(pair)
    assert found.carries
    assert not run(scores, facts, judge, Candidates(range(8), (), everything), width=8).carries


def test_an_answer_that_does_not_depend_on_the_graph_has_no_facts() -> None:
    judge = Judge(0, np.array([1.0, 0.0]), np.array([0.9, 0.0]))
    found = run(
        lambda keep: np.repeat(judge.score[None], len(keep), axis=0), 4, judge, Candidates(range(4), (), np.ones(4, dtype=bool))
    )
    assert (found.facts, found.dependent, found.carries) == ([], False, False)


def test_rounding_does_not_change_an_order() -> None:
    value = np.array([0.3, 1.0, 0.5, 1.0, 0.3])
    for seed in range(20):
        noise = 1e-7 * np.random.default_rng(seed).normal(size=5)
        assert ranked(value + noise) == [1, 3, 2, 0, 4]
    assert ranked(value, 2) == [1, 3]
