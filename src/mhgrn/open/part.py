"""The part of a graph that the walks of one question can use, and what the model answers without some of its facts."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.open.certainty import shares
from mhgrn.open.evaluation import TIED
from mhgrn.open.evidence import BestWalk, WalkWeights, best_walks
from mhgrn.open.model import Attended, Nodes
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import WalkOptions
from mhgrn.open.run import OpenRun

Array = NDArray[Any]


class Standing(NamedTuple):
    """What the model says about one concept."""

    score: float  # -inf if no walk reaches it
    probability: float  # 0 if no walk reaches it
    is_answer: bool  # whether it is in the set of answers, or if the model gives no sets: whether none is better
    best: int | None  # the best concept; None if walks reach none
    rank: int  # one more than the number of better concepts; 0 if no walk reaches it


def used_moves(moves: Moves, topics: Array, hops: int, options: WalkOptions) -> Array:
    """The numbers of the moves that walks of at most ``hops`` facts from the topics may take, ascending."""
    degree = np.diff(moves.ptr)
    is_topic, seen = (np.zeros(len(moves), dtype=bool) for _ in range(2))
    is_topic[topics] = True
    source, found = np.unique(topics), [np.empty(0, dtype=np.int64)]
    for _ in range(hops):
        seen[source] = True
        if options.max_degree:
            source = source[(degree[source] <= options.max_degree) | is_topic[source]]
        sizes = degree[source]
        move = np.repeat(moves.ptr[source] - np.concatenate([[0], np.cumsum(sizes)])[:-1], sizes) + np.arange(sizes.sum())
        if not options.returns:
            move = move[~is_topic[moves.target[move]]]
        found.append(move)
        reached = np.unique(moves.target[move])
        source = reached[~seen[reached]]
    return np.sort(np.concatenate(found))


class WalkedPart:
    """The facts that walks of one question can use. Rankings without some of them are exact.

    A fact is removed in both directions. A concept with more facts than ``open.max_degree`` in the whole graph is not left,
    also if some of its facts are removed; names and types of concepts stay.

    Args:
        run: The run.
        topics: The topics of the question.
        vector: The vector of the question. [1, width]
        removed: Facts that are left out from the beginning, as head, relation and tail.

    Attributes:
        concepts: The concepts of the part, ascending. Walks are computed on their places in this array. [n]
        facts: Head, relation and tail of each fact; of a symmetric relation, one direction stands for both. [F, 3]
    """

    def __init__(self, run: OpenRun, topics: Array, vector: Tensor, removed: Iterable[tuple[int, int, int]] = ()) -> None:
        self.run, self.topics, self.vector = run, topics, vector
        moves = run.walker.moves
        used = used_moves(moves, topics, run.config.open.hops, run.model.options)
        source = np.searchsorted(moves.ptr, used, side="right") - 1
        target, label = moves.target[used].astype(np.int64), moves.label[used]
        self.concepts = np.unique(np.concatenate([topics, source, target]).astype(np.int64))
        here, there = np.searchsorted(self.concepts, source), np.searchsorted(self.concepts, target)
        self._label = label
        self._ends = here, there
        relation = label.astype(np.int64) % moves.relations
        is_forward = label < moves.relations
        head, tail = np.where(is_forward, here, there), np.where(is_forward, there, here)
        symmetric = np.isin(relation, list(run.graph.schema.symmetric_ids))
        head, tail = np.where(symmetric, np.minimum(head, tail), head), np.where(symmetric, np.maximum(head, tail), tail)
        key = (head * len(self.concepts) + tail) * moves.relations + relation
        _, first, self.fact_of = np.unique(key, return_index=True, return_inverse=True)
        self.facts = np.stack([self.concepts[head[first]], relation[first], self.concepts[tail[first]]], axis=1)
        if numbers := self.numbers_of(removed):
            keep = self.without(numbers)
            kept = keep[self.fact_of]
            self._ends, self._label = (here[kept], there[kept]), label[kept]
            self.facts, self.fact_of = self.facts[keep], (np.cumsum(keep) - 1)[self.fact_of[kept]]

    def __len__(self) -> int:
        """The number of facts."""
        return len(self.facts)

    def moves(self, keep: Array | None = None) -> Moves:
        """The moves of the part between places of concepts, with all facts or with those of a mask. [F]"""
        (here, there), label = self._ends, self._label
        if keep is not None:
            kept = keep[self.fact_of]
            here, there, label = here[kept], there[kept], label[kept]
        return self._by_source(here, there, label)

    @cached_property
    def _back(self) -> Moves:
        """The reverses of all moves."""
        (here, there), count = self._ends, self.run.walker.moves.relations
        order = np.argsort(there, kind="stable")
        return self._by_source(there[order], here[order], ((self._label[order] + count) % (2 * count)).astype(np.uint16))

    def _by_source(self, source: Array, target: Array, label: Array) -> Moves:
        ptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=len(self.concepts)))]).astype(np.int64)
        return Moves(ptr, target.astype(np.int32), label, self.run.walker.moves.relations)

    def best_walks(self, concept: int, count: int, keep: Array | None = None) -> list[BestWalk]:
        """The best walks between places into a concept; see :func:`~mhgrn.open.evidence.best_walks`."""
        place = int(np.searchsorted(self.concepts, concept))
        back = self._back
        if keep is not None:
            order = np.argsort(self._ends[1], kind="stable")
            kept = keep[self.fact_of][order]
            here, there = np.repeat(np.arange(len(self.concepts)), np.diff(back.ptr))[kept], back.target[kept]
            back = self._by_source(here, there, back.label[kept])
        return best_walks(self.moves(keep), self.run.model.options, self.weights, place, count, back)

    @cached_property
    def places(self) -> Array:
        """The places of the topics."""
        return np.searchsorted(self.concepts, self.topics)

    @cached_property
    def _nodes(self) -> Nodes:
        rows = torch.from_numpy(self.concepts)
        return Nodes(*(table[rows] if len(table) else table for table in self.run.nodes))

    @cached_property
    def _attended(self) -> Attended:
        with torch.inference_mode():
            return self.run.model.attend(self.vector)

    def rank(self, keep: Array | None = None) -> tuple[Array, Array, Array]:
        """The concepts that walks reach, ascending, their scores, and the weights of all walks into them."""
        walker = self.run.walker.on(self.moves(keep))
        with torch.inference_mode():
            ranked = self.run.model.rank(walker, [self.places], self.vector, self._nodes, attended=self._attended)
            weights = (ranked.reached.weights * self._attended.lengths[0]).sum(1)
        return self.concepts[ranked.reached.concepts], ranked.scores.numpy(), weights.numpy()

    def standing(self, concept: int, keep: Array | None = None) -> Standing:
        """What the model says about a concept."""
        concepts, scores, _ = self.rank(keep)
        if not len(concepts):
            return Standing(-np.inf, 0.0, False, None, 0)
        best = int(concepts[np.lexsort((concepts, -scores))[0]])
        place = int(np.searchsorted(concepts, concept))
        if place == len(concepts) or concepts[place] != concept:
            return Standing(-np.inf, 0.0, False, best, 0)
        score, bias = float(scores[place]), self.run.set_bias
        is_answer = score >= scores.max() - TIED or (bias is not None and score + bias >= 0)
        rank = 1 + int((scores > score + TIED).sum())
        return Standing(score, float(shares(self.run, scores)[place]), bool(is_answer), best, rank)

    @cached_property
    def weights(self) -> WalkWeights:
        """The weights of walks between places."""
        attended = self._attended
        transition = None if attended.transition is None else attended.transition.numpy()
        return WalkWeights(self.places, attended.relations[0].numpy(), attended.lengths[0].numpy(), transition)

    def fact_numbers(self, walk: BestWalk) -> list[int]:
        """The numbers of the facts along a walk between places."""
        steps = zip(walk.nodes, walk.labels, walk.nodes[1:], strict=False)
        taken = [(self._ends[0] == a) & (self._ends[1] == b) & (self._label == label) for a, label, b in steps]
        return [int(self.fact_of[int(is_taken.argmax())]) for is_taken in taken]

    def numbers_of(self, triples: Iterable[tuple[int, int, int]]) -> list[int]:
        """The numbers of facts, given as head, relation and tail; those that no walk can use are left out."""
        found: set[int] = set()
        for head, relation, tail in triples:
            is_symmetric = relation in self.run.graph.schema.symmetric_ids
            row = (min(head, tail), relation, max(head, tail)) if is_symmetric else (head, relation, tail)
            found.update(np.flatnonzero((self.facts == row).all(1)).tolist())
        return sorted(found)

    def without(self, numbers: Iterable[int]) -> Array:
        """A mask that keeps all facts but some. [F]"""
        keep = np.ones(len(self), dtype=bool)
        keep[list(numbers)] = False
        return keep
