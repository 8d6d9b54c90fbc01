"""The generated questions are balanced, checked by counting."""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn_reproduction.tasks import KINDS, RELATIONS, TASKS, Asked, Task, feature_table, question, questions

seeds = st.integers(0, 10**9)
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def made(task: Task, seed: int) -> tuple[Subgraph, Subgraph]:
    """The right and the wrong choice of a random question."""
    asked = question(task, np.random.default_rng(seed))
    return asked.choices[asked.answer], asked.choices[1 - asked.answer]


def facts(graph: Subgraph) -> list[tuple[int, int, int]]:
    return list(zip(graph.head.tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True))


def walks(graph: Subgraph, hops: int) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    """All walks along the direction of facts."""
    found: list[tuple[list[int], tuple[int, ...]]] = [([node], ()) for node in range(len(graph.types))]
    for _ in range(hops):
        found = [([*nodes, t], (*path, r)) for nodes, path in found for h, r, t in facts(graph) if h == nodes[-1]]
    yield from found


def kind(graph: Subgraph, node: int) -> tuple[int, int]:
    return int(graph.types[node]), int(graph.concepts[node])


def at_nodes(graph: Subgraph) -> dict[int, Counter[tuple[str, int]]]:
    """How many facts of each relation begin and end in each node."""
    counts: dict[int, Counter[tuple[str, int]]] = {node: Counter() for node in range(len(graph.types))}
    for h, r, t in facts(graph):
        counts[h]["out", r] += 1
        counts[t]["in", r] += 1
    return counts


def multiset(items: Iterable[object]) -> Counter[object]:
    return Counter(items)


@every_task
@given(seed=seeds)
def test_every_relation_is_as_often_at_every_kind_of_node(task: Task, seed: int) -> None:
    """Counts are equal for each question and answer node, in total for other nodes, and for triples of kind, relation, kind."""
    sides = []
    for graph in made(task, seed):
        counts = at_nodes(graph)
        mentioned = [n for n in counts if graph.types[n] != OTHER]
        others = sum((counts[n] for n in counts if graph.types[n] == OTHER), Counter[tuple[str, int]]())
        triples = multiset((kind(graph, h), r, kind(graph, t)) for h, r, t in facts(graph))
        sides.append((multiset((kind(graph, n), frozenset(counts[n].items())) for n in mentioned), others, triples))
    assert sides[0] == sides[1]


@every_task
@given(seed=seeds)
def test_without_relations_right_and_wrong_are_one_graph(task: Task, seed: int) -> None:
    """Color refinement, starting from the kinds of nodes."""
    sides = []
    for graph in made(task, seed):
        colour: dict[int, object] = {n: kind(graph, n) for n in range(len(graph.types))}
        for _ in range(6):
            around: dict[int, list[int]] = {n: [] for n in colour}
            for h, _, t in facts(graph):
                around[h].append(hash(colour[t]))
                around[t].append(hash(colour[h]) + 1)
            colour = {n: hash((colour[n], tuple(sorted(around[n])))) for n in colour}
        sides.append(multiset(colour.values()))
    assert sides[0] == sides[1]


@every_task
@given(seed=seeds)
def test_right_and_wrong_differ_in_what_follows_what_from_which_source(task: Task, seed: int) -> None:
    hops = len(task.right[0].paths[0])
    right, wrong = (
        multiset((kind(g, nodes[0]), path) for nodes, path in walks(g, hops) if g.types[nodes[-1]] == ANSWER)
        for g in made(task, seed)
    )
    assert right != wrong
    # only the bundles, once per set
    number = KINDS.index
    for more, less, bundles in ((right, wrong, task.right), (wrong, right, task.wrong)):
        own = {((b.source.type, number(b.source) if task.features else 0), path) for b in bundles for path in b.paths}
        assert set(more - less) == own
        assert len(set((more - less).values())) == 1


@given(seed=seeds)
def test_three_hops_are_balanced_in_any_two_of_them(seed: int) -> None:
    graphs = made(TASKS["composition-3"], seed)
    for start, end in ((OTHER, OTHER), (OTHER, ANSWER), (QUESTION, OTHER)):
        right, wrong = (
            multiset(p for nodes, p in walks(g, 2) if g.types[nodes[0]] == start and g.types[nodes[-1]] == end) for g in graphs
        )
        assert right == wrong
    right, wrong = (multiset((p[0], p[2]) for nodes, p in walks(g, 3) if g.types[nodes[-1]] == ANSWER) for g in graphs)
    assert right == wrong


@pytest.mark.parametrize("name", ["order", "transition"])
@given(seed=seeds)
def test_order_and_transition_are_balanced_but_for_the_order(name: str, seed: int) -> None:
    right, wrong = (
        multiset((kind(g, nodes[0]), frozenset(Counter(p).items())) for nodes, p in walks(g, 2) if g.types[nodes[-1]] == ANSWER)
        for g in made(TASKS[name], seed)
    )
    assert right == wrong


@given(seed=seeds)
def test_types_are_balanced_but_for_the_source(seed: int) -> None:
    right, wrong = (multiset(p for nodes, p in walks(g, 2) if g.types[nodes[-1]] == ANSWER) for g in made(TASKS["type"], seed))
    assert right == wrong


@every_task
def test_graphs_are_whole_fresh_and_always_the_same(task: Task) -> None:
    def shown(asked: Iterable[Asked]) -> list[object]:
        return [(one.answer, [(g.types.tolist(), g.concepts.tolist(), facts(g)) for g in one.choices]) for one in asked]

    asked = list(questions(task, 40, seed=1))
    assert shown(asked) == shown(questions(task, 40, seed=1))
    others = [*shown(questions(task, 40, seed=2)), *shown(questions(task, 40, seed=1, split=1))]
    assert not [one for one in shown(asked) if one in others]
    assert {one.answer for one in asked} == {0, 1}
    for graph in (choice for one in asked for choice in one.choices):
        assert sorted(graph.types) == graph.types.tolist()
        assert {QUESTION, ANSWER, OTHER} == set(graph.types.tolist())
        assert len(set(facts(graph))) == len(graph.head)
        assert all(h != t and 0 <= r < RELATIONS and not graph.types[h] == graph.types[t] == ANSWER for h, r, t in facts(graph))
        features = {tuple(row) for row in feature_table()[graph.concepts].tolist()}
        assert (len(features) == 1) == (not task.features)
