"""mhgrn experiments: studies of what the systems can learn."""

from pathlib import Path
from typing import Annotated

import typer

from mhgrn.printing import strict_json

app = typer.Typer(
    help="Run studies of what the compared systems can and cannot learn.",
    no_args_is_help=True,
    rich_help_panel="Reproduce the paper",
)


@app.callback()
def _group() -> None:
    """Keeps `compositional` a sub-command."""


@app.command()
def compositional(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="With --json: the file to write.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, or write it to FILE.")] = False,
    plots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for a figure of the table.", show_default=False)
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, each with other graphs and weights.")] = 3,
    only: Annotated[
        list[str] | None, typer.Option(metavar="TASK", help="A task to run; may be repeated. Unset: all.", show_default=False)
    ] = None,
) -> None:
    """Train every system on generated questions that only some systems can solve, by construction. Takes about two minutes."""
    from mhgrn.errors import UserError
    from mhgrn.io.markers import write_json
    from mhgrn_reproduction.compositional import check_plots, run

    if file is not None and not as_json:
        raise UserError(f"{file}: to write JSON to a file, add --json.")
    if file is not None and file.is_dir():
        raise UserError(f"{file} is a folder; name a file to write to.")
    if plots is not None:
        check_plots(plots)
    outcomes = run(only or (), seeds)
    if file is not None:
        write_json(file, outcomes.to_dict())
    if plots is not None:
        outcomes.plot(plots)
    print(strict_json(outcomes.to_dict()) if as_json and file is None else outcomes)
