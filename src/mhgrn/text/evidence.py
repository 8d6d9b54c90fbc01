"""Facts between the concepts of a question and those of a choice, as sentences."""

from collections import deque
from zlib import crc32

import numpy as np

from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph


def evidence_text(subgraph: Subgraph, graph: KnowledgeGraph, count: int) -> str:
    """The facts of :func:`facts_between` as sentences, in the templates of the graph's schema.

    Args:
        subgraph: The subgraph of a statement.
        graph: The graph that it comes from.
        count: The largest number of facts.
    """
    return " ".join(_sentence(graph, subgraph, fact) for fact in facts_between(subgraph, count))


def facts_between(subgraph: Subgraph, count: int) -> list[int]:
    """Numbers of facts on shortest paths from concepts of the question to concepts of the choice: short paths first.

    The direction of facts does not matter. Two concepts are joined by their first fact only.

    >>> line = Subgraph(*map(np.array, ([7, 3, 5], [QUESTION, ANSWER, 2], [0, 2, 0], [4, 4, 4], [2, 1, 1])))
    >>> facts_between(line, 1), facts_between(line, 9)
    ([2], [2])
    """
    neighbors: dict[int, dict[int, int]] = {}  # node → neighbor → fact
    for fact, (head, tail) in enumerate(zip(subgraph.head.tolist(), subgraph.tail.tolist(), strict=True)):
        if head != tail:
            neighbors.setdefault(head, {}).setdefault(tail, fact)
            neighbors.setdefault(tail, {}).setdefault(head, fact)
    answers = set(np.flatnonzero(subgraph.types == ANSWER).tolist())
    paths = []
    for start in np.flatnonzero(subgraph.types == QUESTION).tolist():
        paths += [path for path in _shortest(start, neighbors, answers) if path]
    found: dict[int, None] = {}
    for path in sorted(paths, key=lambda path: (len(path), path)):
        if len(found.keys() | set(path)) <= count:
            found |= dict.fromkeys(path)
    return list(found)


def _shortest(start: int, neighbors: dict[int, dict[int, int]], ends: set[int]) -> list[list[int]]:
    """The facts of one shortest path from a node to each of the ends that can be reached."""
    before: dict[int, tuple[int, int]] = {start: (start, -1)}  # the node before, and the fact from it
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for neighbor, fact in neighbors.get(node, {}).items():
            if neighbor not in before:
                before[neighbor] = node, fact
                queue.append(neighbor)
    paths = []
    for end in sorted(ends & before.keys() - {start}):
        path: list[int] = []
        node = end
        while node != start:
            node, fact = before[node]
            path.insert(0, fact)
        paths.append(path)
    return paths


def _sentence(graph: KnowledgeGraph, subgraph: Subgraph, fact: int) -> str:
    head, tail = (graph.name(int(subgraph.concepts[int(side[fact])])) for side in (subgraph.head, subgraph.tail))
    relation = graph.schema.relations[int(subgraph.relation[fact])]
    text, *_ = relation.sentence(head, tail, crc32(f"{head}\t{tail}".encode()))
    return f"{text[:1].upper()}{text[1:]}."
