"""Text encoders that are tuned on the graph before the runs, and systems that are not trained on the questions of a dataset."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mhgrn.errors import UserError
from mhgrn.questions.reading import read_questions
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tuned import read_about
from mhgrn.text.zero_shot import zero_shot
from mhgrn.training.evaluation import split_probabilities
from mhgrn.training.examples import Examples
from mhgrn_reproduction import sources
from mhgrn_reproduction.cells import cell_from, cell_row, read_result
from mhgrn_reproduction.experiment_setup import Request, set_up
from mhgrn_reproduction.papers import Experiment, TextSettings, Tuning
from mhgrn_reproduction.runner import reproduce, verify
from mhgrn_reproduction.sources import Sources
from mhgrn_reproduction.summary import read_summary
from mhgrn_reproduction.tables import markdown
from once import made_once

ENCODER = """
label: tuned a little
like: minilm
tuning: {steps: 2, batch_size: 4, keep: 0.5}
settings: {text.encoder: tuned, training.threads: 1}
"""
ZERO_SHOT = """
synthesis: {count: 24, hide: 0.5, split: [0.75, 0.25, 0.0]}
evaluate:
  dev: {data: commonsenseqa-inhouse, split: dev}
  in-house: {data: commonsenseqa-inhouse, split: test}
reference: tuned
settings: {training.epochs: 1}
systems:
  cosine: {label: cosine, measure: cosine, settings: {graph_encoder: none, text.encoder: minilm}}
  tuned: {label: cosine of the tuned encoder, measure: cosine, settings: {graph_encoder: none}}
  both: {label: both cosines, measure: cosine, plus: tuned, settings: {graph_encoder: none, text.encoder: minilm}}
  mhgrn: {label: MHGRN, settings: {graph_encoder: mhgrn, mhgrn.hops: 1, score_similarity: 20, score_text: false}}
  mhgrn-plus:
    label: MHGRN + cosine
    plus: cosine
    settings: {graph_encoder: mhgrn, mhgrn.hops: 1, score_similarity: 20, score_text: false}
"""
SMALL = {"systems": ["none"], "seeds": 1}


def write(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return str(folder / f"{name}.yaml")


@pytest.fixture(scope="session")
def ran(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Request:
    """The systems without labeled questions, with two seeds and an additional file."""

    def request(folder: Path) -> Request:
        return Request(
            str(folder / "small-zero-shot.yaml"),
            str(folder / "slightly.yaml"),
            Sources(files, folder / "work"),
            folder / "results",
            seeds=2,
            questions=[files / "csqa" / "train_rand_split.jsonl"],
        )

    def run(folder: Path) -> None:
        write(folder, "small-zero-shot", ZERO_SHOT)
        write(folder, "slightly", ENCODER)
        reproduce(request(folder))

    return request(made_once(tmp_path_factory, "reproduction-zero-shot", run))


def tuned_folder(request: Request) -> Path:
    (folder,) = (path for path in (request.sources.work / "encoders").iterdir() if path.is_dir())
    return folder


def cell(request: Request, name: str) -> dict[str, Any]:
    return read_result(request.folder / "cells" / f"{name}.json")


def test_measures_have_one_value_and_trained_systems_one_for_each_seed(ran: Request) -> None:
    summary = read_summary(ran.folder)
    seeds = {name: entry["seeds"] for name, entry in summary["systems"].items()}
    assert seeds == {"cosine": [0], "tuned": [0], "both": [0], "mhgrn": [0, 1], "mhgrn-plus": [0, 1]}
    assert summary["splits"] == ["dev", "in-house", "train_rand_split"]
    assert summary["shrunk"] == ["seeds: 2 instead of 4"]
    assert "24 questions were made from the graph (seed 0), 50% with hidden facts." in summary["notes"]
    assert any("tuned on the graph for 2 steps of 4 questions" in note for note in summary["notes"])
    assert {"dev", "in-house"} <= summary["systems"]["mhgrn"]["difference"].keys()  # seeds against one value
    assert "| cosine of the tuned encoder |" in markdown(summary)


def test_a_cosine_is_that_of_text_score(ran: Request, files: Path) -> None:
    questions = list(read_questions(files / "csqa" / "dev_rand_split.jsonl"))
    for name, model in (("cosine", "minilm"), ("tuned", str(tuned_folder(ran)))):
        assert cell(ran, f"{name}.0")["splits"]["dev"]["accuracy"] == zero_shot(model, questions, "cosine").accuracy
    assert cell(ran, "tuned.0")["splits"]["train_rand_split"]["questions"] == 48


def standardized(scores: list[float]) -> np.ndarray:
    centered = np.array(scores) - np.mean(scores)
    return centered / np.sqrt(np.mean(centered**2))


def test_a_sum_of_scores_is_the_sum_of_standardized_ones(ran: Request, files: Path) -> None:
    questions = list(read_questions(files / "csqa" / "dev_rand_split.jsonl"))
    plain, tuned = (zero_shot(model, questions, "cosine").scores for model in ("minilm", str(tuned_folder(ran))))
    expected = [int((standardized(a) + standardized(b)).argmax()) for a, b in zip(plain, tuned, strict=True)]
    assert cell(ran, "both.0")["splits"]["dev"]["chosen"] == "".join(map(str, expected))


def test_a_trained_system_with_other_scores_shares_the_run(ran: Request, files: Path) -> None:
    one, other = cell(ran, "mhgrn.1"), cell(ran, "mhgrn-plus.1")
    assert one["run"] == other["run"]
    assert one["key"] != other["key"]
    data = PreparedData.load(next((ran.sources.work / "prepared").glob("commonsenseqa-inhouse-*")))
    run = Run.load(ran.sources.work / "runs" / one["run"], None, None, tuned_folder(ran))
    shares = split_probabilities(Examples(data, run), "dev")
    plain = zero_shot("minilm", [data.questions[q] for q in data.split("dev")], "cosine").scores
    expected = [int((standardized(np.log(a)) + standardized(b)).argmax()) for a, b in zip(shares, plain, strict=True)]
    assert other["splits"]["dev"]["chosen"] == "".join(map(str, expected))


def test_cells_are_the_same_in_another_process(ran: Request) -> None:
    setup = set_up(ran)
    for system in ("both", "mhgrn-plus"):
        one = setup.cell(system, 0, setup.whole)
        assert cell_from(json.loads(json.dumps(cell_row(one)))) == one


def test_trained_systems_see_only_questions_of_the_graph(ran: Request) -> None:
    result = cell(ran, "mhgrn.1")
    data = PreparedData.load(next((ran.sources.work / "prepared").glob("synthesized-*")))
    assert result["data"]["fingerprint"] == data.fingerprint
    assert (len(data.split("train")), len(data.split("dev"))) == (18, 6)
    run = json.loads((ran.sources.work / "runs" / result["run"] / "run.json").read_text(encoding="utf-8"))
    assert run["data"]["fingerprint"] == data.fingerprint
    assert sum(bool(question.hide) for question in data.questions) == pytest.approx(12, abs=6)


def test_results_name_the_tuned_encoder_by_what_determines_it(ran: Request) -> None:
    folder = tuned_folder(ran)
    result = cell(ran, "mhgrn.0")
    assert result["config"]["text"]["encoder"] == folder.name
    assert folder.name.startswith("slightly-")
    assert str(ran.sources.work) not in json.dumps(result)
    assert result["text_checksum"] == load_text_encoder(TextEncoderSettings(), folder).checksum()
    setup = set_up(ran)
    assert setup.tuned is not None
    assert setup.tuned.name == folder.name
    for change in ({"steps": 3}, {"keep": 0.4}, {"seed": 1}, {"batch_size": 5}):
        other = replace(setup.tuned, tuning=setup.tuned.tuning.model_copy(update=change))
        assert other.name != folder.name
        with pytest.raises(UserError, match=rf"was tuned with .*{next(iter(change))} "):
            other.check(folder)


def test_the_same_command_does_nothing_again(ran: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_tuning(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("mhgrn.text.tuning.tune", no_tuning)
    before = {path: path.stat().st_mtime_ns for path in (ran.folder / "cells").iterdir()}
    reproduce(ran)
    assert before == {path: path.stat().st_mtime_ns for path in (ran.folder / "cells").iterdir()}
    without_file = reproduce(replace(ran, questions=[]))
    assert without_file["splits"] == ["dev", "in-house"]
    assert before == {path: path.stat().st_mtime_ns for path in (ran.folder / "cells").iterdir()}
    reproduce(ran)


@pytest.mark.parametrize("name", ["tuned:0", "mhgrn:1"])
def test_cells_are_verified(ran: Request, name: str) -> None:
    found = verify(replace(ran, questions=[]), name)
    assert found["same"]
    assert set(found["splits"]) == {"dev", "in-house"}


def test_an_encoder_that_was_tuned_before_is_adopted(
    ran: Request, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another work folder, and with an experiment that trains on a dataset."""
    monkeypatch.setattr("mhgrn.text.tuning.tune", None)  # it would fail
    folder = tuned_folder(ran)
    own = replace(
        ran, name=str(files / "own.yaml"), sources=Sources(files, tmp_path / "work"), results=tmp_path / "results", questions=[]
    )
    summary = reproduce(replace(own, encoder_folder=folder, **SMALL))
    adopted = tuned_folder(replace(own, sources=Sources(files, tmp_path / "work")))
    assert adopted.name == folder.name
    assert (adopted / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert summary["systems"]["none"]["seeds"] == [0]
    with pytest.raises(UserError, match="tunes no text encoder"):
        reproduce(replace(own, encoder="minilm", encoder_folder=folder, **SMALL))
    with pytest.raises(UserError, match=r"does not exist|is not"):
        reproduce(replace(own, encoder_folder=tmp_path, **SMALL))


def test_the_same_run_of_another_experiment_is_taken_over(own_copy: Request, files: Path, tmp_path: Path) -> None:
    other = write(tmp_path, "other", (files / "own.yaml").read_text(encoding="utf-8").replace("\n  edge-types:", "\n  edges:"))
    empty = replace(own_copy, name=other, sources=replace(own_copy.sources, work=own_copy.sources.work), systems=["edges"])
    summary = reproduce(empty)
    result = cell(empty, "edges.1")
    assert result == cell(own_copy, "edge-types.1") | {"system": "edges"}
    assert summary["systems"]["edges"]["dev"] == read_summary(own_copy.folder)["systems"]["edge-types"]["dev"]


def test_facts_of_held_out_questions_are_left_out(ran: Request, files: Path, tmp_path: Path) -> None:
    text = TextSettings.named("minilm-knowledge-without")
    tuning = Tuning(steps=1, batch_size=2, keep=0.5, without=["dev", "test"])
    there = Sources(files, tmp_path, next((ran.sources.work / "graphs").iterdir()))
    left_out = there.tuned("some", tuning, text, ["commonsenseqa-inhouse"])
    plain = there.tuned("some", tuning.model_copy(update={"without": []}), text, ["commonsenseqa-inhouse"])
    assert len(left_out.questions) == 32
    assert left_out.name != plain.name
    left_out.build()
    assert read_about(left_out.folder)["left_out"] > 0
    with pytest.raises(UserError, match="was tuned with the facts of dev and test questions left out"):
        plain.check(left_out.folder)


def test_datasets_with_the_same_questions_share_an_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources._without_facts("openbookqa-retrieved") == sources._without_facts("openbookqa-fact") == "openbookqa"
    assert sources._without_facts("commonsenseqa-inhouse") == "commonsenseqa-inhouse"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "hops", "questions": ["x"]}, "hops evaluates only its own dataset"),
        ({"questions": ["no.jsonl"]}, "no.jsonl is not a file"),
        ({"encoder": "minilm", "changes": ["text.encoder=tuned"]}, "minilm does not say how to tune"),
        ({"changes": ["features=triples"]}, "use features: names"),
    ],
)
def test_what_cannot_be_run_is_refused(ran: Request, tmp_path: Path, change: dict[str, Any], says: str) -> None:
    change = change | ({"questions": [Path(path) for path in change["questions"]]} if "questions" in change else {})
    with pytest.raises(UserError, match=says):
        reproduce(replace(ran, results=tmp_path, **change))


def test_experiments_say_what_they_train_on(tmp_path: Path) -> None:
    for text, says in (
        (ZERO_SHOT.replace("synthesis", "data: x\nsynthesis"), "give either data or synthesis"),
        ("data: x\n" + ZERO_SHOT.split("\n", 2)[2], "give evaluate with synthesis"),
        ("data: x\nsystems: {a: {label: A, measure: cosine}}\n", "measure needs evaluate"),
        (ZERO_SHOT.replace("plus: cosine", "plus: mhgrn"), "plus of mhgrn-plus should name a system with a measure"),
    ):
        with pytest.raises(UserError, match=says):
            Experiment.named(write(tmp_path, "wrong", text))
    with pytest.raises(UserError, match="describe the tuning"):
        TextSettings.named(write(tmp_path, "wrong", "label: x\nsettings: {text.encoder: tuned}\n"))


def test_knowledge_tuned_has_the_runs_of_csqa_inhouse() -> None:
    """So experiments share them."""
    ours, theirs = Experiment.named("knowledge-tuned"), Experiment.named("csqa-inhouse")
    tuned, untuned = TextSettings.named("minilm-knowledge"), TextSettings.named("minilm")
    for name in ours.systems:
        if name.endswith("-likelihood"):
            continue
        config = ours.config(name, "minilm-knowledge", tuned, 2).identity()
        encoder, text = ("minilm", untuned) if name.endswith("-untuned") else ("minilm-knowledge", tuned)
        assert config == theirs.config(name.removesuffix("-untuned"), encoder, text, 2).identity(), name
    assert ours.config("mhgrn", "minilm-knowledge", tuned).text.encoder == "tuned"
    assert {name for name, system in ours.systems.items() if not system.optional} == {
        "none",
        "mhgrn",
        "mhgrn-counting",
        "mhgrn-relevance",
        "qagnn",
    }
