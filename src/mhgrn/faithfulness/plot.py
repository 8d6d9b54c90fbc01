"""Deletion and insertion curves as a picture."""

from pathlib import Path
from typing import Any

import numpy as np

from mhgrn.errors import UserError
from mhgrn.faithfulness.faithfulness import Faithfulness
from mhgrn.faithfulness.metrics import LEVELS, SHARES, SIZES

BASELINES = ("random-facts", "random-paths", "shortest")  # drawn with broken lines


def check_plots() -> None:
    """Refuse early if matplotlib is missing."""
    _pyplot()


def plot(found: Faithfulness, path: Path) -> None:
    """Draw the mean probability of the answer against the number and the share of facts that are removed or kept."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.4), sharey=True, layout="constrained")
    cuts = {"facts": (SIZES, slice(0, len(SIZES))), "% of the facts": ([100 * s for s in SHARES], slice(len(SIZES), len(LEVELS)))}
    for row, (kind, title) in enumerate(
        (("removed", "Deletion: the first facts removed"), ("kept", "Insertion: only the first facts"))
    ):
        for column, (unit, (places, levels)) in enumerate(cuts.items()):
            axis = axes[row, column]
            for name in found.methods:
                rows = [one["methods"][name][kind] for one in found.rows if name in one["methods"]]
                mean = np.mean(rows, axis=0)[levels]
                style = "--" if name in BASELINES else "-"
                axis.plot(range(len(places)), mean, style, marker="o", markersize=3, linewidth=1.4, label=name)
            some = [one for one in found.rows if one["methods"]]
            for value, text in (("probability", "all facts"), ("without_graph", "no graph")):
                level = np.mean([one[value] for one in some])
                axis.axhline(level, color="0.6", linewidth=0.8, linestyle=":")
                axis.text(len(places) - 1, level, text, color="0.4", fontsize=7, ha="right", va="bottom")
            axis.set_xticks(range(len(places)), [f"{place:g}" for place in places])
            axis.set_xlabel(unit)
            axis.set_title(title, fontsize=9)
            if column == 0:
                axis.set_ylabel("probability of the answer")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8)
    try:
        figure.savefig(path, dpi=110)
    except ValueError as error:
        raise UserError(f"{path} cannot be written ({str(error).splitlines()[0]}); use a name that ends in .png or .svg.") from None
    finally:
        pyplot.close(figure)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise UserError("--plot needs matplotlib: pip install 'mhgrn[plots]'.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
