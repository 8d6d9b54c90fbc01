"""The state of a service: its models, its worker, and whether it is ready."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any

from mhgrn.errors import UserError, did_you_mean
from mhgrn.inference import Asked, WrongOption
from mhgrn.printing import shortened
from mhgrn.questions.question import Question
from mhgrn.serve.computing import AskedOpenly, Computer, Here
from mhgrn.serve.gate import Log
from mhgrn.serve.metrics import Metrics
from mhgrn.serve.models import ServedModel
from mhgrn.serve.queue import Job, Worker
from mhgrn.serve.schemas import AskBody
from mhgrn.serve.settings import ServeSettings

Load = Callable[[], Mapping[str, ServedModel]]
RANKED = ("n", "paths", "effects")  # options of questions without choices
RANKED_OPENLY = (*RANKED, "facts", "without", "subgraph", "abstain_below", "coverage")  # … for a model that is trained on them


class Service:
    """Loads the models in a thread of its own and computes questions in another, so that the event loop always answers.

    Args:
        load: Loads and warms the models, by name.
        settings: Settings.
        computer: Where questions are computed.
    """

    def __init__(self, load: Load, settings: ServeSettings = ServeSettings(), computer: Computer = Here()) -> None:
        self.settings, self.metrics, self.log, self.computer = settings, Metrics(), Log(settings.log), computer
        self.worker = Worker(settings.queue, settings.batch, self.metrics, self.log.error, computer)
        self.models: Mapping[str, ServedModel] = {}
        self.failure: BaseException | None = None  # why the models could not be loaded
        self.is_closing = False
        self._load = load
        self.metrics.ready.set_function(lambda: float(self.is_ready))
        self.metrics.replicas.set_function(lambda: computer.running)

    @property
    def is_ready(self) -> bool:
        return bool(self.models) and not self.is_closing and self.computer.running > 0

    def start(self, done: Callable[[], object] = lambda: None) -> None:
        """Load the models in the background; ``done`` is called, in that thread, when they are warm or cannot be loaded."""

        def load() -> None:
            try:
                self.models = self._load()
            except BaseException as error:
                self.failure = error
            done()

        Thread(target=load, name="mhgrn-loader", daemon=True).start()

    def close(self) -> None:
        """Refuse further questions. Those that were accepted are still answered."""
        self.is_closing = True
        self.worker.close()

    def model(self, name: str | None) -> ServedModel:
        """The model of this name, by default the first one."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise WrongOption("model", f"there is no model {shortened(name)}.{did_you_mean(name, self.models)}")
        return self.models[name]

    def job(self, body: AskBody) -> Job:
        """A request as a job; it does not wait yet.

        Raises:
            UserError: It is not a question.
        """
        deadline = time.monotonic() + self.settings.deadline
        model = self.model(body.model)
        return Job(model, _asked(body, model.is_open), deadline, asyncio.get_running_loop().create_future())

    def submit(self, jobs: Sequence[Job]) -> None:
        self.worker.submit(jobs)


def _asked(body: AskBody, is_open: bool) -> Asked | AskedOpenly:
    if body.choices is None:
        taken = RANKED_OPENLY if is_open else RANKED
        for name in set(AskBody.model_fields) - {"question", "choices", "model", "by", *taken}:
            if getattr(body, name) != AskBody.model_fields[name].default:
                raise WrongOption(name, f"{name} is for questions with choices; {'remove it' if is_open else 'give choices'}.")
        return AskedOpenly(body.question, body.model_dump(include=set(taken)))
    if is_open:
        raise WrongOption("choices", "this model answers questions without choices; leave the choices out.")
    options: dict[str, Any] = body.model_dump(exclude={"question", "choices", "model", "n"})
    try:
        question = Question.asked(body.question, body.choices)
    except UserError as error:
        raise WrongOption("question" if str(error).startswith("the question") else "choices", str(error)) from None
    return Asked(question, **options)
