"""Subgraphs without some facts: those of the graph from which the facts between some pairs of concepts are removed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.subgraphs.kernels import OTHER, GraphArrays, read_only

Pair = tuple[int, int]  # of concepts


def reduced_arrays(graph: KnowledgeGraph, hidden: Sequence[Pair]) -> GraphArrays:
    """The arrays of a graph without the facts between some pairs of concepts."""
    size = len(graph)
    hidden_keys = np.array([a * size + b for pair in hidden for a, b in (pair, pair[::-1])], dtype=np.int64)

    def rows(ptr: Ints, others: Ints) -> tuple[Ints, Ints]:
        of = np.repeat(np.arange(size, dtype=np.int64), np.diff(ptr))
        kept = ~np.isin(of * size + others, hidden_keys)
        return np.concatenate([[0], np.cumsum(np.bincount(of[kept], minlength=size))]), kept

    neighbor_ptr, are_neighbors = rows(graph.neighbor_ptr, graph.neighbor)
    head_ptr, kept = rows(graph.head_ptr, graph.tail)
    arrays = neighbor_ptr, graph.neighbor[are_neighbors], head_ptr, graph.tail[kept], graph.relation[kept]
    return GraphArrays(*map(read_only, arrays))


class Hiding(NamedTuple):
    """The pairs of concepts whose facts are hidden, and the limits of subgraphs."""

    question_ptr: Ints  # [questions + 1] pointer to the statements of each question
    pair_ptr: Ints  # [questions + 1]
    pairs: Ints  # [pairs, 2]
    neighbor_ptr: Ints
    max_degree: int
    max_nodes: int


@kernel
def without_hidden(found, hiding):  # type: ignore[no-untyped-def]
    """The fields of :class:`Subgraphs` without facts between hidden pairs, without middle nodes that are no longer between two
    mentioned concepts, and with ``max_nodes`` nodes at most."""
    nodes, facts, cut, concepts, types = (
        found.nodes.copy(),
        found.facts.copy(),
        found.cut.copy(),
        found.concepts.copy(),
        found.types.copy(),
    )
    head, relation, tail = found.head.copy(), found.relation.copy(), found.tail.copy()
    question_ptr, pair_ptr, pairs, neighbor_ptr, max_degree, max_nodes = hiding
    n0 = f0 = node_count = fact_count = 0
    for q in range(len(question_ptr) - 1):
        hidden = pairs[pair_ptr[q] : pair_ptr[q + 1]]
        for i in range(question_ptr[q], question_ptr[q + 1]):
            ours = concepts[n0 : n0 + nodes[i]].copy()
            is_kept = np.ones(len(ours), np.uint8)
            for j in range(len(ours)):
                if types[n0 + j] != OTHER or not (hidden == ours[j]).any():
                    continue
                ends = np.zeros(len(ours), np.uint8)
                for e in range(f0, f0 + facts[i]):
                    other = int(tail[e]) if head[e] == j else int(head[e])
                    if (head[e] == j or tail[e] == j) and types[n0 + other] != OTHER:
                        c = ours[other]
                        if neighbor_ptr[c + 1] - neighbor_ptr[c] <= max_degree and not _is_hidden(ours[j], c, hidden):
                            ends[other] = 1
                is_kept[j] = ends.sum() >= 2
            number = np.full(len(ours), -1, np.int64)
            count = 0
            for j in range(len(ours)):
                if is_kept[j] and count < max_nodes:
                    number[j] = count
                    concepts[node_count + count], types[node_count + count] = ours[j], types[n0 + j]
                    count += 1
            n0 += nodes[i]
            node_count += count
            cut[i] += is_kept.sum() - count
            nodes[i] = count
            begin = fact_count
            for e in range(f0, f0 + facts[i]):
                a, b = number[head[e]], number[tail[e]]
                if a >= 0 and b >= 0 and not _is_hidden(ours[head[e]], ours[tail[e]], hidden):
                    head[fact_count], relation[fact_count], tail[fact_count] = a, relation[e], b
                    fact_count += 1
            f0 += facts[i]
            facts[i] = fact_count - begin
    of_nodes = concepts[:node_count].copy(), types[:node_count].copy()
    return nodes, facts, cut, *of_nodes, head[:fact_count].copy(), relation[:fact_count].copy(), tail[:fact_count].copy()


@kernel
def _is_hidden(one: int, other: int, hidden: Ints) -> bool:
    for p in range(len(hidden)):
        if (hidden[p, 0] == one and hidden[p, 1] == other) or (hidden[p, 0] == other and hidden[p, 1] == one):
            return True
    return False
