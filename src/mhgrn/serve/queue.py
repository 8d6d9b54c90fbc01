"""Questions wait in a bounded queue; one thread takes those that wait together and computes them together."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

from mhgrn.errors import UserError
from mhgrn.inference import Answer, Asked, WrongOption
from mhgrn.inference.asked import stored_fact
from mhgrn.printing import strict_json
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


@dataclass(frozen=True)
class AskedOpenly:
    """A question without choices, with the options of :meth:`QuestionAnswerer.rank` or :meth:`OpenAnswerer.ask`."""

    question: str
    options: dict[str, Any]


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

    def answer(self) -> Answer:
        """Compute the answer to this question alone."""
        asked, qa = self.asked, self.model.qa
        if isinstance(asked, Asked):
            return qa.answer_all([asked])[0]
        try:
            return qa.rank(asked.question, **asked.options)
        except UserError as error:
            option = error.option if isinstance(error, WrongOption) else "question"
            raise WrongOption(option, self.model.without_folders(str(error))) from None

    def _set(self, result: bytes | Exception) -> None:
        if self.future.done():
            return
        if isinstance(result, bytes):
            self.future.set_result(result)
        else:
            self.future.set_exception(result)


class Worker:
    """Computes questions in a thread of its own.

    A question that comes alone is computed at once. Those that come meanwhile wait and are computed together, in batches of one
    model.

    Args:
        capacity: Questions that may wait.
        batch: Questions that are computed together, at most.
        metrics: Where to count.
        report: Called with an unexpected error.
    """

    def __init__(self, capacity: int, batch: int, metrics: Metrics, report: Report) -> None:
        self.capacity, self.batch, self.metrics, self.report = capacity, batch, metrics, report
        self._waiting: deque[Job] = deque()
        self._changed = Condition()
        self._is_closed = False
        self._seconds = 0.1  # of one question, a moving average
        self._thread = Thread(target=self._run, name="mhgrn-worker", daemon=True)
        self._thread.start()

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
            self._changed.notify()

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
        return max(1, math.ceil(self._seconds * len(self._waiting)))

    def close(self) -> None:
        """Refuse further questions; those that wait are still computed."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until everything is computed after :meth:`close`. Returns whether it is."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

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
                for job in self._waiting:
                    if self._is_over(job):
                        continue
                    is_next = len(jobs) < self.batch and (not jobs or job.model is jobs[0].model)
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
        """Compute jobs together. One at a time: those that add facts to the graph, since each has a graph of its own, and
        questions without choices, whose candidates are proposed first."""
        together: list[tuple[Job, Asked]] = []
        for job in jobs:
            if isinstance(job.asked, AskedOpenly) or job.asked.facts:
                self._compute_alone(job)
            elif self._is_valid(job, job.asked):
                together.append((job, job.asked))
        if len(together) == 1:
            self._compute_alone(together[0][0])
        elif together:
            try:
                answers = together[0][0].model.qa.answer_all([asked for _, asked in together])
            except Exception:  # one of them is the cause, and fails alone
                for job, _ in together:
                    self._compute_alone(job)
                return
            for (job, _), answer in zip(together, answers, strict=True):
                job.batch = len(together)
                job.finish(_json(answer.to_dict()))

    def _is_valid(self, job: Job, asked: Asked) -> bool:
        try:
            for fact in asked.without:
                stored_fact(job.model.graph, fact)
        except UserError as error:
            job.finish(error)
            return False
        return True

    def _compute_alone(self, job: Job) -> None:
        job.batch = 1
        try:
            job.finish(_json(job.answer().to_dict()))
        except UserError as error:
            job.finish(error)
        except Exception as error:
            self.metrics.failed.inc()
            self.report(error)
            job.finish(error)


def _json(value: object) -> bytes:
    return strict_json(value).encode()
