"""Scores of the questions of a batch with altered graphs.

Only the graphs change. The texts are not encoded again, concepts are not grounded again, and the features and the relevance of the
nodes are those of the batch.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from mhgrn.explain import Mask, QuestionFacts, empty_subgraph, without_facts
from mhgrn.inference.asked import Asked, stored_fact, triples
from mhgrn.inference.batch import Read
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.scoring import Scorer
from mhgrn.subgraphs.extract import Subgraph

AT_ONCE = 1_000_000  # nodes and facts of the graphs that are scored at once; bounds the memory


def altered_subgraphs(asked: Sequence[Asked], graph: KnowledgeGraph, found: Sequence[Subgraph]) -> list[Subgraph]:
    """The subgraphs of the questions' statements without the facts that are left out."""
    rest = iter(found)
    altered: list[Subgraph] = []
    for one in asked:
        mine = list(islice(rest, len(one.question.choices)))
        removed = {triple for fact in one.without for triple in triples(graph, stored_fact(graph, fact))}
        if not one.graph:
            mine = [empty_subgraph()] * len(mine)
        elif removed:
            mine = [without_facts(subgraph, removed) for subgraph in mine]
        altered += mine
    return altered


def altered_scores(scorer: Scorer, read: Read, altered: Iterable[tuple[Subgraph, int]]) -> Tensor:
    """[n] the scores of altered graphs, each with the number of its statement in the batch. Many are computed at once."""
    parts = [torch.zeros(0, device=scorer.device)]
    waiting: list[tuple[Subgraph, int]] = []
    size = 0

    def compute() -> None:
        statements = [statement for _, statement in waiting]
        relevance = partial(read.relevance, statements=statements)
        graphs = scorer.graphs([graph for graph, _ in waiting], read.knowledge.graph, read.features, relevance=relevance)
        score = scorer(read.text.rows(statements), graphs).score
        parts.append(score if read.prior is None else score + read.prior[statements])

    with torch.inference_mode():
        for graph, statement in altered:
            waiting.append((graph, statement))
            size += len(graph.head) + len(graph.concepts)
            if size > AT_ONCE:
                compute()
                waiting, size = [], 0
        if waiting:
            compute()
        return torch.cat(parts)


class FactMasks:
    """Scores one question with any of its facts removed.

    The facts are those of :class:`~mhgrn.explain.QuestionFacts`. A mask keeps some of them. All concepts stay, even if no fact is
    left; this differs from :attr:`without_graph`, for which every choice has an empty graph, as in ``ask(graph=False)``.

    A graph is scored once, however many masks lead to it. A choice whose graph has all its facts has the score of the batch.

    Args:
        scorer: Scores the graphs.
        read: A batch of questions.
        q: The number of the question.
    """

    def __init__(self, scorer: Scorer, read: Read, q: int) -> None:
        self.scorer, self.read, self.q = scorer, read, q
        self.first, end = read.first[q : q + 2]
        self.facts = QuestionFacts.of(read.subgraphs[self.first : end], read.knowledge.graph.schema.symmetric_ids)
        self.score = read.score[self.first : end].detach().double().cpu()  # [choices] with all facts
        self._used = [np.unique(number) for number in self.facts.number]  # the facts of each choice
        self._known: dict[tuple[int, bytes | None], float] = {}  # choice and its facts, None for an empty graph → score
        for choice, used in enumerate(self._used):
            self._known[choice, np.packbits(np.ones(len(used), dtype=bool)).tobytes()] = float(self.score[choice])
            if not len(read.subgraphs[self.first + choice].concepts):
                self._known[choice, None] = float(self.score[choice])

    def scores(self, keep: Mask) -> Tensor:
        """[M, choices] the scores with only the facts of each of the masks ``keep`` [M, F]."""
        return score_masks([(self, keep)])[0]

    @property
    def without_graph(self) -> Tensor:
        """[choices] the scores without the graph."""
        score_masks([(self, np.zeros((0, len(self.facts)), dtype=bool))], without_graph=True)
        return torch.tensor([self._known[choice, None] for choice in range(len(self._used))], dtype=torch.double)


def score_masks(asked: Sequence[tuple[FactMasks, Mask]], without_graph: bool = False) -> list[Tensor]:
    """The scores of masks [M, F] of several questions of a batch, computed together; see :meth:`FactMasks.scores`.

    Args:
        asked: Questions and their masks.
        without_graph: Also compute the scores without the graph, for :attr:`FactMasks.without_graph`.
    """
    keys: list[list[list[bytes]]] = []  # of each question, choice and mask
    new: dict[tuple[int, int, bytes | None], int] = {}  # question, choice, key → its first mask
    for number, (masks, keep) in enumerate(asked):
        of_choices = [np.packbits(keep[:, used], axis=1) for used in masks._used]
        keys.append([[row.tobytes() for row in rows] for rows in of_choices])
        for choice, rows in enumerate(keys[-1]):
            for row, key in enumerate(rows):
                if (choice, key) not in masks._known:
                    new.setdefault((number, choice, key), row)
            if without_graph and (choice, None) not in masks._known:
                new[number, choice, None] = -1
    if new:
        altered = (
            (empty_subgraph() if row < 0 else asked[n][0].facts.kept_of(choice, asked[n][1][row]), asked[n][0].first + choice)
            for (n, choice, _), row in new.items()
        )
        first = asked[0][0]
        scores = altered_scores(first.scorer, first.read, altered).double().cpu().tolist()
        for (n, choice, facts), score in zip(new, scores, strict=True):
            asked[n][0]._known[choice, facts] = score
    return [
        torch.tensor([[masks._known[choice, key] for key in rows] for choice, rows in enumerate(of_choices)], dtype=torch.double).T
        for (masks, _), of_choices in zip(asked, keys, strict=True)
    ]
