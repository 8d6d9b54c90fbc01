"""A model made from a graph alone."""

import json
from pathlib import Path

import pytest

import mhgrn
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.starter import HERE, commonsense
from mhgrn.starter.commonsense import commonsense_run, make_commonsense
from mhgrn.starter.mixture import everyday_questions
from mhgrn.synthesis import SynthesisOptions
from mhgrn.text.tuning import TuneOptions

QUESTIONS = SynthesisOptions(count=60, split=(0.8, 0.2, 0.0))
TUNING = TuneOptions(train="linear", steps=2, batch_size=8)


def test_a_graph_is_enough_and_finished_stages_are_kept(
    starter_graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="make commonsense"):
        commonsense_run()
    assert starter_graph.folder is not None
    with monkeypatch.context() as broken:
        broken.setattr(commonsense, "prepare", _fail)
        with pytest.raises(RuntimeError):
            make_commonsense(starter_graph.folder, None, 60, TUNING, QUESTIONS)
    with monkeypatch.context() as done:
        done.setattr(commonsense, "tune", _fail)
        run = make_commonsense(starter_graph.folder, None, 60, TUNING, QUESTIONS)
    assert run.about["finished"]
    weights = (run.folder / "model.safetensors").read_bytes()
    assert make_commonsense(starter_graph.folder).folder == run.folder  # calibrated once
    assert (run.folder / "model.safetensors").read_bytes() == weights
    answer = mhgrn.load("commonsense").ask("Where do you keep milk?", ["refrigerator", "oven"], effects=False)
    assert answer.choice in ("refrigerator", "oven")
    other = KnowledgeGraph.from_facts([("milk", "AtLocation", "refrigerator")])
    other.save(tmp_path / "other")
    with pytest.raises(UserError, match="begun with another graph"):
        make_commonsense(tmp_path / "other")


def test_everyday_questions_are_added(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    assert starter_graph.folder is not None
    folder = tmp_path / "made"
    run = make_commonsense(starter_graph.folder, folder, 60, TUNING, QUESTIONS, everyday=True)
    assert run.about["finished"]
    ids = [json.loads(line)["id"] for line in (folder / "questions" / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    everyday = [row["id"] for row in everyday_questions(HERE, "model")]
    assert len(everyday) > 1000
    assert ids[-len(everyday) :] == everyday
    assert not set(everyday) & {row["id"] for row in everyday_questions(HERE, "text")}
    with pytest.raises(UserError, match="was begun with everyday questions"):
        make_commonsense(starter_graph.folder, folder, 60, TUNING, QUESTIONS)


def _fail(*arguments: object, **options: object) -> None:
    raise RuntimeError
