"""The report on prepared data as a folder: its numbers, and a figure of the numbers of paths."""

from pathlib import Path
from typing import TYPE_CHECKING

from mhgrn.drawing.figures import check_image, plotting, write_figure
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import write_json
from mhgrn.subgraphs.report import Report, bins, exponent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKER = "report.json"
FIGURE = "paths.png"


def check_report_folder(folder: Path, force: bool = True) -> None:
    """Refuse a folder that cannot be written, or a missing matplotlib, before the report is computed."""
    check_replaceable(folder, MARKER, [FIGURE], force)
    with plotting():
        pass


def save_report(report: Report, folder: str | Path) -> None:
    """Write ``report.json`` and ``paths.png`` to a folder, both or neither."""
    with new_folder(Path(folder), MARKER, [FIGURE]) as partial:
        write_json(partial / MARKER, report.to_dict())
        draw_report(report, partial / FIGURE)


def draw_report(report: Report, path: str | Path) -> None:
    """Draw the paper's figure 2 for a dataset: numbers of paths by nodes of the subgraph, and by hops."""
    path = Path(path)
    check_image(path)
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11.5, 4.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_by_nodes(report, left)
        _draw_by_hops(report, right)
        figure.suptitle(f"K-hop relational paths in {len(report.nodes):,} statements", weight="bold")
        figure.supxlabel(
            "A path is a walk: nodes may repeat, facts are walked in both directions, every statement is counted.",
            fontsize=8,
        )
        write_figure(figure, path)


def _draw_by_nodes(report: Report, axes: "Axes") -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    for k in reversed(range(report.hops)):  # the legend is in the order of the lines
        counts = report.walks[:, 0, k]
        groups = [which for which in bins(report.nodes) if counts[which].any()]
        if not groups:
            continue
        power = exponent(report.nodes, counts)
        axes.plot(
            [float(report.nodes[which].mean()) for which in groups],
            [float(counts[which].mean()) for which in groups],
            marker="o",
            markersize=3,
            linewidth=1.2,
            color=_color(k, report.hops),
            label=f"K = {k + 1}" + (f", as $n^{{{power:.1f}}}$" if power is not None else ""),
        )
    axes.set_xlabel("nodes n of the subgraph")
    axes.set_ylabel("paths from question to answer, mean")
    axes.set_title("by number of nodes")
    if _has_lines(axes):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def _draw_by_hops(report: Report, axes: "Axes") -> None:
    hops = range(1, report.hops + 1)
    for row, (label, style) in enumerate((("from question to answer", "-"), ("between any two nodes", "--"))):
        if len(report.walks) and report.walks[:, row].any():
            axes.plot(hops, report.walks[:, row].mean(0), style, marker="o", markersize=4, color="#3e6fc4", label=label)
    axes.set_xticks(list(hops))
    axes.set_xlabel("hops K")
    axes.set_ylabel("paths of K hops, mean of all statements")
    axes.set_title("by number of hops")
    if _has_lines(axes):
        axes.legend(fontsize=8)


def _has_lines(axes: "Axes") -> bool:
    """Whether a panel has lines. Adds a grid and a logarithmic scale, or else the text "no paths"."""
    if not axes.lines:
        axes.text(0.5, 0.5, "no paths", transform=axes.transAxes, ha="center")
        return False
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
    return True


def _color(k: int, hops: int) -> tuple[float, float, float]:
    """A blue that is darker for more hops."""
    share = (k + 1) / hops
    return (0.75 * (1 - share), 0.85 - 0.6 * share, 0.95 - 0.35 * share)
