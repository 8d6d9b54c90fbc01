"""Measure explanation methods on questions: one row of plain numbers per question, so that an interrupted measurement resumes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mhgrn.faithfulness import metrics
from mhgrn.faithfulness.explained import Explained
from mhgrn.faithfulness.limits import size_limits
from mhgrn.faithfulness.methods import Method, candidates, gradient, integrated
from mhgrn.faithfulness.metrics import SIZES, Floats, Ints, aopc, chosen, level_masks, probabilities, top_mask, unfaithfulness
from mhgrn.inference.altered import score_masks

SHOWN = 6  # facts of a shown explanation, at most
MOST = 0.5  # share of what the graph gave that an answer loses without a necessary set
MOVED = 0.1  # change of a probability that counts as a dependence on the graph

Row = dict[str, Any]


def measured(explained: Explained, methods: Sequence[Method], numbers: Sequence[int], with_limits: bool) -> list[Row]:
    """Measure methods on a batch of questions. Questions without facts give a row without methods.

    Args:
        explained: The questions.
        methods: The methods.
        numbers: The numbers of the questions in the dataset.
        with_limits: Also search for the attainable limits.
    """
    orders = {method.name: method.order(explained) for method in methods}
    score_masks([(masks, np.zeros((0, len(masks.facts)), dtype=bool)) for masks in explained.masks], without_graph=True)
    rows = [_row(explained, q, number) for q, number in enumerate(numbers)]
    sizes = [min(SHOWN, len(masks.facts)) for masks in explained.masks]
    for name, order in orders.items():
        asked = [(masks, _masks(of, size)) for masks, of, size in zip(explained.masks, order, sizes, strict=True)]
        for q, score in enumerate(score_masks(asked)):
            if len(explained.masks[q].facts):
                rows[q]["methods"][name] = _measures(explained, q, score.numpy(), rows[q])
    if "integrated" in orders:
        for q, row in enumerate(rows):
            row["completeness_gap"] = explained.completeness_gap(q)
    if with_limits:
        _add_limits(explained, rows)
    return rows


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
        "methods": {},
    }


def depends(row: Row) -> bool:
    """Whether the answer depends on the graph: without it, the answer changes, or its probability moves by more than 0.1."""
    return row["answer"] != row["answer_without_graph"] or abs(row["probability"] - row["without_graph"]) > MOVED


def _masks(order: Ints, size: int) -> metrics.Mask:
    """[2 · levels + 2, F] the first facts of an order removed at each level, kept at each level, and removed and kept as shown."""
    first = level_masks(order) if len(order) else np.zeros((len(metrics.LEVELS), 0), dtype=bool)
    shown = top_mask(order, size)[None]
    return np.concatenate([~first, first, ~shown, shown])


def _measures(explained: Explained, q: int, score: Floats, row: Row) -> dict[str, Any]:
    """What a method's order of facts gives: lists over ``LEVELS``, and the shown facts."""
    masks, answer, levels = explained.masks[q], explained.read.best[q], len(metrics.LEVELS)
    removed, kept, shown_removed, shown_kept = score[:levels], score[levels : 2 * levels], score[-2], score[-1]
    off = masks.without_graph.numpy()
    return {
        "removed": probabilities(removed)[:, answer].tolist(),
        "kept": probabilities(kept)[:, answer].tolist(),
        "removed_flips": (chosen(removed) != answer).tolist(),
        "kept_flips": (chosen(kept) != answer).tolist(),
        "unfaithfulness": unfaithfulness(masks.score.numpy(), kept).tolist(),
        "graph_agrees": (chosen(kept - off) == answer).tolist(),
        "sufficient": bool(chosen(shown_kept) == answer),
        "necessary": is_necessary(float(probabilities(shown_removed)[answer]), bool(chosen(shown_removed) != answer), row),
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


def _add_limits(explained: Explained, rows: Sequence[Row]) -> None:
    """Add the smallest and largest area over the perturbation curve that any order reaches, as far as it is searched."""
    some = [q for q, row in enumerate(rows) if row["facts"]]
    pool = candidates(explained)
    weighs = explained.scorer.run.model.graph_encoder.weighs_edges
    reversed_orders = [[order[::-1] for order in of(explained)] for of in (gradient, integrated)] if weighs else []
    backwards = [
        [score.numpy() for score in score_masks([(m, _masks(o, 1)) for m, o in zip(explained.masks, orders, strict=True)])]
        for orders in reversed_orders
    ]
    for kind, remove in (("removed", True), ("kept", False)):
        limits = size_limits(explained, pool, remove)
        for q in some:
            answer, full = explained.read.best[q], rows[q]["probability"]
            half = slice(0, len(metrics.LEVELS)) if remove else slice(len(metrics.LEVELS), 2 * len(metrics.LEVELS))
            falls = [full - np.array(of[kind]) for of in rows[q]["methods"].values()]
            falls += [full - probabilities(score[q][half])[:, answer] for score in backwards]
            by_size = [float(aopc(fall[: len(SIZES)])) for fall in falls]
            by_share = [float(aopc(fall[len(SIZES) :])) for fall in falls]
            low, high = limits[q]
            found = rows[q].setdefault("limits", {})
            found[kind] = {
                "sizes": [min(low, *by_size), max(high, *by_size)],
                "shares": [min(by_share), max(by_share)],
            }
