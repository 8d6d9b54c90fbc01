"""Candidates for questions without choices, to be scored as choices by a run that was trained on choices."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch.nn import functional

from mhgrn.errors import UserError
from mhgrn.inference.answer import Answer
from mhgrn.inference.asked import Asked, check_count
from mhgrn.inference.ranking import RankedAnswer, Ranking
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.sentences import label
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import Walker
from mhgrn.open.topics import TopicFinder
from mhgrn.printing import shortened
from mhgrn.questions.question import Question, checked_stem
from mhgrn.text.encoder import TextEncoder

HOPS = 2
BY_WALKS = 200  # candidates whose names are compared with the question
CHOICES = 30  # candidates that the model scores


class Proposer:
    """Proposes concepts as choices: those that most walks reach, of these those whose names are nearest to the question.

    A walk weighs less the more facts its concepts have, so that hubs are not proposed for every question.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph, self.topics = graph, TopicFinder(graph)

    @cached_property
    def walker(self) -> Walker:
        return Walker(Moves.of(self.graph))

    def propose(self, stem: str, encoder: TextEncoder) -> tuple[str, list[str]]:
        """The text of the question, and the names of candidates, best first."""
        found = self.topics.find(stem)
        if not found.concepts:
            raise UserError(f"the question {shortened(stem)} names no concept of the graph; give choices, or mark one: [concept].")
        moves = self.walker.moves
        attention = torch.full((1, HOPS, moves.labels), 1.0 / moves.labels, dtype=torch.float64)
        reached = self.walker.reach([np.array(found.concepts)], attention)
        if not len(reached.concepts):
            raise UserError(f"no concept can be reached from those of the question {shortened(stem)}; give choices.")
        degree = np.diff(moves.ptr)[reached.concepts]
        weight = reached.weights.sum(1).numpy() / np.sqrt(degree)
        order = np.lexsort((reached.concepts, -weight))[:BY_WALKS]
        names = [label(self.graph.name(int(concept))) for concept in reached.concepts[order]]
        text = stem.replace("[", "").replace("]", "")
        return text, nearest(text, list(dict.fromkeys(names)), encoder)


def rank_proposed(
    proposer: Proposer,
    encoder: TextEncoder,
    answer_all: Callable[[Sequence[Asked]], list[Answer]],
    question: str,
    n: int,
    paths: int,
) -> Answer:
    """Answer a question without choices: score the proposed concepts as choices.

    Args:
        proposer: Proposes concepts.
        encoder: The text encoder of the run.
        answer_all: Answers questions with choices.
        question: The question.
        n: Number of answers.
        paths: Number of paths to the best answer.
    """
    check_count("n", n)
    stem, names = proposer.propose(checked_stem(question), encoder)
    if len(names) < 2:
        raise UserError(f"only {shortened(names[0])} can be reached from the concepts of the question; give choices.")
    found = answer_all([Asked(Question.asked(stem, names), paths=paths, effects=False)])[0]
    order = sorted(found.probabilities.items(), key=lambda item: -item[1])[:n]
    ranking = [RankedAnswer(name, share, found.paths if name == found.choice else []) for name, share in order]
    note = f"this run was trained on choices: {len(names)} concepts were proposed by walks and names, and scored as choices."
    return replace(found, probabilities=dict(order), notes=[note], ranking=Ranking(ranking, len(names)))


def refuse_changes(facts: Sequence[object]) -> None:
    """Refuse facts to add or to leave out, which questions without choices do not support."""
    if facts:
        raise UserError("facts can be added or left out only for questions with choices; give choices.")


def nearest(stem: str, names: Sequence[str], encoder: TextEncoder) -> list[str]:
    """The names that are nearest to the question by the text encoder, nearest first."""
    vectors = functional.normalize(encoder.embed_all([stem, *names], "encoding candidates"), dim=1)
    order = (vectors[1:] @ vectors[0]).argsort(descending=True, stable=True)[:CHOICES]
    return [names[int(place)] for place in order]
