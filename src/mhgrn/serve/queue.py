"""Questions wait in a bounded queue; a thread takes those that wait together and lets them be computed together."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread

from mhgrn.errors import UserError
from mhgrn.inference import Asked
from mhgrn.serve.computing import AskedOpenly, Computer, Outcome, Unavailable
from mhgrn.serve.metrics import Metrics
from mhgrn.serve.models import ServedModel

Report = Callable[[BaseException], None]


class QueueFull(Exception):
    """There is no room for a question; ``seconds`` estimates when there will be."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the queue is full; try again in {seconds} s.")
        self.seconds = seconds


class DeadlinePassed(Exception):
    """A question was not computed in time."""


@dataclass(eq=False)
class Job:
    """A question that waits for its answer, the UTF-8 text of a JSON document."""

    model: ServedModel
    asked: Asked | AskedOpenly
    deadline: float  # by time.monotonic
    future: "asyncio.Future[bytes]"
    is_dropped: bool = False  # nobody waits for it any more
    batch: int = field(default=0)  # size of the batch it was computed in

    def finish(self, result: bytes | Exception) -> None:
        """Give the result to the event loop that waits for it. Called by another thread."""
        self.future.get_loop().call_soon_threadsafe(self._set, result)

    def _set(self, result: bytes | Exception) -> None:
        if self.future.done():
            return
        if isinstance(result, bytes):
            self.future.set_result(result)
        else:
            self.future.set_exception(result)


class Worker:
    """Lets questions be computed, in threads of its own: one for each batch that is computed at the same time.

    A question that comes alone is computed at once. Those that come meanwhile wait and are computed together, in batches of one
    model.

    Args:
        capacity: Questions that may wait.
        batch: Questions that are computed together, at most.
        metrics: Where to count.
        report: Called with an unexpected error.
        computer: Where questions are computed.
    """

    def __init__(self, capacity: int, batch: int, metrics: Metrics, report: Report, computer: Computer) -> None:
        self.capacity, self.batch, self.metrics, self.report, self.computer = capacity, batch, metrics, report, computer
        self._waiting: deque[Job] = deque()
        self._changed = Condition()
        self._is_closed = False
        self._seconds = 0.1  # of one question, a moving average
        self._threads = [Thread(target=self._run, name="mhgrn-worker", daemon=True) for _ in range(computer.at_once)]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Let questions wait, all of them or none.

        Raises:
            QueueFull: There is no room.
        """
        with self._changed:
            self._check_room(len(jobs))
            self._waiting.extend(jobs)
            self.metrics.queued.set(len(self._waiting))
            self._changed.notify_all()

    def check_room(self) -> None:
        """Raise :class:`QueueFull` if there is no room for a single question."""
        if len(self._waiting) >= self.capacity:
            with self._changed:
                self._check_room(1)

    def _check_room(self, count: int) -> None:
        if len(self._waiting) + count > self.capacity:
            self._forget_dropped()
        if self._is_closed or len(self._waiting) + count > self.capacity:
            raise QueueFull(self.seconds_to_wait())

    def seconds_to_wait(self) -> int:
        """After how many seconds to try again when the queue is full."""
        return max(1, math.ceil(self._seconds * len(self._waiting) / len(self._threads)))

    def close(self) -> None:
        """Refuse further questions; those that wait are still computed."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until everything is computed after :meth:`close`. Returns whether it is."""
        until = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _forget_dropped(self) -> None:
        kept = [job for job in self._waiting if not self._is_over(job)]
        self._waiting.clear()
        self._waiting.extend(kept)

    def _run(self) -> None:
        while jobs := self._next_batch():
            began = time.perf_counter()
            self._compute(jobs)
            seconds = time.perf_counter() - began
            self._seconds += 0.2 * (seconds / len(jobs) - self._seconds)
            self.metrics.batch.observe(len(jobs))
            self.metrics.computing.observe(seconds)
            if (memory := jobs[0].model.qa.memory) is not None:
                self.metrics.text_bytes.set(memory.bytes)

    def _next_batch(self) -> list[Job]:
        """Take the questions that wait for the model of the first one; [] if there are none and will be none."""
        with self._changed:
            jobs: list[Job] = []
            while not jobs:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                if not self._waiting:
                    return []
                rest: list[Job] = []
                most = min(self.batch, math.ceil(len(self._waiting) / len(self._threads)))
                for job in self._waiting:
                    if self._is_over(job):
                        continue
                    is_next = len(jobs) < most and (not jobs or job.model is jobs[0].model)
                    (jobs if is_next else rest).append(job)
                self._waiting.clear()
                self._waiting.extend(rest)
                self.metrics.queued.set(len(rest))
            return jobs

    def _is_over(self, job: Job) -> bool:
        """Whether nobody waits for a job any more."""
        if job.is_dropped:
            self.metrics.dropped.labels("gone").inc()
        elif job.deadline < time.monotonic():
            self.metrics.dropped.labels("deadline").inc()
            job.finish(DeadlinePassed())
        else:
            return False
        return True

    def _compute(self, jobs: list[Job]) -> None:
        left = dict(enumerate(jobs))
        try:
            for number, outcome in self.computer.compute(jobs[0].model, [job.asked for job in jobs]):
                self._finish(left.pop(number), outcome)
        except Exception as error:  # not of a single question
            for job in left.values():
                self._finish(job, Outcome(error))

    def _finish(self, job: Job, outcome: Outcome) -> None:
        answer, job.batch = outcome
        if isinstance(answer, Exception) and not isinstance(answer, UserError | DeadlinePassed | Unavailable):
            self.metrics.failed.inc()
            self.report(answer)
        job.finish(answer)
