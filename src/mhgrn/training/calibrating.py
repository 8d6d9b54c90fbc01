"""Fit the temperature of a trained run, and store what sets of choices need."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mhgrn.calibration import fit, measure, softmax, sure_from
from mhgrn.errors import UserError
from mhgrn.inference import Asked, QuestionAnswerer
from mhgrn.io.locks import locked
from mhgrn.io.remote import refuse_fetched
from mhgrn.printing import shortened
from mhgrn.progress import track
from mhgrn.questions.question import Question
from mhgrn.runs import Run
from mhgrn.scoring import best_choice
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.checks import explaining_memory_errors
from mhgrn.training.evaluation import require_same_graph, split_scores
from mhgrn.training.examples import Examples

BATCH = 64  # questions that are scored together


def calibrate(
    run: Run | str | Path,
    data: PreparedData | str | Path | Iterable[Question],
    split: str = "dev",
    device: str | torch.device | None = None,
    source: str | None = None,
    accuracy: float | None = None,
) -> dict[str, Any]:
    """Fit the temperature of a run, and store it in the run's folder with the scores that sets of choices need.

    Scores are divided by the temperature, which changes probabilities and no choice. It minimizes the negative log-likelihood of
    the right choices. With fewer than 50 questions it stays 1.

    Args:
        run: The run, or its folder. A calibration that it has is replaced.
        data: Data that was prepared from the run's graph, or its folder; or questions with answers.
        split: The split of prepared data.
        device: Where the model computes. By default a CUDA device if there is one, otherwise the CPU.
        source: The name that is stored for the questions. By default the split.
        accuracy: Also store the least confidence from which on this share of the answers is right. Less confident answers then say
            that they are not sure enough.

    Returns:
        ``temperature``, ``questions`` (their number), ``source``, ``accuracy``, ``abstain_below``, and the measures of
        :func:`mhgrn.calibration.measure` ``before`` and ``after``.

    >>> calibrate("run", "prepared")["temperature"]  # doctest: +SKIP
    1.41
    """
    run = Run.load(run) if isinstance(run, str | Path) else run
    refuse_fetched(run.folder, "a calibration")
    data = PreparedData.load(data) if isinstance(data, str | Path) else data
    busy = f"another process is using {run.folder}; wait for it."
    with locked(run.folder.with_name(f".{run.folder.name}.lock"), busy=busy), explaining_memory_errors(run.config):
        return store_calibration(run, data, split, device or ("cuda" if torch.cuda.is_available() else "cpu"), source, accuracy)


def store_calibration(
    run: Run,
    data: PreparedData | Iterable[Question],
    split: str,
    device: str | torch.device,
    source: str | None = None,
    accuracy: float | None = None,
) -> dict[str, Any]:
    """As :func:`calibrate`, for a caller who has the lock of the run."""
    plain = replace(run, calibration=None)
    if isinstance(data, PreparedData):
        require_same_graph(run, data)
        asked = [data.questions[q] for q in data.answered_split(split)]
        examples = Examples(data, plain, device)
        examples.report_no_limit()
        scores = split_scores(examples, split)
    else:
        asked = _answered(list(data))
        scores = _scores(QuestionAnswerer(plain, device), asked)
    answers = [question.answer for question in asked if question.answer is not None]
    found = fit(scores, answers, source or (split if isinstance(data, PreparedData) else "questions"))
    shares = {name: [softmax(of, by) for of in scores] for name, by in (("before", 1.0), ("after", found.temperature))}
    chosen = [best_choice(of.tolist()) for of in shares["before"]]
    if accuracy is not None:
        confidences = [float(of[best]) for of, best in zip(shares["after"], chosen, strict=True)]
        found = replace(found, abstain_below=sure_from(confidences, list(map(int.__eq__, chosen, answers)), accuracy))
    found.save(run.folder)
    run.calibration = found
    return {
        "temperature": found.temperature,
        "questions": found.questions,
        "source": found.source,
        "accuracy": sum(map(int.__eq__, chosen, answers)) / len(answers),
        "abstain_below": found.abstain_below,
        **{name: measure(of, chosen, answers) for name, of in shares.items()},
    }


def _scores(qa: QuestionAnswerer, questions: list[Question]) -> list[list[float]]:
    """The score of every choice of questions."""
    found: list[list[float]] = []
    starts = range(0, len(questions), BATCH)
    for start in track(iter(starts), "scoring", len(starts)):
        batch = questions[start : start + BATCH]
        score = qa.read([Asked(question, effects=False) for question in batch]).score.double().cpu()
        found += [part.tolist() for part in torch.split(score, [len(question.choices) for question in batch])]
    return found


def _answered(questions: list[Question]) -> list[Question]:
    if not questions:
        raise UserError("there are no questions to calibrate on.")
    missing = [question for question in questions if question.answer is None]
    if missing:
        raise UserError(
            f"{len(missing):,} of {len(questions):,} questions have no answer, the first is {shortened(missing[0].id)}; calibration"
            " needs answers."
        )
    return questions
