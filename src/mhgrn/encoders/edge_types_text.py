"""Logistic regression on edge counts beside the text: the baseline for every graph network that reads relations."""

from typing import Any, ClassVar

from mhgrn.encoders.base import EncoderSettings, TrainedSettings
from mhgrn.encoders.edge_types import EdgeTypes


class EdgeTypesTextSettings(TrainedSettings):
    """Settings of ``edge-types-text``."""


class EdgeTypesAndText(EdgeTypes):
    """:class:`EdgeTypes` beside the text. A graph network that does not beat it uses no more than edge counts."""

    name = "edge-types-text"
    summary = "logistic regression on the text and the counts of each relation at the answer's concepts"
    equation = "the score of edge-types + Linear(s)"
    Settings: ClassVar[type[EncoderSettings]] = EdgeTypesTextSettings
    published_with: ClassVar[dict[str, Any]] = {}
    uses_text = True
