"""Names of concepts."""

from collections.abc import Iterator
from string import ascii_lowercase

LETTERS = ascii_lowercase + "_-"
LONGEST = 100  # characters of a name that is varied, since the work grows with the square


def concept_name(text: str) -> str:
    """Return the name of a concept as a graph stores it: lower case, with underscores for spaces.

    >>> concept_name(" Furniture store")
    'furniture_store'
    """
    return "_".join(text.lower().split())


def one_edit_away(name: str) -> Iterator[str]:
    """Yield every text that differs from ``name`` by one inserted, deleted or replaced letter or by two swapped neighbors.

    A long name has none.

    >>> "schoolroom" in one_edit_away("schoolrom"), "desk" in one_edit_away("dekcs")
    (True, False)
    """
    if len(name) > LONGEST:
        return
    for i in range(len(name) + 1):
        before, after = name[:i], name[i:]
        yield from (before + letter + after for letter in LETTERS)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in LETTERS)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
