"""Choices by scores that need no training."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mhgrn.io.fingerprint import fingerprint
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.likelihood import Likelihood, standardized
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.zero_shot import cosine_scores
from mhgrn_reproduction.cells import Cell

if TYPE_CHECKING:
    from mhgrn.questions.question import Question


def chosen_by(cell: Cell, data: PreparedData, split: str) -> list[int]:
    """The choice with the best score of each question of a split, by the cell's measure."""
    questions = [data.questions[q] for q in data.split(split)]
    sizes = [len(question.choices) for question in questions]
    scores = torch.zeros(sum(sizes))
    if cell.measure in ("cosine", "sum"):
        cosine = _cosine(cell, questions)
        scores = cosine if cell.measure == "cosine" else standardized(cosine, sizes)
    if cell.measure in ("pmi", "sum"):
        # standardized; stored with the data, so that all rows with this language model share it
        key = fingerprint(data.fingerprint, split)
        likelihood = Likelihood(cell.config.likelihood)
        scores = scores + likelihood.stored_column(questions, lambda first, last: None, key, data.folder / "cache")[:, 0]
    return [int((part == part.max()).nonzero()[0]) for part in torch.split(scores, sizes)]  # the first of equal ones


def _cosine(cell: Cell, questions: "list[Question]") -> Tensor:
    settings = cell.config.text.model_copy(update={"encoding": "separate"})
    found = cosine_scores(load_text_encoder(settings, cell.encoder), questions)
    return torch.tensor([score for of_question in found for score in of_question])
