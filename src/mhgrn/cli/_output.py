"""What commands print. Names and texts of other people cannot control the terminal."""

import json
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.replacing import is_standard_output
from mhgrn.printing import CONTROLS, printable
from mhgrn.progress import say


def show(text: object) -> None:
    """Print a result. Control and bidirectional characters are escaped."""
    print(printable(str(text), keep="\n\t"))


def show_json(value: object) -> None:
    r"""Print a result as one line of strict JSON: no NaN, and control characters as escapes.

    >>> show_json({"name": "caf\u00e9 \u202e\x9b"})
    {"name": "café \u202e\u009b"}
    """
    print(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False, allow_nan=False)))


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
