"""Text encoders of the transformers library, from a folder or from the Hugging Face hub."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from mhgrn.errors import UserError, shortage
from mhgrn.printing import shortened
from mhgrn.progress import say
from mhgrn.text.encoder import Pretrained, TextEncoder, config_identity, reason_of
from mhgrn.text.gguf import converted, find_gguf, is_gguf
from mhgrn.text.settings import TextEncoderSettings

DOWNLOADED = ("*.json", "*.txt", "*.model", "*.safetensors")  # the files of a hub model that are needed
LARGEST_CONFIG = 1 << 20  # bytes of config.json
LARGEST_SIZE = 1 << 20  # of a size in config.json that no dimension of the weights has, such as a number of positions
IN_THE_WEIGHTS = ("hidden_size", "vocab_size")  # sizes that some tensor has
ALSO_BIDIRECTIONAL = ("bert-generation", "xlnet")  # types of models without masked language modeling
LARGEST_HEADER = 100_000_000  # bytes, as in the safetensors library


class HuggingFaceEncoder(TextEncoder):
    """The model in a folder or with a hub name.

    Args:
        settings: The settings of the section ``text``.
        place: The folder or hub name. None: ``settings.encoder``.
        allow_download: See :func:`load_pretrained`.
        allow_pickle: See :func:`load_pretrained`.
    """

    def __init__(
        self, settings: TextEncoderSettings, place: str | None = None, allow_download: bool = False, allow_pickle: bool = False
    ) -> None:
        self._source = (place or settings.encoder, allow_download, allow_pickle)
        super().__init__(settings)

    @property
    def files(self) -> Path:
        where, allow_download, allow_pickle = self._source
        return _find(where, where, allow_download, allow_pickle)

    def load(self) -> Pretrained:
        where, allow_download, allow_pickle = self._source
        if os.path.isdir(where) or is_gguf(where):  # unlike Path.is_dir, False for a name that cannot be a path
            self.folder = Path(where).absolute()
        return load_pretrained(where, where, allow_download, allow_pickle)


def load_pretrained(
    where: str, name: str, allow_download: bool = False, allow_pickle: bool = False, scores_tokens: bool = False
) -> Pretrained:
    """Load a tokenizer and a model.

    Args:
        where: A folder, a GGUF file, or a hub name.
        name: The name of the encoder in messages.
        allow_download: Download a model that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load ``.bin`` weights if there are no safetensors. Pickle files can run code.
        scores_tokens: Load a causal language model, which gives the logits of the next token instead of states.
    """
    import transformers
    from transformers import AutoConfig, AutoTokenizer, PretrainedConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = _find(where, name, allow_download, allow_pickle)
    is_pickle = _check_files(folder, name, allow_pickle)
    try:
        if scores_tokens and not is_causal(AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)):
            raise UserError(f"{shortened(name)} is not a causal language model; use smollm2, gemma3-270m, a folder or a GGUF file.")
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        model, loaded = getattr(transformers, "AutoModelForCausalLM" if scores_tokens else "AutoModel").from_pretrained(
            folder,
            use_safetensors=not is_pickle,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
        config, _ = PretrainedConfig.get_config_dict(folder, local_files_only=True)
    except (KeyboardInterrupt, SystemExit, UserError):
        raise
    except BaseException as error:  # transformers, safetensors and torch raise errors of their own; Rust code may panic
        raise unusable(name, error) from None
    parameters = dict(model.named_parameters())
    missing = [key for key in loaded["missing_keys"] if key in parameters]
    if others := [key for key in missing if not key.startswith("pooler.")]:
        raise UserError(
            f"the text encoder {shortened(name)} has no weights for {min(others)}; do config.json and the weights belong together?"
        )
    for key, parameter in parameters.items():
        if key not in missing and not bool(torch.isfinite(parameter.detach().sum()) or torch.isfinite(parameter.detach()).all()):
            raise UserError(
                f"the text encoder {shortened(name)} is damaged: {key} has values that are infinite or not a number (NaN)."
            )
    with torch.no_grad():  # RoBERTa comes without a pooler: initialize it to the same values at every load
        generator = torch.Generator().manual_seed(0)
        for key in sorted(missing):
            parameter, spread = parameters[key], getattr(model.config, "initializer_range", 0.02)
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread if key.endswith("weight") else parameter * 0)
    if tokenizer.pad_token_id is None and tokenizer.eos_token_id is not None:
        tokenizer.pad_token = tokenizer.eos_token  # masked, so that any token does
    is_sentence_encoder = (folder / "modules.json").is_file() or "sentence-transformers/" in where
    if not is_causal(model.config):
        return Pretrained(tokenizer, model, config_identity(config), is_sentence_encoder)
    tokenizer.padding_side = "right"  # absolute positions count from the first token
    tokenizer.model_input_names = ["input_ids", "attention_mask"]  # decoders add no kinds of texts to their states
    return Pretrained(tokenizer, model.float(), config_identity(config), is_sentence_encoder, "last")


def is_causal(config: Any) -> bool:
    """Whether a model is a decoder, in which a token attends only to the tokens before it."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config.model_type
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or getattr(config, "is_encoder_decoder", False):
        return False
    if kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES or kind in ALSO_BIDIRECTIONAL:
        return bool(getattr(config, "is_decoder", False))
    return not getattr(config, "use_bidirectional_attention", False)


def _find(where: str, name: str, allow_download: bool, allow_pickle: bool) -> Path:
    """The folder of a model: ``where`` itself, a converted GGUF file, or a hub model in the cache of Hugging Face."""
    if (file := find_gguf(where)) is not None:
        return converted([file], name)
    if os.path.isdir(where):  # unlike Path.is_dir, False for a name that cannot be a path
        return Path(where)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        if allow_download:
            patterns = [*DOWNLOADED, *(["*.bin"] if allow_pickle else [])]
            return Path(snapshot_download(where, allow_patterns=patterns, ignore_patterns=["*/*"]))
        return Path(snapshot_download(where, local_files_only=True))
    except HFValidationError:
        raise UserError(
            f"the text encoder {shortened(name)} cannot be loaded: {_NEITHER}. Name a folder that has moved with --encoder, or use"
            " minilm."
        ) from None
    except Exception as error:  # errors of the hub, of the network and of files
        if (ran_out := shortage(error)) is not None:
            raise UserError(f"the text encoder {shortened(name)} cannot be loaded: {ran_out}.") from None
        if allow_download:
            raise UserError(
                f"the text encoder {shortened(name)} cannot be downloaded ({reason_of(error)}). Check the name and the connection,"
                " or name the folder of a model."
            ) from None
        raise UserError(
            f"the text encoder {shortened(name)} cannot be loaded: {_NEITHER}. Download a hub model with --allow-download"
            " (allow_download=True in Python), name a folder that has moved with --encoder, or use minilm."
        ) from None


_NEITHER = "it is neither an installed encoder nor a folder nor in the cache of the Hugging Face hub"


def _check_files(folder: Path, name: str, allow_pickle: bool) -> bool:
    """Check the settings of a model against its weights before anything is allocated. Return whether the weights are pickled."""
    for path in folder.iterdir():
        if path.exists() and not path.is_file() and not path.is_dir():  # reading a FIFO or a device may never end
            raise UserError(f"the text encoder {shortened(name)} cannot be loaded: {path} is not a file.")
    config = _read_config(folder, name)
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        pickled = sorted(folder.glob("*.bin"))
        if not pickled:
            raise UserError(
                f"the text encoder {shortened(name)} cannot be loaded: {folder} has no weights (model.safetensors)."
                " Use minilm, or a folder with config.json, weights and tokenizer."
            )
        if not allow_pickle:
            raise UserError(
                f"the text encoder {shortened(name)} cannot be loaded: its weights are {pickled[0].name}, a pickle file, which"
                " can run code. Use safetensors, or pass --allow-pickle (allow_pickle=True in Python) if you trust its source."
            )
        say(
            f"warning: the weights of the text encoder {shortened(name)} are a pickle file ({pickled[0].name}), which can run code."
        )
        return True
    shapes = [shape for file in weights for shape in _stored_shapes(file, name)]
    largest = max((size for shape in shapes for size in shape), default=0)
    for key, value in config.items():
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        most = len(shapes) if key.endswith("layers") or key == "n_layer" else max(largest, LARGEST_SIZE)
        least = 1 if key in ("num_hidden_layers", "num_attention_heads", *IN_THE_WEIGHTS) else value
        if not least <= value <= most or (key in IN_THE_WEIGHTS and not any(value in shape for shape in shapes)):
            raise UserError(
                f"the text encoder {shortened(name)} cannot be loaded: config.json has {key}={shortened(value)}, which does"
                f" not fit its weights ({len(shapes)} tensors, at most {largest:,} wide)."
            )
    return False


def _read_config(folder: Path, name: str) -> dict[str, Any]:
    path = folder / "config.json"
    advice = "Use minilm, or a folder with config.json, weights and tokenizer."
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_CONFIG + 1)
        if len(content) > LARGEST_CONFIG:
            raise ValueError(f"larger than {LARGEST_CONFIG:,} bytes")
        config = json.loads(content)
        if not isinstance(config, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError:
        raise UserError(f"the text encoder {shortened(name)} cannot be loaded: {folder} has no config.json. {advice}") from None
    except (OSError, ValueError, RecursionError) as error:
        ran_out = shortage(error)
        reason = f"{ran_out}." if ran_out else f"{path} is damaged ({reason_of(error)}). {advice}"
        raise UserError(f"the text encoder {shortened(name)} cannot be loaded: {reason}") from None
    return config


def _stored_shapes(path: Path, name: str) -> list[list[int]]:
    """The shapes of the tensors of a safetensors file, from its header."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(LARGEST_HEADER, path.stat().st_size - 8):
                raise ValueError("truncated")
            header = json.loads(file.read(length))
        return [[int(size) for size in tensor["shape"]] for key, tensor in header.items() if key != "__metadata__"]
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        ran_out = shortage(error)
        reason = ran_out or f"{path} is damaged ({reason_of(error)})"
        raise UserError(f"the text encoder {shortened(name)} cannot be loaded: {reason}.") from None


def unusable(name: str, error: BaseException) -> UserError:
    """The error that says why a model cannot be loaded: what ran out, or that its files are damaged."""
    if (ran_out := shortage(error)) is not None:
        return UserError(f"the text encoder {shortened(name)} cannot be loaded: {ran_out}.")
    return UserError(
        f"the text encoder {shortened(name)} cannot be loaded: its files are incomplete or damaged ({reason_of(error)})."
        " Use minilm, or a folder with config.json, weights and tokenizer."
    )
