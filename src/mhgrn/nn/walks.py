"""Walks and simple paths from the question's to the answer's concepts, one by one: what path-based encoders read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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

    def rows(self, which: Tensor) -> "WalkList":
        return WalkList(self.nodes[which], self.relations[which], self.graph[which])


@dataclass(frozen=True)
class FoundWalks:
    """How the question's concepts are connected with the answer's in each graph of a batch."""

    lengths: list[WalkList]  # of 1 … K hops
    cut: Tensor  # [G] float64, how many more there are than were asked for


def find_walks(
    batch: GraphBatch,
    hops: int,
    limit: int | None = None,
    simple: bool = False,
    edge_score: Tensor | None = None,
    least: float = 0.0,
) -> FoundWalks:
    """All walks of 1 … ``hops`` hops from question to answer nodes; with ``simple``, those that visit no node twice.

    At most ``limit`` of each graph are kept, short ones first, those of one length in the order of their steps (node, relation);
    the others are counted. Memory is bounded by what is kept. With ``edge_score`` [E] in (0, 1], walks whose product of scores is
    less than ``least`` do not count at all.

    Counting takes time linear in the graph for walks, but that of finding them for simple or scored ones.
    """
    types, graph = batch.node_type.cpu().numpy(), batch.batch.cpu().numpy()
    source, target = batch.edge_index.cpu().numpy()
    relation = batch.edge_type.cpu().numpy()
    # most edges lie on no such walk
    on_way = (
        1 + _distance(types == QUESTION, source, target, hops)[source] + _distance(types == ANSWER, target, source, hops)[target]
    )
    useful = np.flatnonzero(on_way <= hops)
    useful = useful[np.lexsort((relation[useful], target[useful], source[useful]))]
    source, target, relation = source[useful], target[useful], relation[useful]
    score = np.ones(len(useful)) if edge_score is None else edge_score.detach().double().cpu().numpy()[useful]
    pointer = np.concatenate([[0], np.bincount(source, minlength=len(types)).cumsum()]).astype(np.int64)
    edges = (pointer, target, relation, score)
    starts = np.flatnonzero(types == QUESTION)
    start_pointer = np.searchsorted(graph[starts], np.arange(batch.num_graphs + 1))

    ways = [(types == ANSWER).astype(np.float64)]  # of going on from a node to an answer in 0, 1, … hops
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
            seen = _enumerate(
                start_pointer, starts, *edges, least, np.stack(ways) > 0, simple, filtered, offset, space, nodes, relations
            )
            total = seen.astype(np.float64) if filtered else total
        kept = np.minimum(total, room)
        if (kept < space).any():
            within = np.arange(len(nodes)) - np.repeat(offset, space)
            rows = within < np.repeat(kept, space)
            nodes, relations = nodes[rows], relations[rows]
        cut += total - kept
        room -= kept
        walks = (torch.from_numpy(a).to(batch.batch.device) for a in (nodes, relations, graph[nodes[:, 0]]))
        found.append(WalkList(*walks))
    return FoundWalks(found, torch.from_numpy(cut))


def _distance(start: Array, source: Array, target: Array, hops: int) -> Array:
    """Hops from the nearest start to each node, ``hops`` where it takes as many or more."""
    distance = np.where(start, 0, hops)
    for k in range(1, hops):
        reached = target[distance[source] == k - 1]
        distance[reached] = np.minimum(distance[reached], k)
    return distance


@kernel
def _enumerate(
    start_pointer: Array,
    starts: Array,
    pointer: Array,
    target: Array,
    relation: Array,
    score: Array,
    least: float,
    ways: Array,
    simple: bool,
    count_all: bool,
    offset: Array,
    space: Array,
    nodes: Array,
    relations: Array,
) -> Any:
    """Depth first from every start; ``ways[t, v]`` says whether t hops can lead from v to an answer, so that no turn is in vain
    for walks. Fills each graph's rows, and tells how many there were (with ``count_all``: also after the rows were full)."""
    hops = ways.shape[0] - 1
    place = np.empty(hops, np.int64)  # the node at each depth
    step = np.empty(hops, np.int64)  # the edge to be tried next
    worth = np.ones(hops)
    on_path = np.zeros(ways.shape[1], np.bool_)
    seen = np.zeros(len(space), np.int64)
    for g in range(len(space)):
        for q in starts[start_pointer[g] : start_pointer[g + 1]]:
            if not ways[hops, q] or (seen[g] == space[g] and not count_all):
                continue
            depth = 0
            place[0], step[0] = q, pointer[q]
            on_path[q] = simple
            while depth >= 0:
                here = place[depth]
                edge = step[depth]
                if edge == pointer[here + 1] or (seen[g] == space[g] and not count_all):
                    on_path[here] = False
                    depth -= 1
                    continue
                step[depth] += 1
                node = target[edge]
                left = hops - depth - 1
                product = worth[depth] * score[edge]
                if not ways[left, node] or on_path[node] or product < least:
                    continue
                if left > 0:
                    depth += 1
                    place[depth], step[depth], worth[depth] = node, pointer[node], product
                    on_path[node] = simple
                    continue
                if seen[g] < space[g]:
                    row = offset[g] + seen[g]
                    for d in range(hops):
                        nodes[row, d] = place[d]
                        relations[row, d] = relation[step[d] - 1]
                    nodes[row, hops] = node
                seen[g] += 1
    return seen


def in_chunks(function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """``function`` of rows that do not depend on each other, such as those of walks, in memory for ``PART`` of them: what lies
    between a larger number and their results is computed again for the gradient."""
    if len(rows[0]) <= PART:
        return function(*rows)
    parts = zip(*(torch.split(some, PART) for some in rows), strict=True)  # type: ignore[no-untyped-call]
    if torch.is_grad_enabled():
        return torch.cat([checkpoint(function, *part, use_reentrant=False) for part in parts])
    return torch.cat([function(*part) for part in parts])


def distinct(walks: WalkList) -> tuple[Tensor, Tensor]:
    """Walks that differ only in the nodes between their ends count as one: the first of each such kind, and how many they are."""
    key, size = walks.nodes[:, 0], int(walks.nodes.max()) + 1 if len(walks) else 1
    num_relations = int(walks.relations.max()) + 1 if len(walks) else 1
    for column, values in [(walks.nodes[:, -1], size), *((r, num_relations) for r in walks.relations.unbind(1))]:
        if size * values >= 2**63:  # number what there is anew
            key = torch.unique(key, return_inverse=True)[1]
            size = len(key)
        key, size = key * values + column, size * values
    key = torch.unique(key, return_inverse=True)[1]
    count = torch.bincount(key)
    number = torch.arange(len(key), device=key.device)
    first = torch.full_like(count, len(key)).scatter_reduce(0, key, number, "amin")
    order = torch.argsort(first)
    return first[order], count[order]
