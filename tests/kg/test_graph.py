"""The graph against a set of triples."""

import json
from itertools import pairwise
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.grounding.suggestions import check_concepts
from mhgrn.io.checksums import SEALED, seal
from mhgrn.kg import Fact, KnowledgeGraph, Schema, concept_name

NAMES = ["cat", "dog", "furniture_store", "naïve", "x-ray", "desk", "a_b", "a"]
RELATIONS = ["IsA", "PartOf", "Eats"]
triples = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(RELATIONS), st.sampled_from(NAMES)), max_size=25)


@settings(max_examples=60)
@given(triples)
def test_a_graph_answers_as_the_set_of_its_triples(rows: list[tuple[str, str, str]]) -> None:
    graph = KnowledgeGraph.from_facts(rows)
    facts = {Fact(*row) for row in rows if row[0] != row[2]}
    mentioned = list(dict.fromkeys(name for h, _, t in rows for name in (h, t)))
    assert [graph.name(i) for i in range(len(graph))] == mentioned
    assert graph.fact_count == len(facts) == len(graph.tail)
    for name in NAMES:
        assert graph.find(name) == (mentioned.index(name) if name in mentioned else None)
        if name not in mentioned:
            with pytest.raises(UserError, match="is not a concept of the graph"):
                graph.id(name)
            continue
        found = graph.facts_of(name.replace("_", " ").upper())
        assert len(found) == len(set(found))
        assert set(found) == {fact for fact in facts if name in (fact.head, fact.tail)}
        near = {fact.tail if fact.head == name else fact.head for fact in found}
        assert graph.neighbors(graph.id(name)).tolist() == sorted(map(graph.id, near))
    for head in NAMES:
        for relation in RELATIONS:
            for tail in NAMES:
                assert graph.holds(head, relation, tail) == ((head, relation, tail) in facts)
    stored = list(zip(graph.heads().tolist(), graph.tail.tolist(), graph.relation.tolist(), strict=True))
    assert stored == sorted(stored)
    assert {r: c for r, c in graph.relation_counts().items() if c} == {
        r: c for r in RELATIONS if (c := sum(fact.relation == r for fact in facts))
    }


@settings(max_examples=40)
@given(rows=triples, seed=st.integers(0, 100))
def test_shuffled_relations_keep_which_concepts_are_joined(rows: list[tuple[str, str, str]], seed: int) -> None:
    graph = KnowledgeGraph.from_facts(rows, Schema.derived(RELATIONS))
    shuffled = graph.with_shuffled_relations(seed)

    def ends(g: KnowledgeGraph) -> set[tuple[int, int]]:
        return set(zip(g.heads().tolist(), g.tail.tolist(), strict=True))

    assert ends(shuffled) == ends(graph)
    np.testing.assert_array_equal(shuffled.neighbor, graph.neighbor)
    assert [shuffled.name(i) for i in range(len(graph))] == [graph.name(i) for i in range(len(graph))]
    before, after = graph.relation_counts(), shuffled.relation_counts()
    assert all(after[r] <= before[r] for r in RELATIONS)  # fewer where two facts between the same ends became one
    np.testing.assert_array_equal(shuffled.relation, graph.with_shuffled_relations(seed).relation)


def test_shuffling_moves_the_labels() -> None:
    names = [f"n{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)]
    rows = [(a, RELATIONS[i % 3], b) for i, (a, b) in enumerate(pairwise(names))]
    graph = KnowledgeGraph.from_facts(rows)
    shuffled = graph.with_shuffled_relations(0)
    assert shuffled.relation_counts() == graph.relation_counts()
    assert 0.2 < (shuffled.relation == graph.relation).mean() < 0.5
    assert shuffled.fingerprint != graph.fingerprint


@settings(max_examples=30)
@given(triples)
def test_a_graph_loads_as_it_was_saved(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]) -> None:
    folder = tmp_path_factory.mktemp("graphs") / "graph"
    graph = KnowledgeGraph.from_facts(rows)
    graph.save(folder)
    loaded = KnowledgeGraph.load(str(folder))
    assert (loaded.fingerprint, loaded.schema, loaded.folder) == (graph.fingerprint, graph.schema, folder)
    assert loaded._arrays.keys() == graph._arrays.keys()
    for name, array in graph._arrays.items():
        np.testing.assert_array_equal(loaded._arrays[name], array)
        assert loaded._arrays[name].dtype == array.dtype
    for name in NAMES:
        assert loaded.find(name) == graph.find(name)
        if graph.find(name) is not None:
            assert loaded.facts_of(name) == graph.facts_of(name)


def test_a_loaded_graph_is_mapped_and_read_only(starter_graph: KnowledgeGraph) -> None:
    assert starter_graph.folder is not None
    loaded = KnowledgeGraph.load(starter_graph.folder)
    for array in loaded._arrays.values():
        base: object = array
        while isinstance(base, np.ndarray | memoryview):
            base = base.base if isinstance(base, np.ndarray) else base.obj
        assert isinstance(base, mmap)
        assert not array.flags.writeable


def test_a_graph_can_be_saved_over_itself(tmp_path: Path) -> None:
    KnowledgeGraph.from_facts([("cat", "IsA", "animal")]).save(tmp_path / "graph")
    KnowledgeGraph.load(tmp_path / "graph").save(tmp_path / "graph")
    assert KnowledgeGraph.load(tmp_path / "graph").facts_of("cat") == [Fact("cat", "IsA", "animal")]


def _with_weights(rows: list[tuple[str, str, str]], weights: list[int]) -> KnowledgeGraph:
    graph = KnowledgeGraph.from_facts(rows)
    columns = graph.heads(), np.array(graph.relation), np.array(graph.tail), np.array(weights)
    return KnowledgeGraph.from_table(list(graph.names), *columns, graph.schema, {})


def test_different_graphs_have_different_fingerprints() -> None:
    rows = [("cat", "IsA", "animal"), ("dog", "IsA", "animal")]
    variants = [
        KnowledgeGraph.from_facts(rows),
        KnowledgeGraph.from_facts(rows[::-1]),
        KnowledgeGraph.from_facts(rows[:1]),
        KnowledgeGraph.from_facts([*rows, ("cat", "Eats", "dog")]),
        KnowledgeGraph.from_facts(rows, Schema.shipped("conceptnet")),
        KnowledgeGraph.from_facts([(t, r, h) for h, r, t in rows]),
        *(_with_weights(rows, weights) for weights in ([1, 1], [1, 2])),
    ]
    assert len({graph.fingerprint for graph in variants}) == len(variants)
    assert KnowledgeGraph.from_facts(rows * 2).fingerprint == variants[0].fingerprint


def test_an_unknown_concept_suggests_the_singular() -> None:
    graph = KnowledgeGraph.from_facts([("desk", "AtLocation", "office")])
    with pytest.raises(UserError, match=r"'desks' is not a concept of the graph.* Did you mean desk\?"):
        graph.id("desks")


@pytest.mark.parametrize("typo", ["furniture stoer", "funriture_store", "furnitur store", "furnituree store", "furniture_storr"])
def test_a_misspelled_concept_suggests_the_right_one(typo: str) -> None:
    graph = KnowledgeGraph.from_facts([("desk", "AtLocation", "furniture_store")])
    with pytest.raises(UserError, match=r"is not a concept of the graph.* Did you mean furniture_store\?"):
        graph.id(typo)


@pytest.mark.parametrize("text", [" Furniture  store", "furniture_store", "FURNITURE\tSTORE\n"])
def test_concept_names_have_one_form(text: str) -> None:
    assert concept_name(text) == "furniture_store"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    KnowledgeGraph.from_facts([("cat", "IsA", "animal"), ("dog", "IsA", "animal")]).save(tmp_path / "graph")
    return tmp_path / "graph"


@pytest.mark.parametrize("name", ["tail", "head_ptr", "name_bytes", "name_slots", "neighbour_ptr"])
def test_a_missing_truncated_or_wrong_array_is_a_user_error(saved: Path, name: str) -> None:
    path = saved / f"{name}.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(UserError, match=rf"{name}\.npy is damaged"):
        KnowledgeGraph.load(saved)
    np.save(path, np.load(saved / "neighbour.npy")[:1])
    with pytest.raises(UserError, match=rf"{name}\.npy (has 1 entries|is damaged)"):
        KnowledgeGraph.load(saved)
    path.unlink()
    with pytest.raises(UserError, match=rf"{name}\.npy is missing"):
        KnowledgeGraph.load(saved)


def test_what_is_no_path_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="folder is of type int; give the path of a folder"):
        KnowledgeGraph.load(5)  # type: ignore[arg-type]


def test_another_format_is_refused(saved: Path) -> None:
    about = json.loads((saved / "graph.json").read_text())
    (saved / "graph.json").write_text(json.dumps(about | {"format": 99}))
    seal(saved)
    with pytest.raises(UserError, match="has format 99"):
        KnowledgeGraph.load(saved)


def test_a_folder_of_the_older_format_loads(saved: Path) -> None:
    about = json.loads((saved / "graph.json").read_text())
    np.save(saved / "word_lemma.npy", np.zeros(3, dtype=np.int32))
    older = {"lemmatiser": "other 1.0", "listed_words": 2, "arrays": about["arrays"] | {"word_lemma": 3}}
    (saved / "graph.json").write_text(json.dumps(about | older))
    seal(saved)
    loaded = KnowledgeGraph.load(saved)
    assert loaded.about == {key: value for key, value in about.items() if key != SEALED}
    loaded.save(saved)
    assert not (saved / "word_lemma.npy").exists()


@pytest.mark.parametrize("key", ["arrays", "schema", "names", "fingerprint"])
def test_a_marker_file_without_a_key_is_a_user_error(saved: Path, key: str) -> None:
    about = json.loads((saved / "graph.json").read_text())
    del about[key]
    (saved / "graph.json").write_text(json.dumps(about))
    seal(saved)
    with pytest.raises(UserError, match=r"graph"):
        KnowledgeGraph.load(saved)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        KnowledgeGraph.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is not a knowledge graph"):
        KnowledgeGraph.load(tmp_path)


@pytest.mark.parametrize("name", ["x" * 500_000, "ab " * 200_000, "\ud800", "\x1b[2J"])
def test_a_name_of_any_length_and_kind_is_looked_up(name: str) -> None:
    graph = KnowledgeGraph.from_facts([("desk", "IsA", "furniture")])
    assert graph.find(name) is None
    for ask in (graph.id, lambda name: check_concepts(graph, name)):
        with pytest.raises(UserError, match="is not a concept of the graph") as raised:
            ask(name)
        assert len(str(raised.value)) < 1000
