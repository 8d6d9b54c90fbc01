"""Errors that the user can correct."""

import errno
from collections.abc import Iterable
from difflib import get_close_matches

from mhgrn.printing import shown

LONGEST_NAME = 200  # characters; the search for a similar name takes quadratic time
MOST_LISTED = 50  # known names that a message lists
LONGEST_LISTED = 40  # characters of each of them


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
    near = get_close_matches(name, known, n=1, cutoff=0.6) if len(name) <= LONGEST_NAME else []
    if near:
        return f" Did you mean {shown(near[0])}?"
    more = f" and {len(known) - MOST_LISTED:,} more" if len(known) > MOST_LISTED else ""
    return f" Known: {', '.join(shown(name, LONGEST_LISTED) for name in known[:MOST_LISTED])}{more}."


_OUT_OF_MEMORY = ("allocate memory", "not enough memory", "out of memory", "(os error 12)")
_OUT_OF_FILES = ("too many open files", "(os error 24)", "(os error 23)")


def shortage(error: BaseException) -> str | None:
    """Return what ran out, if an error or what caused it says so: memory or file handles. None for other errors.

    Libraries report both in errors of their own, which otherwise look like a damaged or missing file.

    >>> shortage(MemoryError())
    'out of memory'
    """
    seen: BaseException | None = error
    for _ in range(20):  # causes of an error may form a circle
        if seen is None:
            return None
        number, text = getattr(seen, "errno", None), str(seen)[:10_000].lower()
        if isinstance(seen, MemoryError) or number == errno.ENOMEM or any(part in text for part in _OUT_OF_MEMORY):
            return "out of memory"
        if number in (errno.EMFILE, errno.ENFILE) or any(part in text for part in _OUT_OF_FILES):
            return "too many files are open (raise the limit with `ulimit -n`)"
        seen = seen.__cause__ or seen.__context__
    return None


_SPACE = "Free some space and run the command again; existing files are unchanged."
_ADVICE = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: _SPACE,
    errno.EROFS: "Name a place on a file system that can be written.",
    errno.EACCES: "Change its permissions, or name another place.",
    errno.EPERM: "Change its permissions, or name another place.",
}


def system_message(error: OSError) -> str:
    """Return the message about an error of the operating system: the file, what is wrong, and what to do.

    >>> system_message(OSError(errno.ENOSPC, "No space left on device", "graph/head.npy"))
    'graph/head.npy: No space left on device. Free some space and run the command again; existing files are unchanged.'
    """
    where = f"{error.filename}: " if error.filename else ""
    what = shortage(error) or error.strerror or str(error)
    return f"{where}{what}. {_ADVICE.get(error.errno or 0, '')}".strip()
