"""The steps by which a question becomes a statement, each on a question that needs it."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mhgrn.grounding.statements import BLANK, WH_WORDS, append, fill_in_the_blank, with_blank


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("What's hot?", "___ is hot.", id="what's is what is"),
        pytest.param("He asked whats hot?", "He asked ___ hot.", id="whats is what"),
        pytest.param("Where in the U.S. is it hot?", "___ in the US is it hot.", id="the full stops of U.S. are none"),
        pytest.param("A bird flies where?", "A bird flies ___.", id="a final word is taken"),
        pytest.param("A bird flies where?. .", "A bird flies ___?. .", id="dots and spaces may follow"),
        pytest.param("Which bird flies where?", "Which bird flies ___.", id="a final word comes before an earlier one"),
        pytest.param("Where do birds fly and how?", "Where do birds fly and ___.", id="even one later in the list"),
        pytest.param("When a bird sees what, it flies?", "___ a bird sees what, it flies.", id="else the earliest word"),
        pytest.param("He knows who, right?", "He knows ___, right.", id="a comma may follow"),
        pytest.param("What happened. Where is he?", "What happened. ___ is he.", id="no full stop may follow"),
        pytest.param("WHERE is he?", "___ is he.", id="case does not matter"),
        pytest.param("Why did people who left go?", "___ did people who left go.", id="people who is no question"),
        pytest.param("Did people who left go?", "Did people who left go ___", id="nor is it when nothing else is there"),
        pytest.param("Did show dogs bark?", "Did show dogs bark ___", id="no question word within a word"),
        pytest.param("Which of the following is hot?", "___ is hot.", id="of the following goes"),
        pytest.param("Which of these is hot?", "___ is hot.", id="of these goes"),
        pytest.param("Is it which or of these?", "Is it ___ or of these.", id="of these stays elsewhere"),
        pytest.param("Where is he", "___ is he", id="only a question mark becomes a full stop"),
        pytest.param("Birds, we have them called?", "Birds, we have ___.", id="them called"),
        pytest.param("He was rich, meaning he was not?", "He was rich, he was not ___.", id="meaning he was not"),
        pytest.param("Is a bird one of these?", "Is a bird ___.", id="one of these"),
        pytest.param("A bird can", "A bird can ___", id="an open end is filled"),
        pytest.param("Does this bird fly?", "Does ___ bird fly?", id="this"),
        pytest.param("A bird does this?", "A bird does ___ ", id="this with a question mark"),
        pytest.param("Is a bird able to fly? .", "Is a bird able to fly ___", id="otherwise the blank goes to the end"),
        pytest.param("The sky is _____.", "The sky is _____.", id="a blank that is there already"),
    ],
)
def test_the_blank_goes_where_the_answer_goes(question: str, expected: str) -> None:
    assert with_blank(question) == expected


@pytest.mark.parametrize(
    ("question", "choice", "expected"),
    [
        ("Where is he?", "new York", "New York is he."),
        ("He left. Where is he?", "at Home.", "He left. At Home is he."),
        ("He is where?", "At Home.", "He is at home."),
        ("A bird can", "Fly.", "A bird can fly."),
        ("Birds are _ or _____ and __?", "Nice", "Birds are _ or nice and nice?"),
        ("What is a newline?", r"\n \1", r"\n \1 is a newline."),
    ],
)
def test_the_choice_fills_the_blank(question: str, choice: str, expected: str) -> None:
    assert fill_in_the_blank(question, choice) == expected


word = st.one_of(st.sampled_from([*WH_WORDS, "people who", "this", "of these", "them called", "show"]), st.sampled_from("abc"))
questions = st.builds(
    lambda words, end: " ".join(words) + end, st.lists(word, min_size=1, max_size=6), st.sampled_from(["?", ".", "", "?."])
)


@given(question=questions, choice=st.text("xyz.", min_size=1).filter(lambda c: c.strip(".")))
def test_there_is_always_a_blank_and_every_blank_is_filled(question: str, choice: str) -> None:
    assert BLANK in with_blank(question)
    statement = fill_in_the_blank(question, choice)
    assert "__" not in statement
    assert choice.rstrip(".").lower() in statement.lower()


@given(questions)
def test_the_word_taken_is_a_question_word_with_no_full_stop_after_it(question: str) -> None:
    """Against a search of all places: a final question word, else the earliest."""
    lowered = question.lower()
    words = [w for w in WH_WORDS if w != "who" or "people who" not in lowered]
    places = [(i, w) for i in range(len(question)) for w in words if re.compile(rf"\b{w}").match(lowered, i)]
    final = [(words.index(w), i, w) for i, w in places if re.fullmatch(r"\?[^.]*[. ]*", lowered[i + len(w) :])]
    inner = [(i, w) for i, w in places if re.fullmatch(r"[ ,][^.]*", lowered[i + len(w) :])]
    assume(final or inner)
    start, taken = min(final)[1:] if final else min(inner)
    assert with_blank(question).startswith(question[:start] + BLANK)
    rest = with_blank(question)[start + len(BLANK) :]
    after = question[start + len(taken) :]
    after = after[:-1] + "." if after.endswith("?") else after
    assert rest in (after, after.removeprefix(" of these"))


def test_append_adds_the_choice_to_the_stem() -> None:
    assert append("The sun is", "a Star.") == "The sun is a Star."
