"""Enumeration of walks and simple paths from question to answer concepts, for encoders that read paths one by one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.compiled.jit import kernel
from mhgrn.subgraphs.extract import ANSWER, QUESTION

Array = NDArray[Any]

PART = 2**15  # walks


@dataclass(frozen=True)
class Walk:
    """One walk in a graph of a batch, with its weight under a model's attention."""

    nodes: list[int]  # j … i, one more than relations
    relations: list[int]
    log_weight: float  # log α without g
    probability: float = 0.0  # p(i, k, walk)
    ties: int = 1  # walks of this length into this entity with the same weight, this one included


@dataclass(frozen=True)
class WalkList:
    """Walks of one length k, each from a question to an answer node of a graph."""

    nodes: Tensor  # [P, k + 1]
    relations: Tensor  # [P, k]
    graph: Tensor  # [P] ascending

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def hops(self) -> int:
        return self.relations.shape[1]

    @property
    def are_simple(self) -> Tensor:
        """[P] whether a walk visits no node twice."""
        nodes = self.nodes.sort(1).values
        return (nodes[:, 1:] != nodes[:, :-1]).all(1)

    def rows(self, which: Tensor) -> "WalkList":
        return WalkList(self.nodes[which], self.relations[which], self.graph[which])


@dataclass(frozen=True)
class FoundWalks:
    """The walks from question to answer concepts in each graph of a batch."""

    lengths: list[WalkList]  # of 1 … K hops
    cut: Tensor  # [G] float64, the number of walks beyond the limit


def find_walks(
    batch: GraphBatch,
    hops: int,
    limit: int | None = None,
    simple: bool = False,
    edge_score: Tensor | None = None,
    least: float = 0.0,
) -> FoundWalks:
    """Find all walks of 1 … ``hops`` hops from question to answer nodes.

    Memory is bounded by the walks that are kept. Counting the others takes time linear in the graph, but simple or scored walks
    are counted one by one.

    Args:
        batch: the graphs.
        hops: K, the largest length.
        limit: walks to keep per graph, short ones first, walks of one length in the order of their steps (node, relation). The
            others are counted. None keeps all.
        simple: keep only walks that visit no node twice.
        edge_score: [E] in (0, 1]. Walks whose product of scores is less than ``least`` are ignored.
        least: see ``edge_score``.
    """
    types, graph = batch.node_type.cpu().numpy(), batch.batch.cpu().numpy()
    source, target = batch.edge_index.cpu().numpy()
    relation = batch.edge_type.cpu().numpy()
    # most edges are on no such walk
    on_way = (
        1 + _distance(types == QUESTION, source, target, hops)[source] + _distance(types == ANSWER, target, source, hops)[target]
    )
    useful = np.flatnonzero(on_way <= hops)
    useful = useful[np.lexsort((relation[useful], target[useful], source[useful]))]
    source, target, relation = source[useful], target[useful], relation[useful]
    score = np.ones(len(useful)) if edge_score is None else edge_score.detach().double().cpu().numpy()[useful]
    pointer = np.concatenate([[0], np.bincount(source, minlength=len(types)).cumsum()]).astype(np.int64)
    edges = _Edges(pointer, target, relation, score)
    starts = np.flatnonzero(types == QUESTION)
    begins = _Starts(np.searchsorted(graph[starts], np.arange(batch.num_graphs + 1)), starts)

    ways = [(types == ANSWER).astype(np.float64)]  # number of walks from a node to an answer in 0, 1, … hops
    room = np.full(batch.num_graphs, np.inf if limit is None else float(limit))
    cut = np.zeros(batch.num_graphs)
    found = []
    for k in range(1, hops + 1):
        ways.append(np.bincount(source, weights=ways[-1][target], minlength=len(types)))
        total = np.bincount(graph[starts], weights=ways[k][starts], minlength=batch.num_graphs)
        space = np.minimum(total, room).astype(np.int64)
        nodes, relations = np.empty((space.sum(), k + 1), np.int64), np.empty((space.sum(), k), np.int64)
        offset = space.cumsum() - space
        filtered = simple or edge_score is not None
        if filtered or len(nodes):
            rows = _Rows(offset, space, nodes, relations)
            seen = _enumerate(begins, edges, least, np.stack(ways) > 0, simple, filtered, rows)
            total = seen.astype(np.float64) if filtered else total
        kept = np.minimum(total, room)
        if (kept < space).any():
            within = np.arange(len(nodes)) - np.repeat(offset, space)
            is_kept = within < np.repeat(kept, space)
            nodes, relations = nodes[is_kept], relations[is_kept]
        cut += total - kept
        room -= kept
        walks = (torch.from_numpy(a).to(batch.batch.device) for a in (nodes, relations, graph[nodes[:, 0]]))
        found.append(WalkList(*walks))
    return FoundWalks(found, torch.from_numpy(cut))


def _distance(start: Array, source: Array, target: Array, hops: int) -> Array:
    """Return the hops from the nearest start to each node; ``hops`` where it takes as many or more."""
    distance = np.where(start, 0, hops)
    for k in range(1, hops):
        reached = target[distance[source] == k - 1]
        distance[reached] = np.minimum(distance[reached], k)
    return distance


class _Edges(NamedTuple):
    """Edges sorted by source, target and relation."""

    pointer: Array  # [N + 1] edges out of a node
    target: Array
    relation: Array
    score: Array


class _Starts(NamedTuple):
    """The nodes where walks begin."""

    pointer: Array  # [G + 1] those of a graph
    nodes: Array


class _Rows(NamedTuple):
    """Where walks are written."""

    offset: Array  # [G] the first row of a graph
    space: Array  # [G] rows of a graph
    nodes: Array  # [rows, hops + 1]
    relations: Array  # [rows, hops]


@kernel
def _enumerate(starts, edges, least, ways, simple, count_all, rows):  # type: ignore[no-untyped-def]
    """Search depth first from every start, fill the rows of each graph, and return how many walks there were.

    ``ways[t, v]`` tells whether t hops can lead from v to an answer. The search ends when the rows of a graph are full; with
    ``count_all`` it counts the remaining walks.
    """
    hops = ways.shape[0] - 1
    place = np.empty(hops, np.int64)  # the node at each depth
    step = np.empty(hops, np.int64)  # the edge to try next
    worth = np.ones(hops)
    on_path = np.zeros(ways.shape[1], np.bool_)
    seen = np.zeros(len(rows.space), np.int64)
    for g in range(len(rows.space)):
        space = rows.space[g]
        for q in starts.nodes[starts.pointer[g] : starts.pointer[g + 1]]:
            if not ways[hops, q] or (seen[g] == space and not count_all):
                continue
            depth = 0
            place[0], step[0] = q, edges.pointer[q]
            on_path[q] = simple
            while depth >= 0:
                here = place[depth]
                edge = step[depth]
                if edge == edges.pointer[here + 1] or (seen[g] == space and not count_all):
                    on_path[here] = False
                    depth -= 1
                    continue
                step[depth] += 1
                node = edges.target[edge]
                left = hops - depth - 1
                product = worth[depth] * edges.score[edge]
                if not ways[left, node] or on_path[node] or product < least:
                    continue
                if left > 0:
                    depth += 1
                    place[depth], step[depth], worth[depth] = node, edges.pointer[node], product
                    on_path[node] = simple
                    continue
                if seen[g] < space:
                    row = rows.offset[g] + seen[g]
                    for d in range(hops):
                        rows.nodes[row, d] = place[d]
                        rows.relations[row, d] = edges.relation[step[d] - 1]
                    rows.nodes[row, hops] = node
                seen[g] += 1
    return seen


def in_chunks(function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """Apply ``function`` to rows in chunks of ``PART``, to bound memory.

    The results of rows must not depend on each other. Gradients recompute each chunk (``torch.utils.checkpoint``).
    """
    if len(rows[0]) <= PART:
        return function(*rows)
    parts = zip(*(torch.split(some, PART) for some in rows), strict=True)  # type: ignore[no-untyped-call]
    if torch.is_grad_enabled():
        return torch.cat([checkpoint(function, *part, use_reentrant=False) for part in parts])
    return torch.cat([function(*part) for part in parts])


def distinct(walks: WalkList) -> tuple[Tensor, Tensor]:
    """Group walks that differ only in the nodes between their ends.

    Return one walk of each group, the first simple one or else the first, and the sizes. Groups are ordered by their first walks.
    """
    key, size = walks.nodes[:, 0], int(walks.nodes.max()) + 1 if len(walks) else 1
    num_relations = int(walks.relations.max()) + 1 if len(walks) else 1
    for column, values in [(walks.nodes[:, -1], size), *((r, num_relations) for r in walks.relations.unbind(1))]:
        if size * values >= 2**63:  # renumber the keys
            key = torch.unique(key, return_inverse=True)[1]
            size = len(key)
        key, size = key * values + column, size * values
    key = torch.unique(key, return_inverse=True)[1]
    count = torch.bincount(key)
    number = torch.arange(len(key), device=key.device)
    first = torch.full_like(count, len(key)).scatter_reduce(0, key, number, "amin")
    simple_first = torch.where(walks.are_simple, number, number + len(key))
    shown = torch.full_like(count, 2 * len(key)).scatter_reduce(0, key, simple_first, "amin") % max(len(key), 1)
    order = torch.argsort(first)
    return shown[order], count[order]
