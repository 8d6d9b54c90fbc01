"""A tokenizer of the tokenizers library, with the part of the interface of the transformers library that is used here."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Self

import torch
from tokenizers import Encoding, Tokenizer

from mhgrn.errors import UserError


class TokenizedTexts(dict[str, Any]):
    """The inputs of a model by name, and the ``encodings`` that they were made of."""

    encodings: Sequence[Encoding] = ()

    def to(self, device: torch.device) -> Self:
        for name, value in self.items():
            self[name] = value.to(device)
        return self


class SharedTokenizer:
    """A tokenizer that threads use one at a time: those of the transformers library change their state in a call."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self._lock = tokenizer, Lock()

    def __call__(self, *texts: Any, **options: Any) -> Any:
        with self._lock:
            try:
                return self._tokenizer(*texts, **options)
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # of Rust code; it has no public class
                    raise
                raise UserError(f"the tokenizer of the text encoder is damaged ({str(error)[:200]}).") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


class FileTokenizer:
    """The tokenizer of a model folder: ``tokenizer.json`` and ``tokenizer_config.json``.

    A call changes no state, so that several threads may use one tokenizer.
    """

    is_fast = True

    def __init__(self, folder: Path) -> None:
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        self._file = folder / "tokenizer.json"
        self._tokenizer = _load(self._file, None)
        self.model_max_length = int(settings["model_max_length"])
        self._tokens = {name: settings[f"{name}_token"] for name in ("unk", "sep", "pad", "cls", "mask")}
        ids = {name: self._tokenizer.token_to_id(token) for name, token in self._tokens.items()}
        self.unk_token_id, self.sep_token_id, self.pad_token_id, self.cls_token_id = (ids[n] for n in ("unk", "sep", "pad", "cls"))
        self.all_special_ids = list(ids.values())

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        padding: bool = False,
        truncation: bool | str = False,
        max_length: int | None = None,
        add_special_tokens: bool = True,
        return_offsets_mapping: bool = False,
        return_tensors: str | None = None,
    ) -> TokenizedTexts:
        """Tokenize one text, several texts, or pairs of texts; the longer text of a pair is truncated first."""
        single = isinstance(texts, str)
        rows = [texts] if isinstance(texts, str) else list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        encodings = self._tokenizer.encode_batch(rows, add_special_tokens=add_special_tokens)
        if truncation and any(len(encoding) > (max_length or self.model_max_length) for encoding in encodings):
            truncating = _load(self._file, max_length or self.model_max_length)
            encodings = truncating.encode_batch(rows, add_special_tokens=add_special_tokens)
        columns: dict[str, list[Any]] = {
            "input_ids": [encoding.ids for encoding in encodings],
            "token_type_ids": [encoding.type_ids for encoding in encodings],
            "attention_mask": [encoding.attention_mask for encoding in encodings],
        }
        if return_offsets_mapping:
            columns["offset_mapping"] = [encoding.offsets for encoding in encodings]
        if single and return_tensors is None:
            columns = {name: column[0] for name, column in columns.items()}
        made = self._padded(columns) if padding else TokenizedTexts(columns)
        if return_tensors is not None:
            made = TokenizedTexts({name: torch.tensor(column) for name, column in made.items()})
        made.encodings = encodings
        return made

    def pad(self, rows: Sequence[Mapping[str, Sequence[int]]], return_tensors: str) -> TokenizedTexts:
        """Pad the ``input_ids`` of several texts, which are all of the first kind, to one length."""
        ids = [list(row["input_ids"]) for row in rows]
        columns = {
            "input_ids": ids,
            "token_type_ids": [[0] * len(row) for row in ids],
            "attention_mask": [[1] * len(row) for row in ids],
        }
        return TokenizedTexts({name: torch.tensor(column) for name, column in self._padded(columns).items()})

    def _padded(self, columns: dict[str, list[Any]]) -> TokenizedTexts:
        longest = max(map(len, columns["input_ids"]), default=0)
        fill = {"input_ids": self.pad_token_id, "offset_mapping": (0, 0)}
        return TokenizedTexts(
            {name: [[*row, *[fill.get(name, 0)] * (longest - len(row))] for row in column] for name, column in columns.items()}
        )


@lru_cache(maxsize=8)
def _load(file: Path, max_length: int | None) -> Tokenizer:
    """The tokenizer of a file, without padding, with or without truncation. Each is set up once and then only read."""
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    if max_length is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_length)
    return tokenizer
