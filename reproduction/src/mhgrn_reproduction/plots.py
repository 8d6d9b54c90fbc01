"""Two pictures of the results for the documentation: accuracy and speed. The same results give the same bytes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.io.markers import read_marker
from mhgrn_reproduction.formats import Comparisons, check
from mhgrn_reproduction.summary import read_summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPEED, COMPARISONS = "speed", "comparisons.json"
ACCURACIES = {"csqa-inhouse": "CommonsenseQA (in-house split)", "obqa": "OpenBookQA"}
ENCODER = "minilm"
SHOWN = {  # the systems of the README's table
    "none": "text encoder alone",
    "rgcn": "RGCN",
    "gconattn": "GconAttn",
    "rn": "relation network",
    "mhgrn": "MHGRN as published",
    "mhgrn-counting": "MHGRN with walk counts",
}
OURS, OTHERS = "#2f5fd0", "#7d879b"


def draw_plots(results: Path, output: Path) -> list[Path]:
    """Draw ``accuracy.svg`` and ``speed.svg`` from a folder of results."""
    from mhgrn.drawing.figures import check_image, plotting, write_figure

    files = [output / "accuracy.svg", output / "speed.svg"]
    summaries = {name: read_summary(results / name / ENCODER) for name in ACCURACIES}
    comparisons = read_comparisons(results)
    for file in files:
        check_image(file)
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 3.2), layout="constrained")
        for axes, (name, summary) in zip(figure.subplots(1, len(summaries)), summaries.items(), strict=True):
            _draw_accuracies(axes, summary)
            axes.set_title(ACCURACIES[name], fontsize=11, loc="left")
        note = f"Test accuracy in %, {summaries['obqa']['encoder_label']}. Mean and standard deviation over seeds."
        figure.supxlabel(note, fontsize=9)
        write_figure(figure, files[0])
        figure = Figure(figsize=(10, 3.2), layout="constrained")
        _draw_speed(figure.subplots(), comparisons["comparisons"])
        figure.supxlabel(f"Speed-up, logarithmic scale. Measured on {comparisons['machine']}.", fontsize=9)
        write_figure(figure, files[1])
    return files


def read_comparisons(results: Path) -> dict[str, Any]:
    """Read the speed-ups that benchmarks printed."""
    found = read_marker(results / SPEED, COMPARISONS, "result", 1)
    check(found, Comparisons, results / SPEED / COMPARISONS)
    return found


def accuracy_text(mean: float) -> str:
    """An accuracy in per cent with one digit; halves are rounded up, as in the tables of the documentation.

    >>> accuracy_text(0.4815)
    '48.2'
    """
    return f"{100 * mean + 1e-9:.1f}"


def speed_text(speed_up: float) -> str:
    """A speed-up as the documentation writes it.

    >>> speed_text(91.7), speed_text(4.9)
    ('92x', '4.9x')
    """
    return f"{speed_up:.0f}x" if speed_up >= 10 else f"{speed_up:.2g}x"


def _draw_accuracies(axes: "Axes", summary: dict[str, Any]) -> None:
    names = [name for name in SHOWN if name in summary["systems"]][::-1]
    means = [100 * summary["systems"][name]["test"]["mean"] for name in names]
    spread = [100 * (summary["systems"][name]["test"]["std"] or 0) for name in names]
    for place, name in enumerate(names):  # points, since bars would have to begin at 0
        color = OURS if name.startswith("mhgrn") else OTHERS
        axes.errorbar(means[place], place, xerr=spread[place], fmt="o", markersize=8, color=color, capsize=3)
        text = accuracy_text(summary["systems"][name]["test"]["mean"])
        axes.text(means[place] + spread[place] + 0.2, place, text, va="center", fontsize=9)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_yticks(range(len(names)), [SHOWN[name] for name in names], fontsize=9)
    axes.set_xlim(min(means) - max(spread) - 0.5, max(means) + max(spread) + 1)
    _clean(axes)


def _draw_speed(axes: "Axes", comparisons: list[dict[str, Any]]) -> None:
    rows = comparisons[::-1]
    axes.barh(range(len(rows)), [row["speed_up"] for row in rows], color=OURS)
    for place, row in enumerate(rows):
        axes.text(
            row["speed_up"] * 1.06, place, f"{speed_text(row['speed_up'])} faster than {row['than']}", va="center", fontsize=9
        )
    axes.set_yticks(range(len(rows)), [row["step"] for row in rows], fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(1, 60_000)  # room for the texts
    axes.set_xticks([1, 10, 100], ["1x", "10x", "100x"])
    axes.minorticks_off()
    _clean(axes)


def _clean(axes: "Axes") -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
