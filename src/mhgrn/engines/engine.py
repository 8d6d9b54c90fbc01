"""The interface of an engine, and engines by name."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from mhgrn.errors import UserError, did_you_mean
from mhgrn.printing import shortened, shown

ENGINES = ("local", "ray")
Item = dict[str, Any]  # values that JSON can hold; "id" names the item in messages
Context = dict[str, Any]  # values that JSON can hold
Function = Callable[[Context, list[Item]], bytes]  # a top-level function of a module that all nodes can import


class Session(Protocol):
    """A connection to an engine while one output is made."""

    def map(self, function: Function, context: Context, parts: Iterable[list[Item]]) -> Iterator[bytes]:
        """Apply a function to each part. The results are in the order of the parts, in whatever order they finish.

        Args:
            function: Computes the result of a part.
            context: What all parts have in common, such as the folder of the graph.
            parts: The items of each part. Their division must not depend on the number of nodes, or finished parts are not found.
        """


class Engine(Protocol):
    """Computes parts of long work, on one machine or on many."""

    def session(self, output: Path) -> AbstractContextManager[Session]:
        """Connect, and store finished parts beside ``output`` until the block ends without an error.

        The same command then computes only the parts that are not stored.
        """


def engine_named(name: str, address: str | None = None) -> Engine | None:
    """The engine with a name; None for ``local``, the processes of this machine.

    Args:
        name: ``local`` or ``ray``.
        address: Of the Ray cluster: ``auto``, ``host:port`` or ``ray://host:port``. None: ``auto``.
    """
    if name not in ENGINES:
        raise UserError(f"unknown engine {shortened(name)}.{did_you_mean(shown(name), ENGINES)}")
    if name == "local":
        if address is not None:
            raise UserError("--address is the address of a Ray cluster; add --engine ray, or remove --address.")
        return None
    from mhgrn.engines.ray_engine import RayEngine

    return RayEngine(address or "auto")
