"""Questions that ask for what does not fit."""

from pathlib import Path

import pytest

from mhgrn.kg import KnowledgeGraph, Schema, build
from mhgrn.starter import FACTS
from mhgrn.synthesis.negation import negated
from mhgrn.synthesis.synthesizing import synthesize
from synthesis.test_synthesis import everything, right_of, rows_of


@pytest.fixture(scope="module")
def starter() -> KnowledgeGraph:
    return build([FACTS], schema="conceptnet")[0]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("What can {head} do?", "What can {head} not do?"),
        ("What can lead to {tail}?", "What cannot lead to {tail}?"),
        ('What does "{head}" bring about?', 'What does "{head}" not bring about?'),
        ("What has {head}?", "What does not have {head}?"),
        ("Which of these is a type of {tail}?", "Which of these is not a type of {tail}?"),
        ("In what place would you look for {head}?", "In what place would you not look for {head}?"),
        ("What is {head} unable to do?", None),
        ("{head} is an example of what?", None),
    ],
)
def test_templates_are_negated_by_their_form(template: str, expected: str | None) -> None:
    assert negated(template) == expected


def test_every_wording_has_one_negation_and_its_concept() -> None:
    for relation in Schema.shipped("conceptnet").relations:
        for template in (*relation.ask_tail, *relation.ask_head):
            for pick in range(12):
                if (text := negated(template, pick)) is not None:
                    assert sum(word in ("not", "never", "cannot") for word in text.split()) == 1, text
                    assert text.count("{") == 1, text


def test_all_choices_but_the_answer_fit(starter: KnowledgeGraph, tmp_path: Path) -> None:
    about = synthesize(starter, tmp_path / "made", count=600, choices=4, hops=[1], negated=1.0, split=(0.8, 0.2, 0)).about
    asked = [row for row in everything(tmp_path / "made") if row["made_from"]["kind"] == "negated"]
    assert about["kinds"]["negated"] == len(asked) > 100
    for row in asked:
        known = row["question_concept"].replace(" ", "_")
        (relation,) = {fact[1] for fact in row["made_from"]["facts"]}
        fits = {
            choice: starter.holds(*((known, relation, name) if row["made_from"]["asked"] == "tail" else (name, relation, known)))
            for choice in row["choices"]
            for name in [choice.replace(" ", "_")]
        }
        assert [choice for choice, does in fits.items() if not does] == [right_of(row)]
        assert row.get("hide", row["made_from"]["facts"]) == row["made_from"]["facts"]
    pairs = [
        {frozenset((head, tail)) for row in rows for head, _, tail in row["made_from"]["facts"]}
        for rows in rows_of(tmp_path / "made").values()
    ]
    assert not pairs[0] & pairs[1]


def test_no_question_is_negated_unless_told(starter: KnowledgeGraph, tmp_path: Path) -> None:
    about = synthesize(starter, tmp_path / "made", count=200, split=(1, 0, 0)).about
    assert "negated" not in about["kinds"]
    assert not any(row["made_from"]["kind"] == "negated" for row in everything(tmp_path / "made"))


def test_wrong_choices_of_combined_questions_fit_the_first_fact_only(starter: KnowledgeGraph, tmp_path: Path) -> None:
    about = synthesize(starter, tmp_path / "made", count=600, hops=[1], combined=1.0, split=(1, 0, 0)).about
    asked = [row for row in everything(tmp_path / "made") if row["made_from"]["kind"] == "combined"]
    assert about["kinds"]["combined"] == len(asked) > 100
    for row in asked:
        first, second = row["made_from"]["facts"]
        answer = right_of(row).replace(" ", "_")
        assert starter.holds(*first)
        assert starter.holds(*second)
        assert answer in first
        assert answer in second
        assert row.get("hide", [second]) == [second]
        for choice, strategy in zip(row["choices"], row["made_from"]["distractors"], strict=True):
            name = choice.replace(" ", "_")
            replaced = [[name if part == answer else part for part in fact] for fact in (first, second)]
            if strategy is not None:
                assert starter.holds(*replaced[0]) == (strategy == "fits")
                assert not starter.holds(*replaced[1])
