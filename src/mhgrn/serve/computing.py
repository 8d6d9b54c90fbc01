"""Questions that are computed together, in this process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mhgrn.errors import UserError
from mhgrn.inference import Answer, Asked, WrongOption
from mhgrn.inference.asked import stored_fact
from mhgrn.printing import strict_json
from mhgrn.serve.models import ServedModel


@dataclass(frozen=True)
class AskedOpenly:
    """A question without choices, with the options of :meth:`QuestionAnswerer.rank` or :meth:`OpenAnswerer.ask`."""

    question: str
    options: dict[str, Any]


class Outcome(NamedTuple):
    """The answer to a question as the UTF-8 text of a JSON document, or why there is none."""

    answer: bytes | Exception
    batch: int = 0  # questions that were computed together


class Unavailable(Exception):
    """A question cannot be computed now; it is worth trying again."""


class Computer(Protocol):
    """Where questions are computed.

    Attributes:
        at_once: Batches that are computed at the same time.
        running: Processes that would compute a question now.
    """

    at_once: int
    running: int

    def compute(self, model: ServedModel, asked: Sequence[Asked | AskedOpenly]) -> Iterator[tuple[int, Outcome]]:
        """The number of each question and its outcome, as they are computed."""


class Here:
    """Questions are computed in this process, a batch at a time."""

    at_once = running = 1

    def compute(self, model: ServedModel, asked: Sequence[Asked | AskedOpenly]) -> Iterator[tuple[int, Outcome]]:
        """The number of each question and its outcome; see :class:`Computer`."""
        return computed(model, asked)


def computed(model: ServedModel, asked: Sequence[Asked | AskedOpenly]) -> Iterator[tuple[int, Outcome]]:
    """Compute questions together. One at a time: those that add facts to the graph, since each has a graph of its own, and
    questions without choices, whose candidates are proposed first."""
    together: dict[int, Asked] = {}
    for number, one in enumerate(asked):
        if isinstance(one, AskedOpenly) or one.facts:
            yield number, _computed_alone(model, one)
        elif (error := _unknown_fact(model, one)) is not None:
            yield number, Outcome(error)
        else:
            together[number] = one
    if len(together) > 1:
        try:
            answers = model.qa.answer_all(list(together.values()))
        except Exception:  # one of them is the cause, and fails alone
            pass
        else:
            for number, answer in zip(together, answers, strict=True):
                yield number, Outcome(_json(answer), len(together))
            return
    for number, one in together.items():
        yield number, _computed_alone(model, one)


def _unknown_fact(model: ServedModel, asked: Asked) -> UserError | None:
    try:
        for fact in asked.without:
            stored_fact(model.graph, fact)
    except UserError as error:
        return error
    return None


def _computed_alone(model: ServedModel, asked: Asked | AskedOpenly) -> Outcome:
    try:
        return Outcome(_json(_answer(model, asked)), 1)
    except Exception as error:
        return Outcome(error, 1)


def _answer(model: ServedModel, asked: Asked | AskedOpenly) -> Answer:
    if isinstance(asked, Asked):
        return model.qa.answer_all([asked])[0]
    try:
        return model.qa.rank(asked.question, **asked.options)
    except UserError as error:
        option = error.option if isinstance(error, WrongOption) else "question"
        raise WrongOption(option, model.without_folders(str(error))) from None


def _json(answer: Answer) -> bytes:
    return strict_json(answer.to_dict()).encode()
