"""The base class of graph encoders: from a statement's vector and its subgraph to a vector of the graph."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.settings import Settings
from mhgrn.text.tokens import Tokens


class EncoderSettings(Settings):
    """Base class of a graph encoder's settings."""


class TrainedSettings(EncoderSettings):
    """Settings that all trained graph encoders have."""

    initial_scale: Annotated[float, Field(gt=0)] | Literal["level"] = Field(
        "level", description="standard deviation of the initial weights; level: chosen by layer so that signals keep their scale"
    )


@dataclass(frozen=True)
class Dims:
    """The widths of a graph encoder's inputs.

    >>> Dims(sentence_dim=384, feature_dim=100, num_relations=34).token_dim
    0
    """

    sentence_dim: int  # of the vector s that the graph is attended to with
    feature_dim: int  # of the node features
    num_relations: int  # m, including the reverse relations
    token_dim: int = 0  # of the text encoder's token states


@dataclass(frozen=True)
class GraphEncoding:
    """The graph's vector g, and the attention behind it where the encoder has any.

    >>> import torch
    >>> GraphEncoding(g=torch.zeros(2, 100)).traces
    []
    """

    g: Tensor  # [G, out_dim]
    pooled: Tensor | None = None  # [n] the nodes that are pooled
    attention: Tensor | None = None  # [n, heads]
    traces: list[Any] = field(default_factory=list)  # one for each layer
    score: Tensor | None = None  # [G] added to the score of s and g
    cut: Tensor | None = None  # [G] float64, the number of paths or triples beyond the limit of ``limit_setting``


class GraphEncoder(nn.Module):
    """Base class of graph encoders.

    A subclass has a name, settings and flags for its inputs, and computes g or an additive score in :meth:`forward`. The score of
    a statement is Linear([g; s]) plus ``GraphEncoding.score`` if there is one. An encoder with ``uses_text = False`` computes the
    whole score.

    Args:
        dims: The widths of the inputs.
        settings: An instance of the subclass's ``Settings``.

    >>> class SumOfFeatures(GraphEncoder):
    ...     name, summary, equation, Settings = "sum", "The sum of the node features.", "g = Σ x", EncoderSettings
    ...
    ...     def __init__(self, dims, settings):
    ...         super().__init__(dims, settings)
    ...         self.out_dim = dims.feature_dim
    ...
    ...     def forward(self, s, features, batch, tokens=None):
    ...         g = features.new_zeros(batch.num_graphs, self.out_dim)
    ...         return GraphEncoding(g.index_add(0, batch.batch, features))
    >>> SumOfFeatures(Dims(sentence_dim=8, feature_dim=4, num_relations=2), EncoderSettings()).out_dim
    4
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line
    equation: ClassVar[str]  # the formula, with its source
    Settings: ClassVar[type[EncoderSettings]]

    paper: ClassVar[dict[str, Any]] = {}  # own settings of ``preset=paper``
    as_published: ClassVar[dict[str, Any]] = {}  # own settings of ``preset=as_published``
    published_with: ClassVar[dict[str, Any]] = {}  # general, text and training settings of ``preset=as_published``

    uses_graph: ClassVar[bool] = True
    uses_features: ClassVar[bool] = True  # False: node features are not loaded
    shares_features: ClassVar[bool] = False  # True: ``features`` may have one row for each concept, see GraphBatch.feature_row
    uses_text: ClassVar[bool] = True  # False: no text is encoded, s has width 0, and the encoder computes the whole score
    uses_tokens: ClassVar[bool] = False  # True: ``forward`` gets the text encoder's token states
    uses_relevance: bool = False  # True: ``GraphBatch.relevance`` is set
    weighs_edges: ClassVar[bool] = False  # True: ``GraphBatch.edge_weight`` is read; weight 0 equals the graph without the edge
    has_paths: ClassVar[bool] = False  # True: walks can be decoded from ``GraphEncoding.traces``

    limit_setting: ClassVar[str | None] = None  # the setting that limits what is read, see ``GraphEncoding.cut``

    out_dim: int = 0  # width of g
    reach: Reach | None = None  # the part of a graph that the encoder reads; None: all of it

    def __init__(self, dims: Dims, settings: EncoderSettings) -> None:
        super().__init__()

    def attach(self, graph: KnowledgeGraph) -> None:
        """Called with the knowledge graph after the model is built. Override it to load data that belongs to the graph."""

    def prepare(self, batch: GraphBatch) -> None:
        """Compute and keep with the batch what depends on no parameter. Called before a step, in another thread."""

    @staticmethod
    def relevance(batch: GraphBatch, dtype: torch.dtype) -> Tensor:
        """The relevance ρ of the nodes [N], for an encoder that uses it."""
        if batch.relevance is None:
            raise UserError("this graph encoder uses the relevance of nodes, which the batch lacks; see GraphBatch.with_relevance.")
        return batch.relevance.to(dtype)

    def forward(self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None) -> GraphEncoding:
        """s [G, S], features [N, feature_dim] → g [G, out_dim]."""
        raise NotImplementedError
