"""The recursion over walks on a whole graph, against the enumeration of all walks."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import Walker, WalkOptions


def random_graph(seed: int, concepts: int = 9, relations: int = 3, facts: int = 22) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    rows = {
        (int(h), int(r), int(t))
        for h, r, t in zip(*(rng.integers(0, n, facts) for n in (concepts, relations, concepts)), strict=True)
    }
    known = [(f"c{i}", f"r{i % relations}", f"c{i + 1}") for i in range(concepts)]  # all concepts and relations occur
    return KnowledgeGraph.from_facts(known + [(f"c{h}", f"r{r}", f"c{t}") for h, r, t in sorted(rows) if h != t])


def enumerated(graph, topics, attention, transition=None, returns=False, max_degree=0):
    """The sum of α over the walks of each length into each concept, one walk at a time: {concept: [K] tensor}."""
    m = len(graph.schema)
    steps: dict[int, list[tuple[int, int]]] = {i: [] for i in range(len(graph))}
    for h, r, t in zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True):
        steps[h].append((r, t))
        steps[t].append((r + m, h))
    hops, found = attention.shape[0], {}

    def walk(node, labels, weight):
        if labels:
            row = found.setdefault(node, [torch.zeros((), dtype=torch.float64) for _ in range(hops)])
            row[len(labels) - 1] = row[len(labels) - 1] + weight
        if len(labels) == hops or (max_degree and len(steps[node]) > max_degree and node not in topics):
            return
        for r, there in steps[node]:
            if not returns and there in topics:
                continue
            factor = attention[len(labels), r]
            if factor.item() == 0:
                continue
            if transition is not None and labels:
                factor = factor * transition[labels[-1], r]
            walk(there, [*labels, r], weight * factor)

    for topic in topics:
        walk(topic, [], torch.tensor(1 / len(topics), dtype=torch.float64))
    return {node: torch.stack(row) for node, row in found.items()}


def random_inputs(seed, graph, questions=3, hops=3):
    rng, labels = np.random.default_rng(seed), 2 * len(graph.schema)
    topics = [rng.choice(len(graph), size=size, replace=False) for size in range(1, questions + 1)]
    generator = torch.Generator().manual_seed(seed)
    attention = torch.rand(questions, hops, labels, dtype=torch.float64, generator=generator)
    attention[torch.rand(attention.shape, generator=generator) < 0.2] = 0.0
    transition = torch.rand(labels, labels, dtype=torch.float64, generator=generator) * 2
    return topics, attention, transition


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), returns=st.booleans(), with_transition=st.booleans(), max_degree=st.sampled_from([0, 5]))
def test_weights_and_gradients_equal_enumeration(seed, returns, with_transition, max_degree):
    graph = random_graph(seed)
    topics, attention, transition = random_inputs(seed, graph)
    attention.requires_grad_()
    transition = transition.requires_grad_() if with_transition else None
    found = Walker(Moves.of(graph), WalkOptions(returns, max_degree)).reach(topics, attention, transition)
    probe = torch.rand(found.weights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + 1))
    expected = []
    for q, own in enumerate(topics):
        oracle = enumerated(graph, own.tolist(), attention[q], transition, returns, max_degree)
        start, end = found.ptr[q], found.ptr[q + 1]
        assert found.concepts[start:end].tolist() == sorted(oracle)
        expected += [oracle[node] for node in sorted(oracle)]
    torch.testing.assert_close(found.weights, torch.stack(expected), rtol=1e-12, atol=0)
    inputs = [attention] if transition is None else [attention, transition]
    ours = torch.autograd.grad((found.weights * probe).sum(), inputs)
    theirs = torch.autograd.grad((torch.stack(expected) * probe).sum(), inputs)
    for one, other, given_values in zip(ours, theirs, inputs, strict=True):
        followed = given_values != 0 if given_values is attention else torch.ones_like(other, dtype=torch.bool)
        torch.testing.assert_close(one[followed], other[followed], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("with_transition", [False, True])
def test_permuting_concepts_changes_nothing(with_transition):
    graph = random_graph(5)
    topics, attention, transition = random_inputs(5, graph)
    order = np.random.default_rng(0).permutation(len(graph))  # old number → new number
    names = [""] * len(graph)
    for old, new in enumerate(order):
        names[new] = graph.name(old)
    other = KnowledgeGraph.from_table(
        names, order[graph.heads()], np.array(graph.relation), order[np.array(graph.tail)], None, graph.schema, {}
    )
    matrix = transition if with_transition else None
    one = Walker(Moves.of(graph)).reach(topics, attention, matrix)
    two = Walker(Moves.of(other)).reach([order[own] for own in topics], attention, matrix)
    for q in range(len(topics)):
        of_one = {
            graph.name(c): w for c, w in zip(one.concepts[one.ptr[q] : one.ptr[q + 1]], one.weights[one.ptr[q] :], strict=False)
        }
        of_two = {
            other.name(c): w for c, w in zip(two.concepts[two.ptr[q] : two.ptr[q + 1]], two.weights[two.ptr[q] :], strict=False)
        }
        assert of_one.keys() == of_two.keys()
        for name, weights in of_one.items():
            torch.testing.assert_close(weights, of_two[name], rtol=1e-12, atol=0)


def test_results_do_not_depend_on_threads_or_on_the_other_questions():
    graph = random_graph(7, concepts=40, facts=200)
    topics, attention, transition = random_inputs(7, graph, questions=6)
    walker = Walker(Moves.of(graph))
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(walker.reach(topics, attention, transition))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0].weights, results[1].weights)
    for q, own in enumerate(topics):
        alone = walker.reach([own], attention[q : q + 1], transition)
        assert torch.equal(alone.weights, results[0].weights[results[0].ptr[q] : results[0].ptr[q + 1]])


def test_no_topic_and_no_reachable_concept():
    graph = KnowledgeGraph.from_facts([("a", "r", "b"), ("c", "r", "d")])
    attention = torch.zeros(2, 2, 2, dtype=torch.float64)
    found = Walker(Moves.of(graph)).reach([np.array([], dtype=np.int64), np.array([0])], attention)
    assert found.ptr.tolist() == [0, 0, 0]
    assert found.left_out == [0, 1]


def test_a_topic_is_an_answer_only_if_walks_may_return():
    graph = KnowledgeGraph.from_facts([("a", "r", "b")])
    attention = torch.ones(1, 2, 2, dtype=torch.float64)
    assert Walker(Moves.of(graph), WalkOptions(returns=False)).reach([np.array([0])], attention).concepts.tolist() == [1]
    assert Walker(Moves.of(graph), WalkOptions(returns=True)).reach([np.array([0])], attention).concepts.tolist() == [0, 1]


def test_ten_thousand_candidates():
    graph = KnowledgeGraph.from_facts([("hub", "r", f"n{i}") for i in range(10_000)])
    found = Walker(Moves.of(graph)).reach([np.array([graph.id("hub")])], torch.full((1, 1, 2), 0.5, dtype=torch.float64))
    assert len(found.concepts) == 10_000
    assert torch.equal(found.weights, torch.full((10_000, 1), 0.5, dtype=torch.float64))


@pytest.mark.parametrize(("hops", "labels"), list(product([1, 2], [3, 5])))
def test_attention_of_another_shape_is_refused(hops, labels):
    graph = KnowledgeGraph.from_facts([("a", "r", "b")])
    with pytest.raises(ValueError, match="attention has shape"):
        Walker(Moves.of(graph)).reach([np.array([0])], torch.ones(1, hops, labels, dtype=torch.float64))
