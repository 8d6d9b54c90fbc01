"""Metrics of a training: JSON lines, and optionally files for TensorBoard."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.io.atomic import append_text
from mhgrn.progress import say
from mhgrn.runs import METRICS
from mhgrn.training.checkpoints import Place
from mhgrn.training.loggers import MetricLogger

BOARD = "tensorboard"
NOT_CURVES = ("step", "epoch", "seconds")


class Record:
    """Appends rows to ``metrics.jsonl`` and writes them for TensorBoard."""

    def __init__(self, tensorboard: bool, loggers: Sequence[MetricLogger] = ()) -> None:
        self._loggers = loggers
        self._make_writer = _summary_writer() if tensorboard else None
        self._writer: Any = None
        self._waiting: list[dict[str, Any]] = []
        self._from_step = 0

    def resume(self, folder: Path, place: Place) -> None:
        """Remove the rows that were written after the checkpoint."""
        path = folder / METRICS
        size = path.stat().st_size if path.is_file() else 0
        if size > place.log_bytes:
            os.truncate(path, place.log_bytes)
        elif size < place.log_bytes:
            say(
                f"note: {path} has lost {place.log_bytes - size:,} bytes since the checkpoint; the rows of these steps are missing."
            )
            place.log_bytes = size
        self._from_step = place.step + 1

    def add(self, row: dict[str, Any], folder: Path, place: Place) -> None:
        place.log_bytes += append_text(folder / METRICS, json.dumps(row) + "\n")
        for logger in self._loggers:
            logger.log(_curves(row), row["step"])
        if self._make_writer is not None:
            self._waiting.append(row)

    def draw(self, folder: Path) -> None:
        """Write the new rows for TensorBoard. Only after the folder has its final name, because files are reopened by name."""
        if self._make_writer is None:
            return
        if self._writer is None:
            self._writer = self._make_writer(str(folder / BOARD), purge_step=self._from_step or None)
        for row in self._waiting:
            for name, value in _curves(row).items():
                self._writer.add_scalar(name, value, row["step"])
        self._waiting.clear()
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        for logger in self._loggers:
            logger.close()


def _curves(row: dict[str, Any]) -> dict[str, float]:
    """The values of a row that are drawn as curves, by their names.

    >>> _curves({"step": 3, "epoch": 1, "loss": 0.5, "dev_accuracy": 0.25})
    {'epoch/loss': 0.5, 'epoch/dev_accuracy': 0.25}
    """
    part = "epoch" if "dev_accuracy" in row else "step"
    return {f"{part}/{name}": value for name, value in row.items() if name not in NOT_CURVES and isinstance(value, int | float)}


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("training.tensorboard needs TensorBoard: pip install 'mhgrn[tensorboard]'.") from None
    return SummaryWriter
