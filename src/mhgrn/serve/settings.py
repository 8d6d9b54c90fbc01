"""The settings of the service, and the limits of requests."""

from dataclasses import dataclass

from mhgrn.text.packed import TextPrecision


@dataclass(frozen=True)
class Limits:
    """The largest request that is accepted. They bound the time and memory of an answer."""

    question: int = 10_000  # characters
    choice: int = 1_000  # characters
    choices: int = 100
    facts: int = 100  # added, and as many left out
    name: int = 200  # characters of a concept or relation
    paths: int = 100
    ranked: int = 30  # answers to a question without choices
    questions: int = 50  # of ask_many
    body: int = 1 << 18  # bytes


@dataclass(frozen=True)
class ServeSettings:
    """Settings of the service.

    Args:
        queue: Questions that may wait. Further ones are refused with 503.
        batch: Questions that are computed together, at most.
        deadline: Seconds after which a question is given up.
        token: The bearer token that requests to ``/v1`` must have. None: no token is needed.
        text_memory: Bytes of text vectors that each model keeps.
        text_precision: Of the text encoders: float32, or int8, which is faster on a processor.
        log: Write a line of JSON to standard error for each request.
        log_questions: Also log the questions and choices.
    """

    queue: int = 64
    batch: int = 16
    deadline: float = 30.0
    token: str | None = None
    text_memory: int = 64 << 20
    text_precision: TextPrecision = "float32"
    log: bool = True
    log_questions: bool = False
    limits: Limits = Limits()
