"""The built-in encoder without the transformers library: tokens, vectors, gradients and identity equal the library's."""

import pytest
import torch
from transformers import AutoTokenizer

from mhgrn.text.encoder import TextEncoder
from mhgrn.text.encoders.minilm import model_folder
from mhgrn.text.hugging_face import HuggingFaceEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tokenizer import FileTokenizer

TEXTS = [
    "Where would a child sit at a desk?",
    "patio",
    "",
    "Ünïcödé 漢字 ﬁsh, don't\tx-ray 2,000\u200b [MASK] <s>",
    "a child sits at one of many desks " * 30,
]


@pytest.fixture(scope="module")
def ours() -> TextEncoder:
    return load_text_encoder(TextEncoderSettings())


@pytest.fixture(scope="module")
def reference() -> TextEncoder:
    return HuggingFaceEncoder(TextEncoderSettings(encoder=str(model_folder())))


def test_tokens_equal_the_library_s() -> None:
    tokenizer, library = FileTokenizer(model_folder()), AutoTokenizer.from_pretrained(str(model_folder()))
    assert tokenizer.all_special_ids == library.all_special_ids
    assert tokenizer.model_max_length == library.model_max_length
    found, expected = tokenizer(TEXTS), library(TEXTS)
    assert all(found[name] == expected[name] for name in expected)
    assert tokenizer("a desk", add_special_tokens=False)["input_ids"] == library("a desk", add_special_tokens=False)["input_ids"]
    for pairs in (None, TEXTS[::-1]):
        for most in (8, 64):
            options = {"padding": True, "truncation": True, "max_length": most, "return_tensors": "pt"}
            found = tokenizer(TEXTS, pairs, return_offsets_mapping=True, **options)
            expected = library(TEXTS, pairs, return_offsets_mapping=True, **options)
            assert all(torch.equal(found[name], expected[name]) for name in expected)
            assert [bool(e.overflowing) for e in found.encodings] == [bool(e.overflowing) for e in expected.encodings]


def test_identity_and_parameters_equal_the_library_s(ours: TextEncoder, reference: TextEncoder) -> None:
    assert ours.identity() == reference.identity()
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in reference.named_parameters()]


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1], TEXTS[4:]], ids=["padded", "one", "truncated"])
def test_vectors_and_gradients_equal_the_library_s(ours: TextEncoder, reference: TextEncoder, texts: list[str]) -> None:
    with torch.inference_mode():
        assert torch.equal(ours.embed(texts), reference.embed(texts))
        assert torch.equal(ours.sentences(texts, texts[::-1]), reference.sentences(texts, texts[::-1]))
    gradients = []
    for encoder in (ours, reference):
        encoder.train().zero_grad()
        torch.manual_seed(3)  # the same dropout
        encoder.embed(texts).square().mean().backward()
        gradients.append([p.grad for p in encoder.parameters() if p.grad is not None])
        encoder.eval()
    assert len(gradients[0]) == len(gradients[1]) > 90
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("layout", ["default", "add_qa_prefix", "fairseq", "no_extra_sep"])
@pytest.mark.parametrize("pooling", ["cls", "pooler"])
def test_pairs_equal_the_library_s(layout: str, pooling: str) -> None:
    settings = {"encoding": "pair", "pooling": pooling, "input_format": layout, "max_length": 16}
    ours = load_text_encoder(TextEncoderSettings(**settings))
    reference = HuggingFaceEncoder(TextEncoderSettings(encoder=str(model_folder()), **settings))
    with torch.inference_mode():
        assert torch.equal(ours.sentences(TEXTS, TEXTS[::-1]), reference.sentences(TEXTS, TEXTS[::-1]))
    assert ours.truncated == reference.truncated > 0


def test_loading_draws_no_random_number() -> None:
    before = torch.get_rng_state()
    load_text_encoder(TextEncoderSettings())
    assert torch.equal(torch.get_rng_state(), before)
