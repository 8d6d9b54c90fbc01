"""What a worker process does with a part: compare its software, compute, and find the items that fail."""

import hashlib
import socket
from collections.abc import Mapping
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from mhgrn.engines.engine import Context, Function, Item, Outcome
from mhgrn.errors import UserError, shortage
from mhgrn.printing import shown
from mhgrn.progress import silence


@cache
def software(package: str = "mhgrn") -> str:
    """The versions of mhgrn and of another package, with hashes of their source files: an unreleased version can be anything."""
    found = []
    for name in dict.fromkeys(("mhgrn", package)):
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            return f"no package {name}"
        digest, root = hashlib.sha256(), Path(spec.origin).parent
        for path in sorted(root.rglob("*.py")) if spec.submodule_search_locations else [Path(spec.origin)]:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        found.append(f"{name} {_version(name)} (code {digest.hexdigest()[:8]})")
    return " with ".join(found)


def _version(package: str) -> str:
    try:
        return metadata.version(package.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return "without a version"


def run_part(function: str, context: Context, items: list[Item], expected: str, threads: int | None) -> Outcome:
    """Compute the result of a part in a worker process.

    If it fails, every item is tried alone, so that the ones that fail can be named. An error that has nothing to do with an
    item, such as a missing graph, is raised as a :class:`UserError` that names the node.

    Args:
        function: Computes the result: ``module:name``.
        context: See :class:`mhgrn.engines.Work`.
        items: The items of the part.
        expected: The :func:`software` of the process that started the work.
        threads: See :class:`mhgrn.engines.Work`.
    """
    silence()  # progress is shown by the process that started the work
    node = f"node {socket.gethostname()}"
    module, _, name = function.partition(":")
    found = software(module.partition(".")[0])
    if found != expected:
        raise UserError(f"{node} has {found}, not {expected} as this machine; install the same version on all nodes.")
    compute: Function = getattr(import_module(module), name)
    try:
        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        return Outcome(compute(context, items), {})
    except UserError as error:
        raise UserError(f"{node}: {error}") from None
    except Exception as error:
        if (ran_out := shortage(error)) is not None:
            raise UserError(f"{node}: {ran_out} in {named(items)}. Use nodes with more, or fewer workers on a node.") from None
        if len(items) == 1:
            return Outcome(None, {str(items[0]["id"]): _described(error)})
        failed = {str(item["id"]): reason for item in items if (reason := _failure(compute, context, item))}
        if len(failed) in (0, len(items)):  # not the fault of single items
            raise UserError(f"{node}: {_described(error)} in {named(items)}.") from None
        return Outcome(None, failed)


def check_same(what: str, found: Mapping[str, object], expected: Mapping[str, object]) -> None:
    """Refuse files of this node that are not those of the machine that started the work.

    Args:
        what: What is compared, with its place.
        found: What identifies its parts on this node.
        expected: The same on the machine that started the work.

    >>> check_same("the run a", {"weights": "4f", "graph": "a1"}, {"weights": "9c", "graph": "a1"})
    Traceback (most recent call last):
    mhgrn.errors.UserError: the run a is not that of the machine that started the work (other weights); copy it to all nodes.
    """
    if other := [name for name, value in expected.items() if found.get(name) != value]:
        different = f"is not that of the machine that started the work (other {', '.join(other)})"
        raise UserError(f"{what} {different}; copy it to all nodes.")


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
