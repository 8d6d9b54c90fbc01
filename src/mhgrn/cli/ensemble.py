"""mhgrn ensemble: answer a split with several runs together."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from mhgrn.cli._options import AllowDownload, AllowPickle, AsJson, RunData, RunEncoder, RunGraph, Split

PANEL = "Train"


def ensemble(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of two or more trained runs.", show_default=False)],
    split: Split = "test",
    vote: Annotated[
        Literal["mean", "majority"],
        typer.Option(help="mean: highest mean probability. majority: the choice of most runs. The first of tied choices wins."),
    ] = "mean",
    data: RunData = None,
    kg: RunGraph = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON lines of predictions to write.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer a split with several runs together, also with different graph encoders."""
    from mhgrn.training.ensemble import ensemble as answer_together

    result = answer_together(runs, split, vote, data, kg, output, encoder, allow_download, allow_pickle)
    if as_json:
        print(json.dumps(result.to_dict()))
        return
    for member in result.members:
        alone = f", accuracy {member.accuracy:.1%}" if member.accuracy is not None else ""
        print(f"  {member.run}: {member.graph_encoder}{alone}")
    accuracy = f"accuracy {result.accuracy:.1%} of" if result.accuracy is not None else "answers to"
    print(f"{split}, {vote} of {len(result.members)} runs: {accuracy} {result.questions:,} questions")
