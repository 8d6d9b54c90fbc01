"""Where node features come from."""

import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.features.folder import FeatureFolder
from mhgrn.features.verbalize import name_sentence, name_vectors, span_sums
from mhgrn.io.arrays import load_array
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.kg.graph import FEATURES, Ints, KnowledgeGraph
from mhgrn.progress import say

if TYPE_CHECKING:
    from mhgrn.text.encoder import TextEncoder

CHUNK = 16_384  # names encoded between two writes of the cache


class NodeFeatures:
    """Base class: features of the concepts that were asked for so far, as one table.

    A number from ``own`` on is not one of the stored graph's concepts but was added for one question: its features come from
    its name, anew each time, since the number may later be another's.
    """

    dim: int
    own = sys.maxsize

    def __init__(self) -> None:
        self._ids: Ints = np.zeros(0, dtype=np.int64)  # sorted
        self._table = torch.zeros(0, 0)

    def compute(self, concepts: Ints) -> Tensor:
        """The vectors of these concepts: [n, dim] float32."""
        raise NotImplementedError

    def of_names(self, names: list[str]) -> Tensor:
        """The vectors of concepts that the stored graph does not have."""
        raise NotImplementedError

    def require(self, concepts: Ints) -> None:
        """Have the features of these concepts at hand."""
        self._have(concepts)

    def _have(self, concepts: Ints) -> None:
        missing = self._missing(concepts)
        if len(missing):
            self._add(missing, self.compute(missing))

    def _missing(self, concepts: Ints) -> Ints:
        """Those whose features are not at hand, ascending."""
        asked = concepts[concepts < self.own]
        return np.unique(asked[self._find(asked) < 0])

    def _find(self, concepts: Ints) -> Ints:
        """Their places in the table, -1 for those that are not there."""
        if not len(self._ids):
            return np.full(len(concepts), -1)
        places = np.minimum(np.searchsorted(self._ids, concepts), len(self._ids) - 1)
        return np.where(self._ids[places] == concepts, places, -1)

    def _add(self, concepts: Ints, vectors: Tensor) -> None:
        ids = np.concatenate([self._ids, concepts])
        table = torch.cat([self._table.view(-1, self.dim), vectors])
        order = np.argsort(ids)
        self._ids, self._table = ids[order], table[torch.from_numpy(order)]

    def rows(self, concepts: Tensor, graph: KnowledgeGraph | None = None) -> Tensor:
        """The features of nodes: [N] → [N, dim]. ``graph`` names those that the stored graph lacks."""
        asked = concepts.cpu().numpy()
        is_own = asked < self.own
        places = self._find(asked[is_own])
        if len(places) and places.min() < 0:
            self._have(asked)
            places = self._find(asked[is_own])
        found = self._table.view(-1, self.dim).index_select(0, torch.from_numpy(places))  # several times as fast as indexing
        if graph is None or is_own.all():
            return found
        both = torch.empty(len(asked), self.dim)
        both[torch.from_numpy(is_own)] = found
        both[torch.from_numpy(~is_own)] = self.of_names([graph.name(c) for c in asked[~is_own].tolist()])
        return both


class NameFeatures(NodeFeatures):
    """The text encoder's vector of a concept's name, kept as float16 beside the graph once computed."""

    def __init__(self, graph: KnowledgeGraph, encoder: "TextEncoder") -> None:
        super().__init__()
        self.graph, self.encoder, self.dim, self.own = graph, encoder, encoder.width, len(graph)
        key = fingerprint(encoder.identity()["weights"], encoder.pooling == "cls", graph.fingerprint)
        self._cache = graph.folder / "features" / f"names-{key}.safetensors" if graph.folder is not None else None
        if self._cache is not None and self._cache.is_file():
            stored = load_tensors(self._cache)
            self._add(stored["concepts"].numpy(), stored["vectors"].float())

    def compute(self, concepts: Ints) -> Tensor:
        return self.of_names([self.graph.name(c) for c in concepts.tolist()])

    def of_names(self, names: list[str]) -> Tensor:
        # float16 and back, so that a cached vector equals a fresh one
        return self.encoder.embed_all([name.replace("_", " ") for name in names], "encoding concept names").half().float()

    def require_and_keep(self, concepts: Ints) -> None:
        """:meth:`require`, written to disk every so often: an interrupted computation goes on where it stopped."""
        missing = self._missing(concepts)
        for start in range(0, len(missing), CHUNK):
            self.require(missing[start : start + CHUNK])
            if self._cache is not None:
                save_tensors(self._cache, {"concepts": torch.from_numpy(self._ids), "vectors": self._table.half()})


class FileFeatures(NodeFeatures):
    """Rows of a ``.npy`` whose sibling ``.txt`` names the concept of every row, in the graph's order."""

    def __init__(self, graph: KnowledgeGraph, path: Path) -> None:
        super().__init__()
        self.graph, self.own = graph, len(graph)
        self._rows = load_array(path)
        if self._rows.ndim != 2 or self._rows.dtype.kind != "f":
            raise UserError(
                f"{path}: features are a matrix of floats, one row a concept; this is {self._rows.shape} {self._rows.dtype}."
            )
        self.dim = self._rows.shape[1]
        names = path.with_suffix(".txt")
        if not names.is_file():
            raise UserError(f"{names} is missing: it names the concept of each row of {path.name}, one a line.")
        try:
            listed = names.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise UserError(f"{names} is not UTF-8 text ({error.reason}).") from None
        if not len(listed) == len(self._rows) == len(graph):
            raise UserError(
                f"{path} has {len(self._rows)} rows, {names.name} {len(listed)} names, the graph {len(graph)} concepts."
            )
        for number, name in enumerate(listed):
            if name != graph.name(number):
                raise UserError(f"{names}:{number + 1}: {name!r} stands where the graph has {graph.name(number)!r}.")

    def compute(self, concepts: Ints) -> Tensor:
        return torch.from_numpy(self._rows[concepts].astype(np.float32))

    def of_names(self, names: list[str]) -> Tensor:
        of_words = [mean_of_words(name, self._row_of, lambda: self._mean) for name in names]
        return torch.from_numpy(np.array(of_words, dtype=np.float32))

    def _row_of(self, word: str) -> NDArray[Any] | None:
        concept = self.graph.find(word)
        return None if concept is None else self._rows[concept]

    @cached_property
    def _mean(self) -> NDArray[Any]:
        mean: NDArray[Any] = self._rows.mean(axis=0, dtype=np.float64)
        return mean


def mean_of_words(name: str, vector: Callable[[str], NDArray[Any] | None], otherwise: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """The mean of the vectors of those words of a name that have one.

    >>> known = {"desk": np.array([1.0, 3.0]), "lamp": np.array([2.0, 5.0])}
    >>> mean_of_words("red_desk_lamp", known.get, lambda: np.zeros(2)).tolist()
    [1.5, 4.0]
    """
    found = [v for word in name.split("_") if (v := vector(word)) is not None]
    return np.stack(found).mean(axis=0, dtype=np.float64) if found else otherwise()


class BuiltFeatures(NodeFeatures):
    """A folder that ``mhgrn features build`` made.

    A concept without a vector there gets its name's, from the text encoder if it is the one that made the others, else the
    mean of its words' vectors, else the mean of all.
    """

    def __init__(self, graph: KnowledgeGraph, folder: Path, encoder: "TextEncoder") -> None:
        super().__init__()
        self.folder = FeatureFolder.load(folder, graph)
        self.graph, self.own, self.dim = graph, int(self.folder.about["concepts"]), int(self.folder.about["dim"])
        made_with = self.folder.about["encoder"]
        same = made_with is not None and made_with["weights"] == encoder.identity()["weights"]
        self._of_whole_names = self.folder.about["source"]["from"] == "names"
        self._encoder = encoder if same and not (self._of_whole_names and encoder.pooling == "cls") else None

    @property
    def relations(self) -> NDArray[Any] | None:
        """The vectors of the graph's relations [m, dim], if the source has any (TransE)."""
        return self.folder.relations

    def require(self, concepts: Ints) -> None:
        """Have the features of these concepts at hand, and say how many of them must do with their names."""
        distinct = np.unique(concepts)
        missing = int((~self.folder.find(distinct)[1]).sum())
        if missing:
            instead = "their names' vectors" if self._encoder is not None else "the means of their words' vectors"
            say(f"{self.folder.folder}: no vector for {missing:,} of {len(distinct):,} concepts; {instead} stand in.")
        self._have(concepts)

    def compute(self, concepts: Ints) -> Tensor:
        row, found = self.folder.find(concepts)
        vectors = torch.empty(len(concepts), self.dim)
        vectors[torch.from_numpy(found)] = torch.from_numpy(self.folder.vectors[row[found]].astype(np.float32))
        if not found.all():
            names = [self.graph.name(c) for c in concepts[~found].tolist()]
            vectors[torch.from_numpy(~found)] = self.of_names(names)
        return vectors

    def of_names(self, names: list[str]) -> Tensor:
        if self._encoder is None:
            of_words = [mean_of_words(name, self._row_of, lambda: self.folder.mean) for name in names]
            return torch.from_numpy(np.array(of_words, dtype=np.float32))
        if self._of_whole_names:
            return name_vectors(self._encoder, names)
        sums, counts = span_sums(self._encoder, [name_sentence(name) for name in names])
        empty = counts[:, 0] == 0  # a name without a token
        means = sums[:, 0] / counts.clamp(min=1)
        means[empty] = torch.from_numpy(np.array(self.folder.mean))
        return means

    def _row_of(self, word: str) -> NDArray[Any] | None:
        concept = self.graph.find(word)
        if concept is None:
            return None
        row, found = self.folder.find(np.array([concept]))
        return self.folder.vectors[row[0]] if found[0] else None


class RandomFeatures(NodeFeatures):
    """Normal vectors that depend on the concept's number alone."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.dim = dim

    def compute(self, concepts: Ints) -> Tensor:
        rows = [np.random.default_rng(int(c)).standard_normal(self.dim) for c in concepts]
        return torch.tensor(np.array(rows).reshape(len(concepts), self.dim), dtype=torch.float32)


class NoFeatures(NodeFeatures):
    """Vectors without components, for graph encoders that read none."""

    dim = 0

    def require(self, concepts: Ints) -> None:
        """Nothing is needed."""

    def rows(self, concepts: Tensor, graph: KnowledgeGraph | None = None) -> Tensor:
        return torch.zeros(len(concepts), 0)


def open_features(source: str, graph: KnowledgeGraph, encoder: "TextEncoder") -> NodeFeatures:
    """Features as a setting names them."""
    if source == "names":
        return NameFeatures(graph, encoder)
    if source == "random":
        return RandomFeatures()
    place = Path(source)
    if not place.exists() and graph.folder is not None and (graph.folder / FEATURES / source).is_dir():
        place = graph.folder / FEATURES / source
    if not place.exists():
        raise UserError(
            f"{source} does not exist; features are `names`, `random`, a .npy file, or a folder made by `mhgrn features build`,"
            " by its path or by its name among the graph's features."
        )
    return BuiltFeatures(graph, place, encoder) if place.is_dir() else FileFeatures(graph, place)
