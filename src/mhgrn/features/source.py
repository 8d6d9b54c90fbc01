"""Sources of node features: their base class."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.features.folder import BLOCK, FeatureFolder, Request, reached
from mhgrn.features.node_features import NodeFeatures, mean_of_words
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.settings import Settings as AnySettings

if TYPE_CHECKING:
    from mhgrn.text.encoder import TextEncoder


class FeatureSource:
    """Base class of the sources of node features.

    A subclass has a ``name``, a ``summary``, a ``dim`` and a method ``vectors``. In another package it becomes usable as
    ``mhgrn features build GRAPH --from NAME`` and as the setting ``features=NAME`` after the package declares an entry point::

        [project.entry-points."mhgrn.feature_sources"]
        my-source = "my_package.my_source"

    Args:
        graph: The graph whose concepts get vectors.
        settings: Options of the source, an instance of its ``Settings``. None: the defaults.

    >>> class NameLength(FeatureSource):
    ...     name, summary, dim = "name-length", "The length of the name.", 1
    ...
    ...     def vectors(self, concepts):
    ...         return np.array([[len(self.graph.name(c))] for c in concepts], dtype=np.float32)
    >>> graph = KnowledgeGraph.from_facts([("cat", "IsA", "animal")])
    >>> NameLength(graph).vectors(np.array([graph.id("animal")]))
    array([[6.]], dtype=float32)
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for ``mhgrn features sources``."""
    Settings: ClassVar[type[AnySettings]] = AnySettings
    """The options of this source. Mark options that cannot change a vector with :class:`mhgrn.settings.NoEffect`."""
    opens_directly: ClassVar[bool] = True
    """Whether the setting ``features=NAME`` can use this source without building a folder first."""
    uses_facts: ClassVar[bool] = True
    """Whether the vectors depend on the facts of the graph. Otherwise they fit every graph with the same concepts."""
    always_in_key: ClassVar[tuple[str, ...]] = ()
    """Options that the key of a folder contains even with their default values. Only for the options of early folders."""

    dim: int  # width of the vectors
    settings: Any

    def __init__(self, graph: KnowledgeGraph, settings: AnySettings | None = None) -> None:
        self.graph = graph
        self.settings = self.Settings() if settings is None else settings

    def vectors(self, concepts: Ints) -> NDArray[Any]:
        """The vectors of concepts [n, dim]. A row of NaN means that a concept has no vector."""
        raise NotImplementedError

    def content(self) -> dict[str, Any]:
        """What determines the vectors besides the graph and the settings, for example the fingerprint of a file. JSON."""
        return {}

    def identity(self) -> dict[str, Any]:
        """What determines the vectors besides the graph: settings at their defaults are left out."""
        values = self.settings.model_dump(mode="json")
        always = {name: values[name] for name in self.always_in_key}
        return {"from": self.name, **always, **self.settings.differing(), **self.content()}

    def build(self, folder: str | Path | None = None, only: Iterable[str | Path] = (), force: bool = True) -> FeatureFolder:
        """Write the vectors to a folder, or load the folder if it is there already.

        Args:
            folder: The folder. None: a folder inside the graph's, named after the source and the key.
            only: Folders of prepared data. Only the concepts that occur in them get vectors. Empty: all concepts.
            force: Replace other features in the folder. False refuses.
        """
        request = Request(self.graph, reached(self.graph, only), self.identity(), uses_facts=self.uses_facts)
        place, found = request.find(folder, force)
        return self.write(request, place) if found is None else found

    def write(self, request: Request, place: Path) -> FeatureFolder:
        """Compute the requested vectors and write them to ``place``."""
        asked = request.concepts
        rows = [self.vectors(asked[start : start + BLOCK]) for start in range(0, len(asked), BLOCK)]
        table = np.concatenate(rows) if rows else np.zeros((0, self.dim))
        covered = ~np.isnan(table).all(axis=1)
        return request.write(place, asked[covered], [table[covered]], self.dim)

    def open(self, encoder: "TextEncoder") -> NodeFeatures:
        """Node features for a model, computed when needed; ``encoder`` is the text encoder of the run."""
        return SourceFeatures(self)


class SourceFeatures(NodeFeatures):
    """Node features that a source computes when they are needed.

    A concept without a vector gets the mean of its words' vectors, or zeros.
    """

    def __init__(self, source: FeatureSource) -> None:
        super().__init__()
        self.source, self.dim, self.own = source, source.dim, len(source.graph)

    def compute(self, concepts: Ints) -> Tensor:
        vectors = torch.from_numpy(np.asarray(self.source.vectors(concepts), dtype=np.float32))
        if vectors.shape != (len(concepts), self.dim):
            raise UserError(f"the source {self.source.name} gave vectors of shape {list(vectors.shape)}, not of width {self.dim}.")
        missing = torch.isnan(vectors).all(dim=1)
        if not bool((torch.isfinite(vectors).all(dim=1) | missing).all()):
            raise UserError(f"the source {self.source.name} gave a vector with values that are not finite.")
        if missing.any():
            vectors[missing] = self.of_names([self.source.graph.name(c) for c in concepts[missing.numpy()].tolist()])
        return vectors

    def of_names(self, names: list[str]) -> Tensor:
        rows = [mean_of_words(name, self._vector_of, lambda: np.zeros(self.dim)) for name in names]
        return torch.from_numpy(np.array(rows, dtype=np.float32))

    def _vector_of(self, word: str) -> NDArray[Any] | None:
        concept = self.source.graph.find(word)
        if concept is None:
            return None
        vector: NDArray[Any] = self.source.vectors(np.array([concept]))[0]
        return None if np.isnan(vector).all() else vector
