"""Text encoders: their base class, and the vectors they give of texts and statements."""

import contextlib
import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from xxhash import xxh64

from mhgrn.errors import UserError, shortage
from mhgrn.printing import shortened, shown
from mhgrn.progress import track
from mhgrn.text.packed import TextPrecision, check_precision, packed, unpadded
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tokenizer import SharedTokenizer
from mhgrn.text.tokens import Tokens

BATCH = 64
IGNORED_CONFIG = ("transformers_version", "torch_dtype", "dtype", "architectures")  # entries that say how a model was saved
SINGLE_SEPARATOR = ("fairseq", "no_extra_sep")  # input formats
COUNTS_FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")  # their first two positions are unused

SAMPLE = (  # texts that show which numbers within a model are large
    "Which tool does a gardener use in spring?",
    "After the long winter the river rose quickly, so the farmers moved their sheep to a higher meadow behind the old mill.",
    "bridge",
    "to peel an apple",
)


class Pretrained(NamedTuple):
    """A loaded model with its tokenizer, both with the interface of the transformers library."""

    tokenizer: Any  # returns input_ids and attention_mask
    model: Any  # returns last_hidden_state [texts, tokens, width], and pooler_output if it has a ``pooler``
    config: dict[str, Any]  # determines the vectors together with the weights: sizes, activations
    is_sentence_encoder: bool  # trained on single sentences: text.encoding=auto and text.pooling=auto depend on it
    pooling: Literal["mean", "cls", "last"] | None = None  # of text.pooling=auto; None: mean of a sentence encoder, else pooler


class TextEncoder(nn.Module):
    """Base class of text encoders: vectors of texts and of (stem, choice) pairs.

    ``separate`` encodes stem q and choice a on their own, mean-pools each, scales it to length √width, and gives
    s = [q; a; q∘a; |q−a|]. ``pair`` encodes both as one input and gives its pooled vector.

    A subclass in another package has a ``name`` and a ``load`` method. It becomes usable as ``text.encoder=NAME`` after the package
    declares it as an entry point::

        [project.entry-points."mhgrn.text_encoders"]
        my-encoder = "my_package.my_encoder"

    Use :func:`mhgrn.text.loading.load_text_encoder` to get an encoder by name.

    Args:
        settings: The settings of the section ``text``.

    >>> load_text_encoder(TextEncoderSettings()).embed(["a child", "a desk"]).shape  # doctest: +SKIP
    torch.Size([2, 384])
    """

    name: ClassVar[str]
    folder: Path | None = None  # the folder that the model was loaded from, if a user named it
    precision: TextPrecision = "float32"  # of an encoder for answering, see ``for_answering``
    _packed: Callable[..., Any] | None = None  # the forward pass without padding, for answering

    def __init__(self, settings: TextEncoderSettings) -> None:
        super().__init__()
        self.settings = settings
        tokenizer, self.model, self._model_config, is_sentence_encoder, pooling = self.load()
        self.tokenizer = SharedTokenizer(tokenizer)
        self.encoding: Literal["separate", "pair"] = (
            ("separate" if is_sentence_encoder else "pair") if settings.encoding == "auto" else settings.encoding
        )
        self.pooling: Literal["mean", "cls", "pooler", "last"] = (
            pooling or ("mean" if self.encoding == "separate" else "pooler") if settings.pooling == "auto" else settings.pooling
        )
        if self.pooling == "pooler" and getattr(self.model, "pooler", None) is None:
            raise UserError(f"{settings.encoder} has no pooler; set text.pooling=mean or text.pooling=cls.")
        self.width = int(self.model.config.hidden_size)
        self.truncated = 0  # texts or pairs that were longer than max_length
        self.eval()
        self._check()

    def load(self) -> Pretrained:
        """Load the tokenizer and the model."""
        raise NotImplementedError

    def for_answering(self, precision: TextPrecision = "float32") -> Self:
        """An encoder with the same weights that is faster on a processor and cannot be trained.

        It computes no padding, if the model is a BERT or a RoBERTa. Other models, and other devices, compute as before.

        Args:
            precision: ``"float32"``: vectors equal those of this encoder up to rounding. ``"int8"``: matrices are multiplied in 8
                bits; the cosine distance of vectors is at most about 0.01.

        Raises:
            UserError: The precision is unknown, or is ``"int8"`` and the model or the processor is of another kind.
        """
        check_precision(precision)
        forward = packed(self.model, precision, self.tokenizer(list(SAMPLE), padding=True, return_tensors="pt"))
        if forward is None and precision != "float32":
            kind = shortened(getattr(self.model.config, "model_type", "another model"))
            raise UserError(
                f"text_precision={precision} needs a text encoder like BERT, but {shortened(self.settings.encoder)} is of the"
                f" type {kind}; use float32."
            )
        made = copy.copy(self)
        made.precision, made._packed = precision, forward
        return made

    @property
    def is_packed(self) -> bool:
        """Whether texts are encoded without padding."""
        return self._packed is not None and self.model.device.type == "cpu"

    @property
    def files(self) -> Path | None:
        """The folder of ``config.json`` and tokenizer in Hugging Face format, which a tuned copy needs; None if there is none."""
        return None

    def _check(self) -> None:
        """Encode a text, so that an unusable model is reported before other work is done."""
        if self.tokenizer.pad_token_id is None:
            raise UserError(
                f"the tokenizer of {self.settings.encoder} has no padding token; use an encoder such as BERT or RoBERTa."
            )
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if positions is not None:
            positions -= 2 if self.model.config.model_type in COUNTS_FROM_PADDING else 0
            if self.settings.max_length > positions:
                raise UserError(
                    f"text.max_length={self.settings.max_length}: {self.settings.encoder} reads at most {positions} tokens."
                )
        try:
            with torch.inference_mode():
                tokens = self.tokenizer("a child sits at a desk", return_tensors="pt")
                hidden = self.model(**tokens).last_hidden_state
        except UserError:
            raise
        except Exception as error:  # a model may raise anything
            if (ran_out := shortage(error)) is not None:
                raise UserError(f"the text encoder {shortened(self.settings.encoder)} cannot be loaded: {ran_out}.") from None
            raise UserError(
                f"the text encoder {shortened(self.settings.encoder)} cannot encode a text ({reason_of(error)})."
            ) from None
        if not bool(torch.isfinite(hidden).all()):
            raise self._not_finite()
        if set(tokens["input_ids"][0].tolist()) <= set(self.tokenizer.all_special_ids):
            raise UserError(f"the tokenizer of {self.settings.encoder} knows no words; is its tokenizer.json in the folder?")

    @property
    def sentence_dim(self) -> int:
        """The width of a statement's vector."""
        return 4 * self.width if self.encoding == "separate" else self.width

    def identity(self) -> dict[str, Any]:
        """What determines the vectors: the weights, the layout and pooling of texts, and other settings that are not defaults."""
        stored = {
            "weights": self._weights_fingerprint(),
            "encoding": self.encoding,
            "pooling": self.pooling,
            "format": self.settings.input_format,
            "max_length": self.settings.max_length,
        }
        without_effect = ("encoder", "encoding", "pooling", "input_format", "frozen_epochs", "frozen_dropout", "learning_rate")
        others = {name: value for name, value in self.settings.differing().items() if name not in without_effect}
        return stored | others | ({} if self.precision == "float32" else {"precision": self.precision})

    def _weights_fingerprint(self) -> str:
        digest = hashlib.sha256(json.dumps(self._model_config, sort_keys=True, default=str).encode())
        for name, parameter in self.model.state_dict().items():
            if name.startswith("pooler.") and self.pooling != "pooler":
                continue
            digest.update(name.encode())
            digest.update(parameter.flatten()[:64].float().cpu().numpy().tobytes())
        return digest.hexdigest()[:20]

    def checksum(self) -> str:
        """The XXH64 of all weights that determine the vectors; the fingerprint of :meth:`identity` reads a part of them."""
        digest = xxh64()
        for name, parameter in sorted(self.model.named_parameters()):
            if not name.startswith("pooler.") or self.pooling == "pooler":
                digest.update(name.encode())
                digest.update(parameter.detach().float().cpu().contiguous().numpy().data)
        return digest.hexdigest()

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Pooled vectors of single texts, scaled to length √width: [n, width]."""
        return self.encode_texts(texts).vectors

    def encode_texts(self, texts: Sequence[str]) -> "Encoded":
        """Vectors of single texts."""
        inputs = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.settings.max_length, return_tensors="pt"
        )
        self._count_truncated(inputs)
        inputs = inputs.to(self.model.device)
        hidden = self._run(inputs).last_hidden_state
        pooled = self._pooled(hidden, inputs)
        scaled: Tensor = functional.normalize(pooled, dim=1) * self.width**0.5
        return self._encoded(scaled, hidden, inputs)

    def _run(self, inputs: Any) -> Any:
        forward = self._forward()
        try:
            return forward(**inputs)
        except IndexError:
            raise UserError(
                f"the text encoder {shortened(self.settings.encoder)} is damaged: its tokenizer has tokens that its weights lack."
            ) from None

    @property
    def trains_without_padding(self) -> bool:
        """Whether training computes no padding: on a processor, with a model like BERT."""
        return self.model.device.type == "cpu" and unpadded(self.model) is not None

    def _forward(self) -> Callable[..., Any]:
        """The model, or on a processor its forward pass without padding."""
        if self.model.device.type != "cpu":
            return self.model  # type: ignore[no-any-return]
        forward = unpadded(self.model) if torch.is_grad_enabled() else self._packed
        return self.model if forward is None else forward

    def _encoded(self, vectors: Tensor, hidden: Tensor, inputs: Any) -> "Encoded":
        """The encoded texts. Finite weights can overflow with some texts only, so each result is checked, except in training."""
        if not torch.is_grad_enabled() and not bool(torch.isfinite(vectors).all() and torch.isfinite(hidden).all()):
            raise self._not_finite()
        return Encoded(vectors, hidden, self._content(inputs))

    def _not_finite(self) -> UserError:
        name = shortened(self.settings.encoder)
        return UserError(f"the text encoder {name} is damaged: it gives numbers that are not finite (NaN).")

    def _pooled(self, hidden: Tensor, inputs: Any) -> Tensor:
        """One vector for each text [n, width] from the states of its tokens."""
        if self.pooling == "cls":
            return hidden[:, 0]
        if self.pooling == "last":
            place = torch.arange(hidden.shape[1], device=hidden.device)
            last = (self._content(inputs) * place).argmax(1)  # the first token if the text has none of its own
            return hidden[torch.arange(len(hidden), device=hidden.device), last]
        return _mean(hidden, inputs["attention_mask"])

    def _count_truncated(self, inputs: Any) -> None:
        self.truncated += sum(bool(text.overflowing) for text in inputs.encodings or ())

    def are_truncated(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether each (stem, choice) pair is longer than ``max_length``, or one of its texts if these are encoded separately."""
        most = self.settings.max_length
        if self.encoding == "separate":
            texts = sorted({text for pair in pairs for text in pair})
            long = {text for text, ids in zip(texts, self.tokenizer(texts)["input_ids"], strict=True) if len(ids) > most}
            return [stem in long or choice in long for stem, choice in pairs]
        first, second = self._sides(*zip(*pairs, strict=True))
        if self.settings.input_format in SINGLE_SEPARATOR:
            sides = (self.tokenizer(side, add_special_tokens=False)["input_ids"] for side in (first, second))
            return [len(a) + len(b) > most - 3 for a, b in zip(*sides, strict=True)]
        return [len(ids) > most for ids in self.tokenizer(first, second)["input_ids"]]

    def _sides(self, stems: Sequence[str], choices: Sequence[str]) -> tuple[list[str], list[str]]:
        """The two texts of each pair as the model reads them."""
        prefixed = self.settings.input_format in ("add_qa_prefix", "fairseq")
        first = [f"Q: {stem}" if prefixed else stem for stem in stems]
        return first, [f" A: {choice}" if prefixed else f" {choice}" for choice in choices]

    def _content(self, inputs: Any) -> Tensor:
        """Which tokens belong to the text: neither padding nor special tokens."""
        special = [i for i in self.tokenizer.all_special_ids if i != self.tokenizer.unk_token_id]
        ids: Tensor = inputs["input_ids"]
        seen: Tensor = inputs["attention_mask"].bool()
        return seen & ~torch.isin(ids, torch.tensor(special, device=ids.device))

    def embed_all(self, texts: Sequence[str], label: str) -> Tensor:
        """Vectors of many texts, without gradients: texts of similar length are batched together. Shows progress."""
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
        """Switch off dropout for a while."""
        was = self.training
        self.eval()
        yield
        self.train(was)

    def sentences(self, stems: Sequence[str], choices: Sequence[str]) -> Tensor:
        """The statement vectors s of (stem, choice) pairs: [n, sentence_dim]."""
        if self.encoding == "pair":
            return self.encode_pairs(stems, choices).vectors
        texts = sorted({*stems, *choices}, key=lambda text: (len(text), text))  # similar lengths together: less padding
        row = {text: i for i, text in enumerate(texts)}
        vectors = torch.cat([self.embed(texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)])
        return match(vectors[[row[t] for t in stems]], vectors[[row[t] for t in choices]])

    def read(self, stems: Sequence[str], choices: Sequence[str]) -> tuple[Tensor, Tokens]:
        """The statement vectors s and the token states they are made of: of the pair, or of stem and choice."""
        if self.encoding == "pair":
            encoded = self.encode_pairs(stems, choices)
            return encoded.vectors, Tokens.pad(encoded.states())
        texts = sorted({*stems, *choices})
        row = {text: i for i, text in enumerate(texts)}
        parts = [self.encode_texts(texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)]
        vectors, states = torch.cat([part.vectors for part in parts]), [rows for part in parts for rows in part.states()]
        q, a = ([row[text] for text in side] for side in (stems, choices))
        tokens = Tokens.pad([torch.cat([states[i], states[j]]) for i, j in zip(q, a, strict=True)])
        return match(vectors[q], vectors[a]), tokens

    def encode_pairs(self, stems: Sequence[str], choices: Sequence[str]) -> "Encoded":
        """Vectors of question stems with a choice each, encoded as one text."""
        first, second = self._sides(stems, choices)
        if self.settings.input_format in SINGLE_SEPARATOR:
            inputs = self._single_separator(first, second)
        else:
            short = list(map(self._beginnings, first, second))
            inputs = self.tokenizer(
                [a for a, _ in short],
                [b for _, b in short],
                padding=True,
                truncation="longest_first",
                max_length=self.settings.max_length,
                return_tensors="pt",
            )
            self._count_truncated(inputs)
        inputs = inputs.to(self.model.device)
        out = self._run(inputs)
        hidden: Tensor = out.last_hidden_state
        if self.pooling == "pooler":
            pooled: Tensor = out.pooler_output
        else:
            pooled = self._pooled(hidden, inputs)
        return self._encoded(pooled, hidden, inputs)

    def _beginnings(self, first: str, second: str) -> tuple[str, str]:
        """Cut two texts to a length from which truncation gives the same tokens.

        Tokenizers keep every combination of the parts that they cut off two texts, which takes quadratic memory.
        """
        most = self.settings.max_length
        if max(len(first), len(second)) <= 4 * most:
            return first, second
        if self._count(first) > self._count(second):  # the longer text gets the odd token
            second = self._beginning(second, 2 * most)
            return self._beginning(first, max(2 * most, self._count(second) + 1)), second
        first = self._beginning(first, 2 * most)
        return first, self._beginning(second, max(2 * most, self._count(first)))

    def _beginning(self, text: str, tokens: int) -> str:
        """The beginning of a text that has this many tokens, or more."""
        size = 4 * self.settings.max_length
        while size < len(text) and self._count(text[:size]) < tokens:
            size *= 2
        return text[:size]

    def _count(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _single_separator(self, first: list[str], second: list[str]) -> Any:
        """[CLS] A [SEP] B [SEP], whatever separator the tokenizer uses; the longer of A and B is truncated."""
        token = self.tokenizer
        rows = []
        for a_text, b_text in zip(first, second, strict=True):
            a, b = (token(text, add_special_tokens=False)["input_ids"] for text in (a_text, b_text))
            self.truncated += len(a) + len(b) > self.settings.max_length - 3
            while len(a) + len(b) > self.settings.max_length - 3:
                (a if len(a) > len(b) else b).pop()
            rows.append({"input_ids": [token.cls_token_id, *a, token.sep_token_id, *b, token.sep_token_id]})
        return token.pad(rows, return_tensors="pt")


class Encoded(NamedTuple):
    """Encoded texts or pairs of texts."""

    vectors: Tensor  # [n, width]
    hidden: Tensor  # [n, L, width]
    content: Tensor  # [n, L]

    def states(self) -> list[Tensor]:
        """The states of each text's own tokens: [tokens, width]."""
        return [hidden[content] for hidden, content in zip(self.hidden, self.content, strict=True)]


def match(q: Tensor, a: Tensor) -> Tensor:
    """s = [q; a; q∘a; |q−a|]: the paper's [q; a] and two terms that compare them."""
    return torch.cat([q, a, q * a, (q - a).abs()], dim=1)


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    weight = mask[..., None].to(hidden.dtype)
    return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def config_identity(config: dict[str, Any]) -> dict[str, Any]:
    """The entries of a model's ``config.json`` that determine its vectors."""
    return {key: value for key, value in config.items() if not key.startswith("_") and key not in IGNORED_CONFIG}


def reason_of(error: BaseException) -> str:
    """The first line of an error's message, cut to a length that fits into another message."""
    return shown((str(error).strip().splitlines() or [type(error).__name__])[0])
