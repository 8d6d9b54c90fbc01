"""mhgrn compare: the questions that two runs answer differently."""

import json
from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunKg = Annotated[
    Path | None, typer.Option("--kg", help="The graph, if it has moved, or another of the same schema.", show_default=False)
]
RunFolder = Annotated[Path, typer.Argument(help="Folder of a trained run.", show_default=False)]


def compare(
    run_a: RunFolder,
    run_b: RunFolder,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    most: Annotated[int, typer.Option(min=0, help="Explain at most so many.")] = 20,
    data: Annotated[
        Path | None, typer.Option("--data", help="Prepared data, if not each run's own place for it.", show_default=False)
    ] = None,
    kg: RunKg = None,
    as_json: AsJson = False,
) -> None:
    """List the questions that two runs answer differently, with what each says to them."""
    from mhgrn.comparison import compare as compare_runs

    found = compare_runs(run_a, run_b, split, most, data, kg)
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    for flip in found.flips:
        for run, chosen, explained in zip((run_a, run_b), flip["chosen"], flip["explanations"], strict=True):
            verdict = chosen if flip["right"] is None else "right" if chosen == flip["right"] else "wrong"
            print(f"{flip['id']}  {run}: {verdict}\n{explained['text']}\n")
    more = f" ({found.flipped - len(found.flips):,} not shown)" if found.flipped > len(found.flips) else ""
    print(f"{split}: {found.flipped:,} of {found.questions:,} questions are answered differently{more};")
    if found.right is None:
        print("  which are right is not known")
    else:
        print(f"  {run_a}: {found.right[0]:,} right\n  {run_b}: {found.right[1]:,} right")
