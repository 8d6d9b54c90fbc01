"""Graph encoders. Every file of this folder but ``base`` and those with an underscore is one, and is used by its name."""

from typing import TYPE_CHECKING

from mhgrn.plugins import Plugins

if TYPE_CHECKING:
    from mhgrn.encoders.base import GraphEncoder

graph_encoders: "Plugins[type[GraphEncoder]]" = Plugins(
    "graph encoder", "mhgrn.graph_encoders", "mhgrn.encoders", base="mhgrn.encoders.base:GraphEncoder", not_plugins=("base",)
)
"""All graph encoders by name, those of other packages included.

>>> graph_encoders.load("none").summary
'the text encoder alone'
"""

# upper bounds of settings: far above every useful value, so that a damaged file of settings cannot fill the memory
WIDEST = 65_536  # of a vector
DEEPEST = 100  # hops, rounds or layers
MOST_HEADS = 1024  # attention heads or basis matrices
