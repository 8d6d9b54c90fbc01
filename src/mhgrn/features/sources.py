"""Where node features come from."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.storage import fingerprint, load_array, load_tensors, save_tensors

if TYPE_CHECKING:
    from mhgrn.encoders.text import TextEncoder

CHUNK = 16_384  # names encoded between two writes of the cache


class NodeFeatures:
    """Base class: features of the concepts that were asked for so far, as one table."""

    dim: int

    def __init__(self) -> None:
        self._ids: Ints = np.zeros(0, dtype=np.int64)  # sorted
        self._table = torch.zeros(0, 0)

    def compute(self, concepts: Ints) -> Tensor:
        """The vectors of these concepts: [n, dim] float32."""
        raise NotImplementedError

    def require(self, concepts: Ints) -> None:
        """Have the features of these concepts at hand."""
        missing = np.setdiff1d(concepts, self._ids)
        if len(missing):
            self._add(missing, self.compute(missing))

    def _add(self, concepts: Ints, vectors: Tensor) -> None:
        ids = np.concatenate([self._ids, concepts])
        table = torch.cat([self._table.view(-1, self.dim), vectors])
        order = np.argsort(ids)
        self._ids, self._table = ids[order], table[torch.from_numpy(order)]

    def rows(self, concepts: Tensor) -> Tensor:
        """The features of nodes: [N] → [N, dim]."""
        asked = concepts.cpu().numpy()
        self.require(asked)
        return self._table.view(-1, self.dim)[torch.from_numpy(np.searchsorted(self._ids, asked))]


class NameFeatures(NodeFeatures):
    """The text encoder's vector of a concept's name, kept as float16 beside the graph once computed."""

    def __init__(self, graph: KnowledgeGraph, encoder: "TextEncoder") -> None:
        super().__init__()
        self.graph, self.encoder, self.dim = graph, encoder, encoder.width
        key = fingerprint(encoder.identity()["weights"], encoder.pooling == "cls", graph.fingerprint)
        self._cache = graph.folder / "features" / f"names-{key}.safetensors" if graph.folder is not None else None
        if self._cache is not None and self._cache.is_file():
            stored = load_tensors(self._cache)
            self._add(stored["concepts"].numpy(), stored["vectors"].float())

    def compute(self, concepts: Ints) -> Tensor:
        # float16 and back, so that a cached vector equals a fresh one
        names = [self.graph.name(c).replace("_", " ") for c in concepts.tolist()]
        return self.encoder.embed_all(names, "encoding concept names").half().float()

    def require_and_keep(self, concepts: Ints) -> None:
        """:meth:`require`, written to disk every so often: an interrupted computation goes on where it stopped."""
        missing = np.setdiff1d(concepts, self._ids)
        for start in range(0, len(missing), CHUNK):
            self.require(missing[start : start + CHUNK])
            if self._cache is not None:
                save_tensors(self._cache, {"concepts": torch.from_numpy(self._ids), "vectors": self._table.half()})


class FileFeatures(NodeFeatures):
    """Rows of a ``.npy`` whose sibling ``.txt`` names the concept of every row, in the graph's order."""

    def __init__(self, graph: KnowledgeGraph, path: Path) -> None:
        super().__init__()
        self._rows = load_array(path) if path.is_file() else None
        if self._rows is None:
            raise UserError(f"{path} does not exist; features are `names`, `random` or a .npy file.")
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
        assert self._rows is not None
        return torch.from_numpy(self._rows[concepts].astype(np.float32))


class RandomFeatures(NodeFeatures):
    """Normal vectors that depend on the concept's number alone."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.dim = dim

    def compute(self, concepts: Ints) -> Tensor:
        rows = [np.random.default_rng(int(c)).standard_normal(self.dim) for c in concepts]
        return torch.tensor(np.array(rows).reshape(len(concepts), self.dim), dtype=torch.float32)


def open_features(source: str, graph: KnowledgeGraph, encoder: "TextEncoder") -> NodeFeatures:
    """Features as a setting names them."""
    if source == "names":
        return NameFeatures(graph, encoder)
    if source == "random":
        return RandomFeatures()
    return FileFeatures(graph, Path(source))
