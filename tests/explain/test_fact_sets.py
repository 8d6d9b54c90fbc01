"""The numbered facts of a question, against sets of names written out fact by fact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.explain import QuestionFacts
from mhgrn.subgraphs.extract import Subgraph

SYMMETRIC = {1}


def random_subgraph(rng: np.random.Generator) -> Subgraph:
    """A subgraph of few concepts with all facts of a symmetric relation in both directions, in a random order."""
    concepts = rng.permutation(7)[: rng.integers(0, 6)]
    n = len(concepts)
    facts = {tuple(map(int, rng.integers(0, [n, 3, n]))) for _ in range(8)} if n else set()
    facts |= {(t, r, h) for h, r, t in facts if r in SYMMETRIC}
    columns = rng.permutation(np.array(sorted(facts), dtype=np.int64).reshape(-1, 3)).T
    return Subgraph(concepts, np.sort(rng.integers(0, 3, n)), *columns)


def written_out(subgraph: Subgraph) -> list[tuple[frozenset[int] | tuple[int, int], int]]:
    """Each stored fact as (ends, relation), where the ends of a symmetric relation have no order."""
    c = subgraph.concepts.tolist()
    rows = zip(subgraph.head.tolist(), subgraph.relation.tolist(), subgraph.tail.tolist(), strict=True)
    return [(frozenset((c[h], c[t])) if r in SYMMETRIC else (c[h], c[t]), r) for h, r, t in rows]


@given(seed=st.integers(0, 10**6), choices=st.integers(1, 4))
def test_facts_are_the_distinct_facts_of_all_choices(seed: int, choices: int) -> None:
    rng = np.random.default_rng(seed)
    subgraphs = [random_subgraph(rng) for _ in range(choices)]
    found = QuestionFacts.of(subgraphs, SYMMETRIC)
    named = [(frozenset((h, t)) if r in SYMMETRIC else (h, t), r) for h, r, t in found.facts.tolist()]
    assert len(set(named)) == len(named) == len(found)
    assert found.facts.tolist() == sorted(found.facts.tolist())
    assert set(named) == {fact for subgraph in subgraphs for fact in written_out(subgraph)}
    for number, subgraph in zip(found.number, subgraphs, strict=True):
        assert [named[i] for i in number.tolist()] == written_out(subgraph)
    keep = rng.random(len(found)) < rng.random()
    for before, after in zip(subgraphs, found.kept(keep), strict=True):
        rest = [fact for fact in written_out(before) if keep[named.index(fact)]]
        assert written_out(after) == rest
        assert (after is before) == (len(rest) == len(before.head))
        assert after.concepts is before.concepts
        assert after.types is before.types
    chosen = [i for i in range(len(found)) if keep[i]]
    either_way = np.array([row if rng.random() < 0.5 or row[1] not in SYMMETRIC else row[::-1] for row in found.facts.tolist()])
    assert found.places(either_way.reshape(-1, 3)[chosen], SYMMETRIC).tolist() == chosen
    with pytest.raises(AssertionError, match="not one of the question's"):
        found.places(np.array([[0, 9, 0]]), SYMMETRIC)
    assert found.mask(chosen).tolist() == keep.tolist()
