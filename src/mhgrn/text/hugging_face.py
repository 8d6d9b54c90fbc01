"""Text encoders of the transformers library, from a folder or from the Hugging Face hub."""

from pathlib import Path

import torch

from mhgrn.errors import UserError
from mhgrn.text.encoder import Pretrained, TextEncoder, config_identity, reason_of


class HuggingFaceEncoder(TextEncoder):
    """The model in the folder, or with the hub name, that ``text.encoder`` gives."""

    def load(self) -> Pretrained:
        return load_pretrained(self.settings.encoder, self.settings.encoder)


def load_pretrained(where: str, name: str) -> Pretrained:
    """Load a tokenizer and a model.

    Args:
        where: A folder or a hub name.
        name: The name of the encoder in messages.
    """
    from transformers import AutoModel, AutoTokenizer, PretrainedConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False)
        model, loaded = AutoModel.from_pretrained(where, trust_remote_code=False, output_loading_info=True)
        config, _ = PretrainedConfig.get_config_dict(where)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # transformers, safetensors and torch raise errors of their own
        raise UserError(
            f"the text encoder {name!r} cannot be loaded: it is neither installed nor a model folder, and the model hub did not"
            f" provide it ({reason_of(error)}). Use minilm, or a folder with config.json, weights and tokenizer."
        ) from None
    parameters = dict(model.named_parameters())
    missing = [key for key in loaded["missing_keys"] if key in parameters]
    if others := [key for key in missing if not key.startswith("pooler.")]:
        raise UserError(
            f"the text encoder {name!r} has no weights for {min(others)}; do config.json and the weights belong together?"
        )
    with torch.no_grad():  # RoBERTa comes without a pooler: initialize it to the same values at every load
        generator = torch.Generator().manual_seed(0)
        for key in sorted(missing):
            parameter, spread = parameters[key], getattr(model.config, "initializer_range", 0.02)
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread if key.endswith("weight") else parameter * 0)
    is_sentence_encoder = (Path(where) / "modules.json").is_file() or "sentence-transformers/" in where
    return Pretrained(tokenizer, model, config_identity(config), is_sentence_encoder)
