"""Preparing again: the same bytes as from nothing, with only the changed part done anew."""

import json
from pathlib import Path

import pytest

from mhgrn.kg import KnowledgeGraph, build
from mhgrn.starter import FACTS, HERE
from mhgrn.subgraphs.prepared import PrepareOptions, prepare
from mhgrn.subgraphs.reuse import Earlier

OPTIONS = PrepareOptions(statement="fill-in-the-blank", workers=2)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def questions(folder: Path, count: int, start: int = 0) -> Path:
    lines = (HERE / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    folder.mkdir(exist_ok=True)
    (folder / "train.jsonl").write_text("".join(lines[start : start + count]), encoding="utf-8")
    return folder


def facts(path: Path, lines: list[str], more: str = "") -> KnowledgeGraph:
    path.write_text("".join(lines) + more, encoding="utf-8")
    graph, _ = build([path], schema="conceptnet")
    graph.save(path.parent / "graph")
    return KnowledgeGraph.load(path.parent / "graph")


@pytest.fixture
def all_facts() -> list[str]:
    return FACTS.read_text(encoding="utf-8").splitlines(keepends=True)


def taken_over(error: str) -> int:
    return int(error.split(" of ")[0].replace(",", ""))


def test_added_questions_alone_are_prepared(
    starter_graph: KnowledgeGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(questions(tmp_path / "q", 40), starter_graph, tmp_path / "data", OPTIONS)
    capsys.readouterr()
    prepare(questions(tmp_path / "q", 60, start=10), starter_graph, tmp_path / "data", OPTIONS)
    assert taken_over(capsys.readouterr().err) == 30
    prepare(tmp_path / "q", starter_graph, tmp_path / "fresh", OPTIONS)
    assert content(tmp_path / "data") == content(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("change", "least", "most"),
    [
        pytest.param("", 60, 60, id="nothing"),
        pytest.param("puffin\tIsA\tzorb\n", 60, 60, id="far away"),
        pytest.param("school\tRelatedTo\tclassroom\nschool\tRelatedTo\tmilk\n", 1, 59, id="known concepts"),
        pytest.param("zzz_school\tIsA\tschool\n", 1, 59, id="a new concept beside a known one"),
    ],
)
def test_after_the_graph_gained_facts_only_their_questions_are_prepared(
    all_facts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, least: int, most: int
) -> None:
    asked = questions(tmp_path / "q", 60)
    prepare(asked, facts(tmp_path / "facts.tsv", all_facts), tmp_path / "data", OPTIONS)
    capsys.readouterr()
    graph = facts(tmp_path / "facts.tsv", all_facts, change)
    prepare(asked, graph, tmp_path / "data", OPTIONS)
    assert least <= taken_over(capsys.readouterr().err) <= most
    prepare(asked, graph, tmp_path / "fresh", OPTIONS)
    assert content(tmp_path / "data") == content(tmp_path / "fresh")


def test_a_new_name_may_be_found_in_old_questions(all_facts: list[str], tmp_path: Path) -> None:
    """The first question mentions what the graph did not have before."""
    row = json.loads((HERE / "train.jsonl").read_text(encoding="utf-8").splitlines()[0])
    row["question"]["stem"] = "Where does a quokka " + row["question"]["stem"]
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    prepare(tmp_path / "q.jsonl", facts(tmp_path / "facts.tsv", all_facts), tmp_path / "data", OPTIONS)
    graph = facts(tmp_path / "facts.tsv", all_facts, "quokka\tIsA\tzorb\n")
    data = prepare(tmp_path / "q.jsonl", graph, tmp_path / "data", OPTIONS)
    assert graph.id("quokka") in data.subgraph(0).concepts


def test_a_misspelt_word_may_be_read_as_another_once_that_has_more_facts(all_facts: list[str], tmp_path: Path) -> None:
    row = json.loads((HERE / "train.jsonl").read_text(encoding="utf-8").splitlines()[0])
    row["question"]["stem"] = "Where is a zorblut?"
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    known = "zorblat\tIsA\tthing\nzorblat\tIsA\tplace\nzorblot\tIsA\tthing\n"
    more = "".join(f"zorblot\tAtLocation\t{place}\n" for place in ("school", "home", "farm"))
    before = prepare(tmp_path / "q.jsonl", facts(tmp_path / "facts.tsv", all_facts, known), tmp_path / "data", OPTIONS)
    assert before.load_graph().id("zorblat") in before.subgraph(0).concepts
    graph = facts(tmp_path / "facts.tsv", all_facts, known + more)
    data = prepare(tmp_path / "q.jsonl", graph, tmp_path / "data", OPTIONS)
    assert graph.id("zorblot") in data.subgraph(0).concepts
    prepare(tmp_path / "q.jsonl", graph, tmp_path / "fresh", OPTIONS)
    assert content(tmp_path / "data") == content(tmp_path / "fresh")


def test_other_settings_another_numbering_or_damage_begin_anew(all_facts: list[str], tmp_path: Path) -> None:
    asked = questions(tmp_path / "q", 10)
    graph = facts(tmp_path / "facts.tsv", all_facts)
    data = prepare(asked, graph, tmp_path / "data", OPTIONS)
    settings = data.about["settings"]
    assert Earlier.find(data.folder, settings, graph) is not None
    assert Earlier.find(data.folder, settings | {"max_nodes": 5}, graph) is None
    header, *rows = all_facts
    assert Earlier.find(data.folder, settings, facts(tmp_path / "other.tsv", [header, *rows[::-1]])) is None
    (data.folder / "node_ptr.npy").unlink()
    assert Earlier.find(data.folder, settings, graph) is None
    again = prepare(asked, facts(tmp_path / "facts.tsv", all_facts), data.folder, OPTIONS)
    assert again.fingerprint == data.fingerprint
