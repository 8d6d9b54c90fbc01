"""Node features: a vector for each concept, from its name, its triples, a file, or at random for tests."""

from mhgrn.features.folder import FeatureFolder
from mhgrn.features.sources import (
    BuiltFeatures,
    FileFeatures,
    NameFeatures,
    NodeFeatures,
    NoFeatures,
    RandomFeatures,
    open_features,
)
from mhgrn.features.verbalize import verbalise

__all__ = [
    "BuiltFeatures",
    "FeatureFolder",
    "FileFeatures",
    "NameFeatures",
    "NoFeatures",
    "NodeFeatures",
    "RandomFeatures",
    "open_features",
    "verbalise",
]
