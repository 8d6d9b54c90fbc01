"""Questions survive the way to a dataset of Hugging Face and back, also through its files."""

from pathlib import Path

import pytest

pytest.importorskip("datasets")

from datasets import load_from_disk

from mhgrn.errors import UserError
from mhgrn.inference import Answer
from mhgrn.integrations.datasets import to_dataset
from mhgrn.questions.question import Question
from mhgrn.questions.reading import questions_from

QUESTIONS = [
    Question("a", "Where does a fish live?", ("sea", "tree", "moon"), 0, concept="fish"),
    Question("b", "What is „hot“?", ("fire", "ice"), 1, labels=("1", "2")),
    Question("c", "Who knows?", ("you", "me")),
]


def plain(question: Question) -> tuple[object, ...]:
    labels = tuple(question.label(number) for number in range(len(question.choices)))
    return question.id, question.stem, question.choices, question.answer, labels, question.concept or None


def test_questions_survive_the_round_trip(tmp_path: Path) -> None:
    made = to_dataset(QUESTIONS)
    assert [plain(question) for question in questions_from(made)] == [plain(question) for question in QUESTIONS]
    made.save_to_disk(str(tmp_path / "stored"))
    stored = load_from_disk(str(tmp_path / "stored"))
    assert [plain(question) for question in questions_from(stored)] == [plain(question) for question in QUESTIONS]


def test_answers_become_columns() -> None:
    answers = [Answer(q.stem, q.choices[0], {q.choices[0]: 0.75}, [], {"question": [], "choices": {}}) for q in QUESTIONS]
    made = to_dataset(QUESTIONS, answers)
    assert list(made["prediction"]) == ["sea", "fire", "you"]
    assert set(made["confidence"]) == {0.75}
    with pytest.raises(UserError, match="3 questions and 2 answers"):
        to_dataset(QUESTIONS, answers[:2])
