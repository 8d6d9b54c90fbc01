"""Questions of one file, divided into splits at random."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.questions.question import Question
from mhgrn.questions.reading import SPLITS, divide


def questions(count: int, repeated: int = 1) -> list[Question]:
    """Questions of which ``repeated`` each have the same stem and choices."""
    return [Question(f"q{i}", f"Where is {i // repeated}?", ("here", "there"), i % 2) for i in range(count)]


@given(
    count=st.integers(10, 300),
    repeated=st.integers(1, 3),
    seed=st.integers(-5, 10**6),
    shares=st.sampled_from([(0.8, 0.1, 0.1), (0.5, 0.5, 0), (0, 0.3, 0.7), (1, 0, 0), (0.6, 0, 0.4), (1 / 3, 1 / 3, 1 / 3)]),
)
def test_splits_are_disjoint_complete_and_independent_of_order(
    count: int, repeated: int, seed: int, shares: Sequence[float]
) -> None:
    given_questions = questions(count, repeated)
    try:
        found = divide({"test": given_questions}, shares, seed)
    except UserError:
        assume(False)
    assert list(found) == [split for split, share in zip(SPLITS, shares, strict=True) if share]
    assert sorted(q.id for split in found.values() for q in split) == sorted(q.id for q in given_questions)
    for split, share in zip(SPLITS, shares, strict=True):
        assert abs(len(found.get(split, [])) - share * count) <= 2 * repeated
    where: dict[str, set[str]] = {}
    for split, of_split in found.items():
        for question in of_split:
            where.setdefault(question.stem, set()).add(split)
    assert all(len(splits) == 1 for splits in where.values())
    shuffled = random.Random(1).sample(given_questions, count)
    again = divide({"train": shuffled}, shares, seed)
    assert {split: {q.id for q in of_split} for split, of_split in again.items()} == {
        split: {q.id for q in of_split} for split, of_split in found.items()
    }


def test_the_division_never_changes() -> None:
    """A later version gives the same splits."""
    found = divide({"test": questions(12)}, (0.5, 0.25, 0.25), 3)
    assert {split: [q.id for q in of_split] for split, of_split in found.items()} == EXPECTED
    assert divide({"test": questions(12)}, (0.5, 0.25, 0.25), 4) != found


EXPECTED = {"train": ["q1", "q2", "q4", "q8", "q10", "q11"], "dev": ["q0", "q3", "q5"], "test": ["q6", "q7", "q9"]}


@pytest.mark.parametrize(
    "shares", [(0.8, 0.2), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1), "0.8", (True, 0, 0), 3, (float("nan"), 0, 1), ()]
)
def test_impossible_shares_are_refused(shares: Any) -> None:
    with pytest.raises(UserError, match=r"^split is .*; give the shares of train, dev and test, for example 0\.8,0\.1,0\.1"):
        divide({"test": questions(10)}, shares)


def test_too_few_questions_and_several_splits_are_refused() -> None:
    with pytest.raises(UserError, match="3 questions are too few: test would have none"):
        divide({"test": questions(3)}, (0.8, 0.1, 0.1))
    with pytest.raises(UserError, match="the questions have the splits train and dev already"):
        divide({"train": questions(3), "dev": questions(3)}, (0.8, 0.1, 0.1))
