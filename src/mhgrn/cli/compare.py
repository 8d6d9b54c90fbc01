"""mhgrn compare: the questions that two runs answer differently."""

from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import AllowDownload, AllowPickle, AsJson, NamedRun, RunData, RunEncoder, RunGraph, Split
from mhgrn.cli._output import show, show_json

PANEL = "Train"


def compare(
    run_a: NamedRun,
    run_b: NamedRun,
    split: Split = "dev",
    most: Annotated[int, typer.Option(min=0, help="Largest number of questions to explain.")] = 20,
    data: RunData = None,
    kg: RunGraph = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    as_json: AsJson = False,
) -> None:
    """List the questions that two runs answer differently, with both explanations."""
    from mhgrn.comparison import compare as compare_runs
    from mhgrn.starter import find_run

    found = compare_runs(Path(find_run(run_a)), Path(find_run(run_b)), split, most, data, kg, encoder, allow_download, allow_pickle)
    if as_json:
        show_json(found.to_dict())
        return
    for flip in found.flips:
        for run, chosen, explained in zip((run_a, run_b), flip["chosen"], flip["explanations"], strict=True):
            verdict = chosen if flip["right"] is None else "right" if chosen == flip["right"] else "wrong"
            show(f"{flip['id']}  {run}: {verdict}\n{explained['text']}\n")
    more = f" ({found.flipped - len(found.flips):,} not shown)" if found.flipped > len(found.flips) else ""
    show(f"{split}: {found.flipped:,} of {found.questions:,} questions are answered differently{more};")
    if found.right is None:
        show("  the right answers are not known")
    else:
        show(f"  {run_a}: {found.right[0]:,} right\n  {run_b}: {found.right[1]:,} right")
