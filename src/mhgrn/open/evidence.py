"""The best walks into an answer, and the relation path that several answers share."""

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import WalkOptions

Array = NDArray[Any]
MOST_STEPS = 100_000  # of a search for walks that visit no concept twice


class BestWalk(NamedTuple):
    """A walk from a topic to an answer."""

    weight: float  # λ · α
    nodes: list[int]
    labels: list[int]


class WalkWeights(NamedTuple):
    """The weights of the walks of one question."""

    topics: Array
    relations: Array  # [K, R]
    lengths: Array  # [K]
    transition: Array | None  # [R, R]


def best_walks(
    moves: Moves, options: WalkOptions, weights: WalkWeights, answer: int, count: int, back: Moves | None = None
) -> list[BestWalk]:
    """The walks of largest weight into an answer that visit no concept twice, best first.

    The search goes backwards from the answer and always extends the beginning with the largest possible weight: the weight of what
    it has, times that of the best walk to its first node. It is exact, up to a limit of steps.

    Args:
        moves: The moves of the graph.
        options: Which walks count.
        weights: The weights of walks.
        answer: The concept that walks end in.
        count: The number of walks.
        back: The reverses of all moves, if ``moves`` does not have them itself.
    """
    bounds = _best_weights(moves, options, weights)
    reverse, most = moves.relations, _most(weights)
    topics, degree = set(weights.topics.tolist()), np.diff(moves.ptr)
    back = moves if back is None else back
    queue: list[tuple[float, int, float, int, list[int], list[int]]] = []
    for k in range(1, len(weights.lengths) + 1):
        bound = float(weights.lengths[k - 1] * bounds[k][answer])
        if bound > 0:
            heapq.heappush(queue, (-bound, -k, float(weights.lengths[k - 1]), k, [answer], []))
    found: list[BestWalk] = []
    steps = 0
    while queue and len(found) < count and steps < MOST_STEPS:
        bound, _, suffix, hop, nodes, labels = heapq.heappop(queue)
        steps += 1
        if hop == 0:
            found.append(BestWalk(-bound, nodes, labels))
            continue
        first = nodes[0]
        for move in range(int(back.ptr[first]), int(back.ptr[first + 1])):
            before, label = int(back.target[move]), (int(back.label[move]) + reverse) % (2 * reverse)
            reach = float(bounds[hop - 1][before])
            if reach <= 0 or before in nodes:
                continue
            if options.max_degree and degree[before] > options.max_degree and before not in topics:
                continue
            weight = suffix * float(weights.relations[hop - 1, label])
            if weights.transition is not None and labels:
                weight *= float(weights.transition[label, labels[0]])
            if weight > 0:
                bound = weight * reach * (most if hop > 1 else 1.0)  # the transition into this move is not known yet
                heapq.heappush(queue, (-bound, -len(nodes), weight, hop - 1, [before, *nodes], [label, *labels]))
    return found


def _most(weights: WalkWeights) -> float:
    return 1.0 if weights.transition is None else float(weights.transition.max())


def _best_weights(moves: Moves, options: WalkOptions, weights: WalkWeights) -> list[Array]:
    """For each length and concept, no less than the weight of the best walk to it. Exact without a transition."""
    most = _most(weights)
    is_topic = np.zeros(len(moves), dtype=bool)
    is_topic[weights.topics] = True
    best = [np.where(is_topic, 1.0 / max(1, len(weights.topics)), 0.0)]
    degree = np.diff(moves.ptr)
    for k in range(len(weights.lengths)):
        source = np.flatnonzero(best[-1] > 0)
        if options.max_degree:
            source = source[(degree[source] <= options.max_degree) | is_topic[source]]
        sizes = degree[source]
        move = np.repeat(moves.ptr[source] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
        value = np.repeat(best[-1][source], sizes) * weights.relations[k][moves.label[move]] * (most if k else 1.0)
        reached = np.zeros(len(moves))
        np.maximum.at(reached, moves.target[move], value)
        if not options.returns:
            reached[is_topic] = 0.0
        best.append(reached)
    return best


def facts_of_walk(walk: BestWalk, graph: KnowledgeGraph) -> list[Fact]:
    """The facts along a walk, in the direction of the graph. Each is checked against the graph."""
    facts, count = [], len(graph.schema)
    for here, label, there in zip(walk.nodes, walk.labels, walk.nodes[1:], strict=False):
        head, tail = (here, there) if label < count else (there, here)
        fact = Fact(graph.name(head), graph.schema.relations[label % count].name, graph.name(tail))
        if not graph.holds(*fact):
            raise AssertionError(f"{fact} is no fact of the graph")
        facts.append(fact)
    return facts


def follow(moves: Moves, options: WalkOptions, topics: Array, labels: Sequence[int]) -> Array:
    """The concepts that a relation path leads to from the topics, ascending: the enumeration of the path."""
    here, degree = np.unique(topics), np.diff(moves.ptr)
    for label in labels:
        if options.max_degree:
            here = here[(degree[here] <= options.max_degree) | np.isin(here, topics)]
        rows = [moves.target[moves.ptr[i] : moves.ptr[i + 1]][moves.label[moves.ptr[i] : moves.ptr[i + 1]] == label] for i in here]
        here = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *rows]).astype(np.int64))
        if not options.returns:
            here = np.setdiff1d(here, topics)
    return here


def path_in_words(graph: KnowledgeGraph, labels: Sequence[int]) -> str:
    """A relation path in words.

    >>> graph = KnowledgeGraph.from_facts([("film", "directed_by", "person"), ("film", "starred_actors", "person")])
    >>> path_in_words(graph, [3, 0])
    'starred actors (backwards), then directed by'
    """
    count = len(graph.schema)
    words = [graph.schema.relations[label % count].gloss + (" (backwards)" if label >= count else "") for label in labels]
    return ", then ".join(words)
