"""mhgrn encoders: list the graph encoders."""

from dataclasses import asdict
from typing import Annotated

import typer

from mhgrn.cli._options import AsJson
from mhgrn.cli._output import show, show_json

PANEL = "Train"


def encoders(
    sentence_dim: Annotated[int, typer.Option(min=1, help="Width of a statement's vector.")] = 1024,
    feature_dim: Annotated[int, typer.Option(min=1, help="Width of the node features.")] = 1024,
    relations: Annotated[int, typer.Option(min=1, help="Relations of the graph, without their reverses.")] = 17,
    as_json: AsJson = False,
) -> None:
    """List the graph encoders: what each computes, its settings, and its parameter count by default and as published."""
    from mhgrn.catalogue import catalogue

    entries = catalogue(sentence_dim, feature_dim, relations)
    if as_json:
        show_json([asdict(entry) for entry in entries])
        return
    show(f"parameters at sentence width {sentence_dim}, feature width {feature_dim}, {relations} relations and their reverses")
    show("\n".join(str(entry) for entry in entries))
