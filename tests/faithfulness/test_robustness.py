"""Perturbations change the share of facts that they say, consistently, and leave nodes alone."""

import numpy as np
import pytest

import oracles
from mhgrn.explain import QuestionFacts
from mhgrn.faithfulness.robustness import PERTURBATIONS, uniform
from mhgrn.subgraphs.extract import Subgraph

RELATIONS, SYMMETRIC = 5, frozenset({1})


def subgraphs(seed: int) -> list[Subgraph]:
    rng = np.random.default_rng(seed)
    found = []
    for one in oracles.random_subgraphs(rng, 3, RELATIONS, 12, 60):
        concepts = np.sort(rng.permutation(40)[: len(one.concepts)])
        facts = {(h, r, t) for h, r, t in zip(one.head.tolist(), one.relation.tolist(), one.tail.tolist(), strict=True)}
        facts |= {(t, r, h) for h, r, t in facts if r in SYMMETRIC}  # stored in both directions
        columns = np.array(sorted(facts), dtype=np.int64).reshape(-1, 3).T
        found.append(Subgraph(concepts, one.types, *columns))
    return found


def rows(graphs: list[Subgraph]) -> list[set[tuple[int, int, int]]]:
    found = []
    for g in graphs:
        concepts = np.asarray(g.concepts)
        found.append(set(zip(concepts[g.head].tolist(), np.asarray(g.relation).tolist(), concepts[g.tail].tolist(), strict=True)))
    return found


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_levels(name: str) -> None:
    change = PERTURBATIONS[name]
    for seed in range(6):
        before = subgraphs(seed)
        assert rows(change(before, 0.0, seed, SYMMETRIC, RELATIONS)) == rows(before)
        for strength in (0.3, 1.0):
            after = change(before, strength, seed, SYMMETRIC, RELATIONS)
            again = change(before, strength, seed, SYMMETRIC, RELATIONS)
            assert rows(after) == rows(again)
            facts = QuestionFacts.of(before, SYMMETRIC)
            may = uniform(facts.facts, seed, 0) < strength
            for one, other, number in zip(before, after, facts.number, strict=True):
                assert other.concepts is one.concepts
                if name != "edges deleted":
                    stays = ~may[number]
                    for column in ("head", "relation", "tail"):
                        assert (np.asarray(getattr(other, column))[stays] == np.asarray(getattr(one, column))[stays]).all()
                else:
                    assert len(other.head) == (~may[number]).sum()


def test_what_each_does_at_full_strength() -> None:
    for seed in range(6):
        before = subgraphs(seed)
        facts = QuestionFacts.of(before, SYMMETRIC)
        after = {name: change(before, 1.0, seed, SYMMETRIC, RELATIONS) for name, change in PERTURBATIONS.items()}
        assert all(not len(one.head) for one in after["edges deleted"])
        for one, replaced, rewired in zip(before, after["relations replaced"], after["edges rewired"], strict=True):
            assert (np.asarray(replaced.relation) != np.asarray(one.relation)).all()
            assert (np.asarray(rewired.relation) == np.asarray(one.relation)).all()
            assert (np.asarray(rewired.head) != np.asarray(rewired.tail)).all()
            assert max([*rewired.head.tolist(), *rewired.tail.tolist()], default=0) < max(len(one.concepts), 1)
        swapped = np.full(len(facts), -1)
        for one, number in zip(after["relations swapped"], facts.number, strict=True):
            assert ((swapped[number] == -1) | (swapped[number] == one.relation)).all()  # the same in all choices
            swapped[number] = one.relation
        assert sorted(swapped.tolist()) == sorted(facts.facts[:, 1].tolist())


def test_the_random_numbers_of_facts_are_uniform_and_independent_of_the_question() -> None:
    facts = np.stack(np.unravel_index(np.arange(30_000), (100, 3, 100)), axis=1)
    numbers = uniform(facts, 7, 0)
    for strength in (0.1, 0.25, 0.5):
        assert abs((numbers < strength).mean() - strength) < 0.01
    assert (uniform(facts[500:600], 7, 0) == numbers[500:600]).all()
    assert abs(np.corrcoef(numbers, uniform(facts, 8, 0))[0, 1]) < 0.03
    assert abs(np.corrcoef(numbers, uniform(facts, 7, 1))[0, 1]) < 0.03
