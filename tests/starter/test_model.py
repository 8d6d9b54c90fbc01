"""The starter model of the package: there at once, right on easy questions, and rebuilt to the same bytes."""

from pathlib import Path

import pytest

import mhgrn
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.reading import read_questions
from mhgrn.starter import HERE, SHIPPED, cache_folder, find_run, starter_run
from mhgrn.starter.__main__ import KEPT, ship
from mhgrn.starter.demo import cosine_accuracy
from mhgrn.starter.mixture import ordinary, read_rows, write_rows
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.training.evaluation import evaluate


@pytest.fixture(scope="module")
def qa() -> QuestionAnswerer:
    return mhgrn.load()


def test_it_is_unpacked_once_and_needs_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mhgrn.training.loop.train", None)
    run = starter_run()
    assert {path.name for path in run.iterdir()} == {*KEPT, "checksums.json"}
    written = (run / "model.safetensors").stat().st_mtime_ns
    assert starter_run() == find_run(None) == find_run("starter") == run
    assert (run / "model.safetensors").stat().st_mtime_ns == written
    assert KnowledgeGraph.load(cache_folder() / "graph").fact_count > 8000


def test_it_names_no_place_of_the_machine_that_trained_it() -> None:
    for path in SHIPPED.iterdir():
        assert str(Path.home()).encode() not in path.read_bytes()
    about = (SHIPPED / "run.json").read_text(encoding="utf-8")
    assert "/tmp" not in about
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 2 << 20


def test_it_answers_everyday_questions_at_least_as_well_as_the_untrained_text_encoder(qa: QuestionAnswerer, tmp_path: Path) -> None:
    data = prepare(HERE / "everyday.jsonl", qa.run.graph, tmp_path / "everyday", PrepareOptions(statement="fill-in-the-blank"))
    assert evaluate(qa.run, data, "test")["accuracy"] >= cosine_accuracy(qa.run.encoder, data, "test")


def test_everyday_questions_are_well_formed() -> None:
    questions = list(read_questions(HERE / "everyday.jsonl"))
    assert len({question.stem for question in questions}) == len(questions) == 100
    assert all(len(set(question.choices)) == 4 and question.answer is not None for question in questions)


@pytest.mark.long
def test_dev_questions_with_misleading_and_with_ordinary_choices(qa: QuestionAnswerer, tmp_path: Path) -> None:
    def prepared(name: str) -> PreparedData:
        return prepare(tmp_path / name, qa.run.graph, tmp_path / f"prepared-{name}", PrepareOptions(statement="fill-in-the-blank"))

    dev, train = (read_rows(HERE / f"{split}.jsonl") for split in ("dev", "train"))
    write_rows(tmp_path / "written" / "dev.jsonl", dev)
    write_rows(tmp_path / "ordinary" / "dev.jsonl", ordinary(dev, train, "dev"))
    assert evaluate(qa.run, prepared("written"), "dev")["accuracy"] >= 0.5
    usual = prepared("ordinary")
    assert evaluate(qa.run, usual, "dev")["accuracy"] >= max(0.9, cosine_accuracy(qa.run.encoder, usual, "dev"))


@pytest.mark.long
def test_training_it_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        ship(tmp_path / name)
    for name in (*KEPT, "checksums.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name
