"""The model of open questions: attention to relations from the question's vector, and a score for every concept that walks reach.

With W_ik the weight of the walks of k moves into concept i (:mod:`mhgrn.open.recursion`), λ the attention to lengths and q the
vector of the question, the score is ::

    s_i = β · log Σ_k λ_k(q) W_ik  +  (A q)ᵀ n_i  +  v(q)ᵀ t_i

n_i is the vector of the concept's name (``open.names``), t_i says which relations its facts have (``open.types``). A softmax over
the reached concepts gives probabilities. σ(s_i + b) is the probability that i is one of several right answers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mhgrn.config import OpenSettings
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import Reached, Walker, WalkOptions

Array = NDArray[Any]
SMALLEST = 1e-300  # of the weight of a reached concept: its logarithm stays finite
FEW = 64  # if fewer than one of so many concepts is reached, only their rows are multiplied
NAME_SCALE = 10.0  # of the cosine of question and name, before training


class Attended(NamedTuple):
    """The attention of Q questions, in float64."""

    relations: Tensor  # [Q, K, R] sums to 1 over R
    lengths: Tensor  # [Q, K] sums to 1
    transition: Tensor | None  # [R, R]


class Ranked(NamedTuple):
    """The reached concepts of Q questions with their scores."""

    reached: Reached
    question: Tensor  # [C] the question of each concept
    scores: Tensor  # [C]


class OpenModel(nn.Module):
    """Ranks the concepts that walks reach.

    Args:
        settings: The section ``open``.
        width: The width of the question's vector, which has length √width.
        labels: The number of relations and their reverses, R.
    """

    def __init__(self, settings: OpenSettings, width: int, labels: int) -> None:
        super().__init__()
        self.settings, self.labels = settings, labels
        hops = settings.hops if settings.delta == "hop" else 1
        self.hidden = nn.Sequential(nn.Linear(width, settings.hidden), nn.GELU(), nn.Dropout(settings.dropout))
        self.delta = nn.Linear(settings.hidden, hops * labels)
        self.length = nn.Linear(settings.hidden, settings.hops)
        self.tau = nn.Parameter(torch.zeros(labels, labels)) if settings.transition else None
        self.beta = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(()))
        self.names: nn.Linear | None = None
        if settings.names:
            self.names = nn.Linear(width, width, bias=False)
            nn.init.eye_(self.names.weight)
            self.names.weight.data *= NAME_SCALE / width
        self.types: nn.Linear | None = None
        if settings.types:
            self.types = nn.Linear(settings.hidden, labels)
            nn.init.zeros_(self.types.weight)
            nn.init.zeros_(self.types.bias)

    @property
    def options(self) -> WalkOptions:
        return WalkOptions(self.settings.returns, self.settings.max_degree or 0)

    def attend(self, vectors: Tensor, prune: bool = True) -> Attended:
        """The attention of questions with these vectors. [Q, width]

        Args:
            vectors: The vectors.
            prune: Set attention below ``open.min_attention`` to 0.
        """
        hidden = self.hidden(vectors)
        delta = self.delta(hidden).double().view(len(vectors), -1, self.labels).softmax(-1)
        delta = delta.expand(-1, self.settings.hops, -1)
        if prune and self.settings.min_attention:
            delta = delta * (delta >= self.settings.min_attention)
        transition = None if self.tau is None else self.tau.double().exp()
        return Attended(delta.contiguous(), self.length(hidden).double().softmax(-1), transition)

    def rank(
        self,
        walker: Walker,
        topics: Sequence[Array],
        vectors: Tensor,
        nodes: "Nodes",
        prune: bool = True,
        attended: Attended | None = None,
    ) -> Ranked:
        """Score the concepts that walks from the topics reach.

        Args:
            walker: Walks on the graph.
            topics: The topics of each question.
            vectors: The vectors of the questions. [Q, width]
            nodes: What is known about the concepts of the graph.
            prune: Do not follow relations with less attention than ``open.min_attention``.
            attended: The attention of the questions, if it is known.
        """
        attended = self.attend(vectors, prune) if attended is None else attended
        reached = walker.reach(topics, attended.relations, attended.transition)
        question = torch.from_numpy(np.repeat(np.arange(len(topics)), np.diff(reached.ptr)))
        weight = reached.by_lengths(attended.lengths)
        scores = self.beta.double() * weight.clamp_min(SMALLEST).log()
        if self.names is not None:
            scores = scores + _products(nodes.names, self.names(vectors), reached, question).double()
        if self.types is not None:
            scores = scores + _products(nodes.types, self.types(self.hidden(vectors)), reached, question).double()
        return Ranked(reached, question, scores)


def _products(rows: Tensor, vectors: Tensor, reached: Reached, question: Tensor) -> Tensor:
    """The scalar product of the row of each reached concept and the vector of its question. [N, d], [Q, d] → [C]"""
    concepts = torch.from_numpy(reached.concepts)
    if FEW * len(concepts) < len(rows) * len(vectors):
        parts = torch.split_with_sizes(rows[concepts], np.diff(reached.ptr).tolist())
        return torch.cat([part @ own for part, own in zip(parts, vectors, strict=True)])
    return (rows @ vectors.T)[concepts, question]


class Nodes(NamedTuple):
    """What scores read about the concepts of a graph; empty where a model does not read it."""

    names: Tensor  # [N, width]
    types: Tensor  # [N, R]


def node_types(moves: Moves) -> Tensor:
    """Which labels the moves of each concept have: 1 / √n for each of its n labels, otherwise 0. [N, R]"""
    types = torch.zeros(len(moves), moves.labels)
    node = np.repeat(np.arange(len(moves)), np.diff(moves.ptr))
    types[torch.from_numpy(node), torch.from_numpy(moves.label.astype(np.int64))] = 1.0
    return torch.nn.functional.normalize(types, dim=1)


def answer_losses(ranked: Ranked, answers: Sequence[Array], bias: Tensor | None = None) -> Tensor:
    """The loss of each question; 0 if walks reach none of its answers.

    -log of the probability of all right answers together. With ``bias``, the logistic loss of every concept is added.

    Args:
        ranked: The ranking of Q questions.
        answers: The right answers of each question, ascending.
        bias: Added to the scores in the logistic loss.
    """
    count, right = len(answers), torch.from_numpy(right_places(ranked.reached, answers))
    scores, of_right = ranked.scores, ranked.question[right]
    top = scores.new_full((count,), -torch.inf).scatter_reduce(0, ranked.question, scores.detach(), "amax").clamp_min(-1e300)
    shares = (scores - top[ranked.question]).exp()
    total = scores.new_zeros(count).index_add(0, ranked.question, shares)
    good = scores.new_zeros(count).index_add(0, of_right, shares[right])
    has_right = torch.zeros(count, dtype=torch.bool).index_fill(0, of_right, True)
    one = scores.new_ones(())
    losses = torch.where(has_right, total.clamp_min(SMALLEST), one).log()
    losses = losses - torch.where(has_right, good.clamp_min(SMALLEST), one).log()
    if bias is not None:
        is_right = torch.zeros_like(scores).index_fill(0, right, 1.0)
        each = nn.functional.binary_cross_entropy_with_logits(scores + bias.double(), is_right, reduction="none")
        losses = losses + has_right * scores.new_zeros(count).index_add(0, ranked.question, each)
    return losses


def right_places(reached: Reached, answers: Sequence[Array]) -> Array:
    """The places of the right answers among the reached concepts."""
    found = [np.empty(0, dtype=np.int64)]
    for q, right in enumerate(answers):
        own = reached.concepts[reached.ptr[q] : reached.ptr[q + 1]]
        found.append(reached.ptr[q] + np.flatnonzero(np.isin(own, right)))
    return np.concatenate(found)
