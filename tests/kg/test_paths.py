"""Paths between concepts against trying every sequence of concepts."""

from itertools import pairwise, permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.explain import ReasoningPath
from mhgrn.kg import Fact, KnowledgeGraph
from mhgrn.kg.paths import find_paths

NAMES = ["a", "b", "c_d", "e", "f", "g", "h"]
RELATIONS = ["IsA", "PartOf"]
triples = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(RELATIONS), st.sampled_from(NAMES)), min_size=1, max_size=20)


def every_path(graph: KnowledgeGraph, start: int, end: int, max_hops: int) -> list[list[str]]:
    joined = {(i, j) for i in range(len(graph)) for j in graph.neighbors(i).tolist()}
    others = [i for i in range(len(graph)) if i not in (start, end)]
    found = []
    for hops in range(1, max_hops + 1):
        ways = ([start, *middle, end] for middle in permutations(others, hops - 1))
        found += sorted(way for way in ways if all(step in joined for step in pairwise(way)))
    return [[graph.name(i) for i in way] for way in found]


@settings(max_examples=60)
@given(rows=triples, max_hops=st.integers(1, 6), limit=st.integers(1, 30), ends=st.tuples(st.integers(0, 6), st.integers(0, 6)))
def test_paths_are_those_of_brute_force_shortest_first(
    rows: list[tuple[str, str, str]], max_hops: int, limit: int, ends: tuple[int, int]
) -> None:
    graph = KnowledgeGraph.from_facts(rows)
    start, end = (i % len(graph) for i in ends)
    assume(start != end)
    facts = {Fact(*row) for row in rows}
    found = find_paths(graph, graph.name(start), graph.name(end), max_hops, limit)
    expected = every_path(graph, start, end, max_hops)
    assert [path.concepts for path in found.paths] == expected[:limit]
    assert (found.found, found.complete) == (len(expected), True)
    everything = every_path(graph, start, end, len(graph))
    assert found.distance == (len(everything[0]) - 1 if everything else None)
    for path in found.paths:
        for here, step, there in zip(path.concepts, path.steps, path.concepts[1:], strict=False):
            assert len(step) == len(set(step))
            assert set(step) == {fact for fact in facts if {fact.head, fact.tail} == {here, there}}
        if all(len(step) == 1 for step in path.steps):  # then it reads as an answer's path does
            assert str(path) == str(ReasoningPath(path.concepts[-1], [step[0] for step in path.steps], path.concepts, 0.0, 1))


@settings(max_examples=30)
@given(rows=triples, max_hops=st.integers(1, 5))
def test_paths_back_are_the_paths_reversed(rows: list[tuple[str, str, str]], max_hops: int) -> None:
    graph = KnowledgeGraph.from_facts(rows)
    assume(len(graph) > 1)
    there, back = (find_paths(graph, graph.name(i), graph.name(1 - i), max_hops, 1000) for i in (0, 1))
    assert sorted(path.concepts for path in there.paths) == sorted(path.concepts[::-1] for path in back.paths)


def test_a_hub_costs_only_what_lies_on_a_path() -> None:
    """Long rows are searched, short ones read: the paths are the same."""
    rows = [(f"leaf{chr(97 + i // 26)}{chr(97 + i % 26)}", "IsA", "hub") for i in range(600)]
    rows += [("start", "IsA", "hub"), ("hub", "PartOf", "middle"), ("middle", "IsA", "end"), ("leafaa", "IsA", "end")]
    found = find_paths(KnowledgeGraph.from_facts(rows), "start", "end", 3)
    assert [str(path) for path in found.paths] == [
        "start —IsA→ hub ←IsA— leafaa —IsA→ end",
        "start —IsA→ hub —PartOf→ middle —IsA→ end",
    ]


def test_several_facts_of_a_step_are_shown_together() -> None:
    rows = [("cat", "Likes", "old dog"), ("old dog", "Fears", "cat"), ("cat", "Meets", "old dog")]
    (path,) = find_paths(KnowledgeGraph.from_facts(rows), "old_dog", "Cat").paths
    assert str(path) == "old dog —Fears→ ←Likes, Meets— cat"


def test_paths_that_are_not_listed_are_counted() -> None:
    rows = [("a", "R", m) for m in "bcdef"] + [(m, "R", "z") for m in "bcdef"] + [("z", "R", "y"), ("p", "R", "q")]
    graph = KnowledgeGraph.from_facts(rows)
    assert str(find_paths(graph, "a", "z", limit=2)).splitlines() == ["a —R→ b —R→ z", "a —R→ c —R→ z", "… and 3 more (--limit)"]
    assert str(find_paths(graph, "a", "y", max_hops=2)) == "no path of at most 2 hops joins a and y; the shortest has 3"
    assert str(find_paths(graph, "a", "q", max_hops=1)) == "no path of at most 1 hop joins a and q; they are not connected"


def test_a_search_that_stops_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{chr(97 + i)}" for i in range(12)]
    graph = KnowledgeGraph.from_facts([(a, "R", b) for a in names for b in names if a < b])
    monkeypatch.setattr("mhgrn.kg.paths.BUDGET", 2000)
    found = find_paths(graph, "na", "nb", max_hops=8, limit=5)
    assert len(found.paths) == 5
    assert not found.complete
    assert str(found).splitlines()[-1] == f"… and at least {found.found - 5:,} more (the search stopped early)"


def test_wrong_ends_are_refused() -> None:
    graph = KnowledgeGraph.from_facts([("cat", "IsA", "animal")])
    for args, says in (
        (("cat", "Cat"), "both ends of the path are 'cat'"),
        (("cat", "animl"), "Did you mean animal"),
        (("cat", "animal", 0), "max_hops is 0; choose 1 to 16"),
        (("cat", "animal", 3, 0), "limit is 0; choose 1 to 100,000"),
    ):
        with pytest.raises(UserError, match=says):
            find_paths(graph, *args)  # type: ignore[arg-type]
