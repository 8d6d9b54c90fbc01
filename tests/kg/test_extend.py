"""A graph extended in memory equals the graph built with all facts."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder
from mhgrn.kg import KnowledgeGraph, Schema
from mhgrn.subgraphs.extract import Extractor

SCHEMA = Schema.from_dict(
    {
        "name": "own",
        "relations": [
            {"name": "isa", "members": ["isa"]},
            {"name": "near", "members": ["near"], "symmetric": True},
            {"name": "part", "members": ["part", "*has"]},
        ],
    }
)
names = st.sampled_from(["cat", "cats", "black_cat", "dog", "animal", "quokka", "x-ray", "café", "zorb"])
facts = st.lists(
    st.tuples(names, st.sampled_from(["isa", "near", "part", "has"]), names).filter(lambda fact: fact[0] != fact[2]),
    min_size=1,
    max_size=8,
)


def by_names(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    return set(chain(*(graph.facts_of(name) for name in graph.names)))


@settings(max_examples=40)
@given(first=facts, more=facts)
def test_an_extended_graph_is_the_graph_of_all_facts(first: list[tuple[str, str, str]], more: list[tuple[str, str, str]]) -> None:
    base = KnowledgeGraph.from_facts(first, SCHEMA)
    before = {name: array.copy() for name, array in base._arrays.items()}
    extended, whole = base.with_facts(more), KnowledgeGraph.from_facts(first + more, SCHEMA)
    assert by_names(extended) == by_names(whole)
    assert sorted(extended.names) == sorted(whole.names)
    assert extended.fact_count == whole.fact_count == len(extended.tail)
    for name in whole.names:
        assert extended.name(extended.id(name)) == name
        near = {extended.name(n) for n in extended.neighbors(extended.id(name)).tolist()}
        assert near == {whole.name(n) for n in whole.neighbors(whole.id(name)).tolist()}
    for rows in (extended.neighbors(i) for i in range(len(extended))):
        assert np.all(np.diff(rows) > 0)
    text = "Cats near a black cat, two quokkas, an x-ray of a dog and zorbs in a café"
    assert sorted(Grounder(extended).concepts(text)) == sorted(Grounder(whole).concepts(text))
    mentions = Grounder(extended).mentions(text, "an animal")
    found, expected = Extractor(extended)(mentions), Extractor(whole)(Grounder(whole).mentions(text, "an animal"))
    assert {extended.name(c) for c in found.concepts.tolist()} == {whole.name(c) for c in expected.concepts.tolist()}
    assert len(found.head) == len(expected.head)
    assert all(np.array_equal(base._arrays[name], array) for name, array in before.items())


def test_invalid_facts_are_refused_with_a_reason() -> None:
    graph = KnowledgeGraph.from_facts([("cat", "isa", "animal")], SCHEMA)
    with pytest.raises(UserError, match=r"'iss' is not a relation of the graph. Did you mean isa\?"):
        graph.with_facts([("a", "iss", "b")])
    for odd in (("a", "isa"), ("a", "isa", 3), ("a", "isa", "b", "c"), "abc"):
        with pytest.raises(UserError, match="is not a tuple of three texts"):
            graph.with_facts([odd])  # type: ignore[list-item]
    with pytest.raises(UserError, match="does not join two different concepts"):
        graph.with_facts([("cat", "isa", " Cat ")])


@pytest.mark.parametrize(
    "fact",
    [5, None, "abc", ("a", "IsA"), ("a", "b", 3), ("x" * 10_001, "IsA", "b"), ("a", "y" * 10**6, "b"), ("\ud800", "b", "c")],
)
def test_what_is_no_fact_is_refused_in_a_short_message(fact: object) -> None:
    with pytest.raises(UserError) as raised:
        KnowledgeGraph.from_facts([("desk", "IsA", "furniture")]).with_facts([fact])  # type: ignore[list-item]
    assert len(str(raised.value)) < 1000


def test_a_graph_with_more_facts_is_saved_with_them(tmp_path: Path) -> None:
    more = KnowledgeGraph.from_facts([("desk", "IsA", "furniture")]).with_facts([("chair", "IsA", "furniture")])
    more.save(tmp_path / "graph")
    loaded = KnowledgeGraph.load(tmp_path / "graph")
    assert loaded.facts_of("furniture") == more.facts_of("furniture")
    assert list(loaded.names) == ["desk", "furniture", "chair"]
