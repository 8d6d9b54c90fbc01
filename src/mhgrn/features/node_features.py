"""Node features as a model reads them."""

import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.features.folder import WIDEST, FeatureFolder
from mhgrn.features.verbalize import name_sentence, name_vectors, span_sums
from mhgrn.io.arrays import load_array
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.printing import shortened
from mhgrn.progress import say

if TYPE_CHECKING:
    from mhgrn.text.encoder import TextEncoder


KEPT = 256 << 20  # bytes of the vectors that questions add to a table
TOGETHER = 8  # names are encoded in multiples of this many, see ``independent``


class _Table:
    """The vectors of some concepts. Rows are only added, so that a thread may read while another, which holds the lock, adds."""

    def __init__(self, dim: int) -> None:
        self.rows = torch.zeros(0, dim)  # a part of it is used
        self.row_of: NDArray[np.int32] = np.zeros(0, dtype=np.int32)  # concept → its row + 1, 0 if there is none
        self.count = 0

    def find(self, concepts: Ints) -> Ints:
        """The rows of concepts, -1 for those without one."""
        row_of = self.row_of
        if not len(row_of):
            return np.full(len(concepts), -1)
        return np.where(concepts < len(row_of), row_of[np.minimum(concepts, len(row_of) - 1)], 0).astype(np.int64) - 1

    def add(self, concepts: Ints, vectors: Tensor) -> None:
        """Add the vectors of new concepts. The table at least doubles when it grows, so that few vectors are copied."""
        end = self.count + len(concepts)
        if end > len(self.rows):
            rows = torch.empty(max(end, 2 * self.count), self.rows.shape[1])
            rows[: self.count] = self.rows[: self.count]
            self.rows = rows
        self.rows[self.count : end] = vectors
        largest = int(concepts.max(initial=-1)) + 1
        if largest > len(self.row_of):
            row_of = np.zeros(max(largest, 2 * len(self.row_of)), dtype=np.int32)
            row_of[: len(self.row_of)] = self.row_of
            self.row_of = row_of
        self.row_of[concepts] = np.arange(self.count + 1, end + 1)  # last: a reader finds only rows that are there
        self.count = end

    def concepts(self) -> Ints:
        """The concepts that have a row, ascending."""
        return np.flatnonzero(self.row_of)


class NodeFeatures:
    """Base class: a table of the features of all concepts that were needed so far. Several threads may use it.

    Concepts from number ``own`` on are not in the stored graph: they were added for one question. Their features are computed from
    their names each time, because another question may use the same number for another concept.
    """

    dim: int  # width of the vectors
    own = sys.maxsize  # number of concepts in the stored graph

    def __init__(self) -> None:
        self._table: _Table | None = None
        self._lock = Lock()  # of the thread that adds to the table
        self._required = 0  # rows that stay: those that a training needs

    @property
    def fingerprint(self) -> str:
        """Identifies the stored vectors, to compare them with those of another machine; empty if none are stored."""
        return ""

    def compute(self, concepts: Ints) -> Tensor:
        """The vectors of these concepts: [n, dim] float32."""
        raise NotImplementedError

    def compute_each(self, concepts: Ints) -> Tensor:
        """The same for a question. Not even the last digit of a vector depends on the other concepts, so an answer does not depend
        on earlier questions."""
        return self.compute(concepts)

    def of_names(self, names: list[str]) -> Tensor:
        """The vectors of concepts that the stored graph does not have."""
        raise NotImplementedError

    def require(self, concepts: Ints) -> None:
        """Compute the features of these concepts, unless the table has them, and keep them."""
        with self._lock:
            missing = self._missing(concepts)
            if len(missing):
                self._add(missing, self.compute(missing))
            self._required = self._known().count

    def _known(self) -> _Table:
        if self._table is None:
            self._table = _Table(self.dim)
        return self._table

    def _missing(self, concepts: Ints) -> Ints:
        """The concepts that the table lacks, ascending."""
        asked = concepts[concepts < self.own]
        return np.unique(asked[self._known().find(asked) < 0])

    def _add(self, concepts: Ints, vectors: Tensor) -> None:
        self._known().add(concepts, vectors)

    def _vectors_of(self, concepts: Ints) -> Tensor:
        """The vectors of concepts of the stored graph: [n, dim]."""
        table = self._known()
        places = table.find(concepts)
        if len(places) and places.min() < 0:
            with self._lock:
                table = self._with_room()
                missing = self._missing(concepts)  # another thread may have added some, or all
                if len(missing):
                    table.add(missing, self.compute_each(missing))
            places = table.find(concepts)
        return table.rows.index_select(0, torch.from_numpy(places))  # several times faster than indexing

    def _with_room(self) -> _Table:
        """The table. One that questions have filled is replaced by a new one with the required rows only."""
        table = self._known()
        if (table.count - self._required) * self.dim * 4 > KEPT:
            concepts = table.concepts()
            concepts = concepts[table.find(concepts) < self._required]
            kept = _Table(self.dim)
            kept.add(concepts, table.rows.index_select(0, torch.from_numpy(table.find(concepts))))
            self._table = table = kept
        return table

    def rows(self, concepts: Tensor, graph: KnowledgeGraph | None = None) -> Tensor:
        """The features of nodes: [N] → [N, dim]. ``graph`` has the names of concepts that the stored graph lacks."""
        asked = concepts.cpu().numpy()
        is_own = asked < self.own
        found = self._vectors_of(asked[is_own])
        if graph is None or is_own.all():
            return found
        both = torch.empty(len(asked), self.dim)
        both[torch.from_numpy(is_own)] = found
        both[torch.from_numpy(~is_own)] = self.of_names([graph.name(c) for c in asked[~is_own].tolist()])
        return both


def independent(encoder: "TextEncoder", names: Sequence[str], vectors: Callable[[list[str]], Tensor]) -> Tensor:
    """The vectors of names, such that the last digits of a vector depend on the name only.

    A text encoder's last digits depend on the padding of a text and on the remainder of the number of texts that are encoded
    together. So only names of the same number of tokens are encoded together, and their number is rounded up.

    Args:
        encoder: The encoder, which counts tokens.
        names: Names of concepts.
        vectors: Gives the vectors of names of the same length, [n] → [n, dim].
    """
    ids = encoder.tokenizer([name.replace("_", " ") for name in names])["input_ids"]
    by_length: dict[int, list[int]] = {}
    for number, tokens in enumerate(ids):
        by_length.setdefault(len(tokens), []).append(number)
    parts, order = [], []
    for numbers in by_length.values():
        more = -len(numbers) % TOGETHER
        parts.append(vectors([names[i] for i in numbers + numbers[-1:] * more])[: len(numbers)])
        order += numbers
    joined = torch.cat(parts)
    result = torch.empty_like(joined)
    result[order] = joined
    return result


class FileFeatures(NodeFeatures):
    """Rows of a ``.npy`` file. A ``.txt`` file beside it has the names of the concepts, one per line, in the graph's order."""

    def __init__(self, graph: KnowledgeGraph, path: Path) -> None:
        super().__init__()
        self.graph, self.own, self.path = graph, len(graph), path
        self._rows = load_array(path)
        if self._rows.ndim != 2 or self._rows.dtype.kind != "f" or not 1 <= self._rows.shape[1] <= WIDEST:
            raise UserError(
                f"{path}: expected floats with one row per concept, found {self._rows.dtype} of shape {self._rows.shape}."
            )
        self.dim = self._rows.shape[1]
        names = path.with_suffix(".txt")
        if not names.is_file():
            raise UserError(f"{names} is missing; it should have the concept of each row of {path.name}, one per line.")
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
                ours = shortened(graph.name(number))
                raise UserError(f"{names}:{number + 1}: {shortened(name)}, but the graph has {ours} here.")

    @property
    def fingerprint(self) -> str:
        return file_fingerprint(self.path)

    def compute(self, concepts: Ints) -> Tensor:
        with np.errstate(over="ignore"):
            rows = self._rows[concepts].astype(np.float32)
        if not np.isfinite(rows).all():
            name = self.graph.name(int(concepts[np.flatnonzero(~np.isfinite(rows).all(axis=1))[0]]))
            raise UserError(f"{self.path}: the row of {shortened(name)} has values that are not finite; correct the file.")
        return torch.from_numpy(rows)

    def of_names(self, names: list[str]) -> Tensor:
        of_words = [mean_of_words(name, self._row_of, lambda: self._mean) for name in names]
        return torch.from_numpy(np.array(of_words, dtype=np.float32))

    def _row_of(self, word: str) -> NDArray[Any] | None:
        concept = self.graph.find(word)
        return None if concept is None else self.compute(np.array([concept]))[0].numpy()

    @cached_property
    def _mean(self) -> NDArray[Any]:
        mean: NDArray[Any] = self._rows.mean(axis=0, dtype=np.float64)
        if not np.isfinite(mean).all():
            raise UserError(f"{self.path} has values that are not finite; correct the file.")
        return mean


def mean_of_words(name: str, vector: Callable[[str], NDArray[Any] | None], otherwise: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """The mean of the vectors of a name's words, for those that have one.

    >>> known = {"desk": np.array([1.0, 3.0]), "lamp": np.array([2.0, 5.0])}
    >>> mean_of_words("red_desk_lamp", known.get, lambda: np.zeros(2)).tolist()
    [1.5, 4.0]
    """
    found = [v for word in name.split("_") if (v := vector(word)) is not None]
    return np.stack(found).mean(axis=0, dtype=np.float64) if found else otherwise()


class BuiltFeatures(NodeFeatures):
    """The vectors of a folder that ``mhgrn features build`` made.

    A concept without a vector gets one from its name: from the text encoder if it made the folder's vectors, otherwise the mean of
    the vectors of its words, otherwise the mean of all vectors.
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
    def fingerprint(self) -> str:
        return fingerprint(self.folder.about["key"], self.folder.mean)  # the mean is computed from all vectors

    @property
    def relations(self) -> NDArray[Any] | None:
        """The vectors of the graph's relations [m, dim], if the source has them (TransE)."""
        return self.folder.relations

    def require(self, concepts: Ints) -> None:
        """Compute the features of these concepts, and report how many have no vector of their own."""
        distinct = np.unique(concepts)
        missing = int((~self.folder.find(distinct)[1]).sum())
        if missing:
            instead = "vectors of their names" if self._encoder is not None else "means of their words' vectors"
            say(f"{self.folder.folder}: no vector for {missing:,} of {len(distinct):,} concepts; using {instead}.")
        super().require(concepts)

    def compute(self, concepts: Ints) -> Tensor:
        return self._computed(concepts, self._of_names)

    def compute_each(self, concepts: Ints) -> Tensor:
        return self._computed(concepts, self.of_names)

    def _computed(self, concepts: Ints, of_names: Callable[[list[str]], Tensor]) -> Tensor:
        row, found = self.folder.find(concepts)
        vectors = torch.empty(len(concepts), self.dim)
        vectors[torch.from_numpy(found)] = torch.from_numpy(self.folder.rows(row[found]).astype(np.float32))
        if not found.all():
            vectors[torch.from_numpy(~found)] = of_names([self.graph.name(c) for c in concepts[~found].tolist()])
        return vectors

    def of_names(self, names: list[str]) -> Tensor:
        return self._of_names(names) if self._encoder is None else independent(self._encoder, names, self._of_names)

    def _of_names(self, names: list[str]) -> Tensor:
        if self._encoder is None:
            of_words = [mean_of_words(name, self._row_of, lambda: self.folder.mean) for name in names]
            return torch.from_numpy(np.array(of_words, dtype=np.float32))
        if self._of_whole_names:
            return name_vectors(self._encoder, names)
        sums, counts = span_sums(self._encoder, [name_sentence(name) for name in names])
        empty = counts[:, 0] == 0  # names without a token
        means = sums[:, 0] / counts.clamp(min=1)
        means[empty] = torch.from_numpy(np.array(self.folder.mean))
        return means

    def _row_of(self, word: str) -> NDArray[Any] | None:
        concept = self.graph.find(word)
        if concept is None:
            return None
        row, found = self.folder.find(np.array([concept]))
        return self.folder.rows(row)[0] if found[0] else None


class NoFeatures(NodeFeatures):
    """Vectors of width 0, for graph encoders that read no node features."""

    dim = 0

    def require(self, concepts: Ints) -> None:
        """Do nothing."""

    def rows(self, concepts: Tensor, graph: KnowledgeGraph | None = None) -> Tensor:
        return torch.zeros(len(concepts), 0)
