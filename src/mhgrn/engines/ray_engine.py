"""The engine ``ray``: parts are tasks of a Ray cluster. Needs ``pip install 'mhgrn[ray]'``."""

import logging
import os
import re
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mhgrn.engines.engine import Function, Item, Outcome, Work
from mhgrn.engines.stored_parts import StoredParts, parts_beside
from mhgrn.engines.worker import named, run_part, software
from mhgrn.errors import UserError
from mhgrn.io.fingerprint import fingerprint
from mhgrn.printing import shown
from mhgrn.progress import say

RETRIES = 3  # of a part whose worker or node died
AHEAD = 2  # parts in flight for each that the cluster computes at the same time
SECONDS = 10  # to reach a cluster
GRACE = 10  # seconds that a canceled task has to end by itself
MOST_NAMED = 10  # failed items in a message
MISSING = "the engine ray needs the package ray: pip install 'mhgrn[ray]'"


@dataclass(frozen=True)
class RayEngine:
    """Parts are tasks of a Ray cluster; see :class:`mhgrn.engines.Engine`.

    Args:
        address: ``auto`` for the cluster of this machine, ``host:port`` or ``ray://host:port``.
    """

    address: str = "auto"

    @contextmanager
    def session(self, output: Path | None) -> Iterator["RaySession"]:
        """Connect, and store finished parts beside ``output``; see :meth:`mhgrn.engines.Engine.session`."""
        with parts_beside(output) as stored, connected(self.address) as ray:
            session = RaySession(ray, stored)
            try:
                yield session
            finally:
                session.cancel()


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a cluster and yield the module ``ray``. A process that is connected already stays connected after the block."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray prints a warning about its next release
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # otherwise Ray prints what it retries to standard output
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # otherwise a part that needs too much memory is tried forever
    try:
        import ray
    except ImportError:
        raise UserError(MISSING) from None
    if ray.is_initialized():
        yield ray
        return
    try:
        if found := re.fullmatch(r"(?:ray://)?([^/:]+):(\d+)", address):  # Ray itself would try for minutes
            socket.create_connection((found[1], int(found[2])), timeout=SECONDS).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, OverflowError, ValueError, RuntimeError, ImportError) as error:
        advice = "Start one with `ray start --head`, or name its address with --address."
        reason = shown((str(error).strip().splitlines() or [type(error).__name__])[-1])  # a server sends its traceback
        raise UserError(f"no Ray cluster at {shown(address)} ({reason}). {advice}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


class _Part(NamedTuple):
    key: str
    number: int  # of the part, or of the first of several equal ones
    items: list[Item]


class RaySession:
    """A connection to a Ray cluster while one output is made; see :class:`mhgrn.engines.Session`."""

    def __init__(self, ray: Any, stored: StoredParts) -> None:
        self.ray, self.stored = ray, stored
        self._flying: dict[Any, _Part] = {}  # the tasks in flight
        self._is_announced = False

    def map(self, work: Work) -> Iterator[bytes]:
        """The result of each part, in the order of the parts; see :meth:`mhgrn.engines.Session.map`."""
        parts, missing = self._parts(work)
        computed = self._compute(work, missing)
        waiting = {part.key for part in missing}
        failed: dict[str, str] = {}
        uses = Counter(part.key for part in parts)
        for part in parts:
            while part.key in waiting:
                done, outcome = next(computed)
                waiting.discard(done.key)
                failed |= outcome.failed
            if not failed:
                yield self.stored.read(part.key)
                uses[part.key] -= 1
                if not work.is_kept and not uses[part.key]:
                    self.stored.remove(part.key)
        if failed:
            raise UserError(_failed_items(failed, work.called))

    def as_finished(self, work: Work, started: Callable[[int], None]) -> Iterator[tuple[int, Outcome]]:
        """The number of each part and its outcome, as they finish; see :meth:`mhgrn.engines.Session.as_finished`."""
        parts, missing = self._parts(work)
        left = {part.key for part in missing}
        before = ((part, Outcome(self.stored.read(part.key), {})) for part in parts if part.key not in left)
        for part, outcome in chain(before, self._compute(work, missing, started)):
            yield part.number, outcome
            if not work.is_kept:
                self.stored.remove(part.key)

    def _parts(self, work: Work) -> tuple[list[_Part], list[_Part]]:
        """All parts, and those that are not stored; of several equal ones only the first."""
        parts: list[_Part] = []
        name, version = _name(work.function), _software(work.function)
        for number, items in enumerate(work.parts):
            parts.append(_Part(fingerprint(name, version, work.context, work.threads, items), number, items))
        distinct = {part.key: part for part in reversed(parts)}
        missing = [part for part in parts if distinct[part.key] is part and not self.stored.has(part.key)]
        finished = len(parts) - len(missing)
        if not self._is_announced or finished:
            nodes = sum(node["Alive"] for node in self.ray.nodes())
            resumed = f", {finished:,} of them finished before" if finished else ""
            processors = int(self.ray.cluster_resources().get("CPU", 0))
            say(f"Ray cluster of {nodes} nodes with {processors} processors: {len(parts):,} parts{resumed}")
            self._is_announced = True
        return parts, missing

    def _compute(
        self, work: Work, missing: Iterable[_Part], started: Callable[[int], None] | None = None
    ) -> Iterator[tuple[_Part, Outcome]]:
        """Compute parts and store their results. Yields each part with its outcome as they finish.

        A task whose node or worker process dies is done again elsewhere by Ray.
        """
        todo = deque(missing)
        if not todo:
            return
        shared, name, version = self.ray.put(work.context), _name(work.function), _software(work.function)
        task = self.ray.remote(max_retries=RETRIES)(run_part)
        while todo or self._flying:
            processors, room = self._room(work.threads or 1)  # nodes may join and leave
            while todo and len(self._flying) < room * (AHEAD if started is None else 1):
                part = todo.popleft()
                sent = task.options(num_cpus=processors).remote(name, shared, part.items, version, work.threads)
                self._flying[sent] = part
                if started is not None:
                    started(part.number)
            done, _ = self.ray.wait(list(self._flying), num_returns=1, timeout=10)
            for reference in done:
                part = self._flying.pop(reference)
                outcome = self._outcome(reference, part)
                if outcome.result is not None:
                    self.stored.write(part.key, outcome.result)
                yield part, outcome

    def _room(self, threads: int) -> tuple[int, int]:
        """The processors that a part with so many threads takes, and how many parts the cluster computes at the same time."""
        free = [int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"]]
        processors = max(1, min(threads, max(free, default=1)))
        return processors, max(1, sum(count // processors for count in free))

    def cancel(self) -> None:
        """End all tasks in flight. They get a moment to store what they can resume from.

        They are not killed here: Ray 2.60 aborts the process that kills a task which is just ending. Tasks that do not listen end
        with the connection.
        """
        flying, self._flying = list(self._flying), {}
        with suppress(Exception):  # the cluster may be gone
            for reference in flying:
                self.ray.cancel(reference, force=False)
            if flying:
                self.ray.wait(flying, num_returns=len(flying), timeout=GRACE)

    def _outcome(self, reference: Any, part: _Part) -> Outcome:
        errors = self.ray.exceptions
        where = named(part.items)
        try:
            outcome: Outcome = self.ray.get(reference)
            return outcome
        except errors.RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise UserError(str(error.cause)) from None
            last = str(error).strip().splitlines()[-1]
            raise UserError(f"a node of the cluster could not compute {where}: {shown(last)}") from None
        except errors.OutOfMemoryError:
            advice = "Use nodes with more memory, or fewer workers on a node (`ray start --num-cpus`)."
            raise UserError(f"a node of the cluster ran out of memory in {where}, {RETRIES + 1} times. {advice}") from None
        except errors.RayError as error:
            reason = shown(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
            advice = "It may have run out of memory. Run the command again: finished parts are stored."
            raise UserError(f"a worker of the cluster died in {where}, {RETRIES + 1} times ({reason}). {advice}") from None


def _name(function: Function) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _software(function: Function) -> str:
    return software(function.__module__.partition(".")[0])


def _failed_items(failed: dict[str, str], called: str) -> str:
    listed = "".join(f"\n  {shown(name)}: {reason}" for name, reason in list(failed.items())[:MOST_NAMED])
    more = f"\n  and {len(failed) - MOST_NAMED:,} more" if len(failed) > MOST_NAMED else ""
    advice = "The parts without them are done and stored. Correct or remove these, then run the command again:"
    return f"{len(failed):,} of the {called} failed. {advice}{listed}{more}"
