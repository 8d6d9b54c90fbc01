"""The best walks into an answer, against the enumeration of all walks."""

import numpy as np
import pytest
from tests.open.test_recursion import random_graph, random_inputs

from mhgrn.open.evidence import WalkWeights, best_walks, facts_of_walk, follow
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import WalkOptions


def simple_walks(graph, topics, weights, returns):
    """All walks that visit no concept twice, by their last node: weight, nodes and labels."""
    m, found = len(graph.schema), {}
    steps = {i: [] for i in range(len(graph))}
    for h, r, t in zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True):
        steps[h].append((r, t))
        steps[t].append((r + m, h))

    def walk(nodes, labels, weight):
        if labels:
            found.setdefault(nodes[-1], []).append((weight * weights.lengths[len(labels) - 1], nodes, labels))
        if len(labels) == len(weights.lengths):
            return
        for r, there in steps[nodes[-1]]:
            if there in nodes or (not returns and there in topics):
                continue
            factor = weights.relations[len(labels), r]
            if labels and weights.transition is not None:
                factor = factor * weights.transition[labels[-1], r]
            if factor > 0:
                walk([*nodes, there], [*labels, r], weight * factor)

    for topic in topics:
        walk([topic], [], 1 / len(topics))
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("with_transition", [False, True])
@pytest.mark.parametrize("returns", [False, True])
def test_best_walks_equal_enumeration(seed, with_transition, returns):
    graph = random_graph(seed)
    topics, attention, transition = random_inputs(seed, graph, questions=2)
    lengths = np.array([0.5, 0.3, 0.2])
    weights = WalkWeights(topics[1], attention[1].numpy(), lengths, transition.numpy() if with_transition else None)
    expected = simple_walks(graph, topics[1].tolist(), weights, returns)
    for answer in range(len(graph)):
        walks = best_walks(Moves.of(graph), WalkOptions(returns), weights, answer, 5)
        best = sorted((weight for weight, _, _ in expected.get(answer, [])), reverse=True)[:5]
        assert [walk.weight for walk in walks] == pytest.approx(best, rel=1e-12)
        for walk in walks:
            assert any(walk.nodes == nodes and walk.labels == labels for _, nodes, labels in expected[answer])
            assert all(graph.holds(*fact) for fact in facts_of_walk(walk, graph))


def test_following_a_relation_path():
    graph = random_graph(3)
    moves, m = Moves.of(graph), len(graph.schema)
    facts = set(zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True))
    for labels in ([0], [1, 0], [m, 2], [0, m + 1]):
        here = {0}
        for label in labels:
            pairs = [(h, t) if label < m else (t, h) for h, r, t in facts if r == label % m]
            here = {t for h, t in pairs if h in here} - {0}
        assert follow(moves, WalkOptions(), np.array([0]), labels).tolist() == sorted(here)
