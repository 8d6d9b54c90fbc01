"""What commands print. Names and texts of other people cannot control the terminal."""

from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.replacing import is_standard_output
from mhgrn.printing import printable, strict_json
from mhgrn.progress import say


def show(text: object) -> None:
    """Print a result. Control and bidirectional characters are escaped."""
    print(printable(str(text), keep="\n\t"))


def show_json(value: object) -> None:
    """Print a result as one line of strict JSON."""
    print(strict_json(value))


def show_written(output: Path, text: str, as_json: object = None) -> None:
    """Print what was written to ``output``, or ``as_json``. It goes to standard error if the result went to standard output."""
    if is_standard_output(output):
        say(text)
    elif as_json is None:
        show(f"{output}: {text}")
    else:
        show_json(as_json)


def check_one_output(output: Path | None, as_json: bool) -> None:
    """Refuse two results on standard output."""
    if as_json and output is not None and is_standard_output(output):
        raise UserError("--json and -o - both write to standard output; name a file for one of them.")
