"""Sentences of triples, and the token vectors of their concepts against one sentence at a time."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.features.encoded import feature_encoder
from mhgrn.features.verbalize import Sentence, check_offsets, name_sentence, name_vectors, span_sums, verbalize
from mhgrn.kg.schema import Relation
from mhgrn.text.encoder import TextEncoder
from tiny_encoder import LETTERS, letter_encoder

NAMES = st.text(alphabet=LETTERS + "_ü中", min_size=1, max_size=12)


@pytest.fixture(scope="module", params=["bert", "roberta", "untrimmed"])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return feature_encoder(str(letter_encoder(tmp_path_factory.mktemp("encoder"), request.param)))


def one_at_a_time(encoder: TextEncoder, sentence: Sentence) -> tuple[list[torch.Tensor], list[int]]:
    """The definition: the tokens that hold a character of the span."""
    inputs = encoder.tokenizer(sentence.text, return_tensors="pt")
    with torch.inference_mode():
        hidden = encoder.model(**inputs).last_hidden_state[0]
    characters = [set(range(*(inputs.token_to_chars(token) or (0, 0)))) for token in range(len(hidden))]
    tokens = [[t for t, found in enumerate(characters) if found & set(range(*span))] for span in sentence.spans]
    return [hidden[t].sum(0) for t in tokens], [len(t) for t in tokens]


@given(st.lists(st.tuples(NAMES, st.sampled_from(["is a", "a", "x"]), NAMES), min_size=1, max_size=9), st.integers(1, 10))
@settings(max_examples=30)
def test_spans_get_the_vectors_of_their_tokens_whatever_the_batch(
    encoder: TextEncoder, facts: list[tuple[str, str, str]], batch: int
) -> None:
    sentences = [verbalize(head, Relation("r", ("r",), gloss), tail) for head, gloss, tail in facts]
    sums, counts = span_sums(encoder, sentences, batch)
    for i, sentence in enumerate(sentences):
        expected, numbers = one_at_a_time(encoder, sentence)
        assert counts[i].tolist() == numbers
        torch.testing.assert_close(sums[i], torch.stack(expected), atol=1e-4, rtol=1e-4)


@given(NAMES, NAMES)
def test_the_spans_of_a_sentence_are_its_names(head: str, tail: str) -> None:
    text, spans = verbalize(head, Relation("IsA", ("IsA",), "is a kind of"), tail)
    assert [text[start:end] for start, end in spans] == [head.replace("_", " "), tail.replace("_", " ")]
    assert text == f"{head} is a kind of {tail}".replace("_", " ")


def test_long_sentences_are_truncated(encoder: TextEncoder) -> None:
    relation = Relation("r", ("r",), "is")
    _, counts = span_sums(encoder, [verbalize("_".join("x" * 150), relation, "tail"), verbalize("cat", relation, "tail")])
    assert counts[0, 0] > 60
    assert counts[0, 1] == 0
    assert counts[1, 1] == 4


def test_whole_names_do_not_depend_on_their_batch(encoder: TextEncoder) -> None:
    names = ["cat", "furniture_store", "a", "desk"]
    together = name_vectors(encoder, names, batch=3)
    for name, vector in zip(names, together, strict=True):
        torch.testing.assert_close(name_vectors(encoder, [name])[0], vector, atol=1e-5, rtol=1e-5)
    assert name_sentence("furniture_store") == Sentence("furniture store", ((0, 15),))


def test_dropout_is_off_while_encoding(tmp_path: Path) -> None:
    encoder = feature_encoder(str(letter_encoder(tmp_path)))
    calm, _ = span_sums(encoder, [name_sentence("cat")])
    encoder.train()
    assert torch.equal(span_sums(encoder, [name_sentence("cat")])[0], calm)
    assert encoder.training


def test_a_tokenizer_without_offsets_is_refused(encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    check_offsets(encoder)
    monkeypatch.setattr(encoder, "tokenizer", SimpleNamespace(is_fast=False))
    with pytest.raises(UserError, match="gives no positions of its tokens"):
        check_offsets(encoder)
