"""What a graph encoder is: a statement's vector and its subgraph in, one vector of the graph out."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.settings import Settings as AnySettings
from mhgrn.text.tokens import Tokens


@dataclass(frozen=True)
class Dims:
    """The widths that a model's surroundings decide."""

    sentence_dim: int  # of the vector that steers attention in the graph
    feature_dim: int  # of the nodes
    num_relations: int  # m, the reverse relations included
    token_dim: int = 0  # of the text encoder's token states


@dataclass(frozen=True)
class GraphEncoding:
    """The graph's vector g, and what the encoder attended to where it can tell."""

    g: Tensor  # [G, out_dim]
    pooled: Tensor | None = None  # [n] nodes that were pooled
    attention: Tensor | None = None  # [n, heads]
    traces: list[Any] = field(default_factory=list)  # one a layer
    score: Tensor | None = None  # [G] what is added to the score of s and g
    cut: Tensor | None = None  # [G] float64, how many of each graph's paths (or whatever is read one by one) were left out


class GraphEncoder(nn.Module):
    """Base class. A subclass names itself, its settings and what it reads, and computes g or an additive score.

    The score of a statement is Linear([g; s]) plus ``GraphEncoding.score`` where there is one. An encoder with
    ``uses_text = False`` gives the whole score itself.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line
    equation: ClassVar[str]  # what it implements, and where that is written
    Settings: ClassVar[type[AnySettings]]

    uses_graph: ClassVar[bool] = True
    uses_features: ClassVar[bool] = True  # without, node features are neither opened nor gathered
    shares_features: ClassVar[bool] = False  # with, ``features`` may have a row for each concept: see GraphBatch.feature_row
    uses_text: ClassVar[bool] = True  # without, no text is encoded, s has no components, and the score is the encoder's own
    uses_tokens: ClassVar[bool] = False  # with, ``forward`` is given the text encoder's token states
    has_paths: ClassVar[bool] = False  # whether walks can be decoded from ``GraphEncoding.traces``

    limit_setting: ClassVar[str | None] = None  # the setting beyond which ``GraphEncoding.cut`` counts, if there is one

    out_dim: int = 0  # width of g
    reach: Reach | None = None  # what it reads of a graph, so that the rest is left out of its batches; all by default

    def __init__(self, dims: Dims, settings: AnySettings) -> None:
        super().__init__()

    def attach(self, graph: KnowledgeGraph) -> None:
        """Called with the graph once the model is built, for what is known of a graph besides its edges."""

    def prepare(self, batch: GraphBatch) -> None:
        """Compute what depends on no parameter, ahead of a step; kept with the batch."""

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        """s [G, S], features [N, feature_dim] → g [G, out_dim]."""
        raise NotImplementedError
