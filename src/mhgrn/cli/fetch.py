"""mhgrn fetch: download datasets."""

from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import AsJson
from mhgrn.cli._output import show, show_json

PANEL = "Data"


def fetch(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="conceptnet, commonsenseqa, openbookqa or conceptnet-subset.", show_default=False)
    ],
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to write. Unset: a folder named after the dataset.", show_default=False)
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|PATH", help="Another address, or a local folder or file, to get the files from.", show_default=False
        ),
    ] = None,
    release: Annotated[
        str | None, typer.Option(help="conceptnet only: 5.6.0 or 5.7.0. Unset: 5.6.0, as in the paper.", show_default=False)
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("--with", help="conceptnet-subset only: `wordnet` adds the facts of WordNet.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a dataset and verify its SHA-256. Partial downloads are resumed.

    conceptnet-subset is a package of npm with half a million facts of ConceptNet.
    """
    from mhgrn.fetch import fetch as fetch_data

    fetched = fetch_data(what, to, mirror, release, extra or ())
    if as_json:
        show_json({"folder": str(to or what), "files": [file.to_dict() for file in fetched]})
        return
    for file in fetched:
        show(f"{file.path}: {file.size:,} bytes, SHA-256 {file.sha256} ({file.checked})")
