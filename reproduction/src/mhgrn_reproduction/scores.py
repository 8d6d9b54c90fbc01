"""Scores of choices without training, and their sums with other scores."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mhgrn.io.fingerprint import fingerprint
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.likelihood import Likelihood, standardized
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.zero_shot import cosine_scores
from mhgrn_reproduction.cells import Added

if TYPE_CHECKING:
    from mhgrn.questions.question import Question


def measured(added: Added, data: PreparedData, split: str) -> Tensor:
    """The score of every choice of the questions of a split, one question after the other."""
    questions = [data.questions[q] for q in data.split(split)]
    if added.measure == "pmi":
        # stored with the data, so that all rows with this language model share it
        key = fingerprint(data.fingerprint, split)
        return Likelihood(added.config.likelihood).stored_column(questions, lambda first, last: None, key, data.folder / "cache")[
            :, 0
        ]
    settings = added.config.text.model_copy(update={"encoding": "separate"})
    found = cosine_scores(load_text_encoder(settings, added.encoder), questions)
    return torch.tensor([score for of_question in found for score in of_question])


def summed(one: Tensor, other: Tensor, questions: "Sequence[Question]") -> Tensor:
    """The sum of two scores of all choices, each standardized over the choices of a question.

    >>> from mhgrn.questions.question import Question
    >>> summed(torch.tensor([0.0, 1.0]), torch.tensor([50.0, 10.0]), [Question.asked("Where is a desk?", ["school", "sea"])])
    tensor([0., 0.])
    """
    sizes = [len(question.choices) for question in questions]
    return standardized(one, sizes) + standardized(other, sizes)


def chosen(scores: Tensor, questions: "Sequence[Question]") -> list[int]:
    """The choice with the best score of each question; the first of equal ones."""
    parts = torch.split(scores, [len(question.choices) for question in questions])
    return [int((part == part.max()).nonzero()[0]) for part in parts]
