"""Which words a text has, which concepts are looked for, and by which lemmas."""

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.grounding import lemmas
from mhgrn.grounding.lemmas import (
    BLACKLIST,
    DETERMINERS,
    LONGEST,
    PRONOUNS,
    STOP_WORDS,
    concept_pattern,
    dictionary,
    lemma,
    lemmatize,
    respelt,
    tokenize,
)

EDGE = "my you it its your i he she his her they them their our we".split()
SAYING_NOTHING = """actually likely possibly want make my someone sometimes_people sometimes would want_to one something everybody
    somebody could could_be""".split()


def test_the_published_lists_are_complete() -> None:
    assert set(SAYING_NOTHING) <= BLACKLIST
    assert BLACKLIST - set(SAYING_NOTHING) <= PRONOUNS
    assert STOP_WORDS.issuperset("i the of was having because against between haven wouldn theirs themselves very".split())
    assert not STOP_WORDS & {"want", "make", "school", "one"}
    assert DETERMINERS <= STOP_WORDS
    assert LONGEST == 4


@pytest.mark.parametrize("word", EDGE)
def test_a_concept_that_begins_or_ends_with_a_pronoun_has_no_pattern(word: str) -> None:
    assert concept_pattern(f"{word}_house") is None
    assert concept_pattern(f"paint_{word}") is None
    assert concept_pattern(word) is None
    assert concept_pattern(f"paint_{word}_house") is not None


@pytest.mark.parametrize("name", ["of", "the_one", "wanted", "to_make_something", "want_to", "could_be", "these", "am_being", "me"])
def test_a_concept_of_stop_words_has_no_pattern(name: str) -> None:
    assert concept_pattern(name) is None


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("desks", ("desk",)),
        ("mine", ("mine",)),
        ("going_to_school", ("go", "to", "school")),
        ("make_the_bed", ("make", "the", "bed")),
        ("x-ray", ("x", "ray")),
        ("x_ray", ("x", "ray")),
        ("valentine's_day", ("valentine", "day")),
        ("valentines_day", ("valentine", "day")),
        ("mother-in-law_joke", ("mother", "in", "law", "joke")),
        ("one_two_three_four", ("one", "two", "three", "four")),
        ("one_two_three_four_five", None),
        ("", None),
    ],
)
def test_a_pattern_is_the_lemmas_of_at_most_four_words(name: str, pattern: tuple[str, ...] | None) -> None:
    assert concept_pattern(name) == pattern


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the dog's bowl", "the dog bowl"),
        ("the dogs' bowls", "the dogs bowls"),
        ("James' and Charles's car", "james and charles car"),
        ("the dog’s bowl", "the dog bowl"),
        ("an x-ray, ice‑cream", "an x ray , ice cream"),
        ("'quoted' “words”", "' quoted ' \" words \""),
        ("don't; o'clock", "don t ; o clock"),
        ("a - b -- c", "a - b - - c"),
        ("10 of 2,000 or 1,234,567.5 on the 3rd", "10 of 2000 or 1234567.5 on the 3rd"),
        ("1, 2,34 and 3,4567", "1 , 2 , 34 and 3 , 4567"),
        ("CAFÉ cafe\u0301 naïve", "café café naïve"),
        ("ｄｏｇ ＤＯＧ １０", "dog dog 10"),
        ("co\u00adop\u200berate\ufeff", "cooperate"),
        ("ALL CAPS", "all caps"),
        ("a_b\u00a0c\u3000d\ne\tf", "a b c d e f"),
        ("dog😀cat 👍🏽", "dog 😀 cat 👍 🏽"),
        ("İstanbul", "i̇stanbul"),
        ("\ud800 dog", "dog"),
        ("?!…", "? ! . . ."),
        ("", ""),
        (" \n", ""),
    ],
)
def test_words_of_unusual_texts(text: str, words: str) -> None:
    assert tokenize(text) == words.split()


@given(st.text(st.characters(codec="utf-8"), max_size=30))
def test_words_are_those_of_their_own_text(text: str) -> None:
    words = tokenize(text)
    assert all(words)
    assert not any(character.isspace() or character == "_" for word in words for character in word)
    assert tokenize(" ".join(words)) == words
    assert tokenize("_".join(words)) == words
    assert tokenize(unicodedata.normalize("NFD", text)) == tokenize(unicodedata.normalize("NFC", text))
    assert lemmatize(text) == tuple(map(lemma, words))


@given(st.text("abcs'-,. 0123", max_size=20))
def test_no_letter_or_digit_is_lost_but_possessive_endings(text: str) -> None:
    kept, given_ = "".join(tokenize(text)), [c for c in text if c.isalnum()]
    possessives = text.count("'s")
    assert len(given_) - possessives <= sum(c.isalnum() for c in kept) <= len(given_)
    assert tokenize(text.upper()) == tokenize(text)


@pytest.mark.parametrize(
    ("word", "root"),
    [
        ("mice", "mouse"),
        ("went", "go"),
        ("gone", "go"),
        ("playing", "play"),
        ("travelling", "travel"),
        ("children", "child"),
        ("desk", "desk"),
        ("opera", "opera"),
        ("3rd", "3rd"),
        ("?", "?"),
    ],
)
def test_lemmas_are_dictionary_forms(word: str, root: str) -> None:
    assert lemma(word) == root


@given(st.text("qxzjk", min_size=4, max_size=12))
def test_a_word_outside_the_dictionary_is_its_own_lemma(word: str) -> None:
    assert lemma(word) == word
    assert respelt(word) == word


@pytest.mark.parametrize(
    ("british", "american"),
    [
        ("colour", "color"),
        ("theatre", "theater"),
        ("grey", "gray"),
        ("organise", "organize"),
        ("organisation", "organization"),
        ("favourite", "favorite"),
        ("traveller", "traveler"),
        ("licence", "license"),
        ("catalogue", "catalog"),
        ("anaesthetic", "anesthetic"),
        ("tyre", "tire"),
        ("café", "cafe"),
        ("naïve", "naive"),
    ],
)
def test_another_spelling_is_american_and_without_accents(british: str, american: str) -> None:
    assert lemma(respelt(lemma(british))) == lemma(american)


@pytest.mark.parametrize(
    "word", "hour four flour tour acre shoe small skill science promise exercise sentence desk 10 한국".split()
)
def test_other_words_have_no_other_spelling(word: str) -> None:
    assert respelt(word) == word == lemma(word)


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aσΣ's,.-_0123 \u00a0\u0301\u00a8\u2019\u200d")), max_size=30))
def test_no_word_contains_a_space(text: str) -> None:
    assert tokenize(text) == [word for part in text.split(" ") for word in tokenize(part)]


def test_the_dictionary_is_made_once_and_kept_in_the_same_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path))
    made = dictionary.__wrapped__()
    monkeypatch.delattr(lemmas, "_dictionary")
    assert list(dictionary.__wrapped__().items()) == list(made.items())


@pytest.mark.parametrize("damage", [lambda whole: whole[:-100], lambda _: b"", lambda whole: whole.replace(b"desk", b"dusk", 1)])
def test_a_damaged_dictionary_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    made = dictionary()
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path))
    monkeypatch.setattr(lemmas, "_dictionary", lambda: made)
    dictionary.__wrapped__()
    [file] = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert dictionary.__wrapped__() == made
    assert file.read_bytes() == whole


def test_the_dictionary_needs_no_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = dictionary()
    (tmp_path / "file").touch()
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(lemmas, "_dictionary", lambda: made)
    assert dictionary.__wrapped__() == made
