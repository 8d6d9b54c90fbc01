"""What a worker process does with a part: compare its software, compute, and find the items that fail."""

import hashlib
import socket
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import mhgrn
from mhgrn.engines.engine import Context, Function, Item
from mhgrn.errors import UserError, shortage
from mhgrn.printing import shown
from mhgrn.progress import silence


class Outcome(NamedTuple):
    """The result of a part, or the items for which the function fails, with the reasons."""

    result: bytes | None
    failed: dict[str, str]


@cache
def software() -> str:
    """The version of this package, with a hash of its source files: an unreleased version may have any content."""
    digest = hashlib.sha256()
    root = Path(mhgrn.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"mhgrn {metadata.version('mhgrn')} (code {digest.hexdigest()[:8]})"


def run_part(function: Function, context: Context, items: list[Item], expected: str) -> Outcome:
    """Compute the result of a part in a worker process.

    If it fails, every item is tried alone, so that the ones that fail can be named. An error that has nothing to do with an
    item, such as a missing graph, is raised as a :class:`UserError` that names the node.

    Args:
        function: Computes the result.
        context: See :meth:`mhgrn.engines.Session.map`.
        items: The items of the part.
        expected: The :func:`software` of the process that started the work.
    """
    silence()  # progress is shown by the process that started the work
    node = f"node {socket.gethostname()}"
    if software() != expected:
        raise UserError(f"{node} has {software()}, not {expected} as this machine; install the same version on all nodes.")
    try:
        return Outcome(function(context, items), {})
    except UserError as error:
        raise UserError(f"{node}: {error}") from None
    except Exception as error:
        if (ran_out := shortage(error)) is not None:
            raise UserError(f"{node}: {ran_out} in {named(items)}. Use nodes with more, or fewer workers on a node.") from None
        failed = {str(item["id"]): reason for item in items if (reason := _failure(function, context, item))}
        if len(failed) in (0, len(items)) and len(items) > 1:  # not the fault of single items
            raise UserError(f"{node}: {_described(error)} in {named(items)}.") from None
        return Outcome(None, failed)


def named(items: list[Item]) -> str:
    """The part as messages name it.

    >>> named([{"id": "q1"}, {"id": "q2"}, {"id": "q3"}])
    'the part q1 … q3'
    """
    first, last = shown(items[0]["id"]), shown(items[-1]["id"])
    return f"the part {first}" if len(items) == 1 else f"the part {first} … {last}"


def _failure(function: Function, context: Context, item: Item) -> str:
    try:
        function(context, [item])
    except Exception as error:
        return _described(error)
    return ""


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {shown(str(error))}"
