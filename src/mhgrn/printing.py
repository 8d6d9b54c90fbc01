"""Texts of other people on a terminal, in a drawing or in a message: without control characters, and of limited length."""

import datetime
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any

LONGEST = 200  # characters of a value in a message

# Control characters (C0, DEL, C1), the Arabic letter mark, left-to-right and right-to-left marks, line and paragraph separators,
# bidirectional embeddings, overrides and isolates, surrogates, and the two noncharacters that XML forbids.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_DEEPEST = 6  # nesting that a message shows
_PLAIN = (bool, float, complex, datetime.date, datetime.time, datetime.timedelta, PurePath)


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with each control and bidirectional character escaped as in Python and JSON.

    Such characters can clear a terminal, reverse the order of what follows, or make XML that no parser reads. The escaped text of
    a JSON document is a JSON document with the same content.

    Args:
        text: Any text.
        keep: Characters that are not escaped, for example ``"\n\t"``.

    >>> print(printable("a\x1b[2Jb \u202ec ä"))
    a\u001b[2Jb \u202ec ä
    """
    return CONTROLS.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def strict_json(value: object) -> str:
    r"""Return a value as one line of JSON that every parser reads: no NaN, and control characters as escapes.

    >>> print(strict_json({"name": "caf\u00e9 \u202e\x9b"}))
    {"name": "café \u202e\u009b"}
    """
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False, allow_nan=False))


def shown(name: object, limit: int = LONGEST) -> str:
    r"""Return a name for a message: without quotes, escaped, cut to ``limit`` characters.

    >>> print(shown("hops"), shown("a\nb"), shown("x" * 100, limit=5))
    hops a\nb xxxx…
    """
    if not isinstance(name, str):
        return shortened(name, limit)
    text = printable(name[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _escaped(character: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\u{ord(character):04x}")


def shortened(value: object, limit: int = LONGEST) -> str:
    """Return a value as Python writes it, cut to ``limit`` characters, for a message.

    Only as much of the value is formatted as is shown, so that a huge or deeply nested value costs nothing.

    Args:
        value: Any value, for example one that a file of YAML or JSON holds.
        limit: The largest number of characters.

    >>> shortened({"a": [1, None], "b": "x" * 1_000_000}, limit=30)
    "{'a': [1, None], 'b': 'xxxxxx…"
    """
    text = ""
    for piece in _pieces(value, limit, 0):
        text += piece
        if len(text) > limit:
            break
    text = printable(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _pieces(value: Any, limit: int, depth: int) -> Iterator[str]:
    """Yield what Python writes for a value in short pieces."""
    if value is None or isinstance(value, _PLAIN):
        yield str(value) if isinstance(value, PurePath) else repr(value)
    elif isinstance(value, int):
        # writing a long integer takes quadratic time, and Python refuses very long ones
        yield repr(value) if value.bit_length() <= 4 * limit else f"an integer of {value.bit_length():,} bits"
    elif isinstance(value, str | bytes | bytearray):
        yield repr(value[: limit + 1])
    elif isinstance(value, type):
        yield value.__qualname__
    elif depth == _DEEPEST:
        yield "…"
    elif isinstance(value, Mapping):
        yield "{"
        for i, key in enumerate(value):
            yield ", " if i else ""
            yield from _pieces(key, limit, depth + 1)
            yield ": "
            yield from _pieces(value[key], limit, depth + 1)
        yield "}"
    elif isinstance(value, Sequence | Set):
        opening, closing = "()" if isinstance(value, tuple) else "{}" if isinstance(value, Set) else "[]"
        yield opening
        for i, entry in enumerate(value):
            yield ", " if i else ""
            yield from _pieces(entry, limit, depth + 1)
        yield ",)" if isinstance(value, tuple) and len(value) == 1 else closing
    else:
        yield f"<{type(value).__qualname__}>"
