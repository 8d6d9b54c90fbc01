"""The concept index against its definition in Python, and its storage."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.grounding import index as module
from mhgrn.grounding import lemmas
from mhgrn.grounding.grounder import Grounder, Mentions
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.lemmas import concept_pattern, dictionary, lemma, tokenize
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.kg.names import one_edit_away
from mhgrn.subgraphs.extract import Extractor, SubgraphLimits

WORDS = "desks desk children was the my i of zorbling zorblings better good x-ray the-desks re-run- a--b -x café ran 3d ''".split()
names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map("_".join)


@settings(max_examples=50)
@given(st.sets(names, min_size=2, max_size=12))
def test_concepts_are_found_by_their_patterns_and_by_no_others(found: set[str]) -> None:
    first, *others = sorted(found)
    graph = KnowledgeGraph.from_facts([(first, "R", other) for other in others])
    index = ConceptIndex.of(graph)
    by_pattern: dict[tuple[str, ...], list[str]] = {}
    for name in (first, *others):
        if (pattern := concept_pattern(name)) is not None:
            by_pattern.setdefault(pattern, []).append(name)
    for pattern, expected in by_pattern.items():
        assert sorted(graph.name(c) for c in index.with_pattern(pattern)) == expected
    assert len(index._arrays["pattern_concept"]) == sum(map(len, by_pattern.values()))


def test_an_index_knows_its_words_and_all_that_have_their_lemmas() -> None:
    graph = KnowledgeGraph.from_facts([("desks", "AtLocation", "x-ray_café"), ("zorblings", "IsA", "colours_of_ants")])
    index = ConceptIndex.of(graph)
    words = {word for name in graph.names for word in tokenize(name)}
    roots = set(map(lemma, words))
    for word, root in dictionary().items():
        assert index.lemma(word) == (root if root in roots or word in roots else word)
        assert index.knows_word(word) == (root in roots or word in roots)
    assert all(map(index.knows_word, words | roots))
    assert index.lemma("zorblings") == "zorblings"
    assert not index.knows_word("zorbling")


def test_concepts_are_found_by_the_lemmas_of_their_words() -> None:
    graph = KnowledgeGraph.from_facts([("desk", "IsA", "thing"), ("desks", "IsA", "thing"), ("school_desk", "IsA", "desk")])
    index = ConceptIndex.of(graph)
    found = {tuple(lemmas): [graph.name(c) for c in index.with_pattern(lemmas)] for lemmas in (("desk",), ("school", "desk"))}
    assert found == {("desk",): ["desk", "desks"], ("school", "desk"): ["school_desk"]}
    assert index.with_pattern(("desks",)) == []


@settings(max_examples=30)
@given(st.text(alphabet="abc", min_size=1, max_size=5), st.sets(st.text(alphabet="abc-", min_size=1, max_size=6), min_size=2))
def test_words_like_another_are_those_one_edit_away(word: str, names: set[str]) -> None:
    graph = KnowledgeGraph.from_facts([("zebra", "IsA", name) for name in names])
    for index in (ConceptIndex.of(graph), ConceptIndex.of(graph.with_facts([(word, "IsA", "zebra")]))):
        assert index.words_like(word) == set(filter(index.knows_word, one_edit_away(word)))


FACTS = [("desks", "AtLocation", "furniture_store"), ("child", "Likes", "colours")]


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    graph = KnowledgeGraph.from_facts(FACTS)
    graph.save(tmp_path / "graph")
    return graph


def stored(graph: KnowledgeGraph) -> Path:
    assert graph.folder is not None
    return graph.folder / "index"


def opened(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The same graph as another process opens it."""
    assert graph.folder is not None
    return KnowledgeGraph.load(graph.folder)


def test_the_index_is_stored_beside_the_graph_and_loaded_from_there(graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    built = ConceptIndex.of(graph)
    monkeypatch.setattr(ConceptIndex, "build", None)
    loaded = ConceptIndex.of(opened(graph))
    assert loaded.folder == built.folder == stored(graph)
    assert loaded.fingerprint == built.fingerprint
    for name, array in built._arrays.items():
        np.testing.assert_array_equal(loaded._arrays[name], array)
    assert ConceptIndex.of(graph) is built


def test_an_index_that_was_made_before_the_graph_was_saved_is_stored_too(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts(FACTS)
    built = ConceptIndex.of(graph)
    graph.save(tmp_path / "graph")
    assert ConceptIndex.of(graph) is built
    assert built.folder == stored(graph)


def damage_array(folder: Path) -> None:
    (folder / "word_lemma.npy").write_bytes(b"")


def exchange_array(folder: Path) -> None:
    np.save(folder / "word_lemma.npy", np.zeros(1, dtype=np.int32))


def other_format(folder: Path) -> None:
    (folder / "index.json").write_text(json.dumps({"format": 99}))


def other_graph(folder: Path) -> None:
    other = KnowledgeGraph.from_facts([("cat", "IsA", "animal")])
    shutil.rmtree(folder)
    ConceptIndex.build(other).save(folder)


@pytest.mark.parametrize("spoil", [shutil.rmtree, damage_array, exchange_array, other_format, other_graph])
def test_an_index_that_does_not_fit_is_built_again(graph: KnowledgeGraph, spoil: object) -> None:
    built = ConceptIndex.of(graph)
    spoil(stored(graph))  # type: ignore[operator]
    assert ConceptIndex.of(opened(graph)).fingerprint == built.fingerprint
    assert ConceptIndex.load(stored(graph), graph).fingerprint == built.fingerprint


def test_an_update_of_the_dictionary_that_changes_no_lemma_changes_no_fingerprint(
    graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ConceptIndex.of(graph).fingerprint
    monkeypatch.setattr(module, "LEMMATIZER", "simplemma 99.0, rules 3")
    again = opened(graph)
    assert again.fingerprint == graph.fingerprint
    assert ConceptIndex.of(again).fingerprint == before
    assert json.loads((stored(graph) / "index.json").read_text())["lemmatizer"] == "simplemma 99.0, rules 3"


def test_an_update_of_the_dictionary_that_changes_a_lemma_changes_the_fingerprint_of_the_index_alone(
    graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mhgrn.grounding.patterns import known_words

    before = ConceptIndex.of(graph).fingerprint
    changed = dictionary() | {"desks": "desks"}
    monkeypatch.setattr(module, "LEMMATIZER", "simplemma 99.0, rules 3")
    monkeypatch.setattr(lemmas, "dictionary", lambda: changed)
    monkeypatch.setattr("mhgrn.grounding.patterns.dictionary", lambda: changed)
    known_words.cache_clear()
    try:
        again = opened(graph)
        assert ConceptIndex.of(again).fingerprint != before
    finally:
        known_words.cache_clear()
    assert again.fingerprint == graph.fingerprint
    assert KnowledgeGraph.from_facts(FACTS).fingerprint == graph.fingerprint


def test_saving_the_same_graph_again_keeps_its_index_and_another_graph_drops_it(graph: KnowledgeGraph) -> None:
    assert graph.folder is not None
    ConceptIndex.of(graph)
    KnowledgeGraph.from_facts(FACTS).save(graph.folder)
    assert ConceptIndex.load(stored(graph), graph)
    KnowledgeGraph.from_facts([*FACTS, ("cat", "Likes", "child")]).save(graph.folder)
    assert not stored(graph).exists()


def test_a_graph_extended_twice_has_the_words_of_all_its_facts() -> None:
    graph = KnowledgeGraph.from_facts(FACTS)
    twice = graph.with_facts([("quokkas", "Likes", "child")]).with_facts([("x-ray", "Likes", "quokkas"), ("cat", "Likes", "x-ray")])
    assert Grounder(twice).concepts("Two cats, desks and quokkas, and an x ray") == ["cat", "desks", "quokkas", "x-ray"]
    assert twice.fact_count == 5


def test_grounding_and_extraction_read_little_of_a_large_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and index stay mapped: only blocks that hold what a question asks for are read, also for a long unknown word."""
    letters = [f"{chr(97 + i)}{chr(97 + j)}{chr(97 + k)}" for i in range(26) for j in range(26) for k in range(26)]
    table = tmp_path / "facts.tsv"
    table.write_text("".join(f"zqqqqqqqqqqqqq{a} zq{b}\tR\twvwvw{a}\n" for b in letters[:9] for a in letters), encoding="utf-8")
    built = build(table)[0]
    built.save(tmp_path / "graph")
    ConceptIndex.of(built)
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    graph = KnowledgeGraph.load(tmp_path / "graph")
    grounder, text = Grounder(graph), f"a zqqqqqqqqqqqqqabc zqaab with {'x' * 60} and {'y' * 500}"
    assert grounder.concepts(text) == ["zqqqqqqqqqqqqqabc_zqaab"]
    mentions = ([graph.id("zqqqqqqqqqqqqqabc zqaab")], [graph.id("wvwvwabc")])
    assert len(Extractor(graph, SubgraphLimits())(Mentions(*mentions)).concepts) == 2
    stored = {**graph._stored, **ConceptIndex.of(graph)._stored}
    large = {name: array.guard.state for name, array in stored.items() if len(array.guard.state) > 3 and "_slots" not in name}
    assert {"name_bytes", "pattern_bytes"} <= large.keys()
    for name, state in large.items():
        assert np.count_nonzero(state) <= 2, name
