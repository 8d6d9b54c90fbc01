"""Rankings of the concepts that walks reach, without training."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from mhgrn.progress import track

if TYPE_CHECKING:
    from mhgrn.open.data import OpenData
    from mhgrn.open.recursion import Reached

Baseline = Literal["names", "walks", "short-walks"]
"""Nearest names: the cosine of question and name by the text encoder. Most walks: the number of walks, or the number of walks where
each further fact divides the weight of a walk by the number of relations and their reverses."""

HOPS, BATCH = 2, 16


def measured(baseline: Baseline, data: "OpenData", split: str) -> dict[str, float]:
    """The measures of a ranking without training, on a split: those of :func:`mhgrn.open.evaluation.evaluate_open`."""
    import torch

    from mhgrn.open.evaluation import Measures, measures
    from mhgrn.open.moves import Moves
    from mhgrn.open.recursion import Walker

    graph, numbers = data.load_graph(), list(data.answered_split(split))
    walker = Walker(Moves.of(graph))
    labels = walker.moves.labels
    share = 1.0 if baseline == "walks" else 1.0 / labels
    score = _by_names(data) if baseline == "names" else _by_walks
    rows, found = [], 0
    with torch.inference_mode():
        for start in track(range(0, len(numbers), BATCH), f"{baseline}, {split}"):
            part = numbers[start : start + BATCH]
            attention = torch.full((len(part), HOPS, labels), share, dtype=torch.float64)
            reached = walker.reach([data.topics[q] for q in part], attention)
            scores = score(reached, part)
            for place, q in enumerate(part):
                own = slice(int(reached.ptr[place]), int(reached.ptr[place + 1]))
                answers = data.answers[q] if len(data.answers[q]) else np.array([-1])
                best = (
                    reached.concepts[own][[int(scores[own].argmax())]]
                    if reached.ptr[place] < reached.ptr[place + 1]
                    else answers[:0]
                )
                rows.append(measures(reached.concepts[own], scores[own], answers, best))
                found += bool(np.isin(answers, reached.concepts[own]).any())
    means = Measures(*(float(np.mean(column)) for column in zip(*rows, strict=True)))
    return {"questions": len(numbers), **means._asdict(), "reached": found / len(numbers)}


def _by_walks(reached: "Reached", _: list[int]) -> NDArray[Any]:
    scores: NDArray[Any] = np.log(reached.weights.sum(1).numpy())
    return scores


def _by_names(data: "OpenData") -> Callable[["Reached", list[int]], NDArray[Any]]:
    import torch
    from torch.nn.functional import normalize

    from mhgrn.features import NameFeatures
    from mhgrn.text.loading import load_text_encoder
    from mhgrn.text.settings import TextEncoderSettings

    graph, encoder = data.load_graph(), load_text_encoder(TextEncoderSettings()).for_answering()
    features, everything = NameFeatures(graph, encoder), torch.arange(len(graph))
    features.require_and_keep(everything.numpy())
    names = normalize(features.rows(everything), dim=1)

    def score(reached: "Reached", questions: list[int]) -> NDArray[Any]:
        vectors = normalize(encoder.embed_all([data.texts[q] for q in questions], ""), dim=1)
        question = torch.from_numpy(np.repeat(np.arange(len(questions)), np.diff(reached.ptr)))
        scores: NDArray[Any] = (names @ vectors.T)[torch.from_numpy(reached.concepts), question].double().numpy()
        return scores

    return score
