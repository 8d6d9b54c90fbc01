"""Node features: a vector for each concept, from its name, from a file, or at random for tests."""

from mhgrn.features.sources import FileFeatures, NameFeatures, NodeFeatures, RandomFeatures, open_features

__all__ = ["FileFeatures", "NameFeatures", "NodeFeatures", "RandomFeatures", "open_features"]
