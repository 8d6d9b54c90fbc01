"""Prepared data: round trips, fingerprints, and identical bytes for identical input."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
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
from mhgrn.subgraphs.report import report

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
    with pytest.raises(UserError, match=r"was at .*nowhere, which does not exist; name its folder with --kg"):
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


def mutated(copy: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change a file of the folder as someone would who also writes new checksums."""
    path = copy / name
    if name.endswith(".npy"):
        np.save(path, change(np.load(path)))
    elif name.endswith(".jsonl"):
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        path.write_text(json.dumps(change(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    seal(copy)


def at(place: int, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array = array.copy()
        array[place] = value
        return array

    return change


def with_first(**values: Any) -> Callable[[str], str]:
    """The first question with other values."""

    def change(text: str) -> str:
        first, _, rest = text.partition("\n")
        return json.dumps(json.loads(first) | values) + "\n" + rest

    return change


CRAFTED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a head outside its subgraph": ("head.npy", at(0, 65_535)),
    "a tail outside its subgraph": ("tail.npy", at(-1, 65_000)),
    "a relation outside the schema": ("relation.npy", at(3, 60_000)),
    "a type that does not exist": ("types.npy", at(0, 3)),
    "a negative concept": ("concepts.npy", at(0, -1)),
    "a concept outside the graph": ("concepts.npy", at(0, 2**31 - 1)),
    "a used concept outside the graph": ("used.npy", at(-1, 2**31 - 1)),
    "used concepts that do not ascend": ("used.npy", lambda a: a[::-1].copy()),
    "a negative cut": ("cut.npy", at(0, -1)),
    "a pointer that decreases": ("node_ptr.npy", at(3, 0)),
    "a pointer behind the end": ("edge_ptr.npy", at(-1, 10**12)),
    "a negative pointer": ("edge_ptr.npy", at(1, -(2**62))),
    "a pointer that begins elsewhere": ("node_ptr.npy", at(0, 1)),
    "floats": ("head.npy", lambda a: a.astype(np.float64)),
    "wide numbers": ("tail.npy", lambda a: a.astype(np.int64)),
    "two dimensions": ("types.npy", lambda a: a.reshape(1, -1)),
    "no dimension": ("cut.npy", lambda a: np.array(3)),
    "a column that is too long": ("concepts.npy", lambda a: np.append(a, a[:1])),
    "other byte order": ("node_ptr.npy", lambda a: a.astype(">i8")),
    "no graph": ("prepared.json", lambda about: about | {"graph": None}),
    "a graph with a null character": ("prepared.json", lambda about: about | {"graph": "a\0b"}),
    "counts of splits as text": ("prepared.json", lambda about: about | {"splits": {"train": "48", "dev": 20, "test": 20}}),
    "a negative split": ("prepared.json", lambda about: about | {"splits": {"train": -1, "dev": 69, "test": 20}}),
    "splits as a list": ("prepared.json", lambda about: about | {"splits": [48, 20, 20]}),
    "too many statements": ("prepared.json", lambda about: about | {"statements": 10**30}),
    "statements as a flag": ("prepared.json", lambda about: about | {"statements": True}),
    "negative relations": ("prepared.json", lambda about: about | {"relations": -5}),
    "a negative limit": ("prepared.json", lambda about: about | {"settings": about["settings"] | {"max_nodes": -5}}),
    "a statement builder that is a list": ("prepared.json", lambda about: about | {"settings": {"statement": ["append"]}}),
    "texts in the report": ("prepared.json", lambda about: about | {"report": {"nodes a statement": {"mean": "many"}}}),
    "a list": ("prepared.json", lambda about: [about]),
    "a question without choices": ("questions.jsonl", with_first(choices=None)),
    "choices as text": ("questions.jsonl", with_first(choices="ab")),
    "one choice": ("questions.jsonl", with_first(choices=["a"])),
    "a stem that is a number": ("questions.jsonl", with_first(stem=5)),
    "an answer out of range": ("questions.jsonl", with_first(answer=10**9)),
    "a negative answer": ("questions.jsonl", with_first(answer=-1)),
    "an answer that is a flag": ("questions.jsonl", with_first(answer=True)),
    "labels of other choices": ("questions.jsonl", with_first(labels=["A"])),
    "a nested question": ("questions.jsonl", lambda text: "[" * 100_000 + "\n" + text),
    "a question too many": ("questions.jsonl", lambda text: text + text.splitlines(keepends=True)[0]),
    "a question too few": ("questions.jsonl", lambda text: text[text.index("\n") + 1 :]),
    "not a number": ("questions.jsonl", lambda text: '{"id": NaN}\n' + text),
}


def read_all(folder: Path) -> None:
    """Load prepared data, and use all of it."""
    data = PreparedData.load(folder)
    data.load_graph()
    report(data, hops=2)
    for statement in range(data.about["statements"]):
        data.subgraph(statement)


@pytest.mark.parametrize(("name", "change"), CRAFTED.values(), ids=CRAFTED)
def test_crafted_content_is_a_user_error(copy: Path, name: str, change: Callable[[Any], Any]) -> None:
    read_all(copy)
    mutated(copy, name, change)
    with pytest.raises(UserError):
        read_all(copy)


@pytest.mark.parametrize("name", [*(f"{column}.npy" for column in COLUMNS), "node_ptr.npy", "used.npy", "questions.jsonl"])
def test_a_flipped_bit_is_reported_when_it_is_read(copy: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large arrays are checked when a subgraph of a damaged block is used."""
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    content = bytearray((copy / name).read_bytes())
    content[-9] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name} is damaged"):
        read_all(copy)


def test_subgraphs_are_checked_once(small_data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    data = PreparedData.load(small_data.folder)
    looked_at: list[Any] = []
    monkeypatch.setattr("mhgrn.io.stored.StoredArray.ensure", lambda *_: looked_at.append(_))
    for _ in range(3):
        data.subgraph(5)
    data.ensure(5, 6)
    assert len(looked_at) == len(COLUMNS)


def test_it_says_what_it_is(small_data: PreparedData) -> None:
    assert repr(small_data) == (
        f"PreparedData(train=48, dev=20, test=20, statements={small_data.about['statements']}, folder={str(small_data.folder)!r})"
    )
    assert len(small_data) == len(list(small_data)) == 88
    assert next(iter(small_data)) is small_data.questions[0]


ROWS = [{"question": f"Where is child {i}?", "choices": ["school", f"farm {i}"], "answer": "school"} for i in range(20)]


def test_rows_and_paths_are_accepted(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    assert starter_graph.folder is not None
    one = prepare(ROWS, str(starter_graph.folder), str(tmp_path / "one"))
    assert {split: len(numbers) for split, numbers in one.splits.items()} == {"test": 20}
    by_split = prepare({"train": ROWS[:15], "dev": iter(ROWS[15:])}, starter_graph, tmp_path / "two", workers=1)
    assert {split: len(numbers) for split, numbers in by_split.splits.items()} == {"train": 15, "dev": 5}
    assert [q.stem for q in by_split] == [q.stem for q in one]
    assert prepare(pandas.DataFrame(ROWS), starter_graph, tmp_path / "three").fingerprint == one.fingerprint


def test_other_types_are_refused(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    target = tmp_path / "data"
    with pytest.raises(TypeError, match="graph should be the path of a folder, not int"):
        prepare(ROWS, 3, target)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="folder should be the path of a folder, not NoneType"):
        prepare(ROWS, starter_graph, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="options should be PrepareOptions, not dict"):
        prepare(ROWS, starter_graph, target, {"max_nodes": 5})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_node"):
        prepare(ROWS, starter_graph, target, max_node=5)
    with pytest.raises(TypeError, match="prepared data should be the path of a folder, not list"):
        PreparedData.load([])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="'training' is not a split; give rows by split: train, dev, test"):
        prepare({"training": ROWS}, starter_graph, target)
    with pytest.raises(UserError, match="give a frame, a dataset or a list of dictionaries, not int"):
        prepare(5, starter_graph, target)
    with pytest.raises(UserError, match="row 2: the id 'a' is already used"):
        prepare([ROWS[0] | {"id": "a"}, ROWS[1] | {"id": "a"}], starter_graph, target)
    with pytest.raises(UserError, match="there are no questions"):
        prepare([], starter_graph, target)
    with pytest.raises(UserError, match="max_nodes is -5; it should be an integer from 1"):
        prepare(ROWS, starter_graph, target, max_nodes=-5)


def test_one_file_is_divided(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    data = prepare(ROWS, starter_graph, tmp_path / "data", split=(0.8, 0.1, 0.1))
    assert {split: len(numbers) for split, numbers in data.splits.items()} == {"train": 16, "dev": 2, "test": 2}
    assert sorted(q.id for q in data) == sorted(q.id for q in prepare(ROWS, starter_graph, tmp_path / "whole"))
    assert data.about["divided"] == {"split": [0.8, 0.1, 0.1], "seed": 0}
    assert len(data.answered_split("train")) == 16
    other = prepare(ROWS, starter_graph, tmp_path / "other", split=(0.8, 0.1, 0.1), seed=1)
    assert other.fingerprint != data.fingerprint
    assert prepare(ROWS, starter_graph, tmp_path / "again", split=[0.8, 0.1, 0.1]).fingerprint == data.fingerprint


def test_data_without_a_training_split_says_how_to_make_one(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    data = prepare(ROWS, starter_graph, tmp_path / "data")
    with pytest.raises(UserError, match=r"no split 'train'\. Known: test\. To divide .* with --split 0\.8,0\.1,0\.1"):
        data.answered_split("train")


def test_a_default_limit_is_reported_only_if_it_cuts(
    small_data: PreparedData,
    small_questions: Path,
    starter_graph: KnowledgeGraph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not any("cut" in name for name in small_data.about["report"])
    monkeypatch.setattr("mhgrn.subgraphs.extract.DEFAULT_NODES", 4)
    cut = prepare(small_questions, starter_graph, tmp_path / "cut", OPTIONS)
    assert cut.about["settings"] == small_data.about["settings"]
    assert cut.about["report"]["cut to 4 nodes and 250,000 facts"] == (cut.cut > 0).sum() > 0
    explicit = prepare(small_questions, starter_graph, tmp_path / "explicit", OPTIONS, max_nodes=4)
    assert "nodes cut a statement" in explicit.about["report"]
    assert not any(name.startswith("cut to") for name in explicit.about["report"])
    for name in COLUMNS:
        np.testing.assert_array_equal(explicit.columns[name], cut.columns[name])


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
