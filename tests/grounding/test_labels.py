"""Grounding in graphs with labels: every label and alias is found, and all concepts of a homonym."""

from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder, Mentions
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.suggestions import check_concepts
from mhgrn.io.stored import NO_GUARD
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extracting import hidden_pairs

FACTS = "HP:1\tis a\tHP:2\nD:1\tshows\tHP:1\nD:2\tshows\tHP:1\nD:2\tshows\tHP:3\nD:3\tshows\tHP:4\n"
LABELS = """\
HP:1\tSeizure\ten\tlabel
HP:1\tEpileptic seizure\ten\talias
HP:1\tFits\ten\talias
HP:1\tKrampfanfall\tde\tlabel
HP:2\tAbnormal nervous system physiology\ten\tlabel
HP:3\tAbnormality of the function of the gall-bladder\ten\tlabel
HP:4\tEnlarged liver\ten\talias
HP:4\tHepatomegaly\ten\tlabel
D:1\tDravet syndrome\ten\tlabel
D:2\tDravet syndrome\ten\tlabel
D:3\t12\ten\tlabel
"""


def built(folder: Path, language: str = "en") -> KnowledgeGraph:
    (folder / "facts.tsv").write_text(FACTS, encoding="utf-8")
    (folder / "labels.tsv").write_text(LABELS, encoding="utf-8")
    return build(folder / "facts.tsv", options=ImportOptions(language=language), labels=folder / "labels.tsv")[0]


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    return built(tmp_path)


def grounded(graph: KnowledgeGraph, text: str) -> list[str]:
    return sorted(graph.identifier(graph.id(name)) for name in Grounder(graph).concepts(text))


@pytest.mark.parametrize(
    ("text", "concepts"),
    [
        ("He had seizures.", ["HP:1"]),
        ("Epileptic seizures and fits", ["HP:1"]),
        ("an enlarged liver", ["HP:4"]),
        ("Is this Dravet syndrome?", ["D:1", "D:2"]),
        ("an abnormality of the function of the gall-bladder, and fits.", ["HP:1", "HP:3"]),
        ("(Abnormality of the function of the gall-bladder)", ["HP:3"]),
        ("abnormality of the function of the liver", []),
        ("What are HP:3 and D:1?", []),
        ("Krampfanfall", []),
    ],
)
def test_labels_and_aliases_are_found(graph: KnowledgeGraph, text: str, concepts: list[str]) -> None:
    assert grounded(graph, text) == concepts


def test_other_languages_are_found_if_the_graph_keeps_them(tmp_path: Path) -> None:
    assert grounded(built(tmp_path, "en,de"), "Ein Krampfanfall ist ein seizure.") == ["HP:1"]
    german = built(tmp_path, "de")
    assert german.name(german.id("HP:1")) == "Krampfanfall"
    assert grounded(german, "Krampfanfall or seizure") == ["HP:1"]
    assert grounded(german, "seizure") == []


def test_both_homonyms_are_mentioned_and_belong_to_the_answer(graph: KnowledgeGraph) -> None:
    one, two, seizure = (graph.id(key) for key in ("D:1", "D:2", "HP:1"))
    grounder = Grounder(graph)
    assert grounder.mentions("Dravet syndrome shows fits.", "Dravet syndrome") == Mentions([seizure], sorted([one, two]))
    assert grounder.mentions("Seizures are epileptic seizures", "fits") == Mentions([], [seizure])
    long = "Abnormality of the function of the gall-bladder"
    assert graph.id("HP:3") in grounder.mentions(f"Which disease shows fits? {long}", long).answer


def test_one_question_at_a_time_or_many_give_the_same(graph: KnowledgeGraph) -> None:
    texts = ["Dravet syndrome shows fits", "an enlarged liver", "nothing", "fits and hepatomegaly"] * 3
    choices = ["Dravet syndrome", "seizure", "12", "enlarged liver"] * 3
    grounder = Grounder(graph)
    together = grounder.mentioned(texts, choices, [2] * 6).mentions()
    assert [m for question in together for m in question] == [
        Grounder(graph).mentions(*pair) for pair in zip(texts, choices, strict=True)
    ]


def test_the_stored_index_is_used_only_with_the_same_labels(tmp_path: Path, graph: KnowledgeGraph) -> None:
    graph.save(tmp_path / "graph")
    stored = ConceptIndex.of(graph)
    loaded = KnowledgeGraph.load(tmp_path / "graph")
    assert ConceptIndex.load(tmp_path / "graph" / "index", loaded).fingerprint == stored.fingerprint
    assert grounded(loaded, "fits and an enlarged liver") == ["HP:1", "HP:4"]
    other = built(tmp_path, "de")
    with pytest.raises(UserError, match="the concept index of another graph"):
        ConceptIndex.load(tmp_path / "graph" / "index", other)


def test_grounding_reads_only_the_blocks_of_the_labels_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids and spellings stay unread, and so do the parts of the table of labels that no text of the question falls into."""
    count = 20_000
    (tmp_path / "facts.tsv").write_text("".join(f"C:{i}\tnear\tC:{i + 1}\n" for i in range(count)), encoding="utf-8")
    text = "".join(f"C:{i}\tplace number{i}\ten\tlabel\nC:{i}\tspot{i}\ten\talias\n" for i in range(count + 1))
    (tmp_path / "labels.tsv").write_text(text, encoding="utf-8")
    built, _ = build(tmp_path / "facts.tsv", labels=tmp_path / "labels.tsv")
    built.save(tmp_path / "graph")
    ConceptIndex.of(built)
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    graph = KnowledgeGraph.load(tmp_path / "graph")
    assert Grounder(graph).concepts("Between spot777 and place number12345") == ["place_number12345", "place_number777"]
    assert graph.labels is not None
    checked = {name: float((stored.guard.state != 0).mean()) for name, stored in graph.labels._stored.items()}
    assert all(stored.guard is not NO_GUARD for stored in graph.labels._stored.values())
    assert {name for name, share in checked.items() if share} <= {name for name in checked if name.startswith("surface_")}
    assert checked["surface_slots"] < 1  # the other arrays of this graph have one block


def test_an_added_concept_is_found_beside_labels(graph: KnowledgeGraph) -> None:
    more = graph.with_facts([("blue rash", "is a", "HP:2"), ("D:3", "shows", "blue rash")])
    assert sorted(Grounder(more).concepts("fits and a blue rash")) == ["Seizure", "blue_rash"]
    assert Grounder(more).mentions("12 shows a blue rash", "blue rash").answer == [len(graph)]


def test_hidden_facts_are_those_of_all_homonyms(graph: KnowledgeGraph) -> None:
    question = Question("q", "Which?", ("a", "b"), hide=(("Dravet syndrome", "shows", "fits"), ("D:3", "shows", "HP:4")))
    expected = {(graph.id(head), graph.id(tail)) for head, tail in (("D:1", "HP:1"), ("D:2", "HP:1"), ("D:3", "HP:4"))}
    assert set(hidden_pairs(question, graph)) == expected


def test_an_unknown_label_suggests_a_similar_one(graph: KnowledgeGraph) -> None:
    check_concepts(graph, "HP:1", "seizure", "Enlarged liver")
    with pytest.raises(UserError, match=r"'enlarged livers' is not a concept.* Did you mean enlarged_liver\?"):
        check_concepts(graph, "enlarged livers")
    with pytest.raises(UserError, match=r"may mean 2 concepts: Dravet syndrome \(D:1\), Dravet syndrome \(D:2\)"):
        check_concepts(graph, "dravet syndrome")
