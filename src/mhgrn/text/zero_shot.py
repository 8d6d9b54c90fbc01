"""Scores of choices without training: cosine similarity of sentence vectors."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from torch.nn import functional

from mhgrn.errors import UserError
from mhgrn.questions.question import Question
from mhgrn.text.encoder import TextEncoder

Measure = Literal["cosine", "length", "pmi"]


class ZeroShot(NamedTuple):
    """The scores of questions without training, and how many of them are right."""

    scores: list[list[float]]  # of the choices of each question
    right: int
    answered: int  # questions whose right choice is known

    @property
    def accuracy(self) -> float:
        if not self.answered:
            raise UserError("no question has an answer; accuracy needs questions with answers.")
        return self.right / self.answered

    @classmethod
    def of(cls, scores: list[list[float]], questions: Sequence[Question]) -> "ZeroShot":
        """The first of several equal scores counts as the best."""
        known = [(found, q.answer) for found, q in zip(scores, questions, strict=True) if q.answer is not None]
        return cls(scores, sum(found.index(max(found)) == answer for found, answer in known), len(known))


def cosine_scores(encoder: TextEncoder, questions: Sequence[Question]) -> list[list[float]]:
    """The cosine of stem and choice, each encoded on its own, of every choice.

    Args:
        encoder: A sentence encoder; its ``text.pooling`` applies.
        questions: The questions.
    """
    texts = sorted({text for question in questions for text in (question.stem, *question.choices)})
    row = {text: i for i, text in enumerate(texts)}
    vectors = functional.normalize(encoder.embed_all(texts, "encoding texts"), dim=1)
    return [[float(vectors[row[q.stem]] @ vectors[row[choice]]) for choice in q.choices] for q in questions]
