"""mhgrn demo: the whole system on the starter dataset."""

from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import file_to_write, folder_to_write

PANEL = "Ask"


def demo(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            parser=folder_to_write,
            help="Folder to work in. Unset: the user's cache folder.",
            show_default=False,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            parser=file_to_write,
            help="Write the results to this file; - is standard output.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the training.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of --json if it exists.")] = False,
) -> None:
    """Build the starter graph, train on its questions, compare with two baselines, answer three new questions."""
    from mhgrn.starter.demo import run_demo

    run_demo(output, json_file, seed, force)
