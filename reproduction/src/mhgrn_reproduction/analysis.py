"""Analysis of a finished experiment: accuracy by kind of question, comparison of systems, and learning curves."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.fingerprint import fingerprint
from mhgrn.subgraphs.prepared import PreparedData, edges_between
from mhgrn_reproduction.cells import read_result
from mhgrn_reproduction.printed import result
from mhgrn_reproduction.summary import read_summary, right_answers

PUBLISHED_NODES = 200
Flags = NDArray[np.bool_]


def breakdown(folder: Path, data: PreparedData, split: str, baseline: str = "none") -> dict[str, Any]:
    """The accuracy of each system on all questions of ``split`` and on each kind of question, averaged over seeds.

    Also how often a system is correct where ``baseline`` is wrong, wrong where ``baseline`` is correct, and correct where no
    other system is.
    """
    summary = read_summary(folder)
    of_system = _cells(folder, summary)
    numbers = list(data.answered_split(split))
    ids = fingerprint([data.questions[q].id for q in numbers])
    right: dict[str, NDArray[np.float64]] = {}  # by system: the share of its seeds that answer each question correctly
    for system, cells in of_system.items():
        if any(cell["splits"].get(split, {}).get("ids") != ids for cell in cells):
            raise UserError(f"{folder}: the results of {system} belong to other {split} questions; name their data with --data.")
        right[system] = np.mean([right_answers(cell, split) for cell in cells], axis=0)
    if baseline not in right:
        raise UserError(f"{folder} has no results of {baseline}; run it, or name another system: {', '.join(right)}.")
    groups = kinds(data, numbers)
    rows = []
    for system, mine in right.items():
        others = [theirs for name, theirs in right.items() if name != system]
        alone = (mine > 0.5) & ~np.any([theirs > 0.5 for theirs in others], axis=0) if others else mine > 0.5
        gains, losses = mine * (1 - right[baseline]), (1 - mine) * right[baseline]
        shares = [_percent(mine), *(_percent(mine[group]) for group in groups.values())]
        rows.append([summary["labels"][system], *shares, _percent(gains), _percent(losses), str(int(alone.sum()))])
    label = summary["labels"][baseline]
    columns = ["system", "all", *groups, f"right, {label} wrong", f"wrong, {label} right", "alone right"]
    sizes = ", ".join(f"{name}: {int(group.sum()):,}" for name, group in groups.items())
    notes = [
        f"{len(numbers):,} {split} questions of {summary['experiment']}, {summary['encoder_label']}; accuracies in per cent, means"
        f" over seeds. Questions of each kind: {sizes}.",
        "Numbers of nodes and facts are means over a question's choices; facts are grouped into terciles. The published code keeps"
        f" at most {PUBLISHED_NODES} nodes. Links are facts between a concept of the question and a concept of the choice: the"
        " correct choice has more links than every other choice (most), as many as the best other choice, or fewer.",
        "Comparisons with another system multiply the shares of seeds. Alone right: questions that most seeds of this system answer"
        " correctly, and most seeds of every other system do not.",
    ]
    return result("breakdown", columns, rows, notes, of={**_of(summary), "split": split, "baseline": baseline})


def curves(folder: Path) -> tuple[dict[str, Any], Callable[[Path], None]]:
    """The mean training loss and dev accuracy of each trained system by epoch, and a function that draws them."""
    summary = read_summary(folder)
    lines: dict[str, list[NDArray[np.float64]]] = {}  # by label: after each epoch [loss, dev]
    for system, cells in _cells(folder, summary).items():
        runs = [cell.get("curve", []) for cell in cells]
        epochs = [[run[i] for run in runs if len(run) > i] for i in range(max(map(len, runs)))]
        if epochs:
            means = [np.mean([(point["loss"], 100 * point["dev"]) for point in epoch], axis=0) for epoch in epochs]
            lines[summary["labels"][system]] = means
    rows = [
        [label, ", ".join(f"{loss:.2f}" for loss, _ in line), ", ".join(f"{dev:.1f}" for _, dev in line)]
        for label, line in lines.items()
    ]
    notes = [
        f"{summary['experiment']}, {summary['encoder_label']}: means over seeds after each epoch. Runs that stopped early count"
        " up to their last epoch."
    ]
    found = result("curves", ["system", "training loss", "dev accuracy"], rows, notes, of=_of(summary))

    def draw(path: Path) -> None:
        from mhgrn.drawing.figures import check_image, plotting, write_figure

        check_image(path)
        with plotting():
            from matplotlib.figure import Figure

            figure = Figure(figsize=(10.4, 4.2), layout="constrained")
            for axes, part, what in zip(figure.subplots(1, 2), (0, 1), ("training loss", "dev accuracy in per cent"), strict=True):
                for number, (label, line) in enumerate(lines.items()):
                    style = "-" if number < 10 else "--"  # there are ten colors
                    axes.plot(
                        range(1, len(line) + 1), [point[part] for point in line], style, marker="o", markersize=3, label=label
                    )
                axes.set_xlabel("epoch")
                axes.set_ylabel(what)
                axes.xaxis.get_major_locator().set_params(integer=True)
                axes.grid(alpha=0.3)
            axes.legend(fontsize=7)
            write_figure(figure, path)

    return found, draw


def _of(summary: dict[str, Any]) -> dict[str, str]:
    return {"experiment": summary["experiment"], "encoder": summary["encoder"]}


def _cells(folder: Path, summary: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        system: [read_result(folder / "cells" / f"{system}.{seed}.json") for seed in entry["seeds"]]
        for system, entry in summary["systems"].items()
    }


def _percent(shares: NDArray[np.float64]) -> str:
    return f"{100 * shares.mean():.1f}" if len(shares) else "–"


def kinds(data: PreparedData, numbers: Sequence[int]) -> dict[str, Flags]:
    """For each kind, whether each question is of it: [questions]."""
    nodes, facts, lead = (np.zeros(len(numbers)) for _ in range(3))
    for row, number in enumerate(numbers):
        graphs = data.subgraphs(number)
        nodes[row] = np.mean([len(g.concepts) for g in graphs])
        facts[row] = np.mean([len(g.head) for g in graphs])
        links = [edges_between(g) for g in graphs]
        answer = data.questions[number].answer
        assert answer is not None
        lead[row] = links[answer] - max(links[:answer] + links[answer + 1 :], default=0)
    low, high = np.quantile(facts, [1 / 3, 2 / 3]) if len(facts) else (0.0, 0.0)
    return {
        f"≤ {PUBLISHED_NODES} nodes": nodes <= PUBLISHED_NODES,
        f"> {PUBLISHED_NODES} nodes": nodes > PUBLISHED_NODES,
        "few facts": facts <= low,
        "some facts": (facts > low) & (facts <= high),
        "many facts": facts > high,
        "most links": lead > 0,
        "as many links": lead == 0,
        "fewer links": lead < 0,
    }
