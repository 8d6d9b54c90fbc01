"""What the user can put right is a :class:`UserError`: one message that says what is wrong, where, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A wrong input or setting. The command line prints it as one line and exits with code 2."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to a message about an unknown ``name``, or the known names if none is near.

    >>> did_you_mean("hop", ["hops", "layers"])
    ' Did you mean hops?'
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean {near[0]}?" if near else f" Known: {', '.join(known)}."
