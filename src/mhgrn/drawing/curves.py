"""The curves of a training: loss by step and dev accuracy by epoch."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.drawing.figures import check_image, plotting, write_figure
from mhgrn.errors import UserError
from mhgrn.printing import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a ``metrics.jsonl``. A last row that was cut off is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} cannot be read; a run writes it while it trains.") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise UserError(f"{path}, line {number}: not JSON.") from None
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            raise UserError(f"{path}, line {number}: not a row of metrics.")
        rows.append(row)
    return rows


@dataclass(frozen=True)
class Curves:
    """A drawing that Jupyter shows."""

    figure: "Figure"

    def _repr_svg_(self) -> str:
        image = io.StringIO()
        with plotting():
            self.figure.savefig(image, format="svg", metadata={"Date": None, "Creator": None})
        return image.getvalue()


def draw_curves(metrics: Path, title: str, path: str | Path | None = None) -> Curves:
    """Draw the loss and the dev accuracy of a training.

    Args:
        metrics: The ``metrics.jsonl`` of a run.
        title: The title.
        path: An SVG or PNG file to write. None: the drawing is only returned; Jupyter shows it.
    """
    rows = read_metrics(metrics)
    losses = [(row["step"], row["loss"]) for row in rows if isinstance(row.get("loss"), float) and "dev_accuracy" not in row]
    epochs = [(row["step"], row["dev_accuracy"]) for row in rows if isinstance(row.get("dev_accuracy"), float)]
    if not losses and not epochs:
        raise UserError(f"{metrics} has no loss and no accuracy yet.")
    if path is not None:
        check_image(Path(path))
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axes, points, name, mark in ((left, losses, "training loss", ""), (right, epochs, "dev accuracy", "o")):
            axes.plot([x for x, _ in points], [y for _, y in points], marker=mark)
            axes.set_xlabel("step")
            axes.set_title(name)
            axes.grid(alpha=0.3)
        figure.suptitle(printable(title).replace("$", r"\$"))
        if path is not None:
            write_figure(figure, Path(path))
    return Curves(figure)
