"""The calibration that is stored with a run."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter, ValidationError

from mhgrn.calibration.conformal import conformal_set, conformal_threshold, nonconformity
from mhgrn.calibration.temperature import HIGHEST, LOWEST, Floats, fit_temperature, softmax
from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text

CALIBRATION = "calibration.json"  # in the folder of a run
FORMAT = 1
FEWEST = 50  # questions; with fewer, the temperature stays 1
MOST = 10_000  # nonconformity scores; of more questions a random sample is kept


@dataclass(frozen=True)
class Calibration:
    """A temperature, and the nonconformity scores of the questions that it was fitted on.

    Args:
        temperature: Scores are divided by it.
        scores: In ascending order, see :mod:`mhgrn.calibration.conformal`.
        questions: The number of questions that the temperature was fitted on.
        source: Where the questions are from: a split of prepared data, or the name of a file.
        abstain_below: The least confidence of an answer that is sure enough, if a question names none.

    >>> Calibration(1.0, (0.1, 0.2, 0.3, 0.4), 4, "dev").prediction_set([0.2, 0.75, 0.05], best=1, coverage=0.6)
    [1]
    """

    temperature: float
    scores: tuple[float, ...]
    questions: int
    source: str
    abstain_below: float | None = None

    def prediction_set(self, probabilities: Sequence[float], best: int, coverage: float) -> list[int]:
        """The choices of a question that contain the right one with this probability; see :func:`conformal_set`."""
        return conformal_set(probabilities, conformal_threshold(self.scores, coverage), best)

    def reaches(self, coverage: float) -> bool:
        """Whether there are enough scores for a coverage; otherwise sets have all choices."""
        return (len(self.scores) + 1) * (1 - coverage) >= 1 - 1e-9

    def save(self, folder: Path) -> None:
        """Write it to the folder of a run."""
        write_text(folder / CALIBRATION, json.dumps({"format": FORMAT} | asdict(self)) + "\n")

    @classmethod
    def parse(cls, content: Any, path: Path) -> Self:
        """Read and check what :meth:`save` wrote."""
        try:
            if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
                raise UserError(f"it is not of format {FORMAT}")
            found = TypeAdapter(cls).validate_python(content)
            if not LOWEST <= found.temperature <= HIGHEST:
                raise UserError("the temperature is out of range")
            if found.abstain_below is not None and not 0 < found.abstain_below < 1:
                raise UserError("abstain_below is not between 0 and 1")
            if not all(0 <= a <= 1 for a in found.scores) or list(found.scores) != sorted(found.scores):
                raise UserError("the scores are no ascending numbers from 0 to 1")
        except (ValidationError, UserError) as error:
            why = "a wrong entry" if isinstance(error, ValidationError) else str(error)
            raise UserError(f"{path} is damaged ({why}); restore it, or write it again with `mhgrn calibrate`.") from None
        return found


def fit(scores: Sequence[Sequence[float] | Floats], answers: Sequence[int], source: str) -> Calibration:
    """Fit the temperature, and compute the nonconformity scores at this temperature.

    Args:
        scores: The scores of each question's choices, at temperature 1.
        answers: The right choice of each question.
        source: Where the questions are from.

    >>> fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], "dev").scores
    (0.11921, 0.11921, 0.11921, 0.8808)
    """
    temperature = fit_temperature(scores, answers) if len(scores) >= FEWEST else 1.0
    found = [nonconformity(float(softmax(of, temperature)[answer])) for of, answer in zip(scores, answers, strict=True)]
    if len(found) > MOST:
        found = np.random.default_rng(0).choice(found, MOST, replace=False).tolist()
    return Calibration(temperature, tuple(sorted(found)), len(scores), source)


def sure_from(confidences: Sequence[float], is_right: Sequence[bool], accuracy: float) -> float | None:
    """The least confidence, in whole per cent, from which on the share of right answers is at least ``accuracy``.

    Returns:
        A number between 0 and 1. None if the share is lower from every confidence on.

    >>> sure_from([0.3, 0.62, 0.7, 0.9], [False, False, True, True], accuracy=0.9)
    0.63
    """
    for per_cent in range(1, 100):
        given = [right for confidence, right in zip(confidences, is_right, strict=True) if confidence >= per_cent / 100]
        if given and sum(given) >= accuracy * len(given):
            return per_cent / 100
    return None
