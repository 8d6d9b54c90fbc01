"""The interface of an engine, and engines by name."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mhgrn.errors import UserError, did_you_mean
from mhgrn.io.remote import origin_of, url_of
from mhgrn.printing import shortened, shown

ENGINES = ("local", "ray")
Item = dict[str, Any]  # values that JSON can hold; "id" names the item in messages
Context = dict[str, Any]  # values that JSON can hold
Function = Callable[[Context, list[Item]], bytes]


@dataclass(frozen=True)
class Work:
    """Parts of long work, and the function that computes the result of each.

    Args:
        function: Computes the result of a part: a top-level function of a module that all nodes have.
        context: What all parts have in common, such as the folder of the graph.
        parts: The items of each part. Their division must not depend on the number of nodes, or finished parts are not found.
        threads: The threads that a part computes with, if its last digits depend on them. None: one, and torch is not used.
        called: What messages call the items.
        is_kept: Whether a result is stored until the output is complete. False: until the caller asks for the next one.
    """

    function: Function
    context: Context
    parts: Sequence[list[Item]]
    threads: int | None = None
    called: str = "questions"
    is_kept: bool = True


class Outcome(NamedTuple):
    """The result of a part, or the items for which the function fails, with the reasons."""

    result: bytes | None
    failed: dict[str, str]


class Session(Protocol):
    """A connection to an engine while one output is made."""

    def map(self, work: Work) -> Iterator[bytes]:
        """The result of each part, in the order of the parts, in whatever order they finish.

        Raises:
            UserError: The function failed for some items; the other parts were computed and stored before.
        """

    def as_finished(self, work: Work, started: Callable[[int], None]) -> Iterator[tuple[int, Outcome]]:
        """The number of each part and its outcome, as they finish.

        Args:
            work: The parts.
            started: Called with the number of a part when it is given to the engine.
        """


class Engine(Protocol):
    """Computes parts of long work, on one machine or on many."""

    def session(self, output: Path | None) -> AbstractContextManager[Session]:
        """Connect, and store finished parts beside ``output`` until the block ends without an error.

        The same command then computes only the parts that are not stored.

        Args:
            output: The file or folder that is made. None: it is only shown, and an interrupted command starts again.
        """


def session_of(engine: Engine | None, output: Path | None) -> AbstractContextManager[Session | None]:
    """The session of an engine; None without an engine, for the processes of this machine."""
    return nullcontext() if engine is None else engine.session(output)


def place_on_nodes(place: str | Path) -> str:
    """A place as all nodes find it: its URL, absolute if it is a file or folder here, otherwise as it is, for example a name.

    >>> place_on_nodes("minilm")
    'minilm'
    """
    if (url := url_of(place) or origin_of(Path(place))) is not None:
        return url  # each node fetches it
    return os.path.abspath(place) if os.path.exists(place) else str(place)


def on_nodes(options: Context) -> Context:
    """Options as all nodes understand them: see :func:`place_on_nodes`."""
    return {name: place_on_nodes(value) if isinstance(value, str | Path) else value for name, value in options.items()}


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
