"""Measure a run on a split of prepared data."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from mhgrn.calibration import Calibration, measure
from mhgrn.compiled.threads import one_ahead
from mhgrn.errors import UserError
from mhgrn.progress import track
from mhgrn.runs import Run
from mhgrn.scoring import TIED, best_choice
from mhgrn.subgraphs.prepared import PreparedData, edges_between
from mhgrn.training.checks import explaining_memory_errors
from mhgrn.training.examples import Examples

COVERAGES = (0.8, 0.9, 0.95)  # of the sets of choices that are measured


def evaluate(
    run: Run | str | Path, data: PreparedData | str | Path, split: str, device: str | torch.device | None = None
) -> dict[str, Any]:
    """Measure the accuracy of a run on a split, that of the edge-count baseline, and how far its probabilities can be trusted.

    Args:
        run: The run, or its folder.
        data: Data that was prepared from the run's graph, or its folder.
        split: ``"train"``, ``"dev"`` or ``"test"``; its questions need answers.
        device: Where the model computes. By default a CUDA device if there is one, otherwise the CPU.

    Returns:
        ``split``, ``questions`` (their number), ``accuracy``, ``most_edges``, the accuracy of the baseline, and ``calibration``:
        the run's ``temperature``, the measures of :func:`mhgrn.calibration.measure`, and for a calibrated run, at several
        coverages, how many sets of choices contain the right one and how large they are.

    >>> evaluate("run", "prepared", "dev")["accuracy"]  # doctest: +SKIP
    0.62
    """
    if isinstance(run, str | Path):
        run = Run.load(run)
    if not isinstance(run, Run):
        raise TypeError(f"run is of type {type(run).__name__}; give a Run or its folder.")
    data = as_data(data)
    require_same_graph(run, data)
    with explaining_memory_errors(run.config):
        examples = Examples(data, run, device or ("cuda" if torch.cuda.is_available() else "cpu"))
        answers = [int(data.questions[q].answer or 0) for q in data.answered_split(split)]
        shares = split_probabilities(examples, split)
    temperature = examples.scorer.temperature
    chosen = [best_choice(of, temperature) for of in shares]
    sets = [] if run.calibration is None else set_coverages(run.calibration, shares, chosen, answers)
    return {
        "split": split,
        "questions": len(answers),
        "accuracy": sum(map(int.__eq__, chosen, answers)) / len(answers),
        "most_edges": most_edges_accuracy(data, split),
        "calibration": {"temperature": temperature, **measure(shares, chosen, answers), "prediction_sets": sets},
    }


def set_coverages(
    calibration: Calibration, shares: Sequence[Sequence[float]], chosen: Sequence[int], answers: Sequence[int]
) -> list[dict[str, float]]:
    """How often sets of choices contain the right one, and their mean size, at the coverages ``COVERAGES``."""
    found = []
    for coverage in COVERAGES:
        sets = [calibration.prediction_set(of, best, coverage) for of, best in zip(shares, chosen, strict=True)]
        contains = sum(answer in inside for inside, answer in zip(sets, answers, strict=True)) / len(sets)
        found.append({"coverage": coverage, "contains_answer": contains, "mean_size": sum(map(len, sets)) / len(sets)})
    return found


def as_data(data: object) -> PreparedData:
    """Prepared data that a caller gave as such or as its folder."""
    if isinstance(data, str | Path):
        return PreparedData.load(data)
    if not isinstance(data, PreparedData):
        raise TypeError(f"data is of type {type(data).__name__}; give PreparedData (see mhgrn.prepare) or its folder.")
    return data


def split_probabilities(examples: Examples, split: str) -> list[list[float]]:
    """The probability of every choice of a split's questions."""
    return [torch.softmax(torch.tensor(of, dtype=torch.float64), 0).tolist() for of in split_scores(examples, split)]


def split_scores(examples: Examples, split: str) -> list[list[float]]:
    """The score of every choice of a split's questions."""
    questions, run = list(examples.data.split(split)), examples.run
    run.model.eval()
    run.encoder.eval()
    found: list[list[float]] = []
    size = run.config.training.eval_batch
    parts = [questions[start : start + size] for start in range(0, len(questions), size)]
    with torch.inference_mode():
        for batch in track(one_ahead(parts, examples.batch), f"{run.folder}", len(parts)):
            score = examples.scores(batch, live_text=run.config.text.frozen_epochs is not None)
            found += [part.tolist() for part in torch.split(score.double().cpu(), torch.bincount(batch.question).tolist())]
    return found


def count_right(examples: Examples, questions: Sequence[int], live_text: bool, each: Callable[[], None] = lambda: None) -> int:
    """Count the questions whose right choice scores highest. ``each`` is called before every batch."""
    examples.run.model.eval()
    examples.run.encoder.eval()
    size = examples.run.config.training.eval_batch
    right = 0
    with torch.inference_mode():
        parts = [questions[start : start + size] for start in range(0, len(questions), size)]
        for batch in one_ahead(parts, examples.batch):
            each()
            score = examples.scores(batch, live_text).double()
            top = score.new_full((len(batch.first),), -torch.inf).scatter_reduce(0, batch.question, score, "amax")
            best = (score >= top[batch.question] + math.log1p(-TIED)).nonzero()[:, 0]  # see best_choice
            chosen = torch.full_like(batch.first, len(score)).scatter_reduce(0, batch.question[best], best, "amin")
            right += int((chosen == batch.answer).sum())
    return right


def accuracy(examples: Examples, split: str, live_text: bool) -> float:
    """The share of a split's questions whose right choice scores highest."""
    questions = examples.data.answered_split(split)
    return count_right(examples, questions, live_text) / len(questions)


def most_edges_accuracy(data: PreparedData, split: str) -> float:
    """The edge-count baseline: the choice whose concepts have most edges to the question's. t tied choices count 1/t each."""
    total = 0.0
    for q in data.answered_split(split):
        counts = [edges_between(subgraph) for subgraph in data.subgraphs(q)]
        best = [c for c, count in enumerate(counts) if count == max(counts)]
        total += (data.questions[q].answer in best) / len(best)
    return total / len(data.split(split))


def require_same_graph(run: Run, data: PreparedData) -> None:
    """Refuse data that was prepared from another graph than the run's."""
    if data.about["graph_fingerprint"] != run.graph.fingerprint:
        raise UserError(f"{data.folder} was prepared from another graph than the run's; prepare the questions again.")
