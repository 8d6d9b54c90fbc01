"""The recursion of MHGRN from the topics of questions to every concept that walks reach, on the whole graph.

With u the attention to the label of a move at a hop and T the transition between consecutive labels, the weight of a walk with the
labels r_1 … r_k is α = s · u_1(r_1) · T(r_1, r_2) · u_2(r_2) · … · u_k(r_k), where s is the weight of its topic. That is
structured relational attention (equations 10 and 11 of the paper) with walks that start at the question's concepts. The recursion
gives, for every concept i and length k, the sum of α over all walks of k moves from a topic to i.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.compiled.pool import Pool
from mhgrn.compiled.threads import parallel_for
from mhgrn.open.kernels import (
    WalkGraph,
    WalkPass,
    WalkWays,
    clear_slots,
    list_reached,
    read_lengths,
    spread_lengths,
    walk_backward,
    walk_forward,
)
from mhgrn.open.moves import Moves

Array = NDArray[Any]
NO_TRANSITION = np.zeros((0, 0))


@dataclass(frozen=True)
class WalkOptions:
    """Which walks count.

    Args:
        returns: Whether walks may come back to a topic. False: neither through a topic nor into one, so no topic is an answer.
        max_degree: Concepts with more facts, other than topics, are reached but not left. 0: no limit.
    """

    returns: bool = False
    max_degree: int = 0


class Reached(NamedTuple):
    """The concepts that walks reach from the topics of Q questions, question by question in ascending order."""

    ptr: Array  # [Q + 1] pointer to the concepts of each question
    concepts: Array  # [C]
    weights: Tensor  # [C, K] sum of α over the walks of each length, float64
    left_out: list[int]  # [Q] moves that the cap on degrees or an attention of 0 left out

    def by_lengths(self, lengths: Tensor) -> Tensor:
        """The weight of each concept, Σ_k λ_k W_ik, by the weights λ of lengths of each question. [Q, K] → [C]"""
        parts = torch.split_with_sizes(self.weights, np.diff(self.ptr).tolist())  # slices would each have a gradient of full size
        return torch.cat([weights @ own for weights, own in zip(parts, lengths, strict=True)])


class _Scratch:
    """Arrays of one thread. ``slot`` and ``place_of`` are -1 between two questions."""

    def __init__(self, concepts: int, hops: int, columns: int) -> None:
        self.slot = np.full((hops + 1, concepts), -1, dtype=np.int32)
        self.nodes = np.empty((hops + 1, concepts), dtype=np.int32)
        self.mass = np.empty((hops + 1, concepts * columns))
        self.counts = np.zeros(hops + 1, dtype=np.int64)
        self.walked = WalkPass(self.slot, self.nodes, self.mass, self.counts)
        self.place_of = np.full(concepts, -1, dtype=np.int32)
        self.reached = np.empty(concepts, dtype=np.int32)

    def kept(self) -> "_Kept":
        """A copy of a pass with one column of weights."""
        hops = list(enumerate(self.counts.tolist()))
        return _Kept([self.nodes[k, :n].copy() for k, n in hops], [self.mass[k, :n].copy() for k, n in hops])

    def restore(self, kept: "_Kept") -> None:
        """Put a pass back, as the kernel left it."""
        for k, (nodes, mass) in enumerate(zip(*kept, strict=True)):
            count = self.counts[k] = len(nodes)
            self.nodes[k, :count], self.mass[k, :count] = nodes, mass
            self.slot[k, nodes] = np.arange(count, dtype=np.int32)


class _Kept(NamedTuple):
    """What the backward pass of a question reads of its forward pass: the nodes of each hop and their weights."""

    nodes: list[Array]
    mass: list[Array]


class Walker:
    """Runs the recursion on a graph. Any number of threads may use one walker.

    Args:
        moves: The moves of the graph.
        options: Which walks count.

    >>> from mhgrn.kg.graph import KnowledgeGraph
    >>> moves = Moves.of(KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("school", "IsA", "place")]))
    >>> attention = torch.full((1, 2, 4), 0.25, dtype=torch.float64)
    >>> found = Walker(moves).reach([np.array([0])], attention)
    >>> found.concepts.tolist(), found.weights.tolist()
    ([1, 2], [[0.25, 0.0], [0.0, 0.0625]])
    """

    def __init__(self, moves: Moves, options: WalkOptions = WalkOptions()) -> None:
        self.moves, self.options, self._most = moves, options, len(moves)
        self._graph = WalkGraph(moves.ptr, moves.target, moves.label)
        self._pools: dict[tuple[int, int], Pool[_Scratch]] = {}

    def on(self, moves: Moves) -> "Walker":
        """A walker on moves between at most as many concepts, which shares the working memory of this one."""
        if len(moves) > self._most:
            raise ValueError(f"{len(moves)} concepts are more than {self._most}.")
        other = Walker(moves, self.options)
        other._most, other._pools = self._most, self._pools
        return other

    def reach(self, topics: Sequence[Array], attention: Tensor, transition: Tensor | None = None) -> Reached:
        """Weigh all walks of at most K moves from the topics of Q questions. All topics of a question weigh the same.

        Args:
            topics: Distinct concepts of each question.
            attention: Weights of the labels, from 0 to 1; moves of weight 0 are not followed. [Q, K, R]
            transition: Weights of two consecutive labels. [R, R]. None: all 1.
        """
        shape = (len(topics), attention.shape[1], self.moves.labels)
        if attention.shape != shape:
            raise ValueError(f"attention has shape {list(attention.shape)}, not {list(shape)}.")
        for found in topics:
            if len(found) and not (found.min() >= 0 and found.max() < len(self.moves)):
                raise ValueError("a topic is not a concept of the graph.")
        concepts: list[Array] = [np.empty(0, dtype=np.int64)] * len(topics)
        left_out = [0] * len(topics)
        matrix = attention.new_zeros(0, 0) if transition is None else transition
        weights = _Reach.apply(attention, matrix, self, topics, concepts, left_out)  # type: ignore[no-untyped-call]
        ptr = np.concatenate([[0], np.cumsum([len(found) for found in concepts])]).astype(np.int64)
        together = np.concatenate([np.empty(0, dtype=np.int64), *concepts])
        return Reached(ptr, together, weights, left_out)

    def _pool(self, hops: int, columns: int) -> Pool[_Scratch]:
        return self._pools.setdefault((hops, columns), Pool(lambda: _Scratch(self._most, hops, columns)))

    def _walk(self, scratch: _Scratch, topics: Array, attention: Array, transition: Array) -> int:
        start = np.full(len(topics), 1.0 / max(1, len(topics)))
        return int(walk_forward(self._graph, topics, start, self._ways(attention, transition), scratch.walked))

    def _ways(self, attention: Array, transition: Array) -> WalkWays:
        return WalkWays(attention, transition, self.options.returns, self.options.max_degree)

    def forward(
        self,
        topics: Sequence[Array],
        attention: Array,
        transition: Array,
        concepts: list[Array],
        left_out: list[int],
        kept: list[_Kept | None] | None = None,
    ) -> Array:
        """The weights [C, K]; writes the reached concepts, ascending, and the moves left out of every question to the lists.

        What :meth:`backward` reads is written to ``kept``, unless there is a transition: then weights have a column for each label,
        and walking again is cheaper than keeping them.
        """
        hops, columns = attention.shape[1], max(1, len(transition))
        weights: list[Array] = [np.empty((0, hops))] * len(topics)
        pool = self._pool(hops, columns)

        def task(first: int, last: int) -> None:
            with pool.taken() as s:
                for q in range(first, last):
                    left_out[q] = self._walk(s, topics[q], attention[q], transition)
                    found = np.sort(s.reached[: list_reached(s.nodes, s.counts, s.place_of, s.reached)])
                    weights[q] = np.zeros((len(found), hops))
                    read_lengths(s.nodes, s.mass, s.counts, columns, s.place_of, found, weights[q])
                    clear_slots(s.slot, s.nodes, s.counts)
                    concepts[q] = found.astype(np.int64)
                    if kept is not None and columns == 1:
                        kept[q] = s.kept()

        parallel_for(task, len(topics))
        return np.concatenate([np.empty((0, hops)), *weights])

    def backward(
        self,
        topics: Sequence[Array],
        attention: Array,
        transition: Array,
        concepts: Sequence[Array],
        grad: Array,
        kept: Sequence[_Kept | None],
    ) -> tuple[Array, Array]:
        """The gradients of attention and transition."""
        hops, columns = attention.shape[1], max(1, len(transition))
        grad_attention, of_transition = np.zeros_like(attention), np.zeros((len(topics), *transition.shape))
        ptr = np.concatenate([[0], np.cumsum([len(found) for found in concepts])]).astype(np.int64)
        pool = self._pool(hops, columns)

        def task(first: int, last: int) -> None:
            with pool.taken() as s:
                for q in range(first, last):
                    if (before := kept[q]) is not None:
                        s.restore(before)
                    else:
                        self._walk(s, topics[q], attention[q], transition)
                    grads = np.zeros((hops + 1, int(s.counts.max()) * columns))
                    own = grad[ptr[q] : ptr[q + 1]]
                    spread_lengths(s.nodes, s.counts, columns, s.place_of, concepts[q], own, grads)
                    ways = self._ways(attention[q], transition)
                    walk_backward(self._graph, ways, s.walked, grads, grad_attention[q], of_transition[q])
                    clear_slots(s.slot, s.nodes, s.counts)

        parallel_for(task, len(topics))
        return grad_attention, of_transition.sum(0)


class _Reach(torch.autograd.Function):
    """Gives autograd the hand-written gradient of the recursion."""

    @staticmethod
    def forward(
        ctx: Any,
        attention: Tensor,
        transition: Tensor,
        walker: Walker,
        topics: Sequence[Array],
        concepts: list[Array],
        left_out: list[int],
    ) -> Tensor:
        kept: list[_Kept | None] = [None] * len(topics)
        for_backward = kept if any(ctx.needs_input_grad) else None
        weights = torch.from_numpy(walker.forward(topics, _array(attention), _array(transition), concepts, left_out, for_backward))
        ctx.save_for_backward(attention, transition)
        ctx.walker, ctx.topics, ctx.concepts, ctx.kept = walker, topics, concepts, kept
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        attention, transition = ctx.saved_tensors
        found = ctx.walker.backward(ctx.topics, _array(attention), _array(transition), ctx.concepts, _array(grad), ctx.kept)
        of_attention, of_transition = (torch.from_numpy(values) for values in found)
        return of_attention.to(attention), of_transition.to(transition), None, None, None, None


def _array(tensor: Tensor) -> Array:
    return np.ascontiguousarray(tensor.detach().cpu().double().numpy())
