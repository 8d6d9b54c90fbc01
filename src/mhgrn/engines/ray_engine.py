"""The engine ``ray``: parts are tasks of a Ray cluster. Needs ``pip install 'mhgrn[ray]'``."""

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mhgrn.engines.engine import Context, Function, Item
from mhgrn.engines.stored_parts import StoredParts, parts_beside
from mhgrn.engines.worker import Outcome, named, run_part, software
from mhgrn.errors import UserError
from mhgrn.io.fingerprint import fingerprint
from mhgrn.printing import shown
from mhgrn.progress import say

RETRIES = 3  # of a part whose worker or node died
AHEAD = 2  # parts in flight for each processor of the cluster
MOST_NAMED = 10  # failed items in a message
_MISSING = "the engine ray needs the package ray: pip install 'mhgrn[ray]'"


@dataclass(frozen=True)
class RayEngine:
    """Parts are tasks of a Ray cluster; see :class:`mhgrn.engines.Engine`.

    Args:
        address: ``auto`` for the cluster of this machine, ``host:port`` or ``ray://host:port``.
    """

    address: str = "auto"

    @contextmanager
    def session(self, output: Path) -> Iterator["RaySession"]:
        """Connect, and store finished parts beside ``output``; see :meth:`mhgrn.engines.Engine.session`."""
        with parts_beside(output) as stored, _connected(self.address) as ray:
            session = RaySession(ray, stored, {})
            try:
                yield session
            finally:
                session.cancel()


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray prints a warning about its next release
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))  # otherwise a part that needs too much memory is tried forever
    try:
        import ray
    except ImportError:
        raise UserError(_MISSING) from None
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError, ImportError, TimeoutError) as error:
        advice = "Start one with `ray start --head`, or name its address with --address."
        raise UserError(f"no Ray cluster at {shown(address)} ({shown(str(error))}). {advice}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


class _Part(NamedTuple):
    key: str
    items: list[Item]


@dataclass(frozen=True)
class RaySession:
    """A connection to a Ray cluster while one output is made; see :class:`mhgrn.engines.Session`."""

    ray: Any
    stored: StoredParts
    flying: dict[Any, _Part]  # the tasks in flight

    def map(self, function: Function, context: Context, parts: Iterable[list[Item]]) -> Iterator[bytes]:
        """Apply a function to each part, in the order of the parts; see :meth:`mhgrn.engines.Session.map`."""
        name = f"{function.__module__}.{function.__qualname__}"
        all_parts = [_Part(fingerprint(name, software(), context, items), items) for items in parts]
        missing = deque({part.key: part for part in all_parts if not self.stored.has(part.key)}.values())
        nodes = sum(node["Alive"] for node in self.ray.nodes())
        finished = len(all_parts) - len(missing)
        resumed = f", {finished:,} of them finished before" if finished else ""
        say(f"Ray cluster of {nodes} nodes with {self._processors()} processors: {len(all_parts):,} parts{resumed}")
        computed = self._compute(function, context, missing)
        waiting = {part.key for part in missing}
        failed: dict[str, str] = {}
        for part in all_parts:
            while part.key in waiting:
                key, failures = next(computed)
                waiting.discard(key)
                failed |= failures
            if not failed:
                yield self.stored.read(part.key)
        if failed:
            raise UserError(_failed_items(failed))

    def _processors(self) -> int:
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def _compute(self, function: Function, context: Context, missing: "deque[_Part]") -> Iterator[tuple[str, dict[str, str]]]:
        """Compute parts and store their results. Yields the key of each part, and the items that failed, as they finish.

        A task whose node or worker process dies is done again elsewhere by Ray.
        """
        todo = deque(missing)
        task = self.ray.remote(num_cpus=1, max_retries=RETRIES)(run_part)
        shared = self.ray.put(context)
        while todo or self.flying:
            most = AHEAD * self._processors()  # nodes may join and leave
            while todo and len(self.flying) < most:
                part = todo.popleft()
                self.flying[task.remote(function, shared, part.items, software())] = part
            done, _ = self.ray.wait(list(self.flying), num_returns=1, timeout=10)
            for reference in done:
                part = self.flying.pop(reference)
                outcome = self._outcome(reference, part)
                if outcome.result is not None:
                    self.stored.write(part.key, outcome.result)
                yield part.key, outcome.failed

    def cancel(self) -> None:
        """End all tasks in flight."""
        for reference in self.flying:
            with suppress(Exception):  # the cluster may be gone
                self.ray.cancel(reference, force=True)
        self.flying.clear()

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


def _failed_items(failed: dict[str, str]) -> str:
    listed = "".join(f"\n  {shown(name)}: {reason}" for name, reason in list(failed.items())[:MOST_NAMED])
    more = f"\n  and {len(failed) - MOST_NAMED:,} more" if len(failed) > MOST_NAMED else ""
    advice = "All others are done and stored. Correct or remove these, then run the command again:"
    return f"{len(failed):,} of the questions failed. {advice}{listed}{more}"
