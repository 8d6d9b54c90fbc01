"""The command line. Every command is a thin wrapper over a public function; heavy modules load when a command runs."""

import errno
import io
import os
import sys
from importlib import metadata
from typing import Annotated, Any

import typer

from mhgrn.cli import compare, data, features, fetch, kg, qa
from mhgrn.errors import UserError

INTERRUPTED = 130
UsageError: Any = typer.BadParameter.__mro__[1]  # typer has click's own, or a copy of it

app = typer.Typer(
    name="mhgrn",
    help="Answer multiple-choice questions with a text encoder and a knowledge graph, and show the facts relied on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(kg.app, name="kg")
app.command("fetch")(fetch.fetch)
app.add_typer(data.app, name="data")
app.add_typer(features.app, name="features")
qa.add_to(app)
app.command("compare")(compare.compare)


def _add_commands_of_other_packages() -> None:
    for point in metadata.entry_points(group="mhgrn.commands"):
        command = point.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=point.name)
        else:
            app.command(point.name)(command)


_add_commands_of_other_packages()


@app.callback(invoke_without_command=True)
def _options(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if show_version:
        print(f"mhgrn {metadata.version('mhgrn')}")
        raise typer.Exit


def main() -> None:
    """Run the command line: a wrong input is one message and exit code 2, Ctrl-C is exit code 130."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin while they wait starve whatever else runs
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # large tensors in huge pages: torch takes them anew at every step
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # rather a ? than nothing, where the terminal has not all characters
    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()  # here, where an error of writing is still ours to report
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code)
    except UserError as error:
        _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        print("mhgrn: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except UsageError as error:
        context = getattr(error, "ctx", None)
        _fail(f"{error.format_message()} See `{context.command_path if context else 'mhgrn'} --help`.")
    except UnicodeEncodeError as error:
        _fail(f"{error.object[error.start : error.end]!r} in {error.object[:60]!r} is half a character; write text as UTF-8.")
    except BrokenPipeError:
        _drop_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            _drop_output()
        what = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
        advice = " Free some space and run the command again; what was there before is untouched." if full else ""
        _fail(f"{what}{error.strerror or error}.{advice}")


def _drop_output() -> None:
    """Send what is still to be printed nowhere, or Python complains of it once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> None:
    print(f"mhgrn: {message}", file=sys.stderr)
    sys.exit(2)
