"""Prepared data: round trips, fingerprints, and identical bytes for identical input."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder, Mentioned, Mentions
from mhgrn.io.checksums import seal
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_splits
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Extractor, Subgraph
from mhgrn.subgraphs.prepared import (
    COLUMNS,
    PreparedData,
    PrepareOptions,
    edges_between,
    ground,
    prepare,
    statement_builder,
)

OPTIONS = PrepareOptions(statement="fill-in-the-blank", workers=1)


@pytest.fixture(scope="module")
def mentions(starter_graph: KnowledgeGraph, small_questions: Path) -> list[Mentions]:
    grounder = Grounder(starter_graph)
    questions = [q for split in read_splits(small_questions).values() for q in split]
    return [m for q in questions for m in ground(q, grounder, "fill-in-the-blank")]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def copy(small_data: PreparedData, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, data in content(small_data.folder).items():
        (folder / name).write_bytes(data)
    return folder


def test_questions_and_subgraphs_round_trip(
    small_data: PreparedData, small_questions: Path, starter_graph: KnowledgeGraph, mentions: list[Mentions]
) -> None:
    splits = read_splits(small_questions)
    for split, questions in splits.items():
        assert [small_data.questions[i] for i in small_data.split(split)] == questions
    extractor = Extractor(starter_graph)
    statement = 0
    for number, question in enumerate(small_data.questions):
        found = small_data.subgraphs(number)
        assert len(found) == len(question.choices)
        for subgraph in found:
            expected = extractor(mentions[statement])
            for field in COLUMNS:
                np.testing.assert_array_equal(getattr(subgraph, field), getattr(expected, field))
            statement += 1
    assert statement == small_data.about["statements"] == len(mentions)
    used = {int(c) for s in range(statement) for c in small_data.subgraph(s).concepts}
    assert small_data.used.tolist() == sorted(used)


def test_every_column_is_stored_as_declared(small_data: PreparedData) -> None:
    assert set(COLUMNS) == {field.name for field in dataclasses.fields(Subgraph)} - {"cut"}
    assert {name: column.dtype.type for name, column in small_data.columns.items()} == COLUMNS
    assert len(small_data.columns["concepts"]) == len(small_data.columns["types"]) == small_data.node_ptr[-1]
    assert {len(small_data.columns[name]) for name in ("head", "relation", "tail")} == {int(small_data.edge_ptr[-1])}


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_gives_the_same_bytes(
    small_data: PreparedData, small_questions: Path, starter_graph: KnowledgeGraph, tmp_path: Path, workers: int
) -> None:
    again = prepare(small_questions, starter_graph, tmp_path / "again", dataclasses.replace(OPTIONS, workers=workers))
    assert content(again.folder) == content(small_data.folder)


def test_the_report_counts_concepts_nodes_and_facts(small_data: PreparedData, mentions: list[Mentions]) -> None:
    report = small_data.about["report"]
    assert report["without question concepts"] == sum(not m.question for m in mentions)
    assert report["without answer concepts"] == sum(not m.answer for m in mentions)
    subgraphs = [small_data.subgraph(s) for s in range(len(mentions))]
    for name, sizes in {
        "question concepts": [len(m.question) for m in mentions],
        "answer concepts": [len(m.answer) for m in mentions],
        "nodes": [len(s.concepts) for s in subgraphs],
        "facts": [len(s.head) for s in subgraphs],
    }.items():
        found = report[f"{name} a statement"]
        nine_tenths = sorted(sizes)[int(np.ceil(0.9 * len(sizes))) - 1]
        assert found == {
            "mean": round(float(np.mean(sizes)), 2),
            "median": np.median(sizes),
            "90 %": nine_tenths,
            "max": max(sizes),
        }
    assert "nodes cut a statement" not in report
    assert report["nodes a statement"]["max"] > report["question concepts a statement"]["max"]


def test_a_limit_changes_the_fingerprint_and_the_report(
    small_data: PreparedData, small_questions: Path, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    capped = prepare(small_questions, starter_graph, tmp_path / "capped", dataclasses.replace(OPTIONS, max_nodes=5))
    assert capped.fingerprint != small_data.fingerprint
    sizes, whole = np.diff(capped.node_ptr), np.diff(small_data.node_ptr)
    np.testing.assert_array_equal(sizes, np.minimum(whole, 5))
    assert capped.about["report"]["nodes cut a statement"]["max"] == (whole - sizes).max()


@dataclasses.dataclass(frozen=True)
class _NewOptions(PrepareOptions):
    min_degree: int = 3


def test_a_new_option_with_its_default_changes_no_fingerprint(
    small_data: PreparedData, small_questions: Path, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    options = _NewOptions(statement="fill-in-the-blank", workers=2)
    same = prepare(small_questions, starter_graph, tmp_path / "same", options)
    assert (same.fingerprint, same.about["settings"]) == (small_data.fingerprint, small_data.about["settings"])
    other = prepare(small_questions, starter_graph, tmp_path / "other", dataclasses.replace(options, min_degree=4))
    assert other.fingerprint != small_data.fingerprint


def test_the_fingerprint_stands_for_content_not_for_versions(
    small_data: PreparedData,
    small_questions: Path,
    starter_graph: KnowledgeGraph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another release of the lemma dictionary changes nothing; other concepts in a question, or other splits, do."""
    monkeypatch.setattr("mhgrn.grounding.lemmas.LEMMATIZER", "simplemma 99")
    assert "simplemma" not in (small_data.folder / "prepared.json").read_text(encoding="utf-8")
    assert prepare(small_questions, starter_graph, tmp_path / "same", OPTIONS).fingerprint == small_data.fingerprint
    monkeypatch.undo()
    monkeypatch.setattr(Grounder, "mentioned", _without_last(Grounder.mentioned))
    assert prepare(small_questions, starter_graph, tmp_path / "grounded", OPTIONS).fingerprint != small_data.fingerprint
    monkeypatch.undo()
    moved = tmp_path / "moved"
    moved.mkdir()
    lines = {s: (small_questions / f"{s}.jsonl").read_text(encoding="utf-8").splitlines() for s in ("train", "dev", "test")}
    lines["dev"].insert(0, lines["train"].pop())  # the same questions in the same order
    for split, rows in lines.items():
        (moved / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert prepare(moved, starter_graph, tmp_path / "splits", OPTIONS).fingerprint != small_data.fingerprint


def _without_last(function: Callable[..., Mentioned]) -> Callable[..., Mentioned]:
    """Grounding that misses the last concept of each question."""

    def mentioned(*args: Any) -> Mentioned:
        found = [[Mentions(m.question[:-1], m.answer) for m in question] for question in function(*args).mentions()]
        return Mentioned.of(found)

    return mentioned


def test_a_stale_or_missing_graph_is_refused_and_a_moved_one_found(
    starter_graph: KnowledgeGraph, small_questions: Path, tmp_path: Path
) -> None:
    place, moved = tmp_path / "graph", tmp_path / "moved"
    for folder in (moved, place):
        KnowledgeGraph(None, starter_graph.about, starter_graph._arrays).save(folder)
    data = prepare(small_questions, KnowledgeGraph.load(place), tmp_path / "data", OPTIONS)
    assert data.load_graph().fingerprint == starter_graph.fingerprint
    assert data.load_graph().folder == place
    KnowledgeGraph.from_facts([("cat", "IsA", "animal")]).save(place)
    with pytest.raises(UserError, match="prepared from another graph"):
        data.load_graph()
    assert data.load_graph(moved).fingerprint == starter_graph.fingerprint
    with pytest.raises(UserError, match=r"is not at .*nowhere any more; name its folder with --kg"):
        data.load_graph(tmp_path / "nowhere")


def test_a_failed_preparation_is_explained_and_leaves_nothing(
    starter_graph: KnowledgeGraph, small_questions: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "data"
    with pytest.raises(UserError, match="save the graph first"):
        prepare(small_questions, KnowledgeGraph.from_facts([("a", "IsA", "b")]), target)
    with pytest.raises(UserError, match="Did you mean append"):
        prepare(small_questions, starter_graph, target, PrepareOptions(statement="apend"))
    (tmp_path / "test.jsonl").write_text("")
    with pytest.raises(UserError, match="contains no questions"):
        prepare(tmp_path / "test.jsonl", starter_graph, target)
    assert not target.parent.exists() or not list(target.parent.iterdir())
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="contains other files"):
        prepare(small_questions, starter_graph, tmp_path / "foreign")


@pytest.mark.parametrize("name", ["questions.jsonl", "concepts.npy", "node_ptr.npy", "prepared.json"])
def test_missing_and_damaged_files_are_user_errors(copy: Path, name: str) -> None:
    path = copy / name
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UserError, match=r"copy"):
        PreparedData.load(copy)
    path.unlink()
    with pytest.raises(UserError, match=r"copy"):
        PreparedData.load(copy)


def test_another_format_is_refused(copy: Path) -> None:
    about = json.loads((copy / "prepared.json").read_text())
    (copy / "prepared.json").write_text(json.dumps(about | {"format": 99}))
    seal(copy)
    with pytest.raises(UserError, match="has format 99"):
        PreparedData.load(copy)


def test_an_unknown_split_suggests_one(small_data: PreparedData) -> None:
    with pytest.raises(UserError, match=r"no split 'tran'\. Did you mean train"):
        small_data.split("tran")


def test_statements_are_appended_unless_most_stems_ask() -> None:
    asking, open_ended = Question("", "Where?", ("a", "b")), Question("", "The sky is", ("a", "b"))
    assert statement_builder("auto", [asking] * 9 + [open_ended]) == "fill-in-the-blank"
    assert statement_builder("auto", [asking] + [open_ended] * 9) == "append"
    assert statement_builder("append", [asking]) == "append"


def test_edges_between_question_and_answer_are_counted_either_way() -> None:
    types = np.array([QUESTION, QUESTION, ANSWER, 2], dtype=np.uint8)
    facts = [(0, 2), (2, 1), (0, 1), (0, 3), (3, 2), (2, 0)]
    head, tail = np.array(facts).T
    assert edges_between(Subgraph(np.arange(4), types, head, np.zeros(6, int), tail)) == 3
