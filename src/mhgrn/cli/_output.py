"""What commands print. Names and texts of other people cannot control the terminal."""

import json

from mhgrn.printing import CONTROLS, printable


def show(text: object) -> None:
    """Print a result. Control and bidirectional characters are escaped."""
    print(printable(str(text), keep="\n\t"))


def show_json(value: object) -> None:
    r"""Print a result as one line of strict JSON: no NaN, and control characters as escapes.

    >>> show_json({"name": "caf\u00e9 \u202e\x9b"})
    {"name": "café \u202e\u009b"}
    """
    print(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False, allow_nan=False)))
