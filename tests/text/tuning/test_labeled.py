"""Pairs from questions with answers: every question in turn, answered among its own choices only."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.questions.question import Question
from mhgrn.text.tuning.labeled import LabeledPairs, joined


def _questions(sizes: list[int]) -> list[Question]:
    return [
        Question(f"q{i}", f"question {i}", tuple(f"choice {i} {j}" for j in range(size)), answer=i % size)
        for i, size in enumerate(sizes)
    ]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.integers(1, 12), st.integers(0, 4))
def test_each_question_finds_its_answer_among_its_own_choices(sizes: list[int], size: int, number: int) -> None:
    questions = {question.stem: question for question in _questions(sizes)}
    batch = LabeledPairs(list(questions.values())).batch(number, size)
    assert len(batch.questions) == size
    for row, stem in enumerate(batch.questions):
        question = questions[stem]
        wrong = {name for name, is_wrong in zip(batch.names, batch.wrong[row], strict=True) if is_wrong}
        assert question.answer is not None
        right = question.choices[question.answer]
        assert batch.names[batch.answer[row]] == right
        assert wrong == set(question.choices) - {right}
        assert {batch.names[place] for place in batch.others[row]} <= set(question.choices)


@given(st.integers(1, 9), st.integers(1, 12), st.integers(1, 6))
def test_all_questions_are_drawn_before_one_is_drawn_again(count: int, size: int, batches: int) -> None:
    pairs = LabeledPairs(_questions([2] * count), seed=3)
    drawn = Counter(stem for number in range(batches) for stem in pairs.batch(number, size).questions)
    assert max(drawn.values()) - min(drawn[f"question {i}"] for i in range(count)) <= 1
    assert pairs.batch(1, size).questions == LabeledPairs(_questions([2] * count), seed=3).batch(1, size).questions


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_joined_batches_keep_their_answers_apart(sizes: list[int], other_sizes: list[int]) -> None:
    one = LabeledPairs(_questions(sizes)).batch(0, 5)
    other = LabeledPairs(_questions(other_sizes), seed=1).batch(0, 7)
    both = joined(one, other)
    at = 0
    for batch, start in ((one, 0), (other, len(one.names))):
        for row in range(len(batch.questions)):
            assert both.questions[at] == batch.questions[row]
            assert both.names[both.answer[at]] == batch.names[batch.answer[row]]
            assert np.flatnonzero(both.wrong[at]).tolist() == (np.flatnonzero(batch.wrong[row]) + start).tolist()
            assert not set((both.others[at] - start).tolist()) - set(range(len(batch.names)))
            at += 1


def test_questions_without_answers_are_refused() -> None:
    with pytest.raises(UserError, match="no question to tune on has an answer"):
        LabeledPairs([Question("q", "Where?", ("a", "b"))])


def test_the_checksum_depends_on_the_answers() -> None:
    first, second = _questions([2, 2])
    other = Question(second.id, second.stem, second.choices, answer=0)
    assert LabeledPairs([first, second]).checksum != LabeledPairs([first, other]).checksum
