"""The starter model of the package: there at once, right on easy questions, and rebuilt to the same bytes."""

from pathlib import Path

import pytest

import mhgrn
from mhgrn.config import Config
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.reading import read_questions
from mhgrn.starter import ENCODER, HERE, RUN, cache_folder, find_run, starter_run
from mhgrn.starter.__main__ import KEPT, ship
from mhgrn.starter.demo import cosine_accuracy
from mhgrn.starter.mixture import ordinary, read_rows, write_rows
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
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
    shipped = [path for folder in (ENCODER, RUN) for path in (HERE / folder).iterdir()]
    for path in shipped:
        assert path.suffix == ".safetensors" or "/tmp" not in path.read_text(encoding="utf-8")
        assert str(HERE.parents[3]).encode() not in path.read_bytes()
    assert Config.load(HERE / RUN / "config.yaml").text.encoder == ENCODER
    assert sum(path.stat().st_size for path in shipped) < 2 << 20


def test_it_answers_everyday_questions_at_least_as_well_as_the_untrained_text_encoder(qa: QuestionAnswerer, tmp_path: Path) -> None:
    data = prepare(HERE / "everyday.jsonl", qa.run.graph, tmp_path / "everyday", PrepareOptions(statement="fill-in-the-blank"))
    untrained = load_text_encoder(TextEncoderSettings())
    assert evaluate(qa.run, data, "test")["accuracy"] >= cosine_accuracy(untrained, data, "test")


def test_everyday_questions_are_well_formed() -> None:
    files = [list(read_questions(HERE / f"{name}.jsonl")) for name in ("everyday", "everyday-dev", "everyday-close")]
    assert [len(questions) for questions in files] == [100, 300, 350]
    stems = [question.stem for questions in files for question in questions]
    assert len(set(stems)) == len(stems)
    for questions in files:
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
    untrained = load_text_encoder(TextEncoderSettings())
    assert evaluate(qa.run, usual, "dev")["accuracy"] >= max(0.9, cosine_accuracy(untrained, usual, "dev"))


@pytest.mark.long
def test_training_it_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        ship(tmp_path / name)
    files = {path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()}
    assert len(files) >= 8
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes(), file
