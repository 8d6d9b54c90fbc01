"""Node features as the setting ``features`` names them."""

import os
from typing import TYPE_CHECKING

from mhgrn.errors import UserError
from mhgrn.features.node_features import BuiltFeatures, FileFeatures, NodeFeatures
from mhgrn.features.source import FeatureSource
from mhgrn.io.places import places
from mhgrn.io.remote import local_folder
from mhgrn.kg.graph import FEATURES, KnowledgeGraph
from mhgrn.plugins import Plugins
from mhgrn.printing import shown

if TYPE_CHECKING:
    from mhgrn.text.encoder import TextEncoder

FEATURE_SOURCES: Plugins[type[FeatureSource]] = Plugins(
    "source of node features", "mhgrn.feature_sources", "mhgrn.features.sources", "mhgrn.features.source:FeatureSource"
)


def open_features(name: str, graph: KnowledgeGraph, encoder: "TextEncoder") -> NodeFeatures:
    """Open node features for a model.

    Args:
        name: A source that needs no folder (``names``, ``random``, or of another package), a ``.npy`` file, or a folder that
            ``mhgrn features build`` made, by its path, its URL or its name inside the graph's folder of features.
        graph: The graph of the concepts.
        encoder: The text encoder of the run.
    """
    if name in FEATURE_SOURCES.built_in() and (source := FEATURE_SOURCES.load(name)).opens_directly:
        return source(graph).open(encoder)
    place = local_folder(name)
    if not os.path.exists(place) and graph.folder is not None:  # inside the graph's folder, here or where that was fetched from
        place = next(places(graph.folder, f"{FEATURES}/{name}", None), place)
    if os.path.exists(place):  # unlike Path.exists, False for a name that cannot be a path
        return BuiltFeatures(graph, place, encoder) if place.is_dir() else FileFeatures(graph, place)
    if name in FEATURE_SOURCES.names():
        source = FEATURE_SOURCES.load(name)
        if source.opens_directly:
            return source(graph).open(encoder)
        command = f"mhgrn features build {graph.folder or 'GRAPH'} --from {name}"
        raise UserError(f"features={name}: build these features first ({command}), then name their folder.")
    raise UserError(
        f"features={shown(name)} does not exist; give names, random, another installed source, a .npy file, or a folder of"
        " `mhgrn features build` (its path, or its name inside the graph's folder of features)."
    )
