"""Loggers receive every row of the metrics, and write what their libraries read again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.loggers import MLflowLogger, WandbLogger
from mhgrn.training.loop import train


class Kept:
    """Keeps what it receives."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def start(self, settings: Mapping[str, Any]) -> None:
        self.calls.append(("start", dict(settings)))

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.calls.append(("log", (step, dict(values))))

    def close(self) -> None:
        self.calls.append(("close", None))


def test_a_logger_receives_every_row(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    kept = Kept()
    config = Config.of({"training": {"epochs": 1, "log_every": 1}, "features": "random"})
    train(small_data, config, tmp_path / "run", starter_graph, loggers=[kept])
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    logged = [value for kind, value in kept.calls if kind == "log"]
    assert kept.calls[0] == ("start", config.identity())
    assert kept.calls[-1] == ("close", None)
    assert [step for step, _ in logged] == [row["step"] for row in rows]
    assert [values.get("epoch/dev_accuracy") for _, values in logged] == [row.get("dev_accuracy") for row in rows]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wandb", "mlflow", "mlflow.tracking"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    for logger in (WandbLogger, MLflowLogger):
        with pytest.raises(UserError, match="pip install"):
            logger("project")


def test_mlflow_stores_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # without a database
    mlflow = pytest.importorskip("mlflow")
    place = f"sqlite:///{tmp_path / 'mlflow.db'}" if _has_database() else (tmp_path / "runs").as_uri()
    logger = MLflowLogger("islands", place, "first")
    logger.start({"seed": 3})
    for step in (1, 2):
        logger.log({"step/loss": 1 / step}, step)
    logger.close()
    client = mlflow.tracking.MlflowClient(place)
    (run,) = client.search_runs([client.get_experiment_by_name("islands").experiment_id])
    assert run.data.params == {"seed": "3"}
    assert run.info.status == "FINISHED"
    assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "step/loss")] == [(1, 1.0), (2, 0.5)]


def _has_database() -> bool:
    try:
        import sqlalchemy  # noqa: F401
    except ImportError:
        return False
    return True


def test_wandb_works_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    logger = WandbLogger("islands", mode="offline", dir=str(tmp_path))
    logger.start({"seed": 3})
    logger.log({"step/loss": 1.0}, 1)
    logger.close()
    assert list(tmp_path.rglob("*.wandb"))
