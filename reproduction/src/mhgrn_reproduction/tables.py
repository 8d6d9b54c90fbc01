"""Markdown tables and figures of experiment summaries, next to the numbers of the paper."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.errors import UserError
from mhgrn.progress import say
from mhgrn_reproduction.papers import TextSettings
from mhgrn_reproduction.titles import PRINTED, TRAINED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = list[str]
ANOTHER = "another text encoder"
TABLE, FIGURE = "table.md", "figure.png"


def grid(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """A Markdown table.

    >>> print(grid(["system", "dev"], [["MHGRN", "60.4"]]))
    | system | dev |
    |---|---|
    | MHGRN | 60.4 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    shown = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]
    return "\n".join([shown[0], shown[1].replace(" ", ""), *shown[2:]])


def title(summary: dict[str, Any]) -> str:
    about = {**TRAINED, **PRINTED}.get(summary["experiment"])
    what = f" ({about.place}: {about.title})" if about else ""
    encoder = f", {summary['encoder_label']}" if "encoder_label" in summary else ""
    return f"{summary['experiment']}{encoder}{what}"


def table(summary: dict[str, Any]) -> tuple[list[str], list[Row]]:
    """The columns and rows of an experiment's table: our accuracies, differences from the reference, and the paper's numbers."""
    splits, reference = summary["splits"], summary["reference"]
    papers = _paper_columns(summary)
    compares = reference in summary["systems"] and len(summary["systems"]) > 1
    last = splits[-1]
    columns = ["system", *(f"{split}, ours" for split in splits), "runs"]
    columns += ["ensemble, ours"] if "ensembles" in summary else []
    columns += [f"{last}: minus {summary['labels'][reference]} [95 %]"] if compares else []
    columns += [f"{split}, paper, {_encoder(encoder)}" for encoder, split in papers]
    quoted = {row["system"] for row in summary["quoted"] if "system" in row}
    rows = []
    for name, label in summary["labels"].items():
        entry = summary["systems"].get(name)
        paper = _papers(summary["paper"].get(name, {}))
        if entry is None and not any(encoder in paper for encoder, _ in papers):
            continue
        row = [label, *(_ours(entry, split) for split in splits), str(len(entry["seeds"])) if entry else "–"]
        if "ensembles" in summary:
            together = summary["ensembles"].get(name)
            row.append(f"{100 * together[last]:.2f} ({together['runs']} runs)" if together else "–")
        if compares:
            row.append(_difference(entry, last))
        rows.append(row + [_reported(paper, *column) + ("†" if name in quoted and column[0] in paper else "") for column in papers])
    for other in summary["quoted"]:
        if "label" in other:
            paper = _papers(other["paper"])
            cells = [f"{shown}†" if (shown := _reported(paper, *column)) != "–" else shown for column in papers]
            rows.append([other["label"], *["–"] * (len(columns) - len(papers) - 1), *cells])
    return columns, rows


def markdown(summary: dict[str, Any]) -> str:
    """A Markdown section with the table and its notes."""
    columns, rows = table(summary)
    lines = [f"### {title(summary)}", "", grid(columns, rows), "", *(f"- {line}" for line in remarks(summary))]
    return "\n".join(lines) + "\n"


def remarks(summary: dict[str, Any]) -> list[str]:
    """The notes below a table."""
    lines = ["Accuracies in per cent; ± is the sample standard deviation over seeds."]
    if summary["reference"] in summary["systems"] and len(summary["systems"]) > 1:
        lines.append(
            "Differences are paired over the same questions and seeds. Intervals are bootstrap intervals over questions (10,000"
            " resamples); they do not include the variation between seeds."
        )
    if any("†" in cell for row in table(summary)[1] for cell in row):
        lines.append("† The paper quotes this number from another publication.")
    if (encoders := {e for e, _ in _paper_columns(summary)}) and summary["encoder"] not in encoders:
        lines.append(
            f"The paper reports no numbers with {summary['encoder_label']}: compare order and differences, not accuracies."
        )
    if "budget" in summary:
        lines.append(f"Reduced to fit into {summary['budget']:,g} s.")
    lines += [f"Reduced experiment: {line}." for line in summary["shrunk"]] + summary["notes"]
    lines += [f"{name}: {warning}" for name, entry in summary["systems"].items() for warning in entry.get("warnings", [])]
    code = f", commit {summary['commit']}" if summary["commit"] else ""
    return [*lines, f"Measured {summary['date']}{code}."]


def _encoder(name: str) -> str:
    return name if name == ANOTHER else TextSettings.named(name).label


def _papers(numbers: dict[str, Any]) -> dict[str, Any]:
    """The paper's numbers of a row. Text encoders without settings share one name."""
    return {encoder if encoder in TextSettings.shipped() else ANOTHER: found for encoder, found in numbers.items()}


def _paper_columns(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Pairs of text encoder and split that the paper reports: only our text encoder if the paper uses it, otherwise all."""
    numbers = [*summary["paper"].values(), *(row["paper"] for row in summary["quoted"] if "paper" in row)]
    pairs = {(encoder, split) for paper in numbers for encoder, of in _papers(paper).items() for split in of}
    if any(encoder == summary["encoder"] for encoder, _ in pairs):
        pairs = {pair for pair in pairs if pair[0] in (summary["encoder"], ANOTHER)}
    encoders = [*TextSettings.shipped(), ANOTHER]
    splits = [*summary["splits"], *sorted({split for _, split in pairs}, reverse=True)]
    return sorted(pairs, key=lambda pair: (encoders.index(pair[0]), splits.index(pair[1])))


def _ours(entry: dict[str, Any] | None, split: str) -> str:
    if entry is None:
        return "–"
    std = f" ± {100 * entry[split]['std']:.2f}" if entry[split]["std"] is not None else ""
    return f"{100 * entry[split]['mean']:.2f}{std}"


def _difference(entry: dict[str, Any] | None, split: str) -> str:
    found = (entry or {}).get("difference", {}).get(split)
    if found is None:
        return "–"
    mean, low, high = (f"{100 * found[k]:+.2f}".replace("-", "−") for k in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _reported(paper: dict[str, Any], encoder: str, split: str) -> str:
    found = paper.get(encoder, {}).get(split)
    if found is None:
        return "–"
    mean, std = found
    return f"{mean:g}" if std is None else f"{mean:.2f} ± {std:.2f}"


def try_to_draw(draw: Callable[[Path], None], path: Path) -> None:
    """Draw a figure. If this fails, print the reason and continue without the figure."""
    try:
        draw(path)
    except UserError as error:
        say(f"no figure: {error}")


def draw(summary: dict[str, Any], path: Path) -> None:
    """Draw one bar per system, or lines if a setting varies. Crosses are the paper's numbers with the same text encoder."""
    from mhgrn.drawing.figures import check_image, plotting, write_figure

    check_image(path)
    with plotting():
        from matplotlib.figure import Figure

        splits = summary["splits"]
        figure = Figure(figsize=(5.2 * len(splits), 4.2), layout="constrained")
        panels = figure.subplots(1, len(splits), squeeze=False)[0]
        for axes, split in zip(panels, splits, strict=True):
            (_draw_lines if summary["vary"] else _draw_bars)(axes, summary, split)
            axes.set_title(split)
            axes.grid(alpha=0.3)
        less = "; ".join(summary["shrunk"])
        figure.suptitle(title(summary), weight="bold", fontsize=10)
        if less:
            figure.supxlabel(f"reduced experiment: {less}", fontsize=7, wrap=True)
        write_figure(figure, path)


def _draw_bars(axes: "Axes", summary: dict[str, Any], split: str) -> None:
    names = [name for name in summary["labels"] if name in summary["systems"]][::-1]
    entries = [summary["systems"][name][split] for name in names]
    axes.barh(
        range(len(names)),
        [100 * entry["mean"] for entry in entries],
        xerr=[100 * (entry["std"] or 0) for entry in entries],
        color="#3e6fc4",
        alpha=0.75,
        label="ours",
    )
    papers = [(i, summary["paper"].get(name, {}).get(summary["encoder"], {}).get(split)) for i, name in enumerate(names)]
    if known := [(i, paper[0]) for i, paper in papers if paper]:
        axes.plot([mean for _, mean in known], [i for i, _ in known], "x", color="#b3261e", label="paper")
        axes.legend(fontsize=8)
    axes.set_yticks(range(len(names)), [summary["labels"][name] for name in names], fontsize=8)
    means = [100 * entry["mean"] for entry in entries] + [mean for _, mean in known]
    axes.set_xlim(max(0.0, min(means, default=0) - 10), max(means, default=100) + 5)
    axes.set_xlabel("accuracy in per cent")


def _draw_lines(axes: "Axes", summary: dict[str, Any], split: str) -> None:
    lines: dict[str, list[tuple[float, dict[str, Any], str]]] = {}
    varies = dict[str, None]()
    for name, at in summary["vary"].items():
        if name in summary["systems"]:
            varies[at["what"].removesuffix(" =")] = None
            label = summary["labels"][name].removesuffix(f", {at['what']} {at['value']:g}")
            lines.setdefault(label, []).append((at["value"], summary["systems"][name][split], name))
    for system, points in lines.items():
        points.sort(key=lambda point: point[0])
        x = [value for value, _, _ in points]
        y = [100 * entry["mean"] for _, entry, _ in points]
        axes.errorbar(x, y, yerr=[100 * (entry["std"] or 0) for _, entry, _ in points], marker="o", markersize=4, label=system)
        papers = [(v, summary["paper"].get(name, {}).get(summary["encoder"], {}).get(split)) for v, _, name in points]
        if known := [(value, paper[0]) for value, paper in papers if paper]:
            axes.plot([v for v, _ in known], [mean for _, mean in known], "x--", color="#b3261e", label=f"{system}, paper")
        if max(x) > 30 * min(x):
            axes.set_xscale("log")
    values = sorted({value for points in lines.values() for value, _, _ in points})
    if all(isinstance(value, int) for value in values):
        axes.set_xticks(values)
    axes.set_xlabel(", ".join(varies))
    axes.set_ylabel("accuracy in per cent")
    if lines:
        axes.legend(fontsize=8)
