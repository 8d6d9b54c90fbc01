"""A features folder: the vectors of some of a graph's concepts, and where they came from."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.arrays import ArrayWriter, load_array, save_array
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import read_marker, write_json
from mhgrn.kg.graph import FEATURES, Ints, KnowledgeGraph
from mhgrn.subgraphs.prepared import PreparedData

MARKER = "features.json"
HOLDS = ("*.npy",)
FORMAT = 1
BLOCK = 8192  # rows written at once


@dataclass(frozen=True)
class FeatureFolder:
    """``vectors[i]`` is the vector of concept ``concepts[i]``; a concept that is not listed has none."""

    folder: Path
    about: dict[str, Any]
    concepts: Ints  # [covered] ascending
    vectors: NDArray[Any]  # [covered, dim] float16, memory-mapped
    mean: NDArray[Any]  # [dim] float32, of all vectors
    relations: NDArray[Any] | None  # [m, dim] float32, where the source has vectors of relations

    @classmethod
    def load(cls, folder: str | Path, graph: KnowledgeGraph) -> Self:
        """Load a folder that was built for ``graph``; another graph's is refused."""
        folder = Path(folder)
        keys = ("key", "source", "encoder", "graph_fingerprint", "concepts", "asked", "covered", "dim", "relations")
        about = read_marker(folder, MARKER, "features folder", FORMAT, keys)
        if about["graph_fingerprint"] != graph.fingerprint:
            place = graph.folder or "GRAPH"
            raise UserError(
                f"{folder} holds the features of another graph than {place}, or of what it was before;"
                f" make them for this one: mhgrn features build {place}"
            )
        arrays = {name: load_array(folder / f"{name}.npy") for name in ("concepts", "vectors", "mean")}
        covered, dim = about["covered"], about["dim"]
        expected: dict[str, tuple[int, ...]] = {"concepts": (covered,), "vectors": (covered, dim), "mean": (dim,)}
        if about["relations"]:
            arrays["relations"] = load_array(folder / "relations.npy")
            expected["relations"] = (len(graph.schema), dim)
        for name, shape in expected.items():
            if arrays[name].shape != shape:
                raise UserError(f"{folder / name}.npy has shape {arrays[name].shape}, not {shape}; build the features again.")
        return cls(folder, about, arrays["concepts"], arrays["vectors"], arrays["mean"], arrays.get("relations"))

    @property
    def missing(self) -> int:
        """How many of the concepts that were asked for have no vector."""
        return int(self.about["asked"] - self.about["covered"])

    def find(self, concepts: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The row of each concept, and whether it has one."""
        row = np.minimum(np.searchsorted(self.concepts, concepts), max(len(self.concepts) - 1, 0))
        found = self.concepts[row] == concepts if len(self.concepts) else np.zeros(len(concepts), dtype=bool)
        return row, found


@dataclass(frozen=True)
class Request:
    """Which concepts of which graph are to have vectors, made how."""

    graph: KnowledgeGraph
    concepts: Ints  # ascending
    source: dict[str, Any]  # what decides the vectors; JSON
    encoder: dict[str, str] | None = None  # name and weights of the text encoder, if one makes the vectors

    @property
    def key(self) -> str:
        """Equal for requests whose vectors are equal."""
        weights = self.encoder and self.encoder["weights"]
        return fingerprint(FORMAT, self.source, weights, np.asarray(self.concepts, dtype=np.int64), self.graph.fingerprint)

    def place(self, folder: str | Path | None) -> Path:
        """Where the features go: ``folder``, or a place of their own in the graph's."""
        if folder is not None:
            return Path(folder)
        if self.graph.folder is None:
            raise UserError("name a folder for the features: the graph itself is not saved in one.")
        return self.graph.folder / FEATURES / f"{self.source['from']}-{self.key[:8]}"

    def finished(self, folder: Path) -> FeatureFolder | None:
        """The features, if they are in ``folder`` already."""
        if not (folder / MARKER).is_file():
            return None
        try:
            found = FeatureFolder.load(folder, self.graph)
        except UserError:  # another graph's, or damaged: to be replaced
            return None
        return found if found.about["key"] == self.key else None

    def write(
        self,
        folder: Path,
        covered: Ints,
        blocks: Iterable[NDArray[Any]],
        dim: int,
        relations: NDArray[Any] | None = None,
    ) -> FeatureFolder:
        """Write the folder; ``blocks`` are the vectors of the ``covered`` concepts in their order, some rows at a time."""
        total = np.zeros(dim)
        with new_folder(folder, MARKER, HOLDS) as partial:
            writer = ArrayWriter(partial / "vectors.npy", np.float16, dim)
            try:
                for block in blocks:
                    with np.errstate(over="ignore"):
                        rows = block.astype(np.float16)
                    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
                    if len(bad):
                        name = self.graph.name(int(covered[writer.length + bad[0]]))
                        raise UserError(f"the vector of {name!r} is not finite, or too large for 16-bit floats.")
                    total += rows.sum(axis=0, dtype=np.float64)
                    writer.append(rows)
            finally:
                writer.close()
            save_array(partial / "concepts.npy", np.asarray(covered, dtype=np.int64))
            save_array(partial / "mean.npy", (total / max(len(covered), 1)).astype(np.float32))
            if relations is not None:
                save_array(partial / "relations.npy", relations.astype(np.float32))
            about = {
                "format": FORMAT,
                "key": self.key,
                "source": self.source,
                "encoder": self.encoder,
                "graph_fingerprint": self.graph.fingerprint,
                "concepts": len(self.graph),
                "asked": len(self.concepts),
                "covered": len(covered),
                "dim": dim,
                "relations": relations is not None,
            }
            write_json(partial / MARKER, about)
        return FeatureFolder.load(folder, self.graph)


def reached(graph: KnowledgeGraph, only: Iterable[str | Path]) -> Ints:
    """The concepts that prepared data sets reach, ascending; all of the graph's, if none is given."""
    used = []
    for folder in only:
        data = PreparedData.load(folder)
        if data.about["graph_fingerprint"] != graph.fingerprint:
            raise UserError(f"{folder} was prepared from another graph than {graph.folder}; prepare the questions again.")
        used.append(data.used)
    return np.unique(np.concatenate(used)) if used else np.arange(len(graph))
