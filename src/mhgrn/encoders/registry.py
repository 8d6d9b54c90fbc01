"""Graph encoders by name: this package's, and those of installed packages that name theirs as entry points.

A package declares its encoder, a subclass of :class:`mhgrn.encoders.base.GraphEncoder`, in its ``pyproject.toml``::

    [project.entry-points."mhgrn.graph_encoders"]
    mine = "my_package.encoder:MyEncoder"

and from then on ``--set graph_encoder=mine`` uses it.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING

from mhgrn.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from mhgrn.encoders.base import GraphEncoder

GROUP = "mhgrn.graph_encoders"
# named, not imported: settings are read without torch
BUILT_IN = {
    "none": "mhgrn.encoders.none:NoGraph",
    "most-edges": "mhgrn.encoders.most_edges:MostEdges",
    "edge-types": "mhgrn.encoders.edge_types:EdgeTypes",
    "edge-types-text": "mhgrn.encoders.edge_types:EdgeTypesAndText",
    "gcn": "mhgrn.encoders.gcn:GCN",
    "rgcn": "mhgrn.encoders.rgcn:RGCN",
    "gconattn": "mhgrn.encoders.gconattn:GconAttn",
    "gsc": "mhgrn.encoders.gsc:GraphSoftCounter",
    "mhgrn": "mhgrn.encoders.mhgrn:MHGRN",
    "rn": "mhgrn.encoders.rn:RN",
    "khop-rn": "mhgrn.encoders.rn:KHopRN",
    "kagnet": "mhgrn.encoders.kagnet:KagNet",
    "kvmem": "mhgrn.encoders.kvmem:KVMem",
}


def section(name: str) -> str:
    """What an encoder's section of the settings is called.

    >>> section("edge-types")
    'edge_types'
    """
    return name.replace("-", "_")


def names() -> list[str]:
    """All names: the built-in ones, then those of other packages."""
    return [*BUILT_IN, *sorted(entry_points())]


def entry_points() -> dict[str, metadata.EntryPoint]:
    """The graph encoders of other packages, not loaded yet."""
    found: dict[str, metadata.EntryPoint] = {}
    for point in metadata.entry_points(group=GROUP):
        if point.name in found or point.name in BUILT_IN:
            other = _origin(found[point.name]) if point.name in found else "a built-in one"
            raise UserError(f"two graph encoders are called {point.name!r}: {other} and {_origin(point)}.")
        found[point.name] = point
    return found


def check(name: object) -> None:
    """Refuse a name that no graph encoder has."""
    if not isinstance(name, str) or (name not in BUILT_IN and name not in entry_points()):
        raise UserError(f"unknown graph_encoder {name!r}.{did_you_mean(str(name), names())}")


def load(name: str) -> "type[GraphEncoder]":
    """The class of a graph encoder.

    >>> load("none").summary
    'the text encoder alone'
    """
    from mhgrn.encoders.base import GraphEncoder

    check(name)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: type[GraphEncoder] = getattr(import_module(module), attribute)
        return built_in
    point = entry_points()[name]
    _check_section(point)
    try:
        found = point.load()
    except Exception as error:  # whatever a package of others does when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"the graph encoder {name!r} ({_origin(point)}) cannot be loaded: {reason}.") from error
    if not (isinstance(found, type) and issubclass(found, GraphEncoder)):
        raise UserError(f"the graph encoder {name!r} ({_origin(point)}) is no subclass of mhgrn.encoders.base.GraphEncoder.")
    return found


def _check_section(point: metadata.EntryPoint) -> None:
    from mhgrn.config import Config

    if not section(point.name).isidentifier() or section(point.name) in Config.model_fields or hasattr(Config, section(point.name)):
        raise UserError(f"{_origin(point)} calls its graph encoder {point.name!r}, which is a setting's name; it needs another.")


def _origin(point: metadata.EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "a package"
    return f"{point.value} of {package}"
