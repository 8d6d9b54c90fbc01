"""mhgrn kg stats, path, merge: looking into built graphs and joining them."""

import json
from pathlib import Path

import pytest
from harness import Command, Refused, in_a_process

from mhgrn.kg import KnowledgeGraph
from mhgrn.starter import FACTS

CHILD = [("child", "AtLocation", "classroom"), ("classroom", "RelatedTo", "school_room"), ("desk", "AtLocation", "classroom")]
DESK = [("desk", "MadeOf", "wood"), ("desk", "AtLocation", "classroom"), ("child", "likes", "school_room")]


@pytest.fixture
def child(tmp_path: Path) -> Path:
    KnowledgeGraph.from_facts(CHILD).save(tmp_path / "child")
    return tmp_path / "child"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    KnowledgeGraph.from_facts(DESK).save(tmp_path / "desk")
    return tmp_path / "desk"


def facts(graph: Path) -> set[tuple[str, str, str]]:
    loaded = KnowledgeGraph.load(graph)
    return {tuple(fact) for i in range(len(loaded)) for fact in loaded.facts_of(loaded.name(i))}


def test_stats_in_words_and_as_json(child: Path, here: Command) -> None:
    text = here("kg", "stats", child).out
    assert text.startswith("4 concepts, 3 facts\n")
    assert "hubs                  classroom 3, child 1, school room 1, desk 1" in text
    found = json.loads(here("kg", "stats", child, "--json").out)
    assert (found["concepts"], found["facts"], found["components"], found["hubs"]["classroom"]) == (4, 3, 1, 3)
    assert found["relations"] == {"AtLocation": 2, "RelatedTo": 1}
    assert found["fingerprint"] == KnowledgeGraph.load(child).fingerprint


def test_paths_in_words_and_as_json(child: Path, here: Command) -> None:
    shown = here("kg", "path", child, "Child", "school room")
    assert (shown.code, shown.out) == (0, "child —AtLocation→ classroom —RelatedTo→ school room\n")
    found = json.loads(here("kg", "path", child, "child", "school_room", "--json").out)
    assert (found["source"], found["target"], found["found"], found["complete"], found["distance"]) == (
        "child",
        "school_room",
        1,
        True,
        2,
    )
    assert found["paths"] == [{"concepts": ["child", "classroom", "school_room"], "steps": [[list(CHILD[0])], [list(CHILD[1])]]}]


def test_no_path_is_an_answer_too(child: Path, here: Command) -> None:
    shown = here("kg", "path", child, "child", "school_room", "--max-hops", "1")
    assert (shown.code, shown.out) == (0, "no path of at most 1 hop joins child and school room; the shortest has 2\n")
    found = json.loads(here("kg", "path", child, "child", "school_room", "--max-hops", "1", "--json").out)
    assert (found["paths"], found["found"], found["distance"]) == ([], 0, 2)


def test_paths_of_the_starter_graph(tmp_path: Path) -> None:
    in_a_process("kg", "build", FACTS, "--schema", "conceptnet", "-o", tmp_path / "graph")
    shown = in_a_process("kg", "path", tmp_path / "graph", "child", "schoolroom", "--limit", "6").out.splitlines()
    assert "child —AtLocation→ schoolroom" in shown
    assert shown[6].startswith("… and ")


def test_merged_graphs_hold_the_facts_of_both(child: Path, desk: Path, here: Command, tmp_path: Path) -> None:
    merged = here("kg", "merge", child, desk, "-o", tmp_path / "both")
    assert merged.out == f"{tmp_path / 'both'}: 5 concepts, 5 facts from 6 in 2 graphs\n"
    assert facts(tmp_path / "both") == {*CHILD, *DESK}
    about = json.loads(here("kg", "merge", child, desk, "-o", tmp_path / "both", "--force", "--json").out)
    assert (about["concepts"], about["facts"], about["facts_before"], about["relations"]) == (5, 5, 6, 4)


def test_a_graph_may_be_extended_in_its_place(child: Path, desk: Path, here: Command) -> None:
    assert here("kg", "merge", child, desk, "-o", child).code == 2
    assert facts(child) == set(CHILD)
    assert here("kg", "merge", child, desk, "-o", child, "--force").code == 0
    assert facts(child) == {*CHILD, *DESK}


def test_a_schema_renames_relations_on_the_way(child: Path, desk: Path, here: Command, tmp_path: Path) -> None:
    schema = tmp_path / "mine.yaml"
    schema.write_text(
        """
name: mine
relations:
  - {name: Holds, members: ["*AtLocation"]}
  - {name: Other, members: [RelatedTo, MadeOf, likes]}
""",
        encoding="utf-8",
    )
    assert here("kg", "merge", child, desk, "-o", tmp_path / "both", "--schema", schema).code == 0
    assert ("classroom", "Holds", "child") in facts(tmp_path / "both")
    assert {relation for _, relation, _ in facts(tmp_path / "both")} == {"Holds", "Other"}


def test_wrong_input_is_refused(child: Path, desk: Path, refused: Refused, tmp_path: Path) -> None:
    new = str(tmp_path / "new")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("name: x\nrelations:\n  - {nam: A}\n")
    mine = tmp_path / "mine.yaml"
    mine.write_text("name: x\nrelations:\n  - {name: AtLocation}\n")
    (tmp_path / "file").write_text("mine")
    for args, says in (
        (["stats", new], [f"{new} does not exist"]),
        (["path", str(child), "child", "clasroom"], ["'clasroom' is not a concept", "Did you mean classroom?"]),
        (["path", str(child), "zzz", "classroom"], ["'zzz' is not a concept"]),
        (["path", str(child), "child", "Child"], ["both ends of the path are 'child'"]),
        (["path", new, "child", "desk"], [f"{new} does not exist"]),
        (["path", str(child), "child", "desk", "--max-hops", "0"], ["--max-hops"]),
        (["path", str(child), "child", "desk", "--limit", "0"], ["--limit"]),
        (["merge", str(child), "-o", new], ["two graphs or more"]),
        (["merge", str(child), new, "-o", new], [f"{new} does not exist"]),
        (["merge", str(child), str(desk), "-o", str(tmp_path / "file")], ["is a file"]),
        (["merge", str(child), str(desk), "-o", str(tmp_path)], ["name another folder"]),
        (["merge", str(child), str(desk), "-o", new, "--schema", "conceptnt"], ["Did you mean conceptnet?"]),
        (
            ["merge", str(child), str(desk), "-o", new, "--schema", str(wrong)],
            [f"{wrong}:3: unknown key nam ", "name?"],
        ),
        (["merge", str(child), str(desk), "-o", new, "--schema", str(mine)], [f"lacks the relation RelatedTo of {child}"]),
    ):
        refused(["kg", *args], says)
