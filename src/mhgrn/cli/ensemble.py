"""mhgrn ensemble: answer a split with several runs together."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from mhgrn.cli._options import (
    AllowDownload,
    AllowPickle,
    AsJson,
    Force,
    PredictionFormat,
    RunData,
    RunEncoder,
    RunGraph,
    Split,
    file_to_write,
)
from mhgrn.cli._output import check_one_output, show, show_json

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
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="File of predictions to write; - is standard output.",
            show_default=False,
        ),
    ] = None,
    format: PredictionFormat = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Answer a split with several runs together, also with different graph encoders."""
    from mhgrn.errors import UserError
    from mhgrn.io.atomic import check_file_writable
    from mhgrn.io.replacing import is_standard_output
    from mhgrn.progress import say
    from mhgrn.training.ensemble import ensemble as answer_together

    check_one_output(output, as_json)
    if output is not None:
        check_file_writable(output, force)
    elif format is not None:
        raise UserError("--format is the format of the predictions; name their file with -o.")
    result = answer_together(runs, split, vote, data, kg, output, encoder, allow_download, allow_pickle, format)
    if as_json:
        show_json(result.to_dict())
        return
    tell = say if output is not None and is_standard_output(output) else show
    for member in result.members:
        alone = f", accuracy {member.accuracy:.1%}" if member.accuracy is not None else ""
        tell(f"  {member.run}: {member.graph_encoder}{alone}")
    accuracy = f"accuracy {result.accuracy:.1%} of" if result.accuracy is not None else "answers to"
    tell(f"{split}, {vote} of {len(result.members)} runs: {accuracy} {result.questions:,} questions")
