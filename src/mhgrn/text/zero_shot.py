"""Scores of choices without training: cosine similarity of sentence vectors, or likelihoods of a language model."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import ValidationError
from torch.nn import functional

from mhgrn.errors import UserError
from mhgrn.questions.question import Question
from mhgrn.settings import validation_message
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.likelihood import CausalModel, choice_likelihoods, is_language_model
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import LikelihoodSettings, TextEncoderSettings

Measure = Literal["cosine", "length", "pmi"]


class ZeroShot(NamedTuple):
    """The scores of questions without training, and how many of them are right."""

    measure: Measure
    scores: list[list[float]]  # of the choices of each question
    right: int
    answered: int  # questions whose right choice is known

    @property
    def accuracy(self) -> float:
        if not self.answered:
            raise UserError("no question has an answer; accuracy needs questions with answers.")
        return self.right / self.answered

    @property
    def standard_error(self) -> float:
        """Of the accuracy, for questions drawn at random."""
        return math.sqrt(self.accuracy * (1 - self.accuracy) / self.answered)

    @classmethod
    def of(cls, measure: Measure, scores: list[list[float]], questions: Sequence[Question]) -> "ZeroShot":
        """The first of several equal scores counts as the best."""
        known = [(found, q.answer) for found, q in zip(scores, questions, strict=True) if q.answer is not None]
        return cls(measure, scores, sum(found.index(max(found)) == answer for found, answer in known), len(known))


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


def zero_shot(
    model: str,
    questions: Sequence[Question],
    measure: Measure | None = None,
    prompt: str | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
) -> ZeroShot:
    """Answer questions without training.

    Args:
        model: A text encoder: a name, a folder, or a hub name.
        questions: The questions.
        measure: ``"cosine"`` of question and choice, or a likelihood, see :class:`~mhgrn.text.settings.LikelihoodSettings`. None:
            ``"pmi"`` for causal language models, ``"cosine"`` for others.
        prompt: The text before a choice, for a likelihood. None: the default of ``likelihood.prompt``.
        allow_download: Download a hub model that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load ``.bin`` weights if there are no safetensors. Pickle files can run code.
    """
    if measure is None:
        measure = "pmi" if is_language_model(model) else "cosine"
    if measure == "cosine":
        settings = TextEncoderSettings(encoder=model, encoding="separate")
        encoder = load_text_encoder(settings, None, allow_download, allow_pickle)
        return ZeroShot.of(measure, cosine_scores(encoder, questions), questions)
    try:
        likelihood = LikelihoodSettings.model_validate(
            {"model": model, "measure": measure} | ({} if prompt is None else {"prompt": prompt})
        )
    except ValidationError as error:
        raise UserError(validation_message(error, LikelihoodSettings, "setting", "likelihood")) from None
    loaded = CausalModel(model, allow_download, allow_pickle, likelihood.max_length)
    return ZeroShot.of(measure, choice_likelihoods(loaded, questions, likelihood), questions)
