"""mhgrn demo: the whole system on the starter dataset."""

from pathlib import Path
from typing import Annotated

import typer

PANEL = "Ask"


def demo(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to work in. Unset: the user's cache folder.", show_default=False),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results to this file.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the training.")] = 0,
) -> None:
    """Build the starter graph, train on the starter questions, compare with two baselines, answer three new questions."""
    from mhgrn.starter.demo import run_demo

    run_demo(output, json_file, seed)
