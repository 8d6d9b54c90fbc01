"""Random vectors, for tests and as a baseline."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from mhgrn.features.node_features import NodeFeatures
from mhgrn.features.source import FeatureSource
from mhgrn.kg.graph import Ints
from mhgrn.settings import Settings

if TYPE_CHECKING:
    from mhgrn.text.encoder import TextEncoder


class RandomSettings(Settings):
    dim: int = Field(32, ge=1, le=65_536, description="width of the vectors")


class RandomSource(FeatureSource):
    """Normally distributed vectors that depend only on the concept's number."""

    name = "random"
    summary = "random vectors, for tests and as a baseline"
    Settings = RandomSettings
    settings: RandomSettings

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.settings.dim

    def vectors(self, concepts: Ints) -> NDArray[Any]:
        return _random_rows(concepts, self.dim)

    def open(self, encoder: "TextEncoder") -> NodeFeatures:
        return RandomFeatures(self.dim)


class RandomFeatures(NodeFeatures):
    """Normally distributed vectors that depend only on the concept's number."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.dim = dim

    def compute(self, concepts: Ints) -> Tensor:
        return torch.tensor(_random_rows(concepts, self.dim), dtype=torch.float32)


def _random_rows(concepts: Ints, dim: int) -> NDArray[Any]:
    rows = [np.random.default_rng(int(c)).standard_normal(dim) for c in concepts]
    return np.array(rows).reshape(len(concepts), dim)
