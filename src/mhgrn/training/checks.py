"""Detect failures of training: nothing is learned, numbers overflow, memory runs out."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.training.checkpoints import Place

# nothing is learned if the mean loss and each question's loss are this close to those of guessing, relatively
AT_CHANCE, EACH_AT_CHANCE = 0.005, 0.05
OUT_OF_MEMORY = ("allocate memory", "not enough memory", "out of memory")


def check_finite(loss: float, norm: float, place: Place, config: Config) -> None:
    """Stop if the loss or its gradient is not finite. (With float16 the gradient may overflow; the step is then skipped.)"""
    what = "the loss" if not math.isfinite(loss) else "the gradient's norm"
    if math.isfinite(loss) and (math.isfinite(norm) or config.training.precision == "float16"):
        return
    rates = "training.learning_rate" + (" and text.learning_rate" if config.text.frozen_epochs is not None else "")
    raise UserError(
        f"{what} is {norm if math.isfinite(loss) else loss} at step {place.step} (epoch {place.epoch + 1}): try smaller {rates},"
        " or training.schedule=warmup_linear; look also for infinite values in the node features."
    )


def beats_guessing(accuracy: float, guess: float, questions: int) -> bool:
    """Whether an accuracy is more than three standard deviations above that of guessing.

    >>> beats_guessing(0.40, 0.2, 400), beats_guessing(0.25, 0.2, 400)
    (True, False)
    """
    return accuracy > guess + 3 * math.sqrt(guess * (1 - guess) / questions)


def collapse(place: Place, config: Config, has_learnt: bool = False) -> str | None:
    """What is wrong with an epoch in which the model scored all choices alike, and what to try; None if nothing is.

    A model that ``has_learnt`` can still have small scores, and so a loss near that of guessing.
    """
    advice = "try a smaller training.learning_rate, training.schedule=warmup_linear or another seed"
    if config.text.frozen_epochs is not None:
        advice = "try a smaller text.learning_rate, training.schedule=warmup_linear, more text.frozen_epochs or another seed"
    if place.spread < 1e-6:
        return f"every choice of every question got the same score; {advice}."
    if has_learnt:
        return None
    guess = place.chance / place.questions
    loss = place.loss / place.questions
    if abs(loss - guess) < AT_CHANCE * guess and place.from_chance / place.questions < EACH_AT_CHANCE * guess:
        return f"the loss of every question stayed near {guess:.3f}, that of guessing; if this continues, {advice}."
    return None


@contextmanager
def explaining_memory_errors(config: Config) -> Iterator[None]:
    """Report that memory ran out in one line, with the settings that need less."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        text = str(error)
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and not any(part in text for part in OUT_OF_MEMORY):
            raise
        settings = config.training
        at_once = settings.micro_batch or settings.batch_size
        reason = text.strip().splitlines()[0] if text.strip() else type(error).__name__
        raise UserError(
            f"out of memory with {at_once} questions at once: set training.micro_batch to fewer (a step still learns from its whole"
            f" batch), and training.eval_batch (now {settings.eval_batch}) if it happens after an epoch's steps. `mhgrn prepare"
            f" --max-nodes` makes subgraphs smaller. ({reason})"
        ) from None
