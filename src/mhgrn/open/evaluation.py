"""Measures of rankings: hits, mean reciprocal rank, and F1 of the set of answers."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.open.data import OpenData
from mhgrn.open.model import Ranked
from mhgrn.open.run import OpenRun
from mhgrn.progress import track

Array = NDArray[Any]
TIED = 1e-9  # scores that are nearer to each other are equal: their last digits depend on the order of sums


class Measures(NamedTuple):
    """The measures of one question, each from 0 to 1."""

    hits_at_1: float
    hits_at_10: float
    mrr: float
    set_f1: float
    set_exact: float


def measures(concepts: Array, scores: Array, answers: Array, chosen: Array) -> Measures:
    """The measures of one question.

    The rank of the best right answer is its expected rank if candidates with the same score are in random order, so that no order
    of concepts is preferred. Right answers do not push each other down.

    Args:
        concepts: The candidates.
        scores: Their scores.
        answers: The right answers; those that are not candidates count as missed.
        chosen: The candidates that the model gives as the set of answers.

    >>> measures(np.array([1, 2, 3]), np.array([0.5, 2.0, 1.0]), np.array([3]), np.array([2]))
    Measures(hits_at_1=0.0, hits_at_10=1.0, mrr=0.5, set_f1=0.0, set_exact=0.0)
    """
    is_right = np.isin(concepts, answers)
    both = int(np.isin(chosen, answers).sum())
    f1 = 2 * both / (len(chosen) + len(answers)) if len(chosen) + len(answers) else 1.0
    exact = float(both == len(chosen) == len(answers))
    if not is_right.any():
        return Measures(0.0, 0.0, 0.0, f1, exact)
    top = scores[is_right].max()
    better = int((scores > top + TIED).sum())
    near = np.abs(scores - top) <= TIED
    wrong, right = int((near & ~is_right).sum()), int((near & is_right).sum())
    before = np.arange(wrong + 1)  # wrong candidates before the first right one, among wrong + right in random order
    none_yet = np.concatenate([[1.0], np.cumprod((wrong - before[:-1]) / (wrong + right - before[:-1]))])
    chances, ranks = none_yet * right / (wrong + right - before), better + 1 + before
    at_1, at_10 = (float(chances[ranks <= most].sum()) for most in (1, 10))
    return Measures(at_1, at_10, float((chances / ranks).sum()), f1, exact)


def chosen_set(concepts: Array, scores: Array, bias: float | None) -> Array:
    """The set of answers: all candidates with σ(score + bias) ≥ 1/2, or the best one if there are none or ``bias`` is None."""
    if not len(concepts):
        return concepts
    found: Array = concepts[scores + bias >= 0] if bias is not None else concepts[:0]
    return found if len(found) else concepts[[int(scores.argmax())]]


def ranked_batches(run: OpenRun, topics: Sequence[Array], texts: Sequence[str], label: str = "") -> Any:
    """Yield the concepts and scores of each question, in batches, with progress if it has a label."""
    size = run.config.training.eval_batch
    starts = range(0, len(texts), size)
    with torch.inference_mode():
        for start in track(starts, label) if label else starts:
            part = slice(start, start + size)
            ranked = run.model.rank(run.walker, topics[part], run.vectors(texts[part]), run.nodes)
            yield from split_ranking(ranked)


def split_ranking(ranked: Ranked) -> list[tuple[Array, Array]]:
    """The concepts and scores of each question."""
    ptr, scores = ranked.reached.ptr, ranked.scores.detach().numpy()
    return [(ranked.reached.concepts[a:b], scores[a:b]) for a, b in pairwise(ptr.tolist())]


def evaluate_open(
    run: OpenRun, data: OpenData, split: str, label: str | None = None, seen: Callable[[Array, Array, Array], None] | None = None
) -> dict[str, Any]:
    """Measure a run on a split of open questions.

    Args:
        run: The run.
        data: Prepared open questions.
        split: Its split.
        label: Of the progress bar. By default the folder of the run.
        seen: Called with the candidates, scores and right answers of each question.

    Returns:
        ``split``, ``questions`` (their number), ``hits_at_1``, ``hits_at_10``, ``mrr``, ``set_f1``, ``set_exact`` and
        ``reached``, the share of the questions with a right answer among the candidates.
    """
    if data.about["graph_fingerprint"] != run.graph.fingerprint:
        raise UserError(f"{data.folder} was prepared from another graph than the run's; prepare the questions again.")
    numbers = data.answered_split(split)
    run.model.eval()
    bias = run.set_bias
    texts, topics = [data.texts[q] for q in numbers], [data.topics[q] for q in numbers]
    run.vectors(texts, keep=True)  # many questions have the same pattern, which is encoded once
    rows, reached = [], 0
    found = ranked_batches(run, topics, texts, f"{run.folder}" if label is None else label)
    for q, (concepts, scores) in zip(numbers, found, strict=True):
        answers = data.answers[q]
        if seen is not None:
            seen(concepts, scores, answers)
        missing = max(0, len(data.questions[q].answers) - len(answers)) if not len(answers) else 0
        rows.append(measures(concepts, scores, answers if not missing else np.array([-1]), chosen_set(concepts, scores, bias)))
        reached += bool(np.isin(answers, concepts).any())
    means = Measures(*(float(np.mean(column)) for column in zip(*rows, strict=True)))
    return {"split": split, "questions": len(numbers), **means._asdict(), "reached": reached / len(numbers)}
