"""Which concepts are looked for, and by which lemmas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.text.lemmas import BLACKLIST, LONGEST, PRONOUNS, STOP_WORDS, concept_pattern, lemma, lemmatise, tokenise

EDGE = "my you it its your i he she his her they them their our we".split()
SAYING_NOTHING = """actually likely possibly want make my someone sometimes_people sometimes would want_to one something everybody
    somebody could could_be""".split()


def test_the_published_lists_are_whole() -> None:
    assert set(SAYING_NOTHING) <= BLACKLIST
    assert BLACKLIST - set(SAYING_NOTHING) <= PRONOUNS
    assert STOP_WORDS.issuperset("i the of was having because against between haven wouldn theirs themselves very".split())
    assert not STOP_WORDS & {"want", "make", "school", "one"}
    assert LONGEST == 4


@pytest.mark.parametrize("word", EDGE)
def test_a_concept_that_begins_or_ends_with_a_pronoun_is_not_looked_for(word: str) -> None:
    assert concept_pattern(f"{word}_house") is None
    assert concept_pattern(f"paint_{word}") is None
    assert concept_pattern(word) is None
    assert concept_pattern(f"paint_{word}_house") is not None


@pytest.mark.parametrize("name", ["of", "the_one", "wanted", "to_make_something", "want_to", "could_be", "these", "am_being", "me"])
def test_a_concept_of_empty_words_is_not_looked_for(name: str) -> None:
    assert concept_pattern(name) is None


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("desks", ("desk",)),
        ("going_to_school", ("go", "to", "school")),
        ("make_the_bed", ("make", "the", "bed")),
        ("x-ray", ("x", "-", "ray")),
        ("one_two_three_four", ("one", "two", "three", "four")),
        ("one_two_three_four_five", None),
        ("", None),
    ],
)
def test_a_pattern_is_the_lemmas_of_at_most_four_words(name: str, pattern: tuple[str, ...] | None) -> None:
    assert concept_pattern(name) == pattern


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_words_cover_the_text_and_do_not_depend_on_case_or_underscores(text: str) -> None:
    words = tokenise(text)
    assert "".join(words) == "".join(text.lower().replace("_", " ").split())
    assert tokenise(" ".join(words)) == words
    assert lemmatise(text) == tuple(map(lemma, words))


@pytest.mark.parametrize(("word", "root"), [("mice", "mouse"), ("went", "go"), ("children", "child"), ("desk", "desk"), ("?", "?")])
def test_lemmas_are_dictionary_forms(word: str, root: str) -> None:
    assert lemma(word) == root
