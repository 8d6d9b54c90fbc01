"""Pictures of parts of a graph: a question's subgraph, or the neighbourhood of concepts, as SVG or PNG."""

from mhgrn.drawing.figures import check_image
from mhgrn.drawing.picture import Limits, Picture, picture_of_concepts, picture_of_question, picture_of_subgraph
from mhgrn.drawing.render import draw

__all__ = ["Limits", "Picture", "check_image", "draw", "picture_of_concepts", "picture_of_question", "picture_of_subgraph"]
