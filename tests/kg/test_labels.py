"""Ids, labels and aliases of concepts: kept, found by each of them, told apart, and checked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import unseal
from mhgrn.errors import UserError
from mhgrn.kg import Fact, GraphReader, ImportOptions, KnowledgeGraph, Label, build, concept_name
from mhgrn.kg.label_table import LabelTable, file_labels, write_labels
from mhgrn.kg.labels import ARRAYS
from mhgrn.kg.merge import merge
from mhgrn.kg.sampling import sample_facts
from mhgrn.kg.stated import stated
from mhgrn.kg.strings import StringIndex

FACTS = [("Q308", "part of", "Q544"), ("Q925", "kind of", "Q11344"), ("Q544", "has", "Q308"), ("Q925", "found in", "Q1")]
LABELS = [
    Label("Q308", "Mercury", "en", True),
    Label("Q308", "Merkur", "de", True),
    Label("Q925", "mercury", "en", True),
    Label("Q925", "Hg", "en"),
    Label("Q925", "quicksilver", "en-gb"),
    Label("Q925", "Quecksilber", "de", True),
    Label("Q544", "Solar System", "en", True),
    Label("Q11344", "chemical element", "", True),
    Label("Q999", "not in a fact", "en", True),
]


def written(folder: Path, facts: list[tuple[str, str, str]] = FACTS, labels: list[Label] = LABELS) -> dict[str, Path]:
    folder.mkdir(exist_ok=True)
    (folder / "facts.tsv").write_text("".join("\t".join(fact) + "\n" for fact in facts), encoding="utf-8")
    write_labels(folder / "labels.tsv", labels)
    return {"paths": folder / "facts.tsv", "labels": folder / "labels.tsv"}


@pytest.fixture
def planets(tmp_path: Path) -> KnowledgeGraph:
    return build(**written(tmp_path / "files"), options=ImportOptions(language="en,de"))[0]  # type: ignore[arg-type]


def test_concepts_are_named_by_their_labels_and_homonyms_by_their_ids_too(planets: KnowledgeGraph) -> None:
    assert list(planets) == ["Mercury_(Q308)", "Solar_System", "mercury_(Q925)", "chemical_element", "q1"]
    assert [planets.label(i) for i in range(5)] == ["Mercury", "Solar System", "mercury", "chemical element", "q1"]
    assert [planets.identifier(i) for i in range(5)] == ["Q308", "Q544", "Q925", "Q11344", "q1"]
    assert planets.aliases(0) == LABELS[:2]
    assert planets.aliases(2) == [LABELS[2], LABELS[5], LABELS[3], LABELS[4]]
    fact = Fact("Mercury_(Q308)", "part of", "Solar_System")
    about = stated(planets, fact)
    assert about["sentence"] == "Mercury (Q308) is a part of Solar System."
    assert about["concepts"] == ["Q308", "Q544"]


@pytest.mark.parametrize(
    ("text", "concept"),
    [
        *(("Q925", "Q925"), ("q925", "Q925"), ("hg", "Q925"), ("HG", "Q925"), ("Quecksilber", "Q925"), ("quicksilver", "Q925")),
        *(("Merkur", "Q308"), ("mercury (q308)", "Q308"), ("Mercury_(Q925)", "Q925"), ("solar  system", "Q544"), ("Q1", "q1")),
    ],
)
def test_a_concept_is_found_by_id_label_alias_and_name(planets: KnowledgeGraph, text: str, concept: str) -> None:
    assert planets.identifier(planets.id(text)) == concept
    assert text in planets


def test_a_shared_label_is_refused_with_its_ids(planets: KnowledgeGraph) -> None:
    with pytest.raises(UserError, match=r"'Mercury' may mean 2 concepts: Mercury \(Q308\), mercury \(Q925\)\. Give the id of one"):
        planets.facts_of("Mercury")
    assert planets.find_all("Mercury") == [0, 2]
    assert planets.find_all("nothing") == []
    with pytest.raises(UserError, match="'Q9259' is not a concept of the graph"):
        planets.id("Q9259")


def test_the_languages_to_keep_and_the_preferred_one(tmp_path: Path) -> None:
    files = written(tmp_path / "files")

    def names(language: str) -> dict[str, tuple[str, int]]:
        graph, _ = build(**files, options=ImportOptions(language=language))  # type: ignore[arg-type]
        return {graph.identifier(i): (graph.name(i), len(graph.aliases(i))) for i in range(len(graph))}

    assert names("en")["Q925"] == ("mercury_(Q925)", 3)
    assert names("de")["Q925"] == ("Quecksilber", 1)
    assert names("de,en")["Q925"] == ("Quecksilber", 4)
    assert names("all")["Q308"] == ("Mercury_(Q308)", 2)
    assert names("fr") == {key: (key, 0) for key in ("Q308", "Q544", "Q925", "q1")} | {"Q11344": ("chemical_element", 1)}


texts = st.text("aAbB éß_().#:İ-\t", max_size=6)
ids = st.sampled_from(["q1", "q2", "q3", "q1)", "#0", "a_(q2"])
some_labels = st.lists(st.builds(Label, ids, texts, st.sampled_from(["", "en", "de-at", "x"]), st.booleans()), max_size=20)


@settings(max_examples=60, deadline=None)
@given(some_labels)
def test_names_are_distinct_in_any_case_and_everything_is_found(labels: list[Label]) -> None:
    keys = ["q1", "q2", "q3", "q1)", "#0", "a_(q2"]
    table = LabelTable(["en", "all"])
    assert all(table.add(label) for label in labels)
    names, found = table.finished(StringIndex.of(keys))
    assert len({name.lower() for name in names}) == len(keys)
    for concept, key in enumerate(keys):
        own = [label for label in labels if label.concept == key and label.text.split()]
        spelled = {(" ".join(label.text.split()), label.language) for label in own}
        assert {(row.text, row.language) for row in found.rows(concept)} == spelled
        assert len(found.rows(concept)) == len(spelled)
        assert found.id(concept) == key
        assert found.find(names[concept]) == concept or concept_name(found.text(concept)) in keys
        for label in own:
            surface = found.surfaces.find(concept_name(label.text))
            assert surface is not None
            expected = {keys.index(other.concept) for other in labels if concept_name(other.text) == concept_name(label.text)} | {
                i for i, other in enumerate(keys) if other == concept_name(label.text) and not found.rows(i)
            }
            assert set(found.concepts_of(surface)) == expected


def test_saving_and_loading_gives_the_same_labels_mapped_from_the_disk(tmp_path: Path, planets: KnowledgeGraph) -> None:
    planets.save(tmp_path / "graph")
    loaded = KnowledgeGraph.load(tmp_path / "graph")
    assert loaded.fingerprint == planets.fingerprint
    assert loaded.labels is not None
    assert planets.labels is not None
    assert list(loaded.labels.all_rows()) == list(planets.labels.all_rows())
    for array in loaded.labels.arrays.values():
        assert not array.flags.owndata
    again, _ = build(**written(tmp_path / "files", labels=LABELS[::-1]), options=ImportOptions(language="en,de"))  # type: ignore[arg-type]
    assert list(again) == list(planets)


def test_a_graph_without_labels_has_no_trace_of_them(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts([("cat", "IsA", "animal"), ("dog", "IsA", "animal")])
    assert graph.fingerprint == "e24504ec2bbb051eaf1b"
    assert graph.labels is None
    assert "labels" not in graph.about
    graph.save(tmp_path / "graph")
    assert not [name for name in ARRAYS if (tmp_path / "graph" / f"{name}.npy").exists()]
    assert (graph.label(0), graph.identifier(0), graph.aliases(0)) == ("cat", "cat", [])
    report = build(written(tmp_path / "files")["paths"])[1].to_dict()
    assert "labels" not in report


def test_labels_change_the_fingerprint(tmp_path: Path) -> None:
    variants = [LABELS, LABELS[:-2], [*LABELS[:3], LABELS[3]._replace(text="HG"), *LABELS[4:]], [*LABELS[:-1], Label("Q1", "one")]]
    variants.append([LABELS[0], LABELS[1]._replace(language="de-ch"), *LABELS[2:]])
    options = ImportOptions(language="all")
    built = [build(**written(tmp_path / "files", labels=labels), options=options)[0] for labels in variants]  # type: ignore[arg-type]
    assert len({graph.fingerprint for graph in built}) == len(variants)
    assert len({graph.about["names"] for graph in built}) == len(variants)


@pytest.mark.parametrize("name", ARRAYS)
def test_damaged_labels_are_refused(tmp_path: Path, planets: KnowledgeGraph, name: str) -> None:
    folder = tmp_path / "graph"
    planets.save(folder)
    file = folder / f"{name}.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 0x55
    file.write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}\.npy is damaged"):
        KnowledgeGraph.load(folder)
    file.unlink()
    with pytest.raises(UserError, match=rf"{name}\.npy is missing"):
        KnowledgeGraph.load(folder)


@pytest.mark.parametrize("name", ["label_ptr", "surface_concept", "label_language", "label_kind", "id_ptr", "surface_concept_ptr"])
def test_crafted_labels_are_refused_without_checksums(tmp_path: Path, planets: KnowledgeGraph, name: str) -> None:
    folder = tmp_path / "graph"
    planets.save(folder)
    unseal(folder)
    array = np.load(folder / f"{name}.npy")
    array[-1] = 120
    np.save(folder / f"{name}.npy", array)
    with pytest.raises(UserError, match=rf"{name}\.npy is damaged"):
        KnowledgeGraph.load(folder)


@pytest.mark.parametrize("languages", [None, "en", [1], {}])
def test_a_marker_without_languages_is_refused(tmp_path: Path, planets: KnowledgeGraph, languages: Any) -> None:
    planets.save(tmp_path / "graph")
    unseal(tmp_path / "graph")
    marker = tmp_path / "graph" / "graph.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"labels": {"languages": languages}}))
    with pytest.raises(UserError, match=r"graph\.json is damaged \(the languages of its labels\)"):
        KnowledgeGraph.load(tmp_path / "graph")


def test_an_exported_graph_is_built_again_byte_by_byte(tmp_path: Path, planets: KnowledgeGraph) -> None:
    planets.export(tmp_path / "text")
    text = tmp_path / "text"
    again, _ = build(
        *(text / "facts.tsv", str(text / "schema.yaml"), ImportOptions(language="all", prune=False, self_loops=True)),
        *(text / "concepts.txt", text / "labels.tsv"),
    )
    assert again.fingerprint == planets.fingerprint
    assert again.labels is not None
    assert planets.labels is not None
    for name, array in planets.labels.arrays.items():
        assert np.array_equal(array, again.labels.arrays[name]), name


def test_merging_joins_concepts_by_id_and_plain_ones_by_label(tmp_path: Path, planets: KnowledgeGraph) -> None:
    labels = [Label("Q308", "planet Mercury", "en"), Label("Q7", "solar system", "en", True)]
    other, _ = build(**written(tmp_path / "other", [("Q308", "part of", "Q7")], labels))  # type: ignore[arg-type]
    plain = KnowledgeGraph.from_facts([("chemical element", "part of", "world"), ("mercury", "has", "world")])
    both = merge([planets, other, plain])
    assert list(both)[:5] == ["Mercury_(Q308)", "Solar_System_(Q544)", "mercury_(Q925)", "chemical_element", "q1"]
    assert list(both)[5:] == ["solar_system_(Q7)", "world", "mercury"]
    assert [label.text for label in both.aliases(0)] == ["Mercury", "Merkur", "planet Mercury"]
    assert both.holds("chemical element", "part of", "world")
    assert both.fact_count == planets.fact_count + other.fact_count + plain.fact_count


def test_facts_can_be_added_by_label_and_are_saved(tmp_path: Path, planets: KnowledgeGraph) -> None:
    more = planets.with_facts([("Hg", "found in", "old thermometer"), ("old thermometer", "part of", "Q544")])
    assert more.new_concepts == {"old_thermometer": 5}
    assert Fact("mercury_(Q925)", "found in", "old_thermometer") in more.facts_of("Q925")
    assert (more.label(5), more.identifier(5), more.identifier(2)) == ("old thermometer", "old_thermometer", "Q925")
    more.save(tmp_path / "more")
    loaded = KnowledgeGraph.load(tmp_path / "more")
    assert list(loaded) == list(more)
    assert loaded.aliases(2) == planets.aliases(2)
    for fact in (("Mercury", "part of", "world"), ("Hg", "kind of", "Q925")):
        with pytest.raises(UserError, match=r"may mean 2 concepts|two different concepts"):
            planets.with_facts([fact])


def test_other_graphs_with_the_same_concepts_keep_the_labels(planets: KnowledgeGraph) -> None:
    for graph in (sample_facts(planets, 0.5), planets.with_shuffled_relations(0)):
        assert graph.about["names"] == planets.about["names"]
        assert graph.id("Hg") == planets.id("Hg")


def test_a_reader_may_yield_labels_between_facts_and_provenance_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader(GraphReader):
        name = "labelled"

        def rows(self) -> Any:
            for number, line in self.lines():
                fields = line.split("\t")
                yield Label(*fields[1:4], is_preferred=True) if fields[0] == "label" else (number, fields)

    monkeypatch.setattr("mhgrn.kg.building.find_reader", lambda *arguments: Reader)
    file = tmp_path / "facts"
    file.write_text("label\tQ1\tcat\ten\nQ1\tIsA\tQ2\nlabel\tQ2\tAnimal\ten\nlabel\t \tx\ten\nQ2\tIsA\tQ3\n", encoding="utf-8")
    graph, report = build(file, options=ImportOptions(provenance=True))
    assert list(graph) == ["cat", "Animal", "q3"]
    assert (report.rows, report.labels, report.bad) == (2, 2, 1)
    found = [graph.provenance(fact) for fact in graph.facts()]
    assert [one.row for one in found if one] == [2, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Q1\n", r"labels\.tsv:1: 1 fields; the columns are id, label, language, kind"),
        ("id\tlabel\n\tx\n", r"labels\.tsv:2: a label without an id"),
        ("id\tlabel\tlanguage\tkind\nQ1\tx\ten\talais\n", r"labels\.tsv:2: 'alais' is not a kind of label\. Did you mean alias\?"),
        (f"Q1\t{'x' * 10_001}\n", r"labels\.tsv:1: a label or an id of more than 10,000 characters"),
    ],
)
def test_malformed_tables_of_labels_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "labels.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        list(file_labels(tmp_path / "labels.tsv"))
    with pytest.raises(UserError, match="does not exist; name a table of labels"):
        list(file_labels(tmp_path / "other.tsv"))


def test_a_table_may_be_csv_with_its_columns_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text('label,kind,ID\n"Rome, Italy",,Q220\nRoma,synonym,Q220\n', encoding="utf-8")
    assert list(file_labels(tmp_path / "labels.csv")) == [Label("Q220", "Rome, Italy", "", True), Label("Q220", "Roma")]


def test_an_address_without_a_label_is_shown_by_its_last_part() -> None:
    table = LabelTable()
    table.add(Label("http://dbpedia.org/resource/New_York", ""))
    names, labels = table.finished(StringIndex.of(["http://dbpedia.org/resource/new_york", "http://example.org/b#new_york"]))
    assert list(names) == ["New_York_(http://dbpedia.org/resource/New_York)", "new_york_(http://example.org/b#new_york)"]
    assert (labels.text(0), labels.id(0)) == ("New York", "http://dbpedia.org/resource/New_York")


def test_conceptnet_takes_one_language(tmp_path: Path) -> None:
    file = tmp_path / "assertions.csv"
    file.write_text('/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\t{"weight": 1.0}\n', encoding="utf-8")
    with pytest.raises(UserError, match="ConceptNet needs one language, not 'en,de'"):
        build(file, options=ImportOptions(language="en,de"))
