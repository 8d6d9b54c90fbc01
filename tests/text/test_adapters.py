"""Adapters: the same vectors as peft and as mapping by hand, and one message about whatever does not fit."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from mhgrn.errors import UserError
from mhgrn.io.tensors import save_tensors
from mhgrn.text.adapters import adapter_base, is_adapter
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from tiny_encoder import letter_encoder

TEXTS = ["a desk", "where do children sit", "sea", "x"]
WIDTH = 8


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letter_encoder(tmp_path_factory.mktemp("base"), dropout=0.0)


def load(place: Path | str, **settings: Any) -> TextEncoder:
    return load_text_encoder(TextEncoderSettings(**{"encoder": str(place), "encoding": "separate"} | settings))


def linear(folder: Path, base: Path | str, weight: torch.Tensor) -> Path:
    folder.mkdir()
    save_tensors(folder / "adapter.safetensors", {"weight": weight})
    (folder / "adapter.json").write_text(json.dumps({"kind": "linear", "base": str(base)}), encoding="utf-8")
    return folder


def lora(folder: Path, base: Path, **options: Any) -> Path:
    """A LoRA with random factors, written by peft."""
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(**{"r": 3, "lora_alpha": 6, "target_modules": ["query", "value"]} | options)
    model = peft.get_peft_model(load(base).model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    model.save_pretrained(folder)
    edit(folder, base_model_name_or_path=str(base))
    return folder


def edit(folder: Path, **entries: Any) -> None:
    file = next(path for path in (folder / "adapter_config.json", folder / "adapter.json") if path.exists())
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | entries), encoding="utf-8")


def refusal(place: Path, **settings: Any) -> str:
    with pytest.raises(UserError) as error:
        load(place, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_linear_map_maps_the_vectors(base: Path, tmp_path: Path) -> None:
    weight = torch.randn(WIDTH, WIDTH)
    folder = linear(tmp_path / "map", base, weight)
    expected = functional.normalize(load(base).embed(TEXTS) @ weight.T, dim=1) * WIDTH**0.5
    encoder = load(folder)
    torch.testing.assert_close(encoder.embed(TEXTS), expected)
    assert encoder.folder == folder
    assert encoder.identity()["weights"] != load(base).identity()["weights"]
    assert encoder.checksum() != load(base).checksum()


def test_a_lora_gives_the_vectors_of_peft(base: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    folder = lora(tmp_path / "lora", base)
    encoder, plain = load(folder), load(base)
    plain.model = peft.PeftModel.from_pretrained(plain.model, folder).eval()
    torch.testing.assert_close(encoder.embed(TEXTS), plain.embed(TEXTS))
    assert not torch.allclose(encoder.embed(TEXTS), load(base).embed(TEXTS), atol=0.01)
    assert not any("lora" in name for name, _ in encoder.named_parameters())  # added to the weights


def test_a_lora_changes_the_built_in_encoder(tmp_path: Path) -> None:
    weights = {}
    for layer in range(6):
        for name in ("query", "key"):
            prefix = f"base_model.model.encoder.layer.{layer}.attention.self.{name}.lora_"
            weights |= {f"{prefix}A.weight": torch.randn(2, 384), f"{prefix}B.weight": torch.randn(384, 2)}
    save_file(weights, tmp_path / "adapter_model.safetensors")
    about = {"peft_type": "LORA", "r": 2, "lora_alpha": 1, "base_model_name_or_path": "minilm"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(about), encoding="utf-8")
    assert adapter_base(tmp_path) == "minilm"
    assert not torch.allclose(load(tmp_path).embed(TEXTS), load("minilm").embed(TEXTS), atol=0.01)


def test_a_folder_with_a_model_is_no_adapter(base: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(base, tmp_path / "both")
    (folder / "adapter.json").write_text("{}", encoding="utf-8")
    assert not is_adapter(folder)
    torch.testing.assert_close(load(folder).embed(TEXTS), load(base).embed(TEXTS))


@pytest.mark.parametrize(
    "weight",
    [torch.eye(WIDTH + 1), torch.ones(WIDTH), torch.eye(WIDTH, dtype=torch.float64), torch.full((WIDTH, WIDTH), torch.nan)],
    ids=["wide", "vector", "double", "nan"],
)
def test_a_map_that_does_not_fit(base: Path, tmp_path: Path, weight: torch.Tensor) -> None:
    assert "adapter.safetensors" in refusal(linear(tmp_path / "map", base, weight))


def test_a_map_of_pooled_pairs(base: Path, tmp_path: Path) -> None:
    folder = linear(tmp_path / "map", base, torch.eye(WIDTH))
    assert "text.encoding=separate" in refusal(folder, encoding="pair")
    assert load(folder, encoding="pair", pooling="mean").sentence_dim == WIDTH


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"r": 4}, "rank 4"),
        ({"r": 0}, "damaged"),
        ({"r": "3"}, "damaged"),
        ({"lora_alpha": None}, "damaged"),
        ({"use_dora": True}, "use_dora"),
        ({"use_rslora": True}, "use_rslora"),
        ({"bias": "all"}, "bias"),
        ({"modules_to_save": ["pooler"]}, "modules_to_save"),
        ({"rank_pattern": {"query": 2}}, "rank_pattern"),
        ({"peft_type": "IA3"}, "peft_type"),
        ({"base_model_name_or_path": None}, "base_model_name_or_path"),
        ({"base_model_name_or_path": "nowhere"}, "nowhere"),
        ({"base_model_name_or_path": "minilm"}, "does not fit the text encoder"),
    ],
    ids=str,
)
def test_a_lora_that_cannot_be_added(base: Path, tmp_path: Path, entries: dict[str, Any], says: str) -> None:
    folder = lora(tmp_path / "lora", base)
    edit(folder, **entries)
    assert says in refusal(folder)


@pytest.mark.parametrize("change", ["missing", "transposed", "extra", "empty"])
def test_a_lora_with_other_tensors(base: Path, tmp_path: Path, change: str) -> None:
    folder = lora(tmp_path / "lora", base)
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    first = min(tensors)
    if change == "missing":
        del tensors[first.replace("lora_A", "lora_B")]
    elif change == "transposed":
        tensors[first] = tensors[first].T.contiguous()
    elif change == "extra":
        tensors["pooler.dense.weight"] = torch.zeros(2)
    else:
        tensors = {}
    save_file(tensors, path)
    assert str(path) in refusal(folder)


@pytest.mark.parametrize("content", ["", "[1]", "[" * 200_000, "null"], ids=["empty", "list", "nested", "null"])
def test_a_damaged_description(base: Path, tmp_path: Path, content: str) -> None:
    folder = linear(tmp_path / "map", base, torch.eye(WIDTH))
    (folder / "adapter.json").write_text(content, encoding="utf-8")
    assert "adapter.json is damaged" in refusal(folder)


def test_a_map_of_another_kind(base: Path, tmp_path: Path) -> None:
    folder = linear(tmp_path / "map", base, torch.eye(WIDTH))
    edit(folder, kind="affine")
    assert "affine" in refusal(folder)


def test_an_adapter_of_an_adapter(base: Path, tmp_path: Path) -> None:
    first = linear(tmp_path / "first", base, torch.eye(WIDTH))
    assert "an adapter itself" in refusal(linear(tmp_path / "second", first, torch.eye(WIDTH)))
    edit(first, base=str(first))
    assert "an adapter itself" in refusal(first)
