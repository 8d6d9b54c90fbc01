"""Node features: a vector for each concept of a graph."""

from mhgrn.features.folder import FeatureFolder
from mhgrn.features.loading import open_features
from mhgrn.features.node_features import BuiltFeatures, FileFeatures, NodeFeatures, NoFeatures
from mhgrn.features.relevance import Relevance
from mhgrn.features.source import FeatureSource
from mhgrn.features.sources.names import NameFeatures
from mhgrn.features.sources.random import RandomFeatures
from mhgrn.features.verbalize import verbalize

__all__ = [
    "BuiltFeatures",
    "FeatureFolder",
    "FeatureSource",
    "FileFeatures",
    "NameFeatures",
    "NoFeatures",
    "NodeFeatures",
    "RandomFeatures",
    "Relevance",
    "open_features",
    "verbalize",
]
