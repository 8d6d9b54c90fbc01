"""GGUF files: converted once to a folder of the transformers library, which loads in seconds instead of a minute."""

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib import util
from io import StringIO
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError, shortage
from mhgrn.io.cache import user_cache
from mhgrn.io.checksums import verify
from mhgrn.io.folders import new_folder
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_json
from mhgrn.printing import shortened
from mhgrn.progress import say
from mhgrn.text.encoder import reason_of

MARKER = "converted.json"
FORMAT = 1  # of the conversion: part of the name of a converted folder
ENDING = ".gguf"


def is_gguf(where: str) -> bool:
    """Whether ``where`` is the path of a GGUF file."""
    return where.lower().endswith(ENDING) and os.path.isfile(where)


def find_gguf(where: str) -> Path | None:
    """The GGUF file that ``where`` names: the file itself, or the only one in a folder without ``config.json``."""
    if is_gguf(where):
        return Path(where)
    if not os.path.isdir(where) or os.path.exists(os.path.join(where, "config.json")):
        return None
    found = sorted(path for path in Path(where).iterdir() if is_gguf(str(path)))
    if len(found) > 1:
        raise UserError(f"{where} contains {len(found)} GGUF files; name one of them, for example {found[0]}.")
    return found[0] if found else None


def converted(parts: Sequence[Path], name: str) -> Path:
    """The folder of a converted GGUF file in the user's cache. It is converted if it is not there or damaged.

    Args:
        parts: The file, or the files that it was divided into, in order.
        name: The name of the text encoder in messages.
    """
    target = user_cache() / "text-encoders" / f"gguf-{FORMAT}-{_fingerprint(parts)}"
    if _is_whole(target):
        return target
    if missing := [package for package in ("gguf", "accelerate") if util.find_spec(package) is None]:
        raise UserError(
            f"the text encoder {shortened(name)} is a GGUF file, which needs {' and '.join(missing)}: pip install 'mhgrn[gguf]'"
        )
    with locked(target.with_name(f".{target.name}.lock"), wait=True):
        if not _is_whole(target):  # another process may have converted it meanwhile
            say(f"converting {shortened(name)} to safetensors in {target}; this takes a minute, once.")
            with new_folder(target, MARKER) as partial:
                _convert(parts, partial, name)
                write_json(partial / MARKER, {"format": FORMAT})
    return target


def _fingerprint(parts: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:20]


def _is_whole(folder: Path) -> bool:
    return (folder / MARKER).is_file() and not any(problem for _, problem in verify(folder))


def _convert(parts: Sequence[Path], folder: Path, name: str) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    file = parts[0]
    if len(parts) > 1:
        file = folder / f"joined{ENDING}"
        with file.open("wb") as joined:
            for part in parts:
                with part.open("rb") as content:
                    shutil.copyfileobj(content, joined, 1 << 20)
    try:
        options = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **options)
        words = tokenizer.backend_tokenizer
        if _begins_texts(file) and tokenizer.bos_token_id is not None and tokenizer("a")["input_ids"][0] != tokenizer.bos_token_id:
            words.post_processor = _first_token(tokenizer.bos_token, tokenizer.bos_token_id)
        roles = ("bos_token", "eos_token", "unk_token", "pad_token")
        special = {role: token for role in roles if (token := getattr(tokenizer, role)) is not None}
        PreTrainedTokenizerFast(tokenizer_object=words, padding_side="right", **special).save_pretrained(folder)
        with redirect_stderr(StringIO()):  # a progress bar of its own
            model = AutoModelForCausalLM.from_pretrained(file.parent, **options)
        model.hf_quantizer = None  # the weights are ordinary numbers now
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(folder)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # gguf, transformers and torch raise errors of their own; Rust code may panic
        ran_out = shortage(error)
        reason = ran_out or f"its GGUF file cannot be converted ({reason_of(error)})"
        raise UserError(f"the text encoder {shortened(name)} cannot be loaded: {reason}.") from None
    if len(parts) > 1:
        file.unlink()


def _begins_texts(file: Path) -> bool:
    """Whether the model was trained on texts that begin with a token of their own. transformers ignores this entry."""
    from gguf import GGUFReader

    field = GGUFReader(file).fields.get("tokenizer.ggml.add_bos_token")
    return field is not None and bool(field.parts[field.data[0]][0])


def _first_token(token: str, number: int) -> Any:
    from tokenizers import processors

    return processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A $B", special_tokens=[(token, number)])
