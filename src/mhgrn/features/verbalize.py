"""Triples as sentences, and the token vectors of their concepts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import torch
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.kg.schema import Relation
from mhgrn.printing import shortened

if TYPE_CHECKING:
    from mhgrn.text.encoder import TextEncoder

BATCH = 64
LONGEST = 512  # tokens; longer sentences are truncated


class Sentence(NamedTuple):
    """A text and the positions of concepts in it: (start, end) in characters."""

    text: str
    spans: tuple[tuple[int, int], ...]


def verbalize(head: str, relation: Relation, tail: str) -> Sentence:
    """A fact as a sentence, with the spans of head and tail. Of several templates, a fact always uses the same one.

    >>> verbalize("office_desk", Relation("AtLocation", gloss="is at"), "school")
    Sentence(text='office desk is at school', spans=((0, 11), (18, 24)))
    """
    text, *spans = relation.sentence(head, tail, crc32(f"{head}\t{tail}".encode()))
    return Sentence(text, tuple(spans))


def name_sentence(name: str) -> Sentence:
    """The name of a concept as a sentence."""
    text = name.replace("_", " ")
    return Sentence(text, ((0, len(text)),))


def check_offsets(encoder: "TextEncoder") -> None:
    """Refuse an encoder whose tokenizer does not give the positions of tokens."""
    if not encoder.tokenizer.is_fast:
        raise UserError(
            f"the tokenizer of {shortened(encoder.settings.encoder)} gives no positions of its tokens (it has no tokenizer.json);"
            " use another encoder, or --from names."
        )


def span_sums(encoder: "TextEncoder", sentences: Sequence[Sentence], batch: int = BATCH) -> tuple[Tensor, Tensor]:
    """The sum of the last-layer token vectors of every span [n, spans, width], and the number of its tokens [n, spans].

    All sentences have the same number of spans. A token belongs to a span if they share a character.
    """
    count = len(sentences[0].spans)
    sums, counts = torch.zeros(len(sentences), count, encoder.width), torch.zeros(len(sentences), count, dtype=torch.int64)
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i].text))
    with torch.inference_mode(), encoder.evaluating():
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            inputs = encoder.tokenizer(
                [sentences[i].text for i in part],
                padding=True,
                truncation=True,
                max_length=_longest(encoder),
                return_offsets_mapping=True,
                return_tensors="pt",
            )
            offsets = inputs.pop("offset_mapping")  # [batch, tokens, 2]; special tokens and padding are empty
            hidden = encoder.model(**inputs.to(encoder.model.device)).last_hidden_state.float().cpu()
            token_start, token_end = offsets[:, None, :, 0], offsets[:, None, :, 1]
            span = torch.tensor([sentences[i].spans for i in part])  # [batch, spans, 2]
            within = (token_start < token_end) & (token_start < span[..., 1:]) & (token_end > span[..., :1])
            sums[part] = within.to(hidden.dtype) @ hidden
            counts[part] = within.sum(2)
    return sums, counts


def name_vectors(encoder: "TextEncoder", names: Sequence[str], batch: int = BATCH) -> Tensor:
    """The encoder's vectors of concept names: [n, width]."""
    texts = [name.replace("_", " ") for name in names]
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    vectors = torch.empty(len(texts), encoder.width)
    with torch.inference_mode(), encoder.evaluating():
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            vectors[part] = encoder.embed([texts[i] for i in part]).float().cpu()
    return vectors


def _longest(encoder: "TextEncoder") -> int:
    positions = getattr(encoder.model.config, "max_position_embeddings", None) or LONGEST + 2
    # RoBERTa and similar models count positions from two
    return int(min(LONGEST, encoder.tokenizer.model_max_length, positions - 2))
