"""The model: the plausibility score of a choice from its text and its subgraph (the paper's section 4.5)."""

import math
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.calibration import Calibration
from mhgrn.config import Config
from mhgrn.encoders import graph_encoders
from mhgrn.encoders.base import Dims, GraphEncoder, GraphEncoding
from mhgrn.errors import UserError
from mhgrn.io.fingerprint import fingerprint
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.nn.layers import MLP, Dropout
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.tokens import Tokens


class Scores(NamedTuple):
    """The output of the model."""

    score: Tensor  # [G] one for each statement
    encoding: GraphEncoding


class KnowledgeAwareQA(nn.Module):
    """ρ(q, a) = Linear([g ; s]), or an MLP instead of Linear, plus ``GraphEncoding.score`` if the graph encoder has one.

    Args:
        graph_encoder: Computes g. If it uses no text, its score is the whole score.
        sentence_dim: The width of s.
        query_dim: The graph encoder gets this many components of s: all of them, or the question's vector only.
        score: The last layer: linear, or an MLP with one hidden layer.
        score_hidden: The width of the MLP's hidden layer.
        dropout: Of the last layer's input, and in the MLP.
        initial_scale: The standard deviation of the last layer's initial weights. ``"level"`` starts with equal scores of all
            choices.
        extra_weights: The initial weights of columns that are added to the score, see :meth:`forward`.
        similarity: The initial weight of the cosine of question and choice, which is added to the score; s is then
            [q; a; q∘a; |q−a|] with |q|² = |a|² = width. None: it is not added.
        reads_text: Whether the last layer reads s beside g.
        negation: Whether the sum is multiplied by tanh(w·q + b), which is negative for questions that ask for what does not fit;
            s is as with ``similarity``.

    >>> from mhgrn.encoders.base import Dims
    >>> from mhgrn.encoders.none import NoGraph
    >>> model = KnowledgeAwareQA(NoGraph(Dims(8, 0, 2), NoGraph.Settings()), sentence_dim=8)
    >>> parameter_count(model)
    9
    """

    def __init__(
        self,
        graph_encoder: GraphEncoder,
        sentence_dim: int,
        query_dim: int | None = None,
        score: Literal["linear", "mlp"] = "linear",
        score_hidden: int = 200,
        dropout: float = 0.2,
        initial_scale: float | Literal["level"] = "level",
        extra_weights: Sequence[float] = (),
        similarity: float | None = None,
        reads_text: bool = True,
        negation: bool = False,
    ) -> None:
        super().__init__()
        self.graph_encoder = graph_encoder
        self.query_dim = query_dim
        self.dropout = Dropout(dropout)
        self.extra_weights = nn.Parameter(torch.tensor(extra_weights)) if extra_weights else None
        self.similarity = nn.Parameter(torch.tensor(similarity)) if similarity is not None else None
        self.negation = nn.Linear(sentence_dim // 4, 1) if negation else None
        if self.negation is not None:  # every question is taken as an ordinary one at first
            nn.init.zeros_(self.negation.weight)
            nn.init.constant_(self.negation.bias, 2.0)
        self.score: nn.Module | None = None
        if not graph_encoder.uses_text:
            return
        self.reads_text = reads_text
        width = graph_encoder.out_dim + (sentence_dim if reads_text else 0)
        if not width:
            if similarity is None and not extra_weights:
                raise UserError("score_text=false leaves nothing to score with; set score_similarity, or use a graph encoder.")
            return
        self.score = nn.Linear(width, 1) if score == "linear" else MLP(width, score_hidden, 1, dropout)
        linear = [module for module in self.score.modules() if isinstance(module, nn.Linear)]
        for layer in linear:
            nn.init.normal_(layer.weight, std=width**-0.5 if initial_scale == "level" else initial_scale)
            nn.init.zeros_(layer.bias)
        if initial_scale == "level":  # start with equal scores instead of a random order of the choices
            nn.init.zeros_(linear[-1].weight)

    def extra_repr(self) -> str:
        return f"{parameter_count(self):,} trained parameters"

    def forward(
        self, s: Tensor, features: Tensor, batch: GraphBatch, tokens: Tokens | None = None, extra: Tensor | None = None
    ) -> Scores:
        """Score each of the G statements; s [G, S], features [N, feature_dim], columns to add with learned weights [G, extra]."""
        encoding: GraphEncoding = self.graph_encoder(s[:, : self.query_dim], features, batch, tokens)
        parts = [] if encoding.score is None else [encoding.score]
        if self.score is not None:
            read = torch.cat([encoding.g, s], dim=1) if self.reads_text else encoding.g
            parts.append(self.score(self.dropout(read))[:, 0])
        if self.extra_weights is not None:
            if extra is None:
                raise ValueError("the model adds columns to the score, and none are given")
            parts.append(extra @ self.extra_weights)
        if self.similarity is not None:
            parts.append(self.similarity * s.view(len(s), 4, -1)[:, 2].mean(1))  # the mean of q∘a is the cosine
        score = torch.stack(parts).sum(0)
        return Scores(score if self.negation is None else score * self.sign(s), encoding)

    def sign(self, s: Tensor) -> Tensor:
        """The factor of the score, from -1 to 1: negative if the question asks for what does not fit; s [G, S] -> [G]."""
        if self.negation is None:
            return torch.ones(len(s), dtype=s.dtype, device=s.device)
        return torch.tanh(self.negation(s.view(len(s), 4, -1)[:, 0])[:, 0])


def build_model(config: Config, encoder: TextEncoder, feature_dim: int, num_relations: int) -> KnowledgeAwareQA:
    """An untrained model with the widths of a text encoder.

    Args:
        config: The settings of the run.
        encoder: The text encoder.
        feature_dim: The width of the node features.
        num_relations: The number of relations, including the reverse ones.
    """
    count = sum(tensor.numel() for tensor in empty_model(config, encoder, feature_dim, num_relations).state_dict().values())
    if 4 * count > (memory := physical_memory()):
        raise UserError(
            f"a model with these settings has {count:,} parameters ({4 * count / 1e9:,.1f} GB), more than this machine's memory of"
            f" {memory / 1e9:,.1f} GB; choose smaller widths, fewer hops or fewer layers of {config.graph_encoder}."
        )
    return assemble(config, encoder.sentence_dim, _dims(config, encoder, feature_dim, num_relations))


def empty_model(config: Config, encoder: TextEncoder, feature_dim: int, num_relations: int) -> KnowledgeAwareQA:
    """The model of :func:`build_model` without memory for its parameters, which have only a shape."""
    with torch.device("meta"), _NoInitialValues():
        return assemble(config, encoder.sentence_dim, _dims(config, encoder, feature_dim, num_relations))


class _NoInitialValues(TorchFunctionMode):
    """Draw no numbers for tensors that store none. torch would load its compiler for that, which takes a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in (Tensor.normal_, Tensor.uniform_) or getattr(func, "__module__", None) == nn.init.__name__:
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)


def _dims(config: Config, encoder: TextEncoder, feature_dim: int, num_relations: int) -> Dims:
    query_dim = encoder.sentence_dim
    if config.score_similarity is not None and encoder.encoding != "separate":
        raise UserError("score_similarity needs text.encoding=separate: a pair has no vectors of question and choice.")
    if config.score_negation and encoder.encoding != "separate":
        raise UserError("score_negation needs text.encoding=separate: a pair has no vector of the question alone.")
    if config.graph_query == "question":
        if encoder.encoding != "separate":
            raise UserError("graph_query=question needs text.encoding=separate: a pair has no vector of the question alone.")
        query_dim = encoder.width
    return Dims(query_dim, feature_dim, num_relations, encoder.width)


def physical_memory() -> float:
    """The memory of this machine in bytes; infinite if the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def assemble(config: Config, sentence_dim: int, dims: Dims) -> KnowledgeAwareQA:
    """An untrained model with given widths."""
    settings, kind = config.encoder_settings, graph_encoders.load(config.graph_encoder)
    return KnowledgeAwareQA(
        kind(dims, settings),
        sentence_dim,
        dims.sentence_dim,
        config.score,
        config.score_hidden,
        config.score_dropout,
        getattr(settings, "initial_scale", "level"),
        () if config.likelihood.model is None else (config.likelihood.initial_weight,),
        config.score_similarity if kind.uses_text else None,
        config.score_text,
        config.score_negation and kind.uses_text,
    )


def parameter_count(module: nn.Module) -> int:
    """The number of trainable parameters.

    >>> parameter_count(nn.Linear(3, 2))
    8
    """
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def fingerprints_of(
    about: dict[str, Any], graph: KnowledgeGraph, encoder: TextEncoder, model: nn.Module, calibration: Calibration | None
) -> dict[str, str]:
    """What determines the answers of any run, by name; see :meth:`mhgrn.Run.fingerprints`."""
    return {
        "settings": fingerprint(about["config"]),
        "weights": fingerprint(*(tensor.detach().cpu().numpy() for tensor in model.state_dict().values())),
        "text encoder": encoder.checksum(),
        "graph": graph.fingerprint,
        "calibration": fingerprint(None if calibration is None else asdict(calibration)),
    }
