"""Encoders without padding give the same vectors and gradients, and almost the same vectors in 8 bits."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

import mhgrn
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.reading import read_questions
from mhgrn.scoring import PACKED_TOKENS, pack_by_length
from mhgrn.starter import ENCODER, HERE
from mhgrn.text import packed as packing
from mhgrn.text.adapters import MappedModel
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.packed import Int8Linear, PackedBert, has_exact_int8, packed, unpadded
from mhgrn.text.settings import TextEncoderSettings

ODD = [
    "",
    "a",
    "Ünïcödé 漢字 ﬁsh, don't\tx-ray 2,000\u200b [MASK] <s>",
    "a child sits at one of many desks " * 30,
    "patio",
    "patio",
]
exact_int8 = pytest.mark.skipif(not has_exact_int8(), reason="this processor has no exact 8-bit products")


@pytest.fixture(scope="module", params=["minilm", "starter"])
def encoder(request: pytest.FixtureRequest) -> TextEncoder:
    return load_text_encoder(TextEncoderSettings(encoder=str(HERE / ENCODER) if request.param == "starter" else request.param))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """The 500 texts of real questions that come with the package, and odd ones."""
    found = {text for q in read_questions(HERE / "test.jsonl") for text in (q.stem, *q.choices)}
    return [*ODD, *sorted(found)[:500]]


def distances(one: Tensor, other: Tensor) -> Tensor:
    return 1 - functional.cosine_similarity(one.double(), other.double(), dim=1)


def test_vectors_without_padding_are_the_same(encoder: TextEncoder, texts: list[str]) -> None:
    fast = encoder.for_answering()
    with torch.inference_mode():
        for part in (texts[:70], texts[:1], texts[3:4]):
            exact, found = encoder.encode_texts(part), fast.encode_texts(part)
            assert (exact.vectors - found.vectors).abs().max() < 1e-6 * encoder.width**0.5 * 2
            for one, other in zip(exact.states(), found.states(), strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=2e-5)
    assert fast.identity() == encoder.identity()
    assert fast.checksum() == encoder.checksum()
    assert list(fast.state_dict()) == list(encoder.state_dict())


@exact_int8
def test_vectors_in_8_bits_are_near(encoder: TextEncoder, texts: list[str]) -> None:
    fast = encoder.for_answering("int8")
    found = distances(fast.embed_all(texts, ""), encoder.embed_all(texts, ""))
    assert len(texts) > 400
    assert 1e-5 < found.mean() < 0.003
    assert found.max() <= 0.01
    assert fast.identity() != encoder.identity()  # a cache of exact vectors is not read
    assert torch.equal(encoder.embed(["patio"]), encoder.for_answering().embed(["patio"]))  # with gradients: the model itself


@exact_int8
def test_a_vector_in_8_bits_does_not_depend_on_the_other_texts(encoder: TextEncoder, texts: list[str]) -> None:
    fast = encoder.for_answering("int8")
    with torch.inference_mode():
        together, alone = fast.embed(texts[:30]), torch.cat([fast.embed([text]) for text in texts[:30]])
    assert distances(together, alone).max() < 1e-3


@pytest.mark.parametrize("precision", ["float32", pytest.param("int8", marks=exact_int8)])
def test_pairs_and_token_states(precision: Any) -> None:
    encoder = load_text_encoder(TextEncoderSettings(encoding="pair", pooling="pooler", max_length=16))
    fast = encoder.for_answering(precision)
    with torch.inference_mode():
        exact, found = encoder.encode_pairs(ODD, ODD[::-1]), fast.encode_pairs(ODD, ODD[::-1])
        assert distances(found.vectors, exact.vectors).max() < (1e-6 if precision == "float32" else 0.01)
        assert [len(rows) for rows in found.states()] == [len(rows) for rows in exact.states()]
    assert fast.truncated == encoder.truncated


def tiny(kind: str) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    if kind == "bert":
        return BertModel(BertConfig(**sizes)).eval()
    return RobertaModel(RobertaConfig(**sizes, pad_token_id=1, max_position_embeddings=24)).eval()


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_models_of_the_transformers_library(kind: str) -> None:
    model = tiny(kind)
    inputs = padded(model)
    mask = inputs["attention_mask"]
    with torch.inference_mode():
        expected, found = model(**inputs), PackedBert(model)(**inputs)
        torch.testing.assert_close(found.last_hidden_state[mask.bool()], expected.last_hidden_state[mask.bool()])
        torch.testing.assert_close(found.pooler_output, expected.pooler_output)
        mapped = MappedModel(model, torch.randn(32, 32))
        forward = packed(mapped, "float32", inputs)
        assert forward is not None
        torch.testing.assert_close(
            forward(**inputs).last_hidden_state[mask.bool()], mapped(**inputs).last_hidden_state[mask.bool()]
        )


@exact_int8
def test_int8_linear_is_the_product_of_rounded_numbers() -> None:
    torch.manual_seed(1)
    weight, bias, x = torch.randn(24, 40), torch.randn(24), 3 * torch.randn(7, 40) + 1
    x[3] = 2.5  # no range
    x[4] = 0
    expected = functional.linear(x, weight, bias)
    found = Int8Linear(weight, bias, x)(x)
    # rounding errors of at most half a step for each weight and each input
    steps = (x.amax(1) - x.amin(1)) / 255
    bound = steps[:, None] / 2 * weight.abs().sum(1) + (x.abs().sum(1) + 40 * steps)[:, None] * weight.abs().amax(1) / 254
    assert ((found - expected).abs() <= bound + 1e-5).all()


def test_training_uses_the_weights_themselves(encoder: TextEncoder) -> None:
    fast = encoder.for_answering()
    assert fast.embed(["a desk"]).requires_grad
    assert torch.equal(fast.embed(["a desk"]), encoder.embed(["a desk"]))


def padded(model: Any) -> dict[str, Tensor]:
    """Five texts of different lengths."""
    mask = torch.tensor([[1] * length + [0] * (12 - length) for length in (12, 3, 7, 3, 1)])
    ids = torch.randint(5, 50, (5, 12)) * mask + (1 - mask) * model.config.pad_token_id
    return {"input_ids": ids, "attention_mask": mask}


def gradients(model: Any, forward: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    torch.manual_seed(3)
    hidden = forward(**inputs).last_hidden_state * inputs["attention_mask"][..., None]
    (hidden * torch.randn_like(hidden)).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", ["bert", "roberta", "mapped"])
def test_gradients_without_padding_are_the_same(kind: str) -> None:
    model = MappedModel(tiny("bert"), torch.randn(32, 32) / 6) if kind == "mapped" else tiny(kind)
    inputs = padded(model)
    forward = unpadded(model)
    assert forward is not None
    expected, found = gradients(model, model, inputs), gradients(model, forward, inputs)
    assert len(expected) > 30
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-4)


def test_dropout_of_training_without_padding() -> None:
    model = tiny("bert")
    inputs = padded(model)

    def states() -> Tensor:
        forward = unpadded(model)
        assert forward is not None
        with torch.no_grad():
            found: Tensor = forward(**inputs).last_hidden_state
        return found

    exact = states()
    model.train()
    torch.manual_seed(0)
    drawn = [states() for _ in range(2)]
    assert not torch.equal(*drawn)
    torch.manual_seed(0)
    assert torch.equal(states(), drawn[0])
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.0
    assert torch.equal(states(), exact)


def test_other_models_are_trained_as_they_are(encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    peft = pytest.importorskip("peft")
    assert unpadded(peft.get_peft_model(tiny("bert"), peft.LoraConfig(target_modules=["query"])).base_model.model) is None
    monkeypatch.setattr(encoder.model.config, "hidden_act", "relu")
    assert unpadded(encoder.model) is None


def test_unknown_and_unsuitable_precisions_are_refused(encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="text_precision is 'int4'; it should be float32 or int8"):
        encoder.for_answering("int4")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="text_precision is 'fast'; it should be float32 or int8"):
        mhgrn.load(text_precision="fast")  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(packing, "has_exact_int8", lambda: False)
        with pytest.raises(UserError, match=r"needs a processor with exact 8-bit products \(VNNI\); use float32"):
            encoder.for_answering("int8")
        encoder.for_answering()
    monkeypatch.setattr(encoder.model.config, "model_type", "llama")
    with pytest.raises(UserError, match=r"needs a text encoder like BERT, .* is of the type 'llama'; use float32"):
        encoder.for_answering("int8")
    assert not encoder.for_answering().is_packed


def test_packs_hold_every_text_once_and_few_tokens() -> None:
    lengths = [3, 70, 5, 600, 64] * 30
    packs = pack_by_length(lengths)
    assert sorted(i for pack in packs for i in pack) == list(range(len(lengths)))
    assert all(len(pack) == 1 or sum(lengths[i] for i in pack) <= PACKED_TOKENS for pack in packs)
    assert [lengths[i] for pack in packs for i in pack] == sorted(lengths)
    assert pack_by_length([]) == []


@pytest.fixture(scope="module")
def answerers() -> dict[str, mhgrn.QuestionAnswerer]:
    return {precision: mhgrn.load(text_precision=precision) for precision in ("float32", "int8")}


@exact_int8
def test_answers_of_many_threads_are_those_of_one(answerers: dict[str, mhgrn.QuestionAnswerer]) -> None:
    questions = list(read_questions(HERE / "test.jsonl"))[:32]
    for qa in answerers.values():
        alone = [qa.answer(q, effects=False) for q in questions]
        with ThreadPoolExecutor(16) as pool:
            together = list(pool.map(lambda q, qa=qa: qa.answer(q, effects=False), questions))
        assert [a.choice for a in together] == [a.choice for a in alone]
        assert all(a.probabilities == pytest.approx(b.probabilities, abs=1e-3) for a, b in zip(alone, together, strict=True))
    exact, fast = ([qa.answer(q, effects=False) for q in questions] for qa in answerers.values())
    assert sum(a.choice == b.choice for a, b in zip(exact, fast, strict=True)) >= 30
    assert isinstance(answerers["int8"].run.graph, KnowledgeGraph)
