"""Questions and answers as a ``datasets.Dataset`` of Hugging Face. Every function that takes rows reads one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mhgrn.errors import UserError
from mhgrn.questions.question import Question
from mhgrn.questions.reading import questions_from

if TYPE_CHECKING:
    from mhgrn.inference import Answer


def to_dataset(questions: Any, answers: "Iterable[Answer] | None" = None) -> Any:
    """A dataset with the columns of CommonsenseQA on the hub: ``question``, ``choices``, ``answerKey`` and others.

    Args:
        questions: What :func:`mhgrn.questions_from` takes: questions, dictionaries, a frame, prepared data.
        answers: Answers of a model in the same order, added as ``prediction``, ``confidence`` and ``paths``.

    Returns:
        A ``datasets.Dataset``. :func:`mhgrn.questions_from` reads it again.
    """
    try:
        from datasets import Dataset
    except ImportError:
        raise UserError("datasets of Hugging Face need the package datasets; install it with: pip install datasets") from None
    rows = [_row(question) for question in questions_from(questions)]
    if answers is not None:
        given = list(answers)
        if len(given) != len(rows):
            raise UserError(f"there are {len(rows)} questions and {len(given)} answers.")
        for row, answer in zip(rows, given, strict=True):
            row |= {"prediction": answer.choice, "confidence": answer.probabilities[answer.choice]}
            row["paths"] = [str(path) for path in answer.paths]
    return Dataset.from_list(rows)


def _row(question: Question) -> dict[str, Any]:
    labels = [question.label(number) for number in range(len(question.choices))]
    return {
        "id": question.id,
        "question": question.stem,
        "question_concept": question.concept or "",
        "choices": {"label": labels, "text": list(question.choices)},
        "answerKey": "" if question.answer is None else labels[question.answer],
    }
