"""What the scores of a question with some of its facts mean for its answer; see :mod:`mhgrn.explain.smallest_set`."""

from dataclasses import dataclass

import numpy as np

from mhgrn.explain.walk_graph import Floats, Ints, Mask

MOST = 0.5  # of what the graph gave is lost without a necessary set
MOVED = 0.1  # the probability of an answer that depends on the graph moves by more
TIED = 1e-5  # numbers that differ by less are equal: the last digits of a score depend on the batch


@dataclass(frozen=True)
class Judge:
    """Decides what the scores of a question mean for its answer.

    >>> judge = Judge(answer=0, score=np.array([2.0, 0.0]), without_graph=np.array([0.0, 0.0]))
    >>> judge.dependent, judge.sufficient(np.array([[0.1, 0.0], [0.0, 0.1]])).tolist()
    (True, [True, False])
    >>> judge.necessary(np.array([[0.5, 0.0], [1.9, 0.0]])).tolist()
    [True, False]
    """

    answer: int
    score: Floats  # [choices] with all facts
    without_graph: Floats  # [choices]

    @property
    def probability(self) -> float:
        return float(self.probabilities(self.score[None])[0])

    @property
    def probability_without_graph(self) -> float:
        return float(self.probabilities(self.without_graph[None])[0])

    @property
    def gave(self) -> float:
        """The part of the answer's probability that the graph gave; negative if the graph lowers it."""
        return self.probability - self.probability_without_graph

    @property
    def dependent(self) -> bool:
        """Whether without the graph the answer changes or its probability moves by more than 0.1."""
        return bool(self.answers(self.without_graph[None])[0] != self.answer) or abs(self.gave) > MOVED

    def probabilities(self, scores: Floats) -> Floats:
        """[M] the answer's probability, from scores [M, choices]."""
        share = np.exp(scores - scores.max(1, keepdims=True))
        found: Floats = share[:, self.answer] / share.sum(1)
        return found

    def answers(self, scores: Floats) -> Ints:
        """[M] the choice with the highest score; the first one if several are equal up to rounding."""
        found: Ints = (scores >= scores.max(1, keepdims=True) - TIED).argmax(1)
        return found

    def sufficient(self, only: Floats) -> Mask:
        """[M] whether the answer stays the same, from the scores [M, choices] with only some facts."""
        found: Mask = self.answers(only) == self.answer
        return found

    def necessary(self, without: Floats) -> Mask:
        """[M] whether the answer changes or loses most of what the graph gave, from the scores [M, choices] without some facts."""
        lost = self.probability - self.probabilities(without)
        found: Mask = (self.answers(without) != self.answer) | ((self.gave > 0) & (lost > MOST * self.gave))
        return found

    def restores(self, only: Floats) -> Mask:
        """[M] whether some facts alone give back most of what the graph gave; always, if the answer needs the graph."""
        found: Mask = self.unrestored(only) == 0
        return found

    def unrestored(self, only: Floats) -> Floats:
        """[M] how much the answer's log odds lack to give back most of what the graph gave."""
        if self.gave <= 0 or self.answers(self.without_graph[None])[0] != self.answer:
            return np.zeros(len(only))
        wanted = _logit(np.array(self.probability_without_graph + MOST * self.gave))
        found: Floats = np.maximum(0.0, wanted - self.logit(only))
        return found

    def margin(self, scores: Floats) -> Floats:
        """[M] how far the answer is ahead of the best other choice."""
        others = np.delete(scores, self.answer, axis=1)
        found: Floats = scores[:, self.answer] - others.max(1)
        return found

    def logit(self, scores: Floats) -> Floats:
        """[M] the log odds of the answer."""
        p = self.probabilities(scores)
        return _logit(p)

    @property
    def wanted(self) -> float:
        """How much the answer's log odds must fall before it loses most of what the graph gave, or changes."""
        change = float(self.margin(self.score[None])[0])
        if self.gave <= 0:
            return change
        half = _logit(np.array(self.probability - MOST * self.gave))
        return min(change, float(self.logit(self.score[None])[0] - half))

    def missing(self, only: Floats, without: Floats) -> Floats:
        """[M] how far sets are from being sufficient and necessary, in units of the score; 0 if they are both."""
        to_change = np.maximum(self.margin(without), 0.0)
        if self.gave > 0:
            to_lose = self.logit(without) - _logit(np.array(self.probability - MOST * self.gave))
            to_change = np.minimum(to_change, np.maximum(to_lose, 0.0))
        found: Floats = np.where(self.sufficient(only), 0.0, np.maximum(-self.margin(only), 0.0) + TIED)
        return found + np.where(self.necessary(without), 0.0, to_change + TIED)


def _logit(p: Floats) -> Floats:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    found: Floats = np.log(p) - np.log1p(-p)
    return found
