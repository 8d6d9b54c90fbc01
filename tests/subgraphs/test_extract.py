"""Subgraphs against their definition."""

from functools import cache
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.grounding.grounder import Mentioned, Mentions
from mhgrn.kg import KnowledgeGraph, Schema
from mhgrn.subgraphs.extract import ANSWER, MOST_NODES, OTHER, QUESTION, Extractor, Subgraph, SubgraphLimits, extract_all

SCHEMA = Schema.derived(["R", "S", "T"])


def graph_of(n: int, facts: set[tuple[int, int, int]]) -> KnowledgeGraph:
    names = [f"concept{i}" for i in range(n)]
    head, relation, tail = np.array(sorted(facts), dtype=np.int64).reshape(-1, 3).T
    return KnowledgeGraph.from_table(names, head, relation, tail, np.ones(len(head)), SCHEMA, {})


def random_facts(rng: np.random.Generator, n: int, count: int) -> set[tuple[int, int, int]]:
    rows = zip(rng.integers(0, n, count), rng.integers(0, 3, count), rng.integers(0, n, count), strict=True)
    return {(int(h), int(r), int(t)) for h, r, t in rows if h != t}


def by_definition(
    facts: set[tuple[int, int, int]], mentions: Mentions, max_nodes: int | None, max_degree: int | None = None
) -> tuple[list[int], list[int], set[tuple[int, int, int]], int]:
    """Concepts, types, facts between local numbers, and how many nodes a cap left out."""
    near: dict[int, set[int]] = {}
    for h, _, t in facts:
        near.setdefault(h, set()).add(t)
        near.setdefault(t, set()).add(h)
    mentioned = [*sorted(mentions.question), *sorted(mentions.answer)]
    followed = [m for m in mentioned if max_degree is None or len(near.get(m, set())) <= max_degree]
    middles = {n for u, v in permutations(followed, 2) for n in near.get(u, set()) & near.get(v, set())} - set(mentioned)
    nodes = mentioned + sorted(middles)
    types = [QUESTION] * len(mentions.question) + [ANSWER] * len(mentions.answer) + [OTHER] * len(middles)
    cut = max(0, len(nodes) - max_nodes) if max_nodes is not None else 0
    nodes, types = nodes[: len(nodes) - cut], types[: len(types) - cut]
    place = {c: i for i, c in enumerate(nodes)}
    return nodes, types, {(place[h], r, place[t]) for h, r, t in facts if h in place and t in place}, cut


def assert_is(found: Subgraph, expected: tuple[list[int], list[int], set[tuple[int, int, int]], int]) -> None:
    edges = list(zip(found.head.tolist(), found.relation.tolist(), found.tail.tolist(), strict=True))
    assert len(edges) == len(set(edges))
    assert (found.concepts.tolist(), found.types.tolist(), set(edges), found.cut) == expected


def random_mentions(rng: np.random.Generator, n: int, most: int) -> Mentions:
    drawn = rng.permutation(n)[: int(rng.integers(0, most + 1))]
    split = int(rng.integers(0, len(drawn) + 1))
    return Mentions(sorted(drawn[:split].tolist()), sorted(drawn[split:].tolist()))


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    count=st.integers(0, 40),
    cap=st.one_of(st.none(), st.integers(0, 8)),
    degree=st.one_of(st.none(), st.integers(0, 6)),
)
def test_a_subgraph_equals_its_definition(seed: int, n: int, count: int, cap: int | None, degree: int | None) -> None:
    """Each extractor is used several times, so leftovers in its scratch arrays would show."""
    rng = np.random.default_rng(seed)
    facts = random_facts(rng, n, count)
    extractor = Extractor(graph_of(n, facts), SubgraphLimits(cap, degree))
    for _ in range(4):
        mentions = random_mentions(rng, n, 5)
        assert_is(extractor(mentions), by_definition(facts, mentions, cap, degree))


N, HUBS = 600, (0, 1)


def random_question(rng: np.random.Generator) -> list[Mentions]:
    """Statements that share some mentioned concepts and have others of their own."""
    common = random_mentions(rng, N, 12)
    found = []
    for _ in range(int(rng.integers(0, 6))):
        own = random_mentions(rng, N, 3)
        answer = {*common.answer, *own.answer}
        found.append(Mentions(sorted({*common.question, *own.question} - answer), sorted(answer)))
    return found


@cache
def hub_facts() -> set[tuple[int, int, int]]:
    """Two concepts with facts to nearly all others, by several relations; few facts elsewhere."""
    rng = np.random.default_rng(0)
    spokes = {(hub, int(r), t) for hub in HUBS for t in range(N) if t != hub for r in rng.permutation(3)[: rng.integers(0, 4)]}
    return spokes | random_facts(rng, N, 900)


@cache
def hub_graph() -> KnowledgeGraph:
    return graph_of(N, hub_facts())


def test_a_mentioned_concept_between_two_others_keeps_its_type() -> None:
    """Of three mentioned concepts the first is a neighbor of both others."""
    found = Extractor(graph_of(3, {(1, 0, 0), (2, 1, 0)}))(Mentions([0, 1], [2]))
    assert found.concepts.tolist() == [0, 1, 2]
    assert found.types.tolist() == [QUESTION, QUESTION, ANSWER]
    assert found.tail.tolist() == [0, 0]


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), hubs=st.integers(1, 2), cap=st.sampled_from([None, 1, 2, 4, 30]))
def test_rows_of_hubs_are_looked_up_with_the_same_result(seed: int, hubs: int, cap: int | None) -> None:
    rng = np.random.default_rng(seed)
    others = rng.choice(np.arange(2, N), int(rng.integers(0, 4)), replace=False).tolist()
    mentioned = [*HUBS[:hubs], *others]
    split = int(rng.integers(0, len(mentioned) + 1))
    mentions = Mentions(sorted(mentioned[:split]), sorted(mentioned[split:]))
    expected = by_definition(hub_facts(), mentions, cap)
    if hubs == 1 or cap is not None:
        assert any(np.diff(hub_graph().head_ptr)[c] > 16 * len(expected[0]) for c in expected[0])
    assert_is(Extractor(hub_graph(), SubgraphLimits(cap))(mentions), expected)


@pytest.mark.parametrize("cap", [None, 7])
def test_any_number_of_workers_gives_the_same_in_the_same_order(cap: int | None) -> None:
    rng = np.random.default_rng(1)
    questions = [random_question(rng) for _ in range(16 * 17 + 5)]  # more chunks than are in flight
    extractor = Extractor(hub_graph(), SubgraphLimits(cap))
    expected = [extractor(m) for question in questions for m in question]
    for workers in (1, 2, 3):
        chunks = [Mentioned.of(questions[i : i + 16]) for i in range(0, len(questions), 16)]
        found = list(extract_all(hub_graph(), iter(chunks), SubgraphLimits(cap), workers))
        for name in ("concepts", "types", "head", "relation", "tail"):
            one_by_one = np.concatenate([getattr(subgraph, name) for subgraph in expected])
            assert np.array_equal(np.concatenate([getattr(chunk, name) for chunk in found]), one_by_one)
        for name, sizes in {"nodes": [len(s.concepts) for s in expected], "facts": [len(s.head) for s in expected]}.items():
            assert np.concatenate([getattr(chunk, name) for chunk in found]).tolist() == sizes
        assert np.concatenate([chunk.cut for chunk in found]).tolist() == [s.cut for s in expected]


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    cap=st.one_of(st.none(), st.integers(0, 30)),
    degree=st.one_of(st.none(), st.integers(0, 1000)),
)
def test_extracting_together_equals_one_by_one(seed: int, cap: int | None, degree: int | None) -> None:
    rng = np.random.default_rng(seed)
    questions = [random_question(rng) for _ in range(3)]
    extractor = Extractor(hub_graph(), SubgraphLimits(cap, degree))
    found = extractor.several(Mentioned.of(questions))
    node = fact = 0
    for number, mentions in enumerate(m for question in questions for m in question):
        nodes, facts = slice(node, node + int(found.nodes[number])), slice(fact, fact + int(found.facts[number]))
        node, fact = nodes.stop, facts.stop
        columns = found.concepts[nodes], found.types[nodes], found.head[facts], found.relation[facts], found.tail[facts]
        assert_is(Subgraph(*columns, int(found.cut[number])), by_definition(hub_facts(), mentions, cap, degree))
    assert (node, fact) == (len(found.concepts), len(found.head))


@pytest.mark.long  # compiles the kernel for wider numbers
def test_a_subgraph_may_have_more_nodes_than_16_bits_count() -> None:
    middles = MOST_NODES + 10
    graph = graph_of(middles + 2, {(hub, hub, middle) for hub in (0, 1) for middle in range(2, middles + 2)})
    found = Extractor(graph)(Mentions([0], [1]))
    assert found.concepts.tolist() == list(range(middles + 2))
    assert found.head.tolist() == [0] * middles + [1] * middles
    assert found.tail.tolist() == [*range(2, middles + 2)] * 2


def test_no_statements_give_no_subgraphs() -> None:
    assert list(extract_all(hub_graph(), [], SubgraphLimits(), 2)) == []
