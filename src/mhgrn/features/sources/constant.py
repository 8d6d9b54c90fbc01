"""The same vector for every concept."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.features.node_features import NodeFeatures
from mhgrn.features.source import FeatureSource
from mhgrn.kg.graph import Ints

if TYPE_CHECKING:
    from mhgrn.text.encoder import TextEncoder

DIM = 8


class ConstantSource(FeatureSource):
    """A vector of ones for every concept: a model then reads only relations and node types."""

    name = "constant"
    summary = "the same vector for every concept: only relations and node types count"
    dim = DIM

    def vectors(self, concepts: Ints) -> NDArray[Any]:
        return np.ones((len(concepts), DIM))

    def open(self, encoder: "TextEncoder") -> NodeFeatures:
        return ConstantFeatures()


class ConstantFeatures(NodeFeatures):
    """A vector of ones for every concept."""

    dim = DIM

    def compute(self, concepts: Ints) -> Tensor:
        return torch.ones(len(concepts), DIM)
