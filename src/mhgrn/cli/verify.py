"""mhgrn verify: compare stored folders with their checksums."""

from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import AsJson
from mhgrn.cli._output import show, show_json

PANEL = "Data"


def verify(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER...",
            help="Folders of graphs, prepared data, node features, tuned text encoders or runs, or folders that contain some.",
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Check every byte of stored folders against their checksums. Exits with 1 if a file is damaged or missing."""
    from mhgrn.io.checksums import verify as differences
    from mhgrn.io.remote import local_folder
    from mhgrn.progress import track

    looked_at = [
        (path, why) for folder in folders for path, why in track(differences(local_folder(folder)), f"checking {folder.name}")
    ]
    damaged = [(path, why) for path, why in looked_at if why]
    if as_json:
        found = [{"file": str(path), "problem": why} for path, why in damaged]
        show_json({"files": len(looked_at), "damaged": found})
    else:
        for path, why in damaged:
            show(f"{path} {why}.")
        show(f"{len(looked_at):,} files checked, " + (f"{len(damaged):,} damaged." if damaged else "all as they were written."))
    if damaged:
        raise typer.Exit(1)
