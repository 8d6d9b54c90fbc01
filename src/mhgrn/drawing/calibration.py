"""A reliability diagram and a risk-coverage curve."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.drawing.figures import check_image, plotting, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, RED, GRAY = "#3e6fc4", "#d76a80", "#9a9a9a"


def draw_calibration(measured: Mapping[str, Any], title: str, path: str | Path) -> None:
    """Draw the measures of :func:`mhgrn.calibration.measure` to a ``.svg`` or ``.png`` file."""
    path = Path(path)
    check_image(path)
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.5, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_reliability(measured, left)
        _draw_risk(measured, right)
        figure.suptitle(title, weight="bold", parse_math=False)
        write_figure(figure, path)


def _draw_reliability(measured: Mapping[str, Any], axes: "Axes") -> None:
    bins = [one for one in measured["reliability"] if one["questions"]]
    total = sum(one["questions"] for one in bins)
    width = bins[0]["high"] - bins[0]["low"]
    axes.bar([one["low"] for one in bins], [one["accuracy"] for one in bins], width, align="edge", color=BLUE, label="accuracy")
    shares = [one["questions"] / total for one in bins]
    axes.bar([one["low"] for one in bins], shares, width, align="edge", color=GRAY, alpha=0.8, label="share of questions")
    axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--", label="perfect calibration")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    axes.set_title(f"expected calibration error {measured['expected_calibration_error']:.1%}")
    axes.legend(fontsize=8, loc="upper left")


def _draw_risk(measured: Mapping[str, Any], axes: "Axes") -> None:
    curve = measured["risk_coverage"]
    axes.plot(curve["coverage"], curve["risk"], color=RED, label="most confident answers first")
    overall = curve["risk"][-1]
    axes.axhline(overall, color=GRAY, linewidth=1, linestyle="--", label="answers in random order")
    axes.set(
        xlim=(0, 1),
        ylim=(0, max(0.05, 1.1 * max(curve["risk"]))),
        xlabel="share of questions answered",
        ylabel="share of wrong answers",
    )
    axes.set_title(f"area under the risk-coverage curve {measured['area_under_risk_coverage']:.3f}")
    axes.legend(fontsize=8, loc="lower right")
