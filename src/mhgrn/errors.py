"""Errors that the user can correct."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A wrong input or setting. The message says what is wrong, where and what to do. The command line exits with 2.

    >>> raise UserError("questions.jsonl:3: the question is empty.")
    Traceback (most recent call last):
    mhgrn.errors.UserError: questions.jsonl:3: the question is empty.
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the sentence that ends a message about an unknown name: the closest known name, or all of them.

    Args:
        name: the unknown name.
        known: the names to choose from.

    >>> did_you_mean("hop", ["hops", "layers"])
    ' Did you mean hops?'
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean {near[0]}?" if near else f" Known: {', '.join(known)}."
