"""Vectors of concept names from a text encoder."""

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.features.encoded import EncodedRows, EncodedSource, ResumableBuild
from mhgrn.features.folder import Request, reached
from mhgrn.features.node_features import NodeFeatures, independent
from mhgrn.features.verbalize import name_vectors
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.remote import origin_of
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.kg.graph import FEATURES, Ints, KnowledgeGraph
from mhgrn.text.encoder import TextEncoder

CHUNK = 16_384  # names encoded between two writes of the cache


class NameSource(EncodedSource):
    """The vector of a concept is the encoder's vector of its name."""

    name = "names"
    summary = "a text encoder's vectors of the concepts' names"
    uses_facts = False
    opens_directly = True

    def plan(self, only: Iterable[str | Path] = ()) -> ResumableBuild:
        graph, encoder = self.graph, self.encoder
        concepts = reached(graph, only)
        if not len(concepts):
            raise UserError(f"{graph.folder or 'the graph'} has no concepts to encode.")

        def encode(numbers: Ints) -> EncodedRows:
            vectors = name_vectors(encoder, [graph.name(int(c)) for c in concepts[numbers]])
            return numbers, vectors, torch.ones(len(numbers), dtype=torch.int64)

        request = Request(graph, concepts, self.identity(), self.encoder_identity(), uses_facts=self.uses_facts)
        return ResumableBuild(request, len(concepts), encoder.width, encode)

    def open(self, encoder: TextEncoder) -> NodeFeatures:
        return NameFeatures(self.graph, encoder)


class NameFeatures(NodeFeatures):
    """The text encoder's vectors of concept names, cached as float16 in the graph's folder."""

    def __init__(self, graph: KnowledgeGraph, encoder: TextEncoder) -> None:
        super().__init__()
        self.graph, self.encoder, self.dim, self.own = graph, encoder, encoder.width, len(graph)
        # by the graph's concepts; files of older versions by its facts too
        keys = [
            fingerprint(encoder.identity()["weights"], encoder.pooling == "cls", of)
            for of in (graph.about["names"], graph.fingerprint)
        ]
        places: list[Path | None] = [None]  # what is stored in a fetched graph would differ from machine to machine
        if graph.folder is not None and origin_of(graph.folder) is None:
            places = [graph.folder / FEATURES / f"names-{key}.safetensors" for key in keys]
        self._cache = next((place for place in places if place is not None and place.is_file()), places[0])
        if self._cache is not None and self._cache.is_file():
            self._add(*self._stored(self._cache))
            self._required = self._known().count

    def _stored(self, cache: Path) -> tuple[Ints, Tensor]:
        """The concepts and vectors of the cache."""
        stored = load_tensors(cache, is_own=True)
        concepts, vectors = stored.get("concepts", torch.zeros(0)), stored.get("vectors", torch.zeros(0))
        fits = (
            (concepts.dtype, vectors.dtype) == (torch.int64, torch.float16)
            and vectors.shape == (concepts.numel(), self.dim)
            and concepts.dim() == 1
            and bool((concepts[1:] > concepts[:-1]).all() and ((concepts >= 0) & (concepts < self.own)).all())
        )
        if not fits:
            raise UserError(f"{cache} is damaged (its concepts or vectors do not fit the graph); delete it, it is made again.")
        return concepts.numpy(), vectors.float()

    @property
    def fingerprint(self) -> str:
        return file_fingerprint(self._cache) if self._cache is not None and self._cache.is_file() else ""

    def compute(self, concepts: Ints) -> Tensor:
        return self._encoded([self.graph.name(c) for c in concepts.tolist()])

    def compute_each(self, concepts: Ints) -> Tensor:
        return self.of_names([self.graph.name(c) for c in concepts.tolist()])

    def of_names(self, names: list[str]) -> Tensor:
        return independent(self.encoder, names, self._encoded)

    def _encoded(self, names: list[str]) -> Tensor:
        # rounded to float16, so that a new vector equals a cached one
        return self.encoder.embed_all([name.replace("_", " ") for name in names], "encoding concept names").half().float()

    def require_and_keep(self, concepts: Ints) -> None:
        """Compute the features of these concepts; the cache is written every ``CHUNK`` names, so an interrupted run resumes."""
        missing = self._missing(concepts)
        for start in range(0, len(missing), CHUNK):
            self.require(missing[start : start + CHUNK])
            if self._cache is not None:
                known = self._known().concepts()
                vectors = self._vectors_of(known)
                save_tensors(self._cache, {"concepts": torch.from_numpy(known), "vectors": vectors.half()})
