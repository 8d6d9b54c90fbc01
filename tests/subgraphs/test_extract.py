"""Subgraphs against their definition."""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import permutations
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Mentioned, Mentions
from mhgrn.io.checksums import seal
from mhgrn.kg import KnowledgeGraph, Schema
from mhgrn.subgraphs import extract
from mhgrn.subgraphs.extract import (
    _MOST_SHARED,
    ANSWER,
    DEFAULT_NODES,
    MOST_NODES,
    OTHER,
    QUESTION,
    Extractor,
    Subgraph,
    SubgraphLimits,
    Subgraphs,
    _Workspace,
    extract_all,
)
from mhgrn.subgraphs.kernels import extract_statements

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
    cap=st.one_of(st.none(), st.integers(1, 8)),
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
    cap=st.one_of(st.none(), st.integers(1, 30)),
    degree=st.one_of(st.none(), st.integers(0, 1000)),
)
def test_extracting_together_equals_one_by_one(seed: int, cap: int | None, degree: int | None) -> None:
    rng = np.random.default_rng(seed)
    questions = [random_question(rng) for _ in range(3)]
    extractor = Extractor(hub_graph(), SubgraphLimits(cap, degree))
    found = extractor.several(Mentioned.of(questions))
    for mentions, subgraph in zip((m for question in questions for m in question), divided(found), strict=True):
        assert_is(subgraph, by_definition(hub_facts(), mentions, cap, degree))


def two_hubs(middles: int) -> KnowledgeGraph:
    """Two concepts that share ``middles`` neighbors."""
    head = np.repeat([0, 1], middles)
    names = [f"concept{i}" for i in range(middles + 2)]
    columns = head, head, np.tile(np.arange(2, middles + 2), 2)
    return KnowledgeGraph.from_table(names, *columns, None, SCHEMA, {})


def test_hubs_are_cut_by_the_default_limit() -> None:
    middles = 300_000
    found = Extractor(two_hubs(middles))(Mentions([0], [1]))
    kept = DEFAULT_NODES - 2
    assert found.concepts.tolist() == list(range(DEFAULT_NODES))
    assert found.cut == middles - kept
    assert found.head.tolist() == [0] * kept + [1] * kept
    assert found.tail.tolist() == [*range(2, kept + 2)] * 2


def test_no_subgraph_has_more_nodes_than_16_bits_count() -> None:
    found = Extractor(two_hubs(MOST_NODES + 10), SubgraphLimits(max_nodes=1_000_000))(Mentions([0], [1]))
    assert len(found.concepts) == MOST_NODES
    assert (int(found.tail.max()), found.cut) == (MOST_NODES - 1, 12)


def largest_prefix(
    found: tuple[list[int], list[int], set[tuple[int, int, int]], int], max_facts: int
) -> tuple[list[int], list[int], set[tuple[int, int, int]], int]:
    """The most of the first nodes with at most ``max_facts`` facts among them."""
    nodes, types, facts, cut = found
    for count in range(len(nodes), -1, -1):
        kept = {fact for fact in facts if fact[0] < count and fact[2] < count}
        if len(kept) <= max_facts:
            return nodes[:count], types[:count], kept, cut + len(nodes) - count
    raise AssertionError


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), facts=st.integers(1, 60), cap=st.one_of(st.none(), st.integers(1, 40)), shared=st.booleans())
def test_a_limit_of_facts_cuts_nodes_from_the_end(seed: int, facts: int, cap: int | None, shared: bool) -> None:
    """With few facts shared by the statements of a question, each statement is extracted on its own, with the same result."""
    rng = np.random.default_rng(seed)
    questions = [random_question(rng) for _ in range(3)]
    extractor = Extractor(hub_graph(), SubgraphLimits(cap, max_facts=facts))
    asked = extractor._arrays, extractor._guards, Mentioned.of(questions), extractor.limits.nodes, N, facts
    work = _Workspace(N)
    together, _ = extract_statements(*asked, work.scratch, work.buffer, _MOST_SHARED if shared else 0)
    assert not any(array.any() for array in work.scratch)
    for mentions, found in zip((m for q in questions for m in q), divided(Subgraphs(*together)), strict=True):
        assert_is(found, largest_prefix(by_definition(hub_facts(), mentions, cap), facts))
        assert_is(extractor(mentions), largest_prefix(by_definition(hub_facts(), mentions, cap), facts))


def test_the_memory_for_a_dense_graph_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million facts among the middle nodes of each statement; the buffer for the facts stays as large as the limit."""
    n = 1_000
    head, tail = np.divmod(np.arange(n * n), n)
    some = head != tail
    graph = KnowledgeGraph.from_table([f"concept{i}" for i in range(n)], head[some], 0 * head[some], tail[some], None, SCHEMA, {})
    extractor = Extractor(graph, SubgraphLimits(max_facts=2_000))
    found = extractor.several(Mentioned.of([[Mentions([0], [i]) for i in range(1, 6)]]))
    assert found.facts.tolist() == [45 * 44] * 5
    assert found.nodes.tolist() == [45] * 5
    assert found.cut.tolist() == [n - 45] * 5


def divided(found: Subgraphs) -> list[Subgraph]:
    node = fact = 0
    result = []
    for nodes, facts, cut in zip(found.nodes.tolist(), found.facts.tolist(), found.cut.tolist(), strict=True):
        of_nodes, of_facts = slice(node, node + nodes), slice(fact, fact + facts)
        node, fact = of_nodes.stop, of_facts.stop
        columns = (
            found.concepts[of_nodes],
            found.types[of_nodes],
            found.head[of_facts],
            found.relation[of_facts],
            found.tail[of_facts],
        )
        result.append(Subgraph(*columns, cut))
    assert (node, fact) == (len(found.concepts), len(found.head))
    return result


LIMITS = {
    "max_nodes": [-5, 0, 2**31, 10**30, 1.5, "5", True, [5], float("nan")],
    "max_degree": [-1, 2**31, 10**30, 0.0, False],
    "max_facts": [-1, 0, 2**24 + 1, "many"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in LIMITS.items() for value in values])
def test_impossible_limits_are_refused(name: str, value: object) -> None:
    with pytest.raises(UserError, match=rf"^{name} is .*; it should be an integer from [01] to "):
        SubgraphLimits.of({name: value})


def test_limits_of_settings() -> None:
    assert SubgraphLimits.of({"statement": "append", "max_nodes": 5}) == SubgraphLimits(5)
    assert SubgraphLimits.of({}) == SubgraphLimits()


@pytest.mark.parametrize("concept", [-1, N, 10**12])
def test_concepts_that_the_graph_lacks_are_refused(concept: int) -> None:
    with pytest.raises(UserError, match="the graph has 600 concepts"):
        Extractor(hub_graph())(Mentions([0], [concept]))


def test_many_threads_use_one_extractor() -> None:
    rng = np.random.default_rng(5)
    questions = [random_question(rng) for _ in range(400)]
    extractor = Extractor(hub_graph(), SubgraphLimits(50))
    expected = [extractor.several(Mentioned.of([question])) for question in questions]
    start = Barrier(16)

    def ask(thread: int) -> int:
        start.wait()
        different = 0
        for number in np.random.default_rng(thread).permutation(len(questions)).tolist():
            found = extractor.several(Mentioned.of([questions[number]]))
            different += any(not np.array_equal(a, b) for a, b in zip(found, expected[number], strict=True))
        return different

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(ask, range(16))) == 0
    finally:
        sys.setswitchinterval(before)


def test_a_failed_extraction_leaves_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = Extractor(hub_graph())
    mentions = Mentions([0], [1, 2])
    expected = extractor(mentions)

    def fails(arrays: object, mentioned: Mentioned, *rest: Any) -> Any:
        scratch = rest[4]
        scratch.touched[:] = 5
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(extract, "extract_statements", fails)
        with pytest.raises(MemoryError):
            extractor(mentions)
    found = extractor(mentions)
    assert all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in ("concepts", "head", "relation", "tail"))


def test_rows_of_a_large_stored_graph_are_checked_when_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    hub_graph().save(tmp_path / "graph")
    stored = KnowledgeGraph.load(tmp_path / "graph")
    mentions = Mentions([0, 5], [1, 2])
    expected, found = Extractor(hub_graph())(mentions), Extractor(stored)(mentions)
    for name in ("concepts", "types", "head", "relation", "tail"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("name", ["neighbour_ptr", "neighbour", "head_ptr", "tail", "relation"])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_damaged_row_is_an_error_and_leaves_no_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_sealed: bool
) -> None:
    """With new checksums, as someone would write them who crafts a graph, the range of the values still tells."""
    monkeypatch.setattr("mhgrn.io.stored.EAGER", 0)
    hub_graph().save(tmp_path / "graph")
    file = tmp_path / "graph" / f"{name}.npy"
    array = np.load(file)
    array[len(array) // 2] = np.iinfo(array.dtype).max
    np.save(file, array)
    if is_sealed:
        seal(tmp_path / "graph")
    extractor = Extractor(KnowledgeGraph.load(tmp_path / "graph"))
    for _ in range(3):
        with pytest.raises(UserError, match=f"{name}.npy is damaged"):
            extractor(Mentions([0, 5], [1, 2]))
    assert not extractor._pool._free


def test_no_statements_give_no_subgraphs() -> None:
    assert list(extract_all(hub_graph(), [], SubgraphLimits(), 2)) == []
