"""Features from a text encoder: of every triple a concept stands in (the paper's appendix C), or of its name."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.features.accumulate import Accumulator
from mhgrn.features.folder import HOLDS, MARKER, FeatureFolder, Request, reached
from mhgrn.features.verbalize import BATCH, check_offsets, name_vectors, span_sums, verbalise
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import check_replaceable
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import bar, say
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings

STEP = 2048  # triples or names between two records of what is done
SAMPLE = 256  # triples or names the rate is measured on
LONG = 16 * STEP  # from so many on, the time is told beforehand
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # multiples of it, modulo 2⁶⁴, spread evenly

Encoded = tuple[Ints, Tensor, Tensor]  # rows, sums, counts


@dataclass(frozen=True)
class Occurrences:
    """The triples to encode, in an order of which every stretch is a fair sample, and whose vectors they count for."""

    facts: Ints  # [t] numbers of the graph's facts
    ends: Ints  # [t, 2] the row of head and of tail among the asked-for concepts, -1 where the occurrence does not count

    @classmethod
    def of(cls, graph: KnowledgeGraph, concepts: Ints, most: int | None = None) -> Self:
        """All occurrences of ``concepts`` (ascending), or the first ``most`` of each in a fixed scattered order."""
        row = np.full(len(graph), -1)
        row[concepts] = np.arange(len(concepts))
        order = np.argsort(np.arange(graph.fact_count, dtype=np.uint64) * GOLDEN)
        ends = row[np.stack([graph.heads()[order], np.asarray(graph.tail)[order]], axis=1)]
        if most is not None:
            flat = ends.flatten()
            by_row = np.argsort(flat, kind="stable")
            first = np.searchsorted(flat[by_row], flat[by_row])
            flat[by_row[np.arange(len(flat)) - first >= most]] = -1
            ends = flat.reshape(-1, 2)
        touched = (ends >= 0).any(axis=1)
        return cls(order[touched], ends[touched])

    def __len__(self) -> int:
        return len(self.facts)


@dataclass(frozen=True)
class Estimate:
    """How long a build will take, measured on a sample, and what it needs on the disk."""

    items: int
    rate: float  # items a second
    seconds: float
    bytes: int

    def __str__(self) -> str:
        rate = f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2g}"
        return f"{self.items:,} to encode at {rate} a second: {_duration(self.seconds)}, {self.bytes / 1e9:.1f} GB of disk"


@dataclass(frozen=True)
class Work:
    """What is to be encoded, in steps: ``encode`` makes the sums of the items with these numbers."""

    request: Request
    items: int
    dim: int
    encode: Callable[[Ints], Encoded]

    def estimate(self, left: int | None = None) -> Estimate:
        """Measure the rate on a few items from all over, twice: the first time warms up."""
        sample = np.unique(np.linspace(0, self.items - 1, min(SAMPLE, self.items)).astype(np.int64))
        self.encode(sample[: len(sample) // 4 + 1])
        began = time.perf_counter()
        self.encode(sample)
        rate = len(sample) / (time.perf_counter() - began)
        left = self.items if left is None else left
        return Estimate(left, rate, left / rate, len(self.request.concepts) * (self.dim * 6 + 16))

    def build(self, folder: str | Path | None) -> FeatureFolder:
        """Encode everything, from where an earlier build of the same stopped, and write the folder."""
        place = check_replaceable(self.request.place(folder), MARKER, HOLDS)
        if (found := self.request.finished(place)) is not None:
            say(f"{place} is there already.")
            return found
        # other steps would add the same vectors in another order, and so end in other last digits
        key = fingerprint(self.request.key, STEP, BATCH)
        with Accumulator(place, key, len(self.request.concepts), self.dim) as table:
            if table.steps:
                say(f"going on after {self._done(table)}")
            left = self.items - table.steps * STEP
            if left >= LONG:
                say(f"{self.estimate(left)}. It may be stopped at any time; the same command goes on where it stopped.")
            try:
                with bar(f"encoding {self.request.source['from']}", self.items) as advance:
                    for start in range(table.steps * STEP, self.items, STEP):
                        advance(start)
                        table.add(*self.encode(np.arange(start, min(start + STEP, self.items))))
            except KeyboardInterrupt:
                say(f"stopped after {self._done(table)}; the same command goes on from there.")
                raise
            covered = self.request.concepts[table.covered()]
            written = self.request.write(place, covered, table.means(), self.dim)
            table.remove()
        return written

    def _done(self, table: Accumulator) -> str:
        return f"{min(table.steps * STEP, self.items):,} of {self.items:,} {self.request.source['from']}"


def feature_encoder(name: str = "minilm") -> TextEncoder:
    """A text encoder to make features with: any folder of a model will do, with a pooler or without."""
    return load_text_encoder(TextEncoderSettings(encoder=name, pooling="mean"))  # type: ignore[call-arg]


def from_triples(
    graph: KnowledgeGraph, encoder: TextEncoder, only: Iterable[str | Path] = (), max_triples_per_concept: int | None = None
) -> Work:
    """A concept's vector is the mean of its tokens' vectors over all triples it stands in, each put into words.

    ``only`` names prepared data sets: just the concepts they reach get vectors, the same as otherwise, since all triples of
    such a concept count. ``max_triples_per_concept`` takes so many of each concept's triples, scattered but always the same.
    """
    check_offsets(encoder)
    concepts = reached(graph, only)
    occurrences = Occurrences.of(graph, concepts, max_triples_per_concept)
    if not len(occurrences):
        raise UserError(f"{graph.folder or 'the graph'} has no triple to encode.")
    heads, tails, relations = graph.heads(), graph.tail, graph.schema.relations

    def encode(numbers: Ints) -> Encoded:
        facts, ends = occurrences.facts[numbers], occurrences.ends[numbers]
        sentences = [
            verbalise(graph.name(int(heads[f])), relations[int(graph.relation[f])], graph.name(int(tails[f]))) for f in facts
        ]
        sums, counts = span_sums(encoder, sentences)
        counted = torch.from_numpy(ends >= 0)
        return ends[ends >= 0], sums[counted], counts[counted]

    source = {
        "from": "triples",
        "templates": {relation.name: relation.templates for relation in relations},
        "max_triples_per_concept": max_triples_per_concept,
        "triples": len(occurrences),
    }
    return Work(Request(graph, concepts, source, _identity(encoder)), len(occurrences), encoder.width, encode)


def from_names(graph: KnowledgeGraph, encoder: TextEncoder, only: Iterable[str | Path] = ()) -> Work:
    """A concept's vector is the encoder's of its name."""
    concepts = reached(graph, only)
    if not len(concepts):
        raise UserError(f"{graph.folder or 'the graph'} has no concept to encode.")

    def encode(numbers: Ints) -> Encoded:
        vectors = name_vectors(encoder, [graph.name(int(c)) for c in concepts[numbers]])
        return numbers, vectors, torch.ones(len(numbers), dtype=torch.int64)

    return Work(Request(graph, concepts, {"from": "names"}, _identity(encoder)), len(concepts), encoder.width, encode)


def _identity(encoder: TextEncoder) -> dict[str, Any]:
    return {"name": encoder.settings.encoder, "weights": encoder.identity()["weights"]}


def _duration(seconds: float) -> str:
    """
    >>> _duration(20), _duration(300), _duration(5000)
    ('less than a minute', 'about 5 minutes', 'about 1.4 hours')
    """
    if seconds < 55:
        return "less than a minute"
    if seconds < 90 * 60 and round(seconds / 60) < 60:
        return f"about {max(round(seconds / 60), 2)} minutes" if seconds > 90 else "about a minute"
    return f"about {seconds / 3600:.1f} hours"
