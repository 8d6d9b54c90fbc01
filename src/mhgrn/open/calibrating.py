"""Calibrate a run of open questions, and measure its calibration."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mhgrn.errors import UserError
from mhgrn.io.locks import locked
from mhgrn.io.remote import refuse_fetched
from mhgrn.open.certainty import Judged, can_cover, confidence_at, covering, fit_open, measure_open
from mhgrn.open.data import OpenData, answer_concepts
from mhgrn.open.evaluation import Array, evaluate_open, ranked_batches
from mhgrn.open.run import OpenRun
from mhgrn.questions.open import OpenQuestion

MOST_QUESTIONS = 1_000  # that a model without sets is calibrated on, since all scores are kept; of more, a random sample
COVERAGES = (0.8, 0.9, 0.95)  # of the sets of answers that are measured


def calibrate_open(
    run: OpenRun | str | Path, data: OpenData | str | Path | Iterable[OpenQuestion], split: str = "dev", source: str | None = None
) -> dict[str, Any]:
    """Fit the temperature of a run of open questions, and store it in the run's folder with what sets with a coverage need.

    Rankings and sets of answers stay as they are. With fewer than 50 questions the temperature stays 1.

    Args:
        run: The run, or its folder. A calibration that it has is replaced.
        data: Open questions that were prepared from the run's graph, or their folder; or questions with answers.
        split: The split of prepared data.
        source: The name that is stored for the questions. By default the split.

    Returns:
        ``temperature``, ``questions`` (their number), ``source``, ``accuracy`` (hits@1), ``reached`` (the share of questions whose
        right answers walks reach), and the measures of :func:`~mhgrn.open.certainty.measure_open` ``before`` and ``after``.
    """
    run = run if isinstance(run, OpenRun) else OpenRun.load(run)
    refuse_fetched(run.folder, "a calibration")
    topics, texts, answers, named = _questions(run, OpenData.load(data) if isinstance(data, str | Path) else data, split)
    bias = run.set_bias
    if bias is None and len(texts) > MOST_QUESTIONS:
        chosen = np.sort(np.random.default_rng(0).permutation(len(texts))[:MOST_QUESTIONS]).tolist()
        topics, texts, answers = ([column[q] for q in chosen] for column in (topics, texts, answers))  # type: ignore[assignment]
    found = zip(ranked_batches(run, topics, texts, "scoring"), answers, strict=True)
    judged = [Judged.of(concepts, scores.astype(np.float32), right, bias) for (concepts, scores), right in found]
    fitted = fit_open(judged, bias, source or named)
    with locked(run.folder.with_name(f".{run.folder.name}.lock"), busy=f"another process is using {run.folder}; wait for it."):
        fitted.save(run.folder)
    run.calibration = fitted
    right = [one.is_right for one in judged]
    sure = {
        name: [confidence_at(one.scores, bias, by) for one in judged]
        for name, by in (("before", 1.0), ("after", fitted.temperature))
    }
    return {
        "temperature": fitted.temperature,
        "questions": fitted.questions,
        "source": fitted.source,
        "accuracy": float(np.mean(right)),
        "reached": float(np.mean([one.worst > -np.inf for one in judged])),
        **{name: measure_open(of, right) for name, of in sure.items()},
    }


def _questions(
    run: OpenRun, data: OpenData | Iterable[OpenQuestion], split: str
) -> tuple[list[Array], list[str], list[Array], str]:
    """The topics, texts and right answers of questions, and what to call them."""
    if isinstance(data, OpenData):
        if data.about["graph_fingerprint"] != run.graph.fingerprint:
            raise UserError(f"{data.folder} was prepared from another graph than the run's; prepare the questions again.")
        numbers = data.answered_split(split)
        return [data.topics[q] for q in numbers], [data.texts[q] for q in numbers], [data.answers[q] for q in numbers], split
    asked = list(data)
    if not asked or not all(one.answers for one in asked):
        raise UserError("calibration needs questions, all of which have an answer.")
    topics = [run.topics.find_known(one.stem) for one in asked]
    answers = [answer_concepts(one.answers, run.graph, run.topics) for one in asked]
    return [np.array(one.concepts, dtype=np.int64) for one in topics], [one.text for one in topics], answers, "questions"


def evaluate_certainty(run: OpenRun, data: OpenData, split: str, label: str | None = None) -> dict[str, Any]:
    """Measure a run as :func:`evaluate_open` does, and how far its confidence can be trusted, in one pass over the questions.

    Returns:
        The measures of :func:`evaluate_open`, and ``calibration``: ``temperature``, the measures of :func:`measure_open`, and for a
        calibrated run ``prediction_sets``: at several coverages, how many sets contain all right answers, and how large they are.
    """
    sure: list[float] = []
    right: list[float] = []
    inside: dict[float, list[tuple[bool, int]]] = {coverage: [] for coverage in COVERAGES if run.calibration is not None}

    def seen(concepts: Array, scores: Array, answers: Array) -> None:
        sure.append(confidence_at(scores, run.set_bias, run.temperature))
        right.append(Judged.of(concepts, scores, answers, run.set_bias).is_right)
        for coverage, rows in inside.items():
            found = covering(run, concepts, scores, coverage)
            rows.append((len(answers) > 0 and bool(np.isin(answers, found).all()), len(found)))

    result = evaluate_open(run, data, split, label, seen)
    sets = [_measured(coverage, rows, run) for coverage, rows in inside.items()]
    return result | {
        "calibration": {"temperature": run.temperature, **measure_open(sure, right), "prediction_sets": sets},
    }


def _measured(coverage: float, rows: Sequence[tuple[bool, int]], run: OpenRun) -> dict[str, Any]:
    assert run.calibration is not None
    return {
        "coverage": coverage,
        "contains_answer": sum(contains for contains, _ in rows) / len(rows),
        "mean_size": sum(size for _, size in rows) / len(rows),
        "possible": can_cover(run.calibration, coverage),
    }
