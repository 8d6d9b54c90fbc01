"""Folders of node features: vectors of a graph's concepts, and how they were made."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.arrays import ArrayWriter, save_array
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import write_marker
from mhgrn.io.remote import local_folder, refuse_fetched
from mhgrn.io.stored import StoredArray, StoredFolder, read_folder
from mhgrn.kg.graph import FEATURES, Ints, KnowledgeGraph
from mhgrn.printing import shortened
from mhgrn.progress import say
from mhgrn.subgraphs.prepared import PreparedData

MARKER = "features.json"
HOLDS = ("*.npy",)
FORMAT = 1
BLOCK = 8192  # rows written at once
CHECKED = 1 << 20  # concepts checked at once
WIDEST = 65_536  # numbers of a vector
KEYS = {
    "key": str,
    "source": dict,
    "encoder": (dict, type(None)),
    "graph_fingerprint": str,
    "concepts": int,
    "asked": int,
    "covered": int,
    "dim": int,
    "relations": bool,
}


@dataclass(frozen=True)
class FeatureFolder:
    """A loaded folder. Row i is the vector of concept ``concepts[i]``; other concepts have no vector."""

    folder: Path
    about: dict[str, Any]
    concepts: Ints  # [covered] ascending
    stored: StoredArray  # [covered, dim] float16, memory-mapped; large ones are checked when they are used
    mean: NDArray[Any]  # [dim] float32, mean of all vectors
    relations: NDArray[Any] | None  # [m, dim] float32, if the source has vectors of relations

    @classmethod
    def load(cls, folder: str | Path, graph: KnowledgeGraph) -> Self:
        """Load a folder that was built for ``graph``, or for one with the same concepts if the vectors do not depend on facts."""
        folder = local_folder(folder)
        return read_folder(folder, MARKER, "features folder", FORMAT, lambda stored: cls._read(stored, graph), KEYS)

    @classmethod
    def _read(cls, stored: StoredFolder, graph: KnowledgeGraph) -> Self:
        folder, about = stored.path, stored.about
        uses_facts = about.get("uses_facts", True) or about["relations"]
        fits_concepts = not uses_facts and about.get("names") == graph.about["names"]
        if about["graph_fingerprint"] != graph.fingerprint and not fits_concepts:
            place = graph.folder or "GRAPH"
            raise UserError(
                f"{folder} has the features of another graph than {place}, or of an earlier version of it;"
                f" build them for this graph: mhgrn features build {place}"
            )
        covered, dim, encoder = about["covered"], about["dim"], about["encoder"]
        if not (0 <= covered <= about["asked"] <= about["concepts"] == len(graph) and 1 <= dim <= WIDEST):
            raise UserError(f"{folder / MARKER} is damaged (its numbers contradict each other); build the features again.")
        texts = [about["source"].get("from"), *([] if encoder is None else [encoder.get("name"), encoder.get("weights")])]
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"{folder / MARKER} is damaged (its source or encoder has no name); build the features again.")
        concepts = stored.array("concepts", "int64", length=covered, high=max(len(graph) - 1, 0))
        concepts.ensure()
        for start in range(0, covered, CHECKED):
            part = concepts.values[start : start + CHECKED + 1]
            if not (part[1:] > part[:-1]).all():
                raise UserError(f"{concepts.path} is damaged (it is not in ascending order); build the features again.")
        vectors = stored.array("vectors", "float16", length=covered, width=dim)
        small = {"mean": stored.array("mean", "float32", length=dim)}
        if about["relations"]:
            small["relations"] = stored.array("relations", "float32", length=len(graph.schema), width=dim)
        for array in small.values():
            array.ensure()
        relations = small["relations"].values if "relations" in small else None
        return cls(folder, about, concepts.values, vectors, small["mean"].values, relations)

    @property
    def vectors(self) -> NDArray[Any]:
        """All vectors: [covered, dim] float16."""
        self.stored.ensure()
        return self.stored.values

    def rows(self, numbers: Ints) -> NDArray[Any]:
        """The vectors of some rows: [n, dim] float16."""
        self.stored.ensure_rows(numbers)
        found: NDArray[Any] = self.stored.values[numbers]
        return found

    @property
    def missing(self) -> int:
        """The number of requested concepts without a vector."""
        return int(self.about["asked"] - self.about["covered"])

    def find(self, concepts: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The row of each concept, and whether it has one."""
        row = np.minimum(np.searchsorted(self.concepts, concepts), max(len(self.concepts) - 1, 0))
        found = self.concepts[row] == concepts if len(self.concepts) else np.zeros(len(concepts), dtype=bool)
        return row, found


@dataclass(frozen=True)
class Request:
    """The concepts that get vectors, and everything that determines these."""

    graph: KnowledgeGraph
    concepts: Ints  # ascending
    source: dict[str, Any]  # the identity of the source; JSON
    encoder: dict[str, str] | None = None  # name and weights of the text encoder, if the source uses one
    uses_facts: bool = True  # False: the vectors fit every graph with the same concepts

    @property
    def key(self) -> str:
        """The fingerprint of the request: equal keys mean equal vectors."""
        weights = self.encoder and self.encoder["weights"]
        return fingerprint(FORMAT, self.source, weights, np.asarray(self.concepts, dtype=np.int64), self.graph.fingerprint)

    def place(self, folder: str | Path | None) -> Path:
        """``folder``, or by default a folder inside the graph's folder, named after the source and the key."""
        if folder is not None:
            return Path(folder)
        if self.graph.folder is None:
            raise UserError("name a folder for the features, because the graph is not saved.")
        refuse_fetched(self.graph.folder, "node features")
        return self.graph.folder / FEATURES / f"{self.source['from']}-{self.key[:8]}"

    def find(self, folder: str | Path | None, force: bool = True) -> tuple[Path, FeatureFolder | None]:
        """The place of the features, and the features themselves if they are there.

        Raises:
            UserError: The place cannot be written, or holds other features and ``force`` is False.
        """
        place = check_replaceable(self.place(folder), MARKER, HOLDS)
        found = self.finished(place)
        if found is None:
            check_replaceable(place, MARKER, HOLDS, force)
        else:
            say(f"{place} is up to date.")
        return place, found

    def finished(self, folder: Path) -> FeatureFolder | None:
        """The features in ``folder``, if they are the requested ones."""
        if not (folder / MARKER).is_file():
            return None
        try:
            found = FeatureFolder.load(folder, self.graph)
        except UserError:  # of another graph, or damaged: they are replaced
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
        """Write the folder. ``blocks`` are the vectors of the ``covered`` concepts, in order, several rows at a time."""
        total = np.zeros(dim)
        with new_folder(folder, MARKER, HOLDS) as partial:
            writer = ArrayWriter(partial / "vectors.npy", np.float16, dim)
            try:
                for block in blocks:
                    if block.ndim != 2 or block.shape[1] != dim:
                        raise UserError(
                            f"the source {self.source['from']} gave vectors of shape {block.shape}, not of width {dim}."
                        )
                    with np.errstate(over="ignore"):
                        rows = block.astype(np.float16)
                    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
                    if len(bad):
                        name = self.graph.name(int(covered[writer.length + bad[0]]))
                        raise UserError(
                            f"the vector of {shortened(name)} has values that are not finite or too large for 16-bit floats."
                        )
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
                "names": self.graph.about["names"],
                "uses_facts": self.uses_facts,
                "concepts": len(self.graph),
                "asked": len(self.concepts),
                "covered": len(covered),
                "dim": dim,
                "relations": relations is not None,
            }
            write_marker(partial / MARKER, about)
        return FeatureFolder.load(folder, self.graph)


def reached(graph: KnowledgeGraph, only: Iterable[str | Path]) -> Ints:
    """The concepts that occur in prepared data, ascending. Without prepared data: all concepts of the graph."""
    used = []
    for folder in only:
        data = PreparedData.load(folder)
        if data.about["graph_fingerprint"] != graph.fingerprint:
            raise UserError(f"{folder} was prepared from another graph than {graph.folder}; prepare the questions again.")
        used.append(data.used)
    return np.unique(np.concatenate(used)) if used else np.arange(len(graph))
