"""The command line.

Each command or group of commands is one file of this folder, or a plug-in of another package (entry-point group
``mhgrn.commands``): a function, or a :class:`typer.Typer`. A command checks its arguments, calls a public function and prints
the result. Modules that load slowly are imported when a command runs.

``PANEL`` in the module of a function, or ``rich_help_panel`` of a group, is the heading that ``mhgrn --help`` lists it under.
"""

import atexit
import gc
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from typing import Annotated, Any

import typer

from mhgrn.errors import UserError, shortage, system_message
from mhgrn.plugins import Plugins
from mhgrn.printing import printable

INTERRUPTED = 130
LONGEST_MESSAGE = 4000  # characters of an error that are printed
UsageError: Any = typer.BadParameter.__mro__[1]  # click's class, or typer's copy of it

COMMANDS: Plugins[Callable[..., object]] = Plugins("command", group="mhgrn.commands", package="mhgrn.cli")
PANELS = ("Ask", "Train", "Data")  # in the order of --help; those of other packages follow
OTHER = "Commands of other packages"  # the panel of commands that name none


def build_app(report: Callable[[UserError], object], only: str | None = None) -> typer.Typer:
    """The command line with every command that can be imported; ``report`` is called with what is wrong with any other.

    Args:
        report: called with every error.
        only: the one built-in command to import. None: all.
    """
    app = typer.Typer(
        name="mhgrn",
        help="Answer multiple-choice questions with a text encoder and a knowledge graph, and show the facts behind each answer.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_version)
    found = COMMANDS.load_usable(report) if only is None else {only: COMMANDS.load(only)}
    for name, command in sorted(found.items(), key=lambda item: _place_in_help(item[1])):
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=_panel(command))
        elif callable(command):
            app.command(name, rich_help_panel=_panel(command))(command)
        else:
            report(UserError(f"the command {name!r} is neither a function nor a typer.Typer: {command!r}."))
    return app


def _panel(command: object) -> str:
    module = sys.modules.get(getattr(command, "__module__", ""))
    panel = command.rich_help_panel if isinstance(command, typer.Typer) else getattr(module, "PANEL", None)
    return panel if isinstance(panel, str) else OTHER


def _place_in_help(command: object) -> int:
    panel = _panel(command)
    return PANELS.index(panel) if panel in PANELS else len(PANELS)


def _version(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check every stored file completely when it is loaded."),
    ] = False,
) -> None:
    if verify:
        os.environ["MHGRN_VERIFY"] = "1"
    if show_version:
        print(f"mhgrn {metadata.version('mhgrn')}")
        raise typer.Exit


def run() -> None:
    """Run the command line as the only purpose of this process: objects are not freed one by one when it ends."""
    code = 1
    atexit.register(lambda: _leave(code))  # registered first, called last
    gc.set_threshold(100_000, 10, 10)  # imports create many objects and no garbage
    try:
        main()
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 1
        raise


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # closed, or nobody reads it
            stream.flush()
    os._exit(code)


def main() -> None:
    """Run the command line. Wrong input prints one message and exits with 2; Ctrl-C exits with 130."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin while they wait slow down everything else
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages: torch allocates its large tensors again at every step
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # print a ? for a character that the terminal does not have
    try:
        called = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), None)
        only = called if called in COMMANDS.built_in() else None
        code = build_app(_warn, only)(standalone_mode=False, prog_name="mhgrn") or 0
        sys.stdout.flush()  # here, where an error of writing can still be reported
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        sys.exit(code)
    except UserError as error:
        reason = error.__cause__ or error.__context__
        ran_out = None if reason is None else shortage(reason)  # may have been taken for damage
        _fail(str(error) if ran_out is None or ran_out in str(error) else f"{ran_out}. It was seen as: {error}")
    except (KeyboardInterrupt, typer.Abort):
        print("mhgrn: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # `mhgrn` or `mhgrn kg` alone asks for help
            print(error.format_message())
            sys.exit(0)
        context = getattr(error, "ctx", None)
        _fail(f"{error.format_message()} See `{context.command_path if context else 'mhgrn'} --help`.")
    except UnicodeEncodeError as error:
        _fail(f"{error.object[error.start : error.end]!r} in {error.object[:60]!r} is half a character; write text as UTF-8.")
    except BrokenPipeError:
        _discard_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            _discard_output()
        _fail(system_message(error))
    except Exception as error:
        ran_out = shortage(error)
        if ran_out is None:
            raise
        _fail(f"{ran_out}. Use fewer or smaller inputs at once, or a machine with more.")


def _discard_output() -> None:
    """Discard the output that is still buffered; Python would report the same error again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _warn(error: UserError) -> None:
    print(f"mhgrn: warning: {_shown(str(error))}", file=sys.stderr)


def _fail(message: str) -> None:
    print(f"mhgrn: {_shown(message)}", file=sys.stderr)
    sys.exit(2)


def _shown(message: str) -> str:
    return printable(message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}…", keep="\n\t")
