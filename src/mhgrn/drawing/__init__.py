"""Drawings as SVG or PNG: a question's subgraph, the neighborhood of concepts, a report."""

from mhgrn.drawing.figures import check_image
from mhgrn.drawing.picture import Picture, PictureLimits, picture_of_concepts, picture_of_question, picture_of_subgraph
from mhgrn.drawing.render import draw

__all__ = ["Picture", "PictureLimits", "check_image", "draw", "picture_of_concepts", "picture_of_question", "picture_of_subgraph"]
