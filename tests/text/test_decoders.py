"""Causal decoders as text encoders: pooling at the last token, padding, and files in GGUF."""

import shutil
from importlib import util
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from mhgrn.errors import UserError
from mhgrn.text.gguf import MARKER, converted, find_gguf
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from tiny_decoder import letter_decoder
from tiny_encoder import letter_encoder

TEXTS = ["a desk", "where would a child sit at a desk?", "x"]
KINDS: tuple[Literal["llama", "gpt2"], ...] = ("llama", "gpt2")


def load(folder: Path, **settings: Any) -> Any:
    return load_text_encoder(TextEncoderSettings(encoder=str(folder), **settings))


@pytest.mark.parametrize("kind", KINDS)
def test_auto_pools_a_decoder_at_its_last_token(tmp_path: Path, kind: Literal["llama", "gpt2"]) -> None:
    encoder = load(letter_decoder(tmp_path, kind))
    assert (encoder.encoding, encoder.pooling) == ("pair", "last")
    assert encoder.tokenizer.pad_token == "</s>"
    found = encoder.sentences(["where is it?", "who?"], ["a desk", "child"])
    for row, text in zip(found, ["where is it? a desk", "who? child"], strict=True):
        ids = encoder.tokenizer(text, return_tensors="pt")["input_ids"]
        torch.testing.assert_close(row, encoder.model(input_ids=ids).last_hidden_state[0, -1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_change_vectors(tmp_path: Path, kind: Literal["llama", "gpt2"], side: Literal["left", "right"]) -> None:
    encoder = load(letter_decoder(tmp_path, kind, side), encoding="separate")
    together = encoder.embed(TEXTS)
    for row, text in zip(together, TEXTS, strict=True):
        torch.testing.assert_close(row, encoder.embed([text])[0], rtol=1e-4, atol=1e-5)
    pooled = load(tmp_path, encoding="separate", pooling="mean")
    torch.testing.assert_close(pooled.embed(TEXTS)[2], pooled.embed(["x"])[0], rtol=1e-4, atol=1e-5)


def test_the_first_token_is_pooled_if_a_text_has_no_other(tmp_path: Path) -> None:
    encoder = load(letter_decoder(tmp_path, begins_texts=True), encoding="separate")
    assert encoder.embed(["", "a desk"]).isfinite().all()


def test_bidirectional_encoders_are_no_decoders(tmp_path: Path) -> None:
    for kind in ("bert", "roberta"):
        assert load(letter_encoder(tmp_path / kind, kind)).pooling == "pooler"


def test_weights_in_half_precision_compute_in_full(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(letter_decoder(tmp_path)).to(torch.bfloat16).save_pretrained(tmp_path)
    assert load(tmp_path).sentences(["where?"], ["a desk"]).dtype == torch.float32


def write_gguf(path: Path, folder: Path, begins_texts: bool) -> None:
    """A Llama of :func:`letter_decoder` as a GGUF file with 32-bit weights."""
    import gguf
    import numpy as np
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    config, writer = model.config, gguf.GGUFWriter(str(path), "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    writer.add_token_list(words)
    writer.add_token_types([3 if word in ("<s>", "</s>") else 1 for word in words])
    writer.add_token_merges(["Ġ a"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(begins_texts)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for key, weight in model.state_dict().items():
        values = weight.float().numpy()
        if key.endswith(("q_proj.weight", "k_proj.weight")):  # GGUF orders the rotated dimensions in another way
            heads = config.num_attention_heads if "q_proj" in key else config.num_key_value_heads
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        base, ending = key.rsplit(".", 1)
        writer.add_tensor(f"{names.get_name(base)}.{ending}", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


needs_gguf = pytest.mark.skipif(
    util.find_spec("gguf") is None or util.find_spec("accelerate") is None, reason="gguf or accelerate is not installed"
)


@needs_gguf
def test_a_gguf_file_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))
    original = letter_decoder(tmp_path / "model", begins_texts=True)
    (tmp_path / "gguf").mkdir()
    file = tmp_path / "gguf" / "model.gguf"
    write_gguf(file, original, begins_texts=True)
    pairs = ["where would a child sit?", "who?"], ["at a desk", "x"]
    expected = load(original).sentences(*pairs)
    for place in (file, file.parent):
        encoder = load(place)
        assert encoder.folder == place
        assert encoder.pooling == "last"
        torch.testing.assert_close(encoder.sentences(*pairs), expected, rtol=1e-4, atol=1e-5)
        assert encoder.tokenizer("a")["input_ids"][0] == 0
    assert capsys.readouterr().err.count("converting") == 1

    (folder,) = (tmp_path / "cache" / "text-encoders").iterdir()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\7")
    torch.testing.assert_close(load(file).sentences(*pairs), expected, rtol=1e-4, atol=1e-5)  # converted again
    assert (folder / MARKER).is_file()

    halves = [tmp_path / "part1", tmp_path / "part2"]
    content = file.read_bytes()
    halves[0].write_bytes(content[:1000])
    halves[1].write_bytes(content[1000:])
    shutil.rmtree(folder)
    assert converted(halves, "model") == folder
    assert not list(folder.glob("*.gguf"))


@needs_gguf
def test_a_damaged_gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    with pytest.raises(UserError, match="its GGUF file cannot be converted"):
        load(tmp_path / "model.gguf")
    assert not list((tmp_path / "cache" / "text-encoders").iterdir())


def test_a_gguf_file_needs_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mhgrn.text.gguf.util.find_spec", lambda name: None)
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(UserError, match=r"needs gguf and accelerate: pip install 'mhgrn\[gguf\]'"):
        load(tmp_path / "model.gguf")


def test_which_gguf_file(tmp_path: Path) -> None:
    assert find_gguf(str(tmp_path)) is None
    (tmp_path / "one.gguf").touch()
    assert find_gguf(str(tmp_path)) == tmp_path / "one.gguf"
    (tmp_path / "two.gguf").touch()
    with pytest.raises(UserError, match="contains 2 GGUF files; name one of them"):
        find_gguf(str(tmp_path))
    (tmp_path / "config.json").touch()
    assert find_gguf(str(tmp_path)) is None
