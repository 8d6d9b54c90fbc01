"""Text encoders: the built-in one, and tiny random models of BERT, RoBERTa and DistilBERT."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from mhgrn.errors import UserError
from mhgrn.text.cache import SentenceVectors, TokenStates
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings

WORDS = "where would a child sit at desk school yard q : a ?".split()
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def tiny(folder: Path, kind: str) -> Path:
    """A random model and a tokenizer of whole words, laid out as BERT or RoBERTa do."""
    vocabulary = {word: i for i, word in enumerate([*SPECIAL, *sorted(set(WORDS))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    pair = "<s> $A </s> </s> $B </s>" if kind == "roberta" else "<s>:0 $A:0 </s>:0 $B:1 </s>:1"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair=pair, special_tokens=[("<s>", vocabulary["<s>"]), ("</s>", vocabulary["</s>"])]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", cls_token="<s>", sep_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    size = {"vocab_size": len(vocabulary), "pad_token_id": 0}
    heads = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, **size}
    if kind == "bert":
        BertModel(BertConfig(**heads)).save_pretrained(folder)
    elif kind == "roberta":
        RobertaModel(RobertaConfig(**heads)).save_pretrained(folder)
    else:
        DistilBertModel(DistilBertConfig(dim=8, n_layers=1, n_heads=2, hidden_dim=16, **size)).save_pretrained(folder)
    return folder


def shown(encoder: TextEncoder, stem: str, choice: str) -> str:
    """The tokens that the model gets to see."""
    seen: list[list[int]] = []
    hook = encoder.model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"][0].tolist()), with_kwargs=True
    )
    with torch.no_grad():  # training has a forward pass of its own
        encoder.sentences([stem], [choice])
    hook.remove()
    return " ".join(encoder.tokenizer.convert_ids_to_tokens(seen[0]))


@pytest.mark.parametrize(
    ("kind", "input_format", "expected"),
    [
        ("bert", "default", "<s> where would a child sit ? </s> school </s>"),
        ("bert", "add_qa_prefix", "<s> <unk> : where would a child sit ? </s> <unk> : school </s>"),
        ("roberta", "default", "<s> where would a child sit ? </s> </s> school </s>"),
        ("roberta", "no_extra_sep", "<s> where would a child sit ? </s> school </s>"),
        ("roberta", "fairseq", "<s> <unk> : where would a child sit ? </s> <unk> : school </s>"),
    ],
)
def test_pairs_are_laid_out_as_their_format_says(tmp_path: Path, kind: str, input_format: str, expected: str) -> None:
    config = TextEncoderSettings(encoder=str(tiny(tmp_path, kind)), input_format=input_format)  # type: ignore[arg-type]
    encoder = load_text_encoder(config)
    assert (encoder.encoding, encoder.pooling) == ("pair", "pooler")
    assert shown(encoder, "where would a child sit ?", "school") == expected


@pytest.mark.parametrize("input_format", ["default", "no_extra_sep"])
def test_the_longer_of_stem_and_choice_is_truncated(tmp_path: Path, input_format: str) -> None:
    folder = tiny(tmp_path, "bert")
    encoder = load_text_encoder(TextEncoderSettings(encoder=str(folder), max_length=8, input_format=input_format))  # type: ignore[arg-type]
    assert shown(encoder, "where would a child sit at a desk", "school yard") == "<s> where would a </s> school yard </s>"


@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
def test_a_vector_does_not_depend_on_the_others_in_its_batch(tmp_path: Path, pooling: str) -> None:
    encoder = load_text_encoder(TextEncoderSettings(encoder=str(tiny(tmp_path, "bert")), pooling=pooling))  # type: ignore[arg-type]
    stems, choices = ["where would a child sit ?", "where ?"], ["school", "a school yard"]
    together = encoder.sentences(stems, choices)
    assert together.shape == (2, encoder.sentence_dim)
    for i in range(2):
        torch.testing.assert_close(encoder.sentences(stems[i : i + 1], choices[i : i + 1])[0], together[i])


def test_long_pairs_are_tokenized_only_as_far_as_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer keeps every combination of what it cuts off two texts: quadratic memory."""
    encoder = load_text_encoder(TextEncoderSettings(encoder=str(tiny(tmp_path, "bert")), max_length=16))  # type: ignore[call-arg]
    tokenize, cut_off, read = encoder.tokenizer, [], []

    class Spy:
        def __call__(self, *texts: Any, **options: Any) -> Any:
            found = tokenize(*texts, **options)
            if "truncation" in options:
                cut_off.extend(len(text.overflowing) for text in found.encodings)
                read.append(found["input_ids"].tolist())
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenize, name)

    monkeypatch.setattr(encoder, "tokenizer", Spy())
    options = {"truncation": "longest_first", "max_length": 16}
    for n, m in ((1, 1), (5, 5), (5, 13), (5, 14), (200, 200), (100, 266), (100, 267), (200, 5), (2, 200), (200, 1)):
        stem, choice = "where would a child sit at desk ? " * n, "a school yard " * m
        encoder.sentences([stem], [choice])
        assert read[-1] == [tokenize(stem, f" {choice}", **options)["input_ids"]], (n, m)
    assert max(cut_off) < 1000  # tens of thousands otherwise


def test_a_model_without_pooler_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no pooler; set text\.pooling=mean"):
        load_text_encoder(TextEncoderSettings(encoder=str(tiny(tmp_path, "distilbert"))))


def test_an_unknown_encoder_is_one_message() -> None:
    with pytest.raises(UserError, match="'no-such/model' cannot be loaded"):
        load_text_encoder(TextEncoderSettings(encoder="no-such/model"))


def edited(folder: Path, **changes: object) -> Path:
    """A folder with other entries in its config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")
    return folder


def weights_of(folder: Path, **settings: Any) -> str:
    return str(load_text_encoder(TextEncoderSettings(encoder=str(folder), **settings)).identity()["weights"])


def test_an_encoder_is_the_same_wherever_it_is_and_whatever_saved_it(tmp_path: Path) -> None:
    weights = weights_of(tiny(tmp_path / "one", "bert"))
    moved = shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert weights_of(edited(moved, transformers_version="4.2.0", _name_or_path="elsewhere")) == weights
    assert weights_of(edited(moved, hidden_act="relu")) != weights


class _NewSettings(TextEncoderSettings):
    temperature: float = 1.0


def test_a_new_setting_with_its_default_changes_no_identity(tmp_path: Path) -> None:
    """What is cached under an identity stays valid: learning rates cannot change the vectors of a frozen encoder."""
    folder = str(tiny(tmp_path, "bert"))
    identity = load_text_encoder(TextEncoderSettings(encoder=folder)).identity()
    assert load_text_encoder(_NewSettings(encoder=folder, learning_rate=0.1)).identity() == identity
    for change in ({"temperature": 2.0}, {"max_length": 9}, {"pooling": "cls"}, {"input_format": "fairseq"}):
        assert load_text_encoder(_NewSettings(encoder=folder, **change)).identity() != identity


@pytest.mark.parametrize("pooling", ["pooler", "cls"])
def test_a_pooler_that_the_weights_lack_is_the_same_at_every_load(tmp_path: Path, pooling: str) -> None:
    folder = tiny(tmp_path, "roberta")
    model = RobertaModel.from_pretrained(folder)
    kept = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("pooler.")}
    model.save_pretrained(folder, state_dict=kept)
    torch.manual_seed(1)
    one = load_text_encoder(TextEncoderSettings(encoder=str(folder), pooling=pooling))
    torch.manual_seed(2)
    other = load_text_encoder(TextEncoderSettings(encoder=str(folder), pooling=pooling))
    assert one.identity() == other.identity()
    statement = ["where would a child sit"], ["desk"]
    assert torch.equal(one.sentences(*statement), other.sentences(*statement))
    assert float(one.model.pooler.dense.weight.detach().std()) == pytest.approx(0.02, rel=0.5)


def test_unusable_encoders_are_refused_with_one_message(tmp_path: Path) -> None:
    def refused(folder: Path, says: str, **settings: Any) -> None:
        with pytest.raises(UserError, match=says) as error:
            load_text_encoder(TextEncoderSettings(encoder=str(folder), **settings))
        assert "\n" not in str(error.value)

    bert = tiny(tmp_path / "bert", "bert")

    def copy(name: str) -> Path:
        return shutil.copytree(bert, tmp_path / name)

    refused(edited(copy("sizes"), hidden_size=12), "cannot be loaded")
    refused(edited(copy("layers"), num_hidden_layers=2), r"has no weights for encoder\.layer\.1")
    refused(bert, "text.max_length=513: .* reads at most 512 tokens", max_length=513)
    code = edited(copy("code"), auto_map={"AutoModel": "mine.Model", "AutoConfig": "mine.Config"}, model_type="mine")
    (code / "mine.py").write_text("raise SystemExit('run')", encoding="utf-8")
    refused(code, "cannot be loaded")
    unpadded = copy("unpadded")
    PreTrainedTokenizerFast(tokenizer_file=str(bert / "tokenizer.json"), unk_token="<unk>").save_pretrained(unpadded)
    refused(unpadded, "no padding token")
    wordless = copy("wordless")
    vocabulary = {word: i for i, word in enumerate(SPECIAL)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>").save_pretrained(wordless)
    refused(wordless, "knows no words")


@pytest.mark.parametrize("input_format", ["default", "fairseq"])
def test_truncated_texts_are_counted(tmp_path: Path, input_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = TextEncoderSettings(encoder=str(tiny(tmp_path, "bert")), max_length=14, input_format=input_format)
    encoder = load_text_encoder(config)
    pairs = [("where would a child sit", "desk"), ("where would a child sit " * 4, "desk")]
    SentenceVectors.compute(encoder, pairs, None)
    assert encoder.truncated == 1
    assert "1 texts have more than text.max_length=14 tokens" in capsys.readouterr().err


@pytest.fixture(scope="module")
def minilm() -> TextEncoder:
    return load_text_encoder(TextEncoderSettings())


def test_the_built_in_encoder_gives_similar_texts_similar_vectors(minilm: TextEncoder) -> None:
    assert (minilm.encoding, minilm.pooling, minilm.sentence_dim) == ("separate", "mean", 4 * 384)
    child, pupil, stone = minilm.embed_all(["a child at school", "a pupil in class", "a stone in a river"], "")
    torch.testing.assert_close(child.norm(), torch.tensor(384.0**0.5))
    assert child @ pupil > child @ stone


def test_cached_sentence_vectors_equal_the_encoders_own(minilm: TextEncoder, tmp_path: Path) -> None:
    pairs = [("Where would a child sit?", "school"), ("What is cold?", "ice"), ("What is cold?", "fire")]
    cache = tmp_path / "text.safetensors"
    with torch.inference_mode():
        direct = minilm.sentences(*zip(*pairs, strict=True))
    for _ in range(2):  # computed, then read
        vectors = SentenceVectors.compute(minilm, pairs, cache)
        torch.testing.assert_close(vectors(torch.tensor([0, 1, 2])), direct, rtol=1e-4, atol=1e-4)
    assert cache.is_file()
    q, a, product, difference = direct.chunk(4, dim=1)
    torch.testing.assert_close(product, q * a)
    torch.testing.assert_close(difference, (q - a).abs())


@pytest.mark.parametrize(
    ("kind", "input_format", "encoding", "count"),
    [
        ("bert", "default", "pair", 7),
        ("roberta", "default", "pair", 7),
        ("roberta", "fairseq", "pair", 11),  # Q : and A :, where Q and A are unknown tokens
        ("bert", "default", "separate", 7),
    ],
)
def test_token_states_are_those_of_the_texts_own_tokens(
    tmp_path: Path, kind: str, input_format: str, encoding: str, count: int
) -> None:
    config = TextEncoderSettings(encoder=str(tiny(tmp_path, kind)), input_format=input_format, encoding=encoding)  # type: ignore[arg-type]
    encoder = load_text_encoder(config)
    stems, choices = ["where would a child sit ?", "where ?"], ["school", "a school yard"]
    with torch.inference_mode():
        s, tokens = encoder.read(stems, choices)
        torch.testing.assert_close(s, encoder.sentences(stems, choices))
        extra = count - 7
        assert tokens.content.sum(1).tolist() == [7 + extra, 5 + extra]
        assert tokens.states.shape == (2, count, 8)
        # padding changes nothing
        alone = encoder.read(stems[1:], choices[1:])[1]
        torch.testing.assert_close(alone.states[0][alone.content[0]], tokens.states[1][tokens.content[1]])
    cached = TokenStates.compute(encoder, list(zip(stems, choices, strict=True)), tmp_path / "tokens")
    for which in ([0, 1], [1], [1, 1, 0]):
        found = cached(torch.tensor(which))
        for row, i in enumerate(which):
            torch.testing.assert_close(
                found.states[row][found.content[row]], tokens.states[i][tokens.content[i]], rtol=1e-3, atol=1e-3
            )


def test_token_states_are_computed_once(minilm: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("Where would a child sit?", "school"), ("What is cold?", "ice"), ("What is cold?", "fire")]
    first = TokenStates.compute(minilm, pairs, tmp_path / "tokens")(torch.arange(3))
    monkeypatch.setattr(TextEncoder, "encode_texts", None)
    again = TokenStates.compute(minilm, pairs, tmp_path / "tokens")(torch.arange(3))
    assert torch.equal(first.states, again.states)
    assert torch.equal(first.content, again.content)


@pytest.mark.parametrize("encoding", ["pair", "separate"])
@pytest.mark.parametrize("input_format", ["default", "fairseq"])
def test_truncated_pairs_are_named(tmp_path: Path, input_format: str, encoding: str) -> None:
    config = TextEncoderSettings(
        encoder=str(tiny(tmp_path, "bert")), max_length=14, input_format=input_format, encoding=encoding, pooling="mean"
    )
    encoder = load_text_encoder(config)
    pairs = [("where would a child sit", "desk"), ("where would a child sit " * 4, "desk"), ("where", "school yard " * 9)]
    assert encoder.are_truncated(pairs) == [False, True, True]
    for pair, expected in zip(pairs, encoder.are_truncated(pairs), strict=True):
        before = encoder.truncated
        encoder.sentences(*([text] for text in pair))
        assert (encoder.truncated > before) == expected


def test_threads_share_a_tokenizer(tmp_path: Path, eager_switching: None) -> None:
    """A tokenizer of the transformers library sets truncation and padding in each call."""
    encoder = load_text_encoder(TextEncoderSettings(encoder=str(tiny(tmp_path, "bert")), max_length=14))
    short, long = ("where would a child sit", "desk"), ("where would a child sit " * 4, "desk")

    def use(thread: int) -> list[object]:
        stem, choice = (short, long)[thread % 2]
        with torch.inference_mode():
            return [(encoder.are_truncated([(stem, choice)]), encoder.sentences([stem], [choice]).tolist()) for _ in range(30)]

    expected = [use(0)[0], use(1)[0]]
    with ThreadPoolExecutor(8) as pool:
        for thread, found in enumerate(pool.map(use, range(8))):
            assert found == [expected[thread % 2]] * 30


@pytest.mark.parametrize("encoding", ["separate", "pair"])
def test_an_encoder_that_overflows_with_a_word_is_refused_when_it_reads_it(tmp_path: Path, encoding: str) -> None:
    encoder = load_text_encoder(TextEncoderSettings(encoder=str(tiny(tmp_path, "bert")), encoding=encoding))
    number = encoder.tokenizer.convert_tokens_to_ids("yard")
    with torch.inference_mode():
        encoder.model.get_input_embeddings().weight[number, :2] = 3e38
        assert bool(encoder.sentences(["a desk"], ["school"]).isfinite().all())
        with pytest.raises(UserError, match="is damaged: it gives numbers that are not finite"):
            encoder.sentences(["a desk"], ["yard"])
