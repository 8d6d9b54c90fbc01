"""Misspelt names."""

from collections.abc import Iterator
from string import ascii_lowercase

LETTERS = ascii_lowercase + "_-"


def one_edit_away(name: str) -> Iterator[str]:
    """Every text that differs from ``name`` by one letter left out, exchanged or added, or by two neighbours swapped.

    >>> "schoolroom" in one_edit_away("schoolrom"), "desk" in one_edit_away("dekcs")
    (True, False)
    """
    for i in range(len(name) + 1):
        before, after = name[:i], name[i:]
        yield from (before + letter + after for letter in LETTERS)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in LETTERS)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
