"""mhgrn serve: answer questions over HTTP, with a page for browsers."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import Address, Device, EngineName, TextPrecision

PANEL = "Ask"
NEEDED = ("fastapi", "uvicorn", "prometheus_client", "fastapi_swagger")


def serve(
    run: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]...", help="Folders of trained runs, or `starter` (the default) or `commonsense`.", show_default=False
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at. 0.0.0.0 lets other machines in; then set a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 chooses a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="MHGRN_TOKEN",
            help="Bearer token that requests must have. Safer in the environment variable.",
            show_default=False,
        ),
    ] = None,
    queue: Annotated[int, typer.Option(min=1, max=100_000, help="Questions that may wait; further ones are refused.")] = 64,
    batch_size: Annotated[int, typer.Option(min=1, max=1024, help="Questions computed together, at most.")] = 16,
    deadline: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds after which a question is given up.")] = 30.0,
    log: Annotated[bool, typer.Option(help="Write a line of JSON to standard error for each request.")] = True,
    log_questions: Annotated[bool, typer.Option("--log-questions", help="Also log the texts of questions.")] = False,
    device: Device = "cpu",
    text_precision: TextPrecision = "float32",
    engine: EngineName = "local",
    address: Address = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            min=1, max=1000, help="With --engine ray: processes of the cluster that answer questions. Unset: 1.", show_default=False
        ),
    ] = None,
) -> None:
    """Answer questions over HTTP, with a page for browsers.

    With `--engine ray`, replicas on a Ray cluster compute the answers.
    """
    from mhgrn.engines import engine_named
    from mhgrn.errors import UserError

    is_on_ray = engine_named(engine, address) is not None
    if replicas is not None and not is_on_ray:
        raise UserError("--replicas is the number of replicas of --engine ray; add --engine ray, or remove --replicas.")

    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise UserError(f"serving needs the package {missing[0]}; install it with `pip install 'mhgrn[serve]'`.")
    from mhgrn.serve.address import listen

    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise UserError("the token should consist of printable ASCII characters.")
    listening = listen(host, port)  # before torch is loaded, which takes seconds
    from mhgrn.serve.server import serve as serve_runs
    from mhgrn.serve.settings import ServeSettings

    settings = ServeSettings(
        queue, batch_size, deadline, token, text_precision=text_precision, log=log, log_questions=log_questions
    )
    if not is_on_ray:
        serve_runs(listening, run or [], device, settings)
        return
    from mhgrn.serve.on_ray import replicas_on

    with replicas_on(address or "auto", replicas or 1, device, settings) as computing:
        serve_runs(listening, run or [], device, settings, computing)
