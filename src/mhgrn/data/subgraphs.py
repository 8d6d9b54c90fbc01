"""A statement's part of the graph: its mentioned concepts, the middles of two-hop paths between them, all edges among these."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.text.grounding import Mentions

QUESTION, ANSWER, OTHER = 0, 1, 2  # node types


@dataclass(frozen=True)
class Subgraph:
    """Nodes in the order question, answer, other, each by concept number; edges are facts between local node numbers."""

    concepts: Ints  # [nodes] concept numbers
    types: Ints  # [nodes] QUESTION, ANSWER or OTHER
    head: Ints  # [facts] local node numbers
    relation: Ints  # [facts]
    tail: Ints  # [facts]
    cut: int = 0  # nodes left out by a cap


class Extractor:
    """Cuts subgraphs out of a graph. One per thread: it keeps scratch arrays of the graph's size.

    >>> facts = [("child", "AtLocation", "school"), ("desk", "AtLocation", "school"), ("desk", "MadeOf", "wood")]
    >>> graph = KnowledgeGraph.from_facts(facts)
    >>> found = Extractor(graph)(Mentions([graph.id("child")], [graph.id("desk")]))
    >>> [graph.name(c) for c in found.concepts], found.types.tolist()
    (['child', 'desk', 'school'], [0, 1, 2])
    """

    def __init__(self, graph: KnowledgeGraph, max_nodes: int | None = None) -> None:
        self.graph = graph
        self.max_nodes = max_nodes
        self._local = np.full(len(graph), -1, dtype=np.int32)  # concept → local number
        self._touched = np.zeros(len(graph), dtype=np.int32)  # concept → mentioned concepts next to it

    def __call__(self, mentions: Mentions) -> Subgraph:
        mentioned = np.array([*mentions.question, *mentions.answer], dtype=np.int64)
        graph = self.graph
        others = _middles(graph.neighbour_ptr, graph.neighbour, mentioned, self._touched)
        others.sort()
        concepts = np.concatenate([mentioned, others])
        cut = 0
        if self.max_nodes is not None and len(concepts) > self.max_nodes:
            cut = len(concepts) - self.max_nodes
            concepts = concepts[: self.max_nodes]
        types = np.full(len(concepts), OTHER, dtype=np.uint8)
        types[: len(mentioned)] = ANSWER
        types[: len(mentions.question)] = QUESTION
        head, relation, tail = _edges_among(graph.head_ptr, graph.tail, graph.relation, concepts, self._local)
        return Subgraph(concepts, types, head, relation, tail, cut)


def extract_all(
    graph: KnowledgeGraph, mentions: Sequence[Mentions], max_nodes: int | None = None, workers: int = 2
) -> Iterator[Subgraph]:
    """The subgraphs of many statements, in order, whatever the number of workers."""
    chunks = [mentions[i : i + 64] for i in range(0, len(mentions), 64)]
    free: list[Extractor] = []

    def extract(chunk: Sequence[Mentions]) -> list[Subgraph]:
        extractor = free.pop() if free else Extractor(graph, max_nodes)
        found = [extractor(m) for m in chunk]
        free.append(extractor)
        return found

    with ThreadPoolExecutor(max(workers, 1)) as pool:
        window = max(workers, 1) * 4  # chunks in flight, so that a slow consumer does not fill the memory
        pending = [pool.submit(extract, chunk) for chunk in chunks[:window]]
        for i in range(len(chunks)):
            done = pending[i % window].result()
            if i + window < len(chunks):
                pending[i % window] = pool.submit(extract, chunks[i + window])
            yield from done


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _middles(ptr: Ints, neighbour: Ints, mentioned: Ints, touched: NDArray[Any]) -> Ints:
    """Unmentioned concepts next to at least two mentioned ones. ``touched`` is zero before and after."""
    room = 0
    for m in mentioned:
        room += ptr[m + 1] - ptr[m]
    found = np.empty(room, np.int64)
    count = 0
    for m in mentioned:
        for e in range(ptr[m], ptr[m + 1]):
            n = neighbour[e]
            touched[n] += 1
            if touched[n] == 2:
                found[count] = n
                count += 1
    for m in mentioned:
        for e in range(ptr[m], ptr[m + 1]):
            touched[neighbour[e]] = 0
    for m in mentioned:
        touched[m] = -1
    kept = 0
    for i in range(count):
        if touched[found[i]] != -1:
            found[kept] = found[i]
            kept += 1
    for m in mentioned:
        touched[m] = 0
    return found[:kept].copy()


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _edges_among(ptr: Ints, tails: Ints, relations: Ints, concepts: Ints, local: NDArray[Any]) -> tuple[Ints, Ints, Ints]:
    """All facts between ``concepts``, by local numbers. ``local`` is -1 before and after."""
    n = len(concepts)
    for i in range(n):
        local[concepts[i]] = i
    room = 64
    head = np.empty(room, np.int32)
    relation = np.empty(room, np.int32)
    tail = np.empty(room, np.int32)
    by_number = np.sort(concepts)
    count = 0
    for i in range(n):
        start, end = ptr[concepts[i]], ptr[concepts[i] + 1]
        degree = end - start
        # A hub has far more facts than the subgraph has nodes: look the nodes up in its row instead of reading all of it.
        look_up = degree > 16 * n
        for j in range(n if look_up else 1):
            if look_up:
                first = start + np.searchsorted(tails[start:end], by_number[j])
                last = end
            else:
                first, last = start, end
            for e in range(first, last):
                t = local[tails[e]]
                if look_up and tails[e] != by_number[j]:
                    break
                if t < 0:
                    continue
                if count == room:
                    room *= 2
                    head = np.concatenate((head, np.empty(room - count, np.int32)))
                    relation = np.concatenate((relation, np.empty(room - count, np.int32)))
                    tail = np.concatenate((tail, np.empty(room - count, np.int32)))
                head[count], relation[count], tail[count] = i, relations[e], t
                count += 1
    for i in range(n):
        local[concepts[i]] = -1
    return head[:count].copy(), relation[:count].copy(), tail[:count].copy()
