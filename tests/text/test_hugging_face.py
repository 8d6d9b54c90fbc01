"""Encoders of the transformers library: no network, no pickle, and one message about whatever is wrong with a folder."""

import errno
import json
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file

from mhgrn.errors import UserError, shortage
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from tiny_encoder import letter_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letter_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def copied(encoder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(encoder, tmp_path / "copy")


def refusal(place: Path | str, **options: bool) -> str:
    with pytest.raises(UserError) as error:
        load_text_encoder(TextEncoderSettings(encoder=str(place)), **options)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 10**9),
        ("hidden_size", 10**6),
        ("hidden_size", -5),
        ("hidden_size", None),
        ("num_hidden_layers", 10**9),
        ("num_hidden_layers", -3),
        ("num_attention_heads", 0),
        ("num_attention_heads", 10**30),
        ("vocab_size", 10**15),
        ("vocab_size", 3),
        ("intermediate_size", 10**6),
        ("layer_norm_eps", float("nan")),
        ("model_type", ["x"]),
        ("dtype", "int8"),
        ("quantization_config", 5),
    ],
)
def test_nonsense_in_config_json(copied: Path, key: str, value: object) -> None:
    file = copied / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | {key: value}), encoding="utf-8")
    assert str(copied) in refusal(copied)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: b"[" * 200_000,
        lambda content: b"\xff" + content,
        lambda content: b"null",
    ],
    ids=["half", "empty", "nested", "prefixed", "null"],
)
def test_a_damaged_file(copied: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    (copied / name).write_bytes(damage((copied / name).read_bytes()))
    assert str(copied) in refusal(copied)


def test_weights_that_are_not_finite_are_named(copied: Path) -> None:
    content = (copied / "model.safetensors").read_bytes()
    (copied / "model.safetensors").write_bytes(content[:-4] + struct.pack("<f", float("nan")))
    assert "pooler.dense.weight has values that are infinite or not a number" in refusal(copied)


def test_pickled_weights_only_if_asked(copied: Path, encoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(load_file(copied / "model.safetensors"), copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    assert "pytorch_model.bin, a pickle file" in (message := refusal(copied))
    assert "--allow-pickle" in message
    found = load_text_encoder(TextEncoderSettings(encoder=str(copied)), allow_pickle=True)
    assert "warning" in capsys.readouterr().err
    assert found.identity() == load_text_encoder(TextEncoderSettings(encoder=str(encoder))).identity()


def test_nothing_is_asked_of_the_network_unless_allowed(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*args: object, **_: object) -> None:
        asked.append(args)
        raise OSError("no network")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert "--allow-download" in refusal("someone/model")
    assert "--encoder" in refusal("/no/such/folder")
    load_text_encoder(TextEncoderSettings(encoder=str(encoder)))
    assert not asked
    assert "cannot be downloaded" in refusal("someone/model", allow_download=True)
    assert asked


def test_a_hub_model_in_the_cache_is_used(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    model = tmp_path / "models--someone--model"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("a" * 40, encoding="utf-8")
    shutil.copytree(encoder, model / "snapshots" / ("a" * 40))
    found = load_text_encoder(TextEncoderSettings(encoder="someone/model"))
    assert found.identity() == load_text_encoder(TextEncoderSettings(encoder=str(encoder))).identity()


@pytest.mark.parametrize("name", ["", "../x", "x\0y", "a" * 300])
def test_a_name_that_cannot_be_one(name: str) -> None:
    assert "cannot be loaded" in refusal(name)


def test_a_url_is_not_fetched_unless_that_is_allowed() -> None:
    assert "http://host/model is not on this machine; add --allow-download" in refusal("http://host/model")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."), "out of memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory"),
        (OSError(errno.EMFILE, "Too many open files"), "too many files are open"),
        (ValueError("I/O error: Too many open files (os error 24)"), "too many files are open"),
    ],
)
def test_a_shortage_is_not_reported_as_damage(encoder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str) -> None:
    def fail(*_: object, **__: object) -> None:
        try:
            raise error
        except Exception:
            raise OSError("Can't load the model") from error

    monkeypatch.setattr("transformers.AutoModel.from_pretrained", fail)
    assert refusal(encoder) == f"the text encoder '{encoder}' cannot be loaded: {shortage(error)}."
    assert says in str(shortage(error))
    assert shortage(ValueError("damaged")) is None


def test_more_tokens_than_the_weights_have(encoder: Path) -> None:
    found = load_text_encoder(TextEncoderSettings(encoder=str(encoder)))
    found.tokenizer.add_tokens(["school"])
    with pytest.raises(UserError, match="its tokenizer has tokens that its weights lack"):
        found.embed(["a school"])


def test_a_tokenizer_that_stops_in_rust(copied: Path) -> None:
    """A panic of Rust code is no Exception of Python."""
    file = copied / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    tokenizer["post_processor"]["single"][0]["SpecialToken"]["id"] = "<t>"
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    assert "the tokenizer of the text encoder is damaged" in refusal(copied)
