import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.checkpoints import Place
from mhgrn.training.checks import collapse, explaining_memory_errors
from mhgrn.training.evaluation import evaluate
from mhgrn.training.loop import train
from tiny_encoder import letter_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letter_encoder(tmp_path_factory.mktemp("encoder"))


def config(encoder: Path, text: dict[str, Any] | None = None, **changes: Any) -> Config:
    training = {"epochs": 2, "patience": 2, "log_every": 1} | changes.pop("training", {})
    text = {"encoder": str(encoder), "pooling": "cls"} | (text or {})
    return Config.of({"features": "random", "mhgrn": {"hidden_dim": 8}, "text": text, "training": training, **changes})


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_loss_that_is_no_number_stops_the_training(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    wild = config(encoder, training={"learning_rate": 1e30, "epochs": 40, "patience": 40})
    with pytest.raises(UserError, match=r"is (nan|inf) at step \d+ \(epoch \d+\): try smaller training\.learning_rate"):
        train(small_data, wild, tmp_path / "run", starter_graph)


def test_equal_scores_of_all_choices_are_reported(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An encoder whose weights are all zero gives every choice the same vector."""
    dead = letter_encoder(tmp_path / "dead")
    model = AutoModel.from_pretrained(dead)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.save_pretrained(dead)
    train(small_data, config(dead, graph_encoder="none", score_dropout=0), tmp_path / "dead-run", starter_graph)
    assert all("same score" in row["warning"] for row in rows(tmp_path / "dead-run") if "dev_accuracy" in row)
    said = capsys.readouterr().err
    assert "warning: in epoch 1 every choice of every question got the same score; try" in said
    train(small_data, config(encoder), tmp_path / "run", starter_graph)
    assert not any("same score" in row.get("warning", "") for row in rows(tmp_path / "run"))


def test_a_loss_at_chance_is_reported(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    still = config(encoder, graph_encoder="none", score_dropout=0, training={"learning_rate": 1e-9}, none={"initial_scale": 0.01})
    train(small_data, still, tmp_path / "run", starter_graph)
    assert all("that of guessing" in row["warning"] for row in rows(tmp_path / "run") if "dev_accuracy" in row)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried"), RuntimeError("x: can't allocate memory: you tried")],
    ids=lambda error: type(error).__name__,
)
def test_every_kind_of_memory_error_names_the_setting(error: Exception) -> None:
    settings = Config.of({"training": {"micro_batch": 3}})
    with (
        pytest.raises(UserError, match=r"out of memory with 3 questions at once: set training\.micro_batch"),
        explaining_memory_errors(settings),
    ):
        raise error


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), NotImplementedError("no"), ValueError("v")])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), explaining_memory_errors(Config()):
        raise error


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("graph_encoder", ["none", "mhgrn"])
def test_text_is_trained_end_to_end(
    precision: str, graph_encoder: str, encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    """In every precision: weights are float32, have moved, and score dev as the training said."""
    tuned = config(
        encoder,
        {"frozen_epochs": 0, "learning_rate": 0.01},
        graph_encoder=graph_encoder,
        training={"precision": precision, "batch_size": 8, "micro_batch": 5, "length_window": 3},
    )
    run = train(small_data, tuned, tmp_path / "run", starter_graph)
    before = AutoModel.from_pretrained(encoder).state_dict()
    after = Run.load(tmp_path / "run").encoder.model.state_dict()
    assert all(tensor.dtype == torch.float32 for tensor in after.values() if tensor.is_floating_point())
    assert not torch.equal(before["encoder.layer.0.output.dense.weight"], after["encoder.layer.0.output.dense.weight"])
    assert evaluate(run, small_data, "dev")["accuracy"] == run.about["metrics"]["dev_accuracy"]
    steps = [row for row in rows(tmp_path / "run") if "gradient_norm" in row]
    assert all(row["text_learning_rate"] == 0.01 and row["learning_rate"] == 0.001 for row in steps)


def test_tensorboard_shows_the_curves_of_the_record(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(small_data, config(encoder, training={"tensorboard": True, "batch_size": 8}), tmp_path / "run", starter_graph)
    events = loader.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    steps = [row for row in rows(tmp_path / "run") if "gradient_norm" in row]
    shown = [(event.step, event.value) for event in events.Scalars("step/loss")]
    assert shown == [(row["step"], pytest.approx(row["loss"], rel=1e-6)) for row in steps]
    assert [event.step for event in events.Scalars("epoch/dev_accuracy")] == [6, 12]


def test_a_loss_that_only_passes_through_chance_is_not_reported() -> None:
    passing = Place(questions=10, loss=16.09, chance=16.09, from_chance=9.0, spread=3.0)
    assert collapse(passing, Config()) is None
    stuck = Place(questions=10, loss=16.09, chance=16.09, from_chance=0.3, spread=0.1)
    assert "that of guessing" in str(collapse(stuck, Config()))
    assert "text.learning_rate" in str(collapse(stuck, Config.of({"text": {"frozen_epochs": 0}})))
    assert collapse(stuck, Config(), has_learnt=True) is None
