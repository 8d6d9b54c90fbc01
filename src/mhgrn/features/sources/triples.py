"""Vectors of concepts from all of their triples, as in the paper's appendix C."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from pydantic import Field

from mhgrn.errors import UserError
from mhgrn.features.encoded import EncodedRows, EncodedSource, EncodedSourceSettings, ResumableBuild
from mhgrn.features.folder import Request, reached
from mhgrn.features.verbalize import check_offsets, span_sums, verbalize
from mhgrn.kg.graph import Ints, KnowledgeGraph

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # its multiples modulo 2⁶⁴ are spread evenly


class TripleSettings(EncodedSourceSettings):
    max_triples_per_concept: int | None = Field(
        None, ge=1, description="encode at most this many triples of each concept, always the same ones; null: all"
    )


class TripleSource(EncodedSource):
    """The vector of a concept is the mean of its token vectors over all triples that contain it, each as a sentence.

    Restricting the concepts to those of prepared data does not change their vectors: all of their triples count.
    """

    name = "triples"
    summary = "the mean of a text encoder's vectors of a concept in its triples, as in the paper"
    Settings = TripleSettings
    settings: TripleSettings
    always_in_key = ("max_triples_per_concept",)

    def plan(self, only: Iterable[str | Path] = ()) -> ResumableBuild:
        graph, encoder = self.graph, self.encoder
        check_offsets(encoder)
        concepts = reached(graph, only)
        occurrences = Occurrences.of(graph, concepts, self.settings.max_triples_per_concept)
        if not len(occurrences):
            raise UserError(f"{graph.folder or 'the graph'} has no triples to encode.")
        heads, tails, relations = graph.heads(), graph.tail, graph.schema.relations

        def encode(numbers: Ints) -> EncodedRows:
            facts, ends = occurrences.facts[numbers], occurrences.ends[numbers]
            sentences = [
                verbalize(graph.name(int(heads[f])), relations[int(graph.relation[f])], graph.name(int(tails[f]))) for f in facts
            ]
            sums, counts = span_sums(encoder, sentences)
            counted = torch.from_numpy(ends >= 0)
            return ends[ends >= 0], sums[counted], counts[counted]

        templates = {relation.name: relation.templates for relation in relations}
        identity = self.identity() | {"templates": templates, "triples": len(occurrences)}
        request = Request(graph, concepts, identity, self.encoder_identity())
        return ResumableBuild(request, len(occurrences), encoder.width, encode)


@dataclass(frozen=True)
class Occurrences:
    """The triples to encode, in an order in which every part is a fair sample, and the concepts whose vectors they count for."""

    facts: Ints  # [t] numbers of facts in the graph
    ends: Ints  # [t, 2] rows of head and tail among the requested concepts; -1: the occurrence does not count

    @classmethod
    def of(cls, graph: KnowledgeGraph, concepts: Ints, most: int | None = None) -> Self:
        """All occurrences of ``concepts`` (ascending), or at most ``most`` of each, in a fixed order scattered over the graph."""
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
