"""Layers. :class:`~mhgrn.nn.conv.MHGRNConv` is the one to put into a model of your own."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mhgrn.nn.conv import MHGRNConv

__all__ = ["MHGRNConv"]


def __getattr__(name: str) -> Any:
    # loaded when first used: torch takes its time
    if name not in __all__:
        raise AttributeError(f"module 'mhgrn.nn' has no attribute {name!r}")
    from mhgrn.nn import conv

    return getattr(conv, name)
