"""The components of MHGRN that a setting can remove."""

from collections.abc import Iterable
from typing import Literal

Component = Literal["typed_transform", "attention", "relation_attention", "type_attention", "transition", "unary"]
"""A part of MHGRN that can be left out: U and b of equation 5 (then x = h); attention to walks (all, to relations, to node
types); within the one to relations, τ and δ."""

ABLATIONS: tuple[Component, ...] = ("typed_transform", "attention", "relation_attention", "type_attention")
"""The rows of the paper's table 6, each as ``mhgrn.without=[name]``."""

_PARTS: dict[Component, tuple[Component, ...]] = {
    "attention": ("relation_attention", "type_attention"),
    "relation_attention": ("transition", "unary"),
}


def components(names: Iterable[Component]) -> set[Component]:
    """Named components with everything they consist of.

    >>> sorted(components(["relation_attention"]))
    ['relation_attention', 'transition', 'unary']
    """
    return {part for name in names for part in (name, *components(_PARTS.get(name, ())))}
