"""Training on open questions, interrupted again and again."""

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.tensors import load_metadata, load_tensors, save_tensors
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.data import OpenData, prepare_open
from mhgrn.open.run import OpenRun
from mhgrn.runs import read_about
from mhgrn.training.checkpoints import CHECKPOINT
from mhgrn.training.metrics import Record
from mhgrn.training.open import OpenTrainer, train_open
from tiny_encoder import letter_encoder

THINGS = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> OpenData:
    folder, rng = tmp_path_factory.mktemp("open"), np.random.default_rng(0)
    facts = [(f"thing {i}", name, f"place {rng.integers(5)}") for i in range(THINGS) for name in ("lies_in", "comes_from")]
    graph = KnowledgeGraph.from_facts(facts)
    graph.save(folder / "graph")
    rows = [{"question": f"where {name} [{head}]?", "answers": [tail]} for head, name, tail in facts]
    texts = {split: "".join(json.dumps(row) + "\n" for row in rows) for split in ("train", "dev")}
    for split, text in texts.items():
        (folder / f"{split}.jsonl").write_text(text)
    (folder / "data.yaml").write_text("name: places\nsplits: {train: train.jsonl, dev: dev.jsonl}\n")
    return prepare_open(folder / "data.yaml", folder / "graph", folder / "prepared")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letter_encoder(tmp_path_factory.mktemp("encoder"))


def settings(encoder: Path, **training: Any) -> Config:
    return Config.of(
        {
            "task": "open",
            "open": {"hops": 2, "hidden": 8},
            "text": {"encoder": str(encoder), "pooling": "cls"},
            "training": {"epochs": 4, "patience": 4, "batch_size": 5, "log_every": 1, "schedule": "warmup_linear", **training},
        }
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def interrupted(at_row: int, **how: Any) -> None:
    """Train, with Ctrl-C once so many rows are written."""
    add, written = Record.add, 0

    def press(record: Record, *rest: Any) -> None:
        nonlocal written
        add(record, *rest)
        written += 1
        if written == at_row:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Record, "add", press)
        with pytest.raises(KeyboardInterrupt):
            train_open(**how)


def test_a_training_interrupted_many_times_ends_in_the_same_digits(data: OpenData, encoder: Path, tmp_path: Path) -> None:
    config, whole, broken = settings(encoder), tmp_path / "whole", tmp_path / "broken"
    one = train_open(data, config, whole)
    draws = random.Random(0)
    for _ in range(5):  # an epoch has five steps and a row for dev: some interruptions hit the evaluation
        interrupted(draws.randint(1, 5), data=data, config=config, folder=broken)
        assert (broken / CHECKPOINT).is_file()
        assert not read_about(broken).get("finished")
    other = train_open(data, config, broken)
    assert rows(broken) == rows(whole)
    assert other.about["metrics"] == one.about["metrics"]
    assert (broken / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert not (broken / CHECKPOINT).exists()
    with pytest.raises(UserError, match="contains a trained run"):
        train_open(data, config, broken)


def test_an_interrupted_run_answers_with_its_best_epoch(data: OpenData, encoder: Path, tmp_path: Path) -> None:
    interrupted(8, data=data, config=settings(encoder), folder=tmp_path / "run")
    assert OpenRun.load(tmp_path / "run").about["metrics"]["epoch"] == 1


def test_other_settings_and_damaged_checkpoints_are_refused(data: OpenData, encoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted(8, data=data, config=settings(encoder), folder=folder)
    with pytest.raises(UserError, match=r"different settings: training\.batch_size was 5 and is 6"):
        train_open(data, settings(encoder, batch_size=6), folder)
    tensors, about = load_tensors(folder / CHECKPOINT), load_metadata(folder / CHECKPOINT)
    for best in ({"dev_mrr": 7.0}, {"last_better": 9}, {"dev_accuracy": "much"}):
        place = about["place"] | {"best": about["place"]["best"] | best}
        save_tensors(folder / CHECKPOINT, tensors, about | {"place": place})
        with pytest.raises(UserError, match="does not fit its run"):
            train_open(data, settings(encoder), folder)


def test_a_relation_that_is_not_followed_can_be_learned_again(data: OpenData, encoder: Path, tmp_path: Path) -> None:
    config = settings(encoder, epochs=1)
    config = config.model_copy(update={"open": config.open.model_copy(update={"min_attention": 0.05, "dropout": 0.0})})
    trainer = OpenTrainer(train_open(data, config, tmp_path / "run"), data, tmp_path / "run", Record(False))
    with torch.no_grad():  # no question follows the relation of its answer
        trainer.run.model.delta.bias.view(2, -1)[:, :2] -= 20
    batch, before = trainer.questions[:5], trainer.run.model.delta.bias.detach().clone()
    assert trainer._losses(batch).tolist() == [0.0] * 5
    trainer._step(batch)
    change = (trainer.run.model.delta.bias.detach() - before).view(2, -1)
    assert (change[0, :2] > 0).any()


def test_the_number_of_threads_changes_nothing(data: OpenData, encoder: Path, tmp_path: Path) -> None:
    for threads in (1, 3):
        train_open(data, settings(encoder, threads=threads, epochs=2), tmp_path / str(threads))
    one, three = (load_tensors(tmp_path / str(threads) / "model.safetensors") for threads in (1, 3))
    for name, tensor in one.items():
        np.testing.assert_allclose(tensor, three[name], atol=1e-6)
