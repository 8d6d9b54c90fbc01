"""Interrupted in this process, again and again; and what a checkpoint holds. Real kills are in tests/cli/test_training.py."""

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.locks import locked
from mhgrn.io.tensors import load_metadata, load_tensors, save_tensors
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import read_about
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.checkpoints import CHECKPOINT, Clock, differences, random_state, set_random_state
from mhgrn.training.loop import train
from mhgrn.training.metrics import Record
from tiny_encoder import letter_encoder

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letter_encoder(tmp_path_factory.mktemp("encoder"))


def settings(encoder: Path, text: dict[str, Any] | None = None, **training: Any) -> Config:
    return Config.of(
        {
            "features": "random",
            "mhgrn": {"hidden_dim": 8},
            "text": {"encoder": str(encoder), "pooling": "cls", "frozen_epochs": 1, "learning_rate": 1e-3, **(text or {})},
            "training": {"epochs": 3, "patience": 3, "batch_size": 6, "log_every": 1, **training},
        }
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def interrupted(folder: Path, at_step: int, **how: Any) -> None:
    """Train, with Ctrl-C once the step's row is written."""
    add, pressed = Record.add, False

    def press(record: Record, row: dict[str, Any], *rest: Any) -> None:
        nonlocal pressed
        add(record, row, *rest)
        if row["step"] >= at_step and not pressed:
            pressed = True
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Record, "add", press)
        with pytest.raises(KeyboardInterrupt):
            train(folder=folder, **how)


@pytest.mark.parametrize("text", [{}, {"frozen_epochs": None}, {"frozen_epochs": 2, "frozen_dropout": True}], ids=str)
def test_a_training_interrupted_many_times_ends_in_the_same_digits(
    text: dict[str, Any], encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    how = {"data": small_data, "config": settings(encoder, text), "graph": starter_graph}
    whole = train(folder=tmp_path / "whole", **how)
    assert rows(tmp_path / "whole")[-1]["step"] == 24
    for step in sorted(random.Random(0).sample(range(1, 23), 4)):
        interrupted(tmp_path / "broken", step, **how)
        assert (tmp_path / "broken" / CHECKPOINT).is_file()
    again = train(folder=tmp_path / "broken", **how)
    assert rows(tmp_path / "broken") == rows(tmp_path / "whole")
    assert again.about["metrics"] == whole.about["metrics"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("broken", "whole")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "broken" / CHECKPOINT).exists()
    assert read_about(tmp_path / "broken")["finished"]


def test_an_unfinished_run_of_other_settings_or_a_damaged_checkpoint_is_refused(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    how = {"data": small_data, "graph": starter_graph}
    folder = tmp_path / "run"
    interrupted(folder, 2, config=settings(encoder), **how)
    with pytest.raises(UserError, match=r"different settings: training\.batch_size was 6 and is 7\. To resume .*--force"):
        train(config=settings(encoder, batch_size=7), folder=folder, **how)
    checkpoint = (folder / CHECKPOINT).read_bytes()
    (folder / CHECKPOINT).write_bytes(checkpoint[:-1])
    with pytest.raises(UserError, match="damaged"):
        train(config=settings(encoder), folder=folder, **how)
    (folder / CHECKPOINT).write_bytes(checkpoint)
    with locked(tmp_path / ".run.lock"), pytest.raises(UserError, match=r"another process is training in .*run; wait for it"):
        train(config=settings(encoder), folder=folder, **how)
    # how often to save and to log decides nothing, and may change on the way
    run = train(config=settings(encoder, checkpoint_every="1 minutes", log_every=5), folder=folder, **how)
    assert run.about["finished"]


def test_nothing_of_a_checkpoint_is_used_unchecked(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    how = {"data": small_data, "graph": starter_graph, "config": settings(encoder)}
    folder = tmp_path / "run"
    interrupted(folder, 2, **how)
    tensors, about = load_tensors(folder / CHECKPOINT), load_metadata(folder / CHECKPOINT)
    weight = next(name for name in sorted(tensors) if name.startswith("model.") and tensors[name].dim() == 2)
    moment = next(name for name in sorted(tensors) if name.endswith(".exp_avg") and tensors[name].dim() == 2)
    bad_position = tensors["random"].clone()
    bad_position[0, len(torch.get_rng_state()) + 4 * 624 + 2] = 1  # numpy would read beyond its state
    attacks: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({weight: torch.zeros(3)}, {}, "has shape"),
        ({weight: tensors[weight].long()}, {}, "is of type torch.int64"),
        ({weight: tensors[weight] * torch.nan}, {}, "not finite"),
        ({weight: None}, {}, "has no tensor"),
        ({"other": torch.zeros(1)}, {}, "does not fit its run"),
        ({moment: torch.zeros(2)}, {}, "of shape"),
        ({moment: None}, {}, "has only"),
        ({"optimiser.100000.step": torch.zeros(())}, {}, "does not fit its run"),
        ({"optimiser.x.step": torch.zeros(())}, {}, "does not fit its run"),
        ({"random": torch.zeros(1, 5, dtype=torch.uint8)}, {}, "random states"),
        ({"random": tensors["random"].float()}, {}, "random states"),
        ({"random": torch.zeros_like(tensors["random"])}, {}, "invalid random state"),
        ({"random": bad_position}, {}, "invalid random state"),
        ({}, {"place": about["place"] | {"epoch": 10**9}}, "epoch is 1000000000"),
        ({}, {"place": about["place"] | {"step": 10**12}}, "step is"),
        ({}, {"place": about["place"] | {"step_in_epoch": -1}}, "step_in_epoch is -1"),
        ({}, {"place": about["place"] | {"loss": "high"}}, "loss is of type str"),
        ({}, {"place": about["place"] | {"log_bytes": -5}}, "log_bytes is -5"),
        ({}, {"place": about["place"] | {"best": {"dev_accuracy": 0.5, "last_better": 7}}}, "its best epoch"),
        ({}, {"place": []}, "does not fit its run"),
        ({}, {"groups": []}, "does not fit its run"),
        ({}, {"groups": [group | {"weight_decay": 0.5} for group in about["groups"]]}, "its optimizer are others"),
        ({}, {"groups": [group | {"lr": "fast"} for group in about["groups"]]}, "a learning rate is 'fast'"),
    ]
    for changed, described, says in attacks:
        save_tensors(folder / CHECKPOINT, {n: t for n, t in (tensors | changed).items() if t is not None}, about | described)
        with pytest.raises(UserError) as error:
            train(folder=folder, **how)
        assert says in str(error.value), (says, str(error.value))
        assert "\n" not in str(error.value)
    save_tensors(folder / CHECKPOINT, tensors, about)
    (folder / "metrics.jsonl").write_bytes(b"")
    assert train(folder=folder, **how).about["finished"]


def test_the_same_encoder_elsewhere_is_no_other_run(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    how = {"data": small_data, "graph": starter_graph, "folder": tmp_path / "run"}
    interrupted(at_step=2, config=settings(encoder), **how)
    moved = shutil.copytree(encoder, tmp_path / "moved")
    assert train(config=settings(moved), **how).encoder.folder == moved


def test_a_run_killed_before_its_first_checkpoint_restarts_with_the_same_result(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    how = {"data": small_data, "config": settings(encoder), "graph": starter_graph}
    train(folder=tmp_path / "whole", **how)
    interrupted(tmp_path / "broken", 17, **how)  # in the third epoch: the best model is in place
    (tmp_path / "broken" / CHECKPOINT).unlink()
    with pytest.raises(UserError, match="unfinished run with different settings"):
        train(small_data, settings(encoder, batch_size=7), tmp_path / "broken", starter_graph)
    train(folder=tmp_path / "broken", **how)
    assert rows(tmp_path / "broken") == rows(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"broken", "whole"}


def test_steps_may_be_limited_and_questions_be_fewer(
    encoder: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    for name, limits, last in (
        ("steps", {"max_steps": 11}, 11),
        ("share", {"train_fraction": 0.25}, 6),
        ("questions", {"max_questions": 7, "subset": "first"}, 6),
    ):
        train(small_data, settings(encoder, **limits), tmp_path / name, starter_graph)
        epochs = [row for row in rows(tmp_path / name) if "dev_accuracy" in row]
        assert epochs[-1]["step"] == last
        assert len(epochs) == (2 if name == "steps" else 3)


def test_random_numbers_go_on_where_they_were() -> None:
    def draw() -> list[float]:
        return [float(torch.rand(())), float(np.random.rand()), float(np.random.randn()), random.random(), random.gauss(0, 1)]

    draw()  # leaves half a pair of normal numbers behind, here and in numpy
    state = random_state(CPU)
    expected = [draw(), draw()]
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    assert draw() != expected[0]
    set_random_state(state, CPU)
    assert [draw(), draw()] == expected


def test_checkpoints_are_due_by_steps_or_by_the_clock() -> None:
    assert [step for step in range(1, 10) if Clock(3).is_due(step)] == [3, 6, 9]
    assert [step for step in range(1, 10) if Clock("4 steps").is_due(step)] == [4, 8]
    assert Clock("0 minutes").is_due(1)
    assert not Clock("5 minutes").is_due(1)


@pytest.mark.parametrize("wrong", ["often", "0 steps", "5 hours", -1, 0, "5minutes", "minutes"])
def test_an_interval_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(UserError, match=r"training\.checkpoint_every"):
        Config.of({"training": {"checkpoint_every": wrong}})


def test_differences_name_what_decides_a_run() -> None:
    about = {
        "config": Config().model_dump(),
        "graph_fingerprint": "g",
        "text_weights": "t",
        "feature_dim": 8,
        "processes": 1,
        "data": {"fingerprint": "d", "folder": "here"},
    }
    moved = about | {"data": {"fingerprint": "d", "folder": "there"}}
    assert differences(about, moved) == []
    full = about["config"] | {"rgcn": {"normalise": "total", "removed": 1}}  # earlier versions stored unused encoders too
    assert differences(about | {"config": full}, about) == []
    other = Config.of({"mhgrn": {"hops": 3}, "training": {"log_every": 1, "tensorboard": True}}).model_dump()
    changed = about | {"config": other, "graph_fingerprint": "h", "processes": 2, "data": {"fingerprint": "e"}}
    assert differences(about, changed) == [
        "the graph is different",
        "the number of processes was 1 and is 2",
        "the prepared data is different",
        "mhgrn.hops was 2 and is 3",
    ]
