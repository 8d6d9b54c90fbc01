"""mhgrn commonsense: make a model from a graph alone."""

from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import AsJson, GraphFolder, folder_to_write
from mhgrn.cli._output import show, show_json

PANEL = "Train"


def commonsense(
    graph: GraphFolder,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            parser=folder_to_write,
            help="Folder to work in. Unset: the user's cache folder, where `mhgrn ask commonsense` finds the model.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[str, typer.Option(help="Time to spend, for example 20m or 1h.")] = "50m",
    everyday: Annotated[
        bool,
        typer.Option("--everyday", help="Also train on the everyday questions of the package; for graphs of everyday facts."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a model from a graph alone: tune the text encoder, make questions from facts, train on them.

    No labelled questions of your own are needed. An interrupted command resumes when it is run again.
    """
    from mhgrn.progress import seconds_of
    from mhgrn.starter.commonsense import make_commonsense

    run = make_commonsense(graph, output, seconds_of(budget), everyday=everyday)
    accuracy = run.about["metrics"]["dev_accuracy"]
    if as_json:
        show_json({"run": str(run.folder), "dev_accuracy": accuracy})
        return
    name = "commonsense" if output is None else run.folder
    show(f"{run.folder}: {accuracy:.1%} of held-out questions made from the graph")
    show(f'Ask it: mhgrn ask {name} "Where do you keep milk?" -c refrigerator -c oven -c drawer')
