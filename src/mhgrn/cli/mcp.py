"""mhgrn mcp: a server for agents, over the Model Context Protocol."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import Device, RunGraph

PANEL = "Ask"


def mcp(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]", help="Folder of a trained run, or `starter` (the default) or `commonsense`.", show_default=False
        ),
    ] = None,
    kg: RunGraph = None,
    device: Device = "cpu",
) -> None:
    """Serve tools for agents over the Model Context Protocol: ask, evidence, facts_about, paths_between.

    The client starts this command and talks to it over standard input and output.
    """
    from mhgrn.errors import UserError

    if find_spec("mcp") is None:
        raise UserError("this needs the package mcp; install it with `pip install 'mhgrn[mcp]'`.")
    from mhgrn.serve.mcp import serve_mcp

    serve_mcp(run, kg, device)
