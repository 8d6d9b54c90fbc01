"""Measure explanation methods on questions: one row of plain numbers per question, so that an interrupted measurement resumes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mhgrn.explain.judge import MOST, MOVED
from mhgrn.explain.smallest_set import MOST_FACTS
from mhgrn.faithfulness.explained import Explained
from mhgrn.faithfulness.limits import size_limits
from mhgrn.faithfulness.methods import Method, candidates, gradient, integrated
from mhgrn.faithfulness.metrics import (
    LEVELS,
    SIZES,
    Floats,
    Ints,
    Mask,
    aopc,
    chosen,
    level_sizes,
    probabilities,
    top_mask,
    unfaithfulness,
)
from mhgrn.inference.altered import score_masks

Row = dict[str, Any]


def base_rows(explained: Explained, numbers: Sequence[int]) -> list[Row]:
    """What the model answers with and without the graph; ``numbers`` are those of the questions in the dataset."""
    score_masks([(masks, np.zeros((0, len(masks.facts)), dtype=bool)) for masks in explained.masks], without_graph=True)
    return [_row(explained, q, number) for q, number in enumerate(numbers)]


def measured(explained: Explained, method: Method, rows: Sequence[Row]) -> list[Row | None]:
    """Measure a method on a batch of questions, whose rows are given; None for a question without facts."""
    orders = method.order(explained)
    asked = [(masks, _masks(order)) for masks, order in zip(explained.masks, orders, strict=True)]
    found: list[Row | None] = []
    for q, score in enumerate(score_masks(asked)):
        if not len(explained.masks[q].facts):
            found.append(None)
            continue
        size = {} if method.size is None else {"size": method.size(explained, q)}
        found.append(_measures(explained, q, score.numpy(), rows[q]) | size)
    return found


def _row(explained: Explained, q: int, number: int) -> Row:
    masks, answer = explained.masks[q], explained.read.best[q]
    question = explained.read.asked[q].question
    off = masks.without_graph.numpy()
    return {
        "question": number,
        "id": question.id,
        "facts": len(masks.facts),
        "right": question.answer,
        "answer": answer,
        "probability": float(probabilities(masks.score.numpy())[answer]),
        "without_graph": float(probabilities(off)[answer]),
        "answer_without_graph": int(chosen(off)),
        "graph_choice": int(chosen(masks.score.numpy() - off)),
    }


def depends(row: Row) -> bool:
    """Whether the answer depends on the graph: without it, the answer changes, or its probability moves by more than 0.1."""
    return bool(row["answer"] != row["answer_without_graph"] or abs(row["probability"] - row["without_graph"]) > MOVED)


def _masks(order: Ints) -> Mask:
    """[M, F] the first facts of an order removed, then kept, at each level; and the same for 1 … ``MOST_FACTS`` facts."""
    first = np.stack([top_mask(order, size) for size in [*level_sizes(len(order)), *range(1, MOST_FACTS + 1)]])
    levels = len(LEVELS)
    return np.concatenate([~first[:levels], first[:levels], ~first[levels:], first[levels:]])


def _measures(explained: Explained, q: int, score: Floats, row: Row) -> Row:
    """What a method's order of facts gives: lists over ``LEVELS``, and over 1 … ``MOST_FACTS`` shown facts."""
    masks, answer, levels = explained.masks[q], explained.read.best[q], len(LEVELS)
    removed, kept, shown_removed, shown_kept = np.split(score, [levels, 2 * levels, 2 * levels + MOST_FACTS])
    without = probabilities(shown_removed)[:, answer].tolist()
    flips = (chosen(shown_removed) != answer).tolist()
    return {
        "removed": probabilities(removed)[:, answer].tolist(),
        "kept": probabilities(kept)[:, answer].tolist(),
        "removed_flips": (chosen(removed) != answer).tolist(),
        "kept_flips": (chosen(kept) != answer).tolist(),
        "unfaithfulness": unfaithfulness(masks.score.numpy(), kept).tolist(),
        "graph_agrees": (chosen(kept - masks.without_graph.numpy()) == answer).tolist(),
        "sufficient": (chosen(shown_kept) == answer).tolist(),
        "necessary": [is_necessary(p, flip, row) for p, flip in zip(without, flips, strict=True)],
    }


def is_necessary(probability: float, flips: bool, row: Row) -> bool:
    """Whether an answer changes without some facts, or loses most of what the graph gave it.

    Args:
        probability: Of the answer without the facts.
        flips: Whether another choice becomes the answer.
        row: The answer's probability with all facts, and without the graph.
    """
    gave = row["probability"] - row["without_graph"]
    return flips or (gave > 0 and row["probability"] - probability > MOST * gave)


def limits(explained: Explained, rows: Sequence[Row]) -> list[Row]:
    """The smallest and largest area over the perturbation curve that any order reaches, as far as it is searched.

    For shares of the facts only two orders are tried, the reverse ones of the gradient and of the integrated gradients.
    """
    pool = candidates(explained)
    weighs = explained.scorer.run.model.graph_encoder.weighs_edges
    backwards = []
    for order_of in (gradient, integrated) if weighs else ():
        asked = [(masks, _masks(order[::-1])) for masks, order in zip(explained.masks, order_of(explained), strict=True)]
        backwards.append([score.numpy() for score in score_masks(asked)])
    found: list[Row] = [{} for _ in rows]
    for kind, remove in (("removed", True), ("kept", False)):
        by_size = size_limits(explained, pool, remove)
        levels = slice(len(SIZES), len(LEVELS)) if remove else slice(len(LEVELS) + len(SIZES), 2 * len(LEVELS))
        for q, row in enumerate(rows):
            answer = explained.read.best[q]
            areas = [float(aopc(row["probability"] - probabilities(score[q][levels])[:, answer])) for score in backwards]
            found[q][kind] = {"sizes": list(by_size[q]), "shares": [min(areas), max(areas)] if areas else None}
    return found
