"""A batch of questions on its way to their answers: before and after the model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, repeat
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoding
from mhgrn.explain import ReasoningPath, Walk, WalkDistribution, decode_walks
from mhgrn.grounding.grounder import Grounder
from mhgrn.inference.asked import Asked
from mhgrn.inference.evidence_set import EvidenceSet
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.scoring import Graphs, TextVectors, best_choice, probabilities
from mhgrn.subgraphs.extract import Extractor, Subgraph

TOGETHER = 512  # questions whose texts are encoded once
Item = TypeVar("Item")


def batched(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Items in lists of ``size``; the last one may be shorter."""
    while batch := list(islice(items, size)):
        yield batch


def part_size(batch_size: int) -> int:
    """The number of questions in a part: whole batches, about 512 questions.

    Texts are encoded once in a part. The last digits of a vector depend on the texts that are encoded with it, so answers depend on
    the questions of their part, and on no others.

    >>> part_size(64), part_size(100), part_size(1000)
    (512, 500, 1000)
    """
    return batch_size * max(1, TOGETHER // batch_size)


def per_part(make: Callable[[], Item], batch_size: int) -> Iterator[Item]:
    """An object for each batch: the same one for all batches of a part."""
    while True:
        yield from repeat(make(), part_size(batch_size) // batch_size)


class Knowledge(NamedTuple):
    """A graph with its grounder and subgraph extractor."""

    graph: KnowledgeGraph
    grounder: Grounder
    extract: Extractor


class Decoded(NamedTuple):
    paths: list[ReasoningPath]
    masses: dict[str, float] | None
    without_graph: float | None = None
    evidence: EvidenceSet | None = None

    @property
    def facts(self) -> list[Fact]:
        """All facts shown."""
        carried = [] if self.evidence is None else [one.fact for one in self.evidence.facts]
        return [fact for path in self.paths for fact in path.facts] + carried


@dataclass(frozen=True)
class Prepared:
    """A batch of questions before the model."""

    asked: Sequence[Asked]
    knowledge: Knowledge
    found: list[Subgraph]  # as they were extracted
    subgraphs: list[Subgraph]  # as the model reads them: without the facts that are left out
    graphs: Graphs
    text: TextVectors
    truncated: list[bool]  # whether the text of a statement was truncated


@dataclass(frozen=True)
class Read(Prepared):
    """A batch of questions after the model. Question q has the statements first[q] … first[q + 1] - 1."""

    first: list[int]
    batch: GraphBatch  # of ``graphs``, in main memory
    score: Tensor
    encoding: GraphEncoding
    probabilities: list[list[float]]
    best: list[int]  # the choice of each question
    prior: Tensor | None = None  # [statements] is added to the scores of all statements, also of altered graphs

    def with_prior(self, prior: Tensor, temperature: float) -> "Read":
        """The same batch with something added to the score of each statement that no change of the graph changes."""
        score = self.score + prior.to(self.score)
        shares = probabilities(score, np.diff(self.first).tolist())
        best = [best_choice(of_question, temperature) for of_question in shares]
        return replace(self, score=score, probabilities=shares, best=best, prior=prior.to(score))

    @cached_property
    def _walks(self) -> dict[int, WalkDistribution]:
        return {}

    def walks(self, statement: int, first_head: bool) -> WalkDistribution:
        """The distribution over the walks of a statement's graph, computed once, of a model that attends to walks."""
        if statement not in self._walks:
            self._walks[statement] = WalkDistribution.of(self.encoding, self.batch, statement, first_head)
        return self._walks[statement]

    @cached_property
    def _best_walks(self) -> dict[int, tuple[int, list[Walk]]]:
        return {}  # statement → how many were asked for, the walks

    def best_walks(self, statement: int, first_head: bool, count: int) -> list[Walk]:
        """The best walks of a statement's graph, of a model that attends to walks; searched again only if more are asked for."""
        known, walks = self._best_walks.get(statement, (0, []))
        if known < count:
            walks = decode_walks(self.walks(statement, first_head), self.encoding.traces[:-1], count)
            self._best_walks[statement] = count, walks
        return walks[:count]

    @cached_property
    def _feature_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The batch's distinct concepts, and a row of ``graphs.features`` for each."""
        concepts, node = np.unique(self.batch.concepts.numpy(), return_index=True)
        row = self.batch.feature_row
        return concepts, node if row is None else row.numpy()[node]

    def features(self, concepts: Tensor) -> Tensor:
        """The features of some of the batch's concepts."""
        known, row = self._feature_rows
        return self.graphs.features[torch.from_numpy(row[np.searchsorted(known, concepts.numpy())])]

    def relevance(self, altered: GraphBatch, statements: Sequence[int]) -> Tensor:
        """The relevance of the nodes of altered graphs, each of one of the batch's statements."""
        assert self.batch.relevance is not None
        count = int(self.batch.concepts.max()) + 1 if self.batch.num_nodes else 1
        key, node = (self.batch.batch * count + self.batch.concepts).sort()
        place = torch.searchsorted(key, torch.tensor(statements)[altered.batch] * count + altered.concepts)
        return self.batch.relevance[node[place]]
