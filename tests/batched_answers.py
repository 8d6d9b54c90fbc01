"""Answers in batches equal answers one at a time."""

from typing import Any

import pytest

from mhgrn.inference import Answer, QuestionAnswerer
from mhgrn.questions.question import Question


def assert_equal(one: Answer, other: Answer) -> None:
    """Equal up to the last digits of numbers, which depend on the batch."""
    assert (one.question, one.choice, one.concepts, one.notes) == (other.question, other.choice, other.concepts, other.notes)
    assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    assert one.masses == (other.masses and pytest.approx(other.masses, abs=1e-5))
    assert one.without_graph == (other.without_graph and pytest.approx(other.without_graph, abs=1e-5))
    assert [(p.facts, p.concepts, p.ties) for p in one.paths] == [(p.facts, p.concepts, p.ties) for p in other.paths]
    assert [p.probability for p in one.paths] == pytest.approx([p.probability for p in other.paths], abs=1e-5)
    assert (one.evidence is None) == (other.evidence is None)
    if one.evidence is not None and other.evidence is not None:
        both = one.evidence, other.evidence
        words, numbers = (
            [[getattr(of, name) for name in names] for of in both]
            for names in (("dependent", "sufficient", "necessary", "summary"), ("only", "without", "without_graph"))
        )
        facts = [[(fact.fact, fact.sentence) for fact in of.facts] for of in both]
        effects = [[fact.without for fact in of.facts] for of in both]
        assert (words[0], facts[0]) == (words[1], facts[1])
        assert numbers[0] + effects[0] == pytest.approx(numbers[1] + effects[1], abs=1e-5)
    without = [[after for p in answer.paths if p.without for after in (*p.without, p.without_path)] for answer in (one, other)]
    assert without[0] == pytest.approx(without[1], abs=1e-5)


def assert_batches_equal_single_answers(qa: QuestionAnswerer, questions: list[Question], **options: Any) -> None:
    single = [qa.answer(question, **options) for question in questions]
    for size in (2, 3, len(questions)):
        many = list(qa.ask_many(questions, batch_size=size, **options))
        assert len(many) == len(single)
        for one, other in zip(many, single, strict=True):
            assert_equal(one, other)
