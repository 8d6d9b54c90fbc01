"""Hiding facts from a question gives the subgraphs of a graph that was built without these facts."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Mentioned, Mentions
from mhgrn.kg import KnowledgeGraph, Schema
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import Extractor, Subgraph, SubgraphLimits, Subgraphs, extract_all
from mhgrn.subgraphs.prepared import PreparedData, prepare

Rows = set[tuple[int, int, int]]
SCHEMA = Schema.derived(["R", "S", "T"])


def graph_of(n: int, facts: Rows) -> KnowledgeGraph:
    head, relation, tail = np.array(sorted(facts), dtype=np.int64).reshape(-1, 3).T
    return KnowledgeGraph.from_table([f"c{i}" for i in range(n)], head, relation, tail, None, SCHEMA, {})


def divided(found: Subgraphs) -> list[tuple[list[int], list[int], set[tuple[int, int, int]]]]:
    """Concepts, types and facts by concepts of each subgraph."""
    node = fact = 0
    parts = []
    for nodes, facts in zip(found.nodes.tolist(), found.facts.tolist(), strict=True):
        concepts = found.concepts[node : node + nodes]
        columns = (c[fact : fact + facts] for c in (found.head, found.relation, found.tail))
        head, relation, tail = columns
        rows = list(zip(concepts[head].tolist(), relation.tolist(), concepts[tail].tolist(), strict=True))
        assert len(rows) == len(set(rows))
        parts.append((concepts.tolist(), found.types[node : node + nodes].tolist(), set(rows)))
        node, fact = node + nodes, fact + facts
    assert (node, fact) == (len(found.concepts), len(found.head))
    return parts


@settings(max_examples=300)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 12),
    count=st.integers(1, 60),
    cap=st.one_of(st.none(), st.integers(1, 8)),
    degree=st.one_of(st.none(), st.integers(0, 6)),
    most=st.one_of(st.none(), st.integers(1, 20)),
)
def test_hiding_equals_extraction_from_a_graph_without_the_facts(
    seed: int, n: int, count: int, cap: int | None, degree: int | None, most: int | None
) -> None:
    rng = np.random.default_rng(seed)
    rows = zip(rng.integers(0, n, count), rng.integers(0, 3, count), rng.integers(0, n, count), strict=True)
    facts = {(int(h), int(r), int(t)) for h, r, t in rows if h != t}
    limits = SubgraphLimits(cap, degree, most)
    graph = graph_of(n, facts)
    questions, hidden = [], []
    for _ in range(4):
        statements = []
        for _ in range(int(rng.integers(1, 4))):
            drawn = rng.permutation(n)[: int(rng.integers(0, 6))].tolist()
            split = int(rng.integers(0, len(drawn) + 1))
            statements.append(Mentions(sorted(drawn[:split]), sorted(drawn[split:])))
        questions.append(statements)
        pairs = [fact[::2] if rng.integers(2) else fact[::-2] for fact in sorted(facts)]
        hidden.append([pairs[int(i)] for i in rng.permutation(len(pairs))[: int(rng.integers(0, 4))]])
    found = divided(Extractor(graph, limits).several(Mentioned.of(questions), hidden))
    expected = []
    for statements, pairs in zip(questions, hidden, strict=True):
        unordered = {frozenset(pair) for pair in pairs}
        rest = {fact for fact in facts if frozenset(fact[::2]) not in unordered}
        expected += divided(Extractor(graph_of(n, rest), limits).several(Mentioned.of([statements])))
    assert found == expected
    chunks = [Mentioned.of([statements]) for statements in questions]
    each = extract_all(graph, chunks, limits, 2, [[pairs] for pairs in hidden])
    assert [part for chunk in each for part in divided(chunk)] == expected


FACTS = [
    ("cat", "IsA", "pet"),
    ("pet", "RelatedTo", "cat"),
    ("cat", "AtLocation", "house"),
    ("pet", "AtLocation", "house"),
    ("dog", "IsA", "pet"),
]


def named(graph: KnowledgeGraph, subgraph: Subgraph) -> tuple[set[str], set[tuple[str, str, str]]]:
    names = [graph.name(int(concept)) for concept in subgraph.concepts]
    ends = zip(subgraph.head.tolist(), subgraph.relation.tolist(), subgraph.tail.tolist(), strict=True)
    return set(names), {(names[h], graph.schema.relations[r].name, names[t]) for h, r, t in ends}


def test_prepare_hides_the_facts_of_a_question(tmp_path: Path) -> None:
    KnowledgeGraph.from_facts(FACTS).save(tmp_path / "graph")
    row = {"question": "What is a cat?", "choices": ["pet", "house"], "answer": "pet"}
    rows = [row | {"id": "seen"}, row | {"id": "hidden", "hide": [["cat", "IsA", "pet"], ["cat", "IsA", "nowhere"]]}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    data = prepare(tmp_path / "test.jsonl", tmp_path / "graph", tmp_path / "data", workers=1)
    assert PreparedData.load(tmp_path / "data").questions == data.questions
    assert data.questions[1].hide == (("cat", "IsA", "pet"), ("cat", "IsA", "nowhere"))
    graph = data.load_graph()
    seen, hidden = (named(graph, data.subgraph(s)) for s in (0, 2))
    assert seen[1] - hidden[1] == {("cat", "IsA", "pet"), ("pet", "RelatedTo", "cat")}
    assert hidden[1] == {("cat", "AtLocation", "house"), ("pet", "AtLocation", "house")}
    assert named(graph, data.subgraph(1))[0] == {"cat", "house", "pet"}
    assert named(graph, data.subgraph(3))[0] == {"cat", "house"}  # pet is not between cat and house any more


def test_questions_that_hide_nothing_keep_their_identity(tmp_path: Path) -> None:
    KnowledgeGraph.from_facts(FACTS).save(tmp_path / "graph")
    row = {"question": "What is a cat?", "choices": ["pet", "house"], "answer": "pet"}
    prints = {
        prepare([row | extra], tmp_path / "graph", tmp_path / f"data{i}", workers=1).fingerprint
        for i, extra in enumerate([{}, {"hide": []}, {"hide": None}])
    }
    assert len(prints) == 1
    assert "hide" not in (tmp_path / "data0" / "questions.jsonl").read_text()


@pytest.mark.parametrize("hide", ["cat", [["cat", "IsA"]], ["cat"], [["cat", "IsA", 5]], [["cat", "IsA", "pet"]] * 101, 5])
def test_invalid_hidden_facts_are_refused(hide: object) -> None:
    with pytest.raises(UserError):
        Question.from_dict({"question": "What is a cat?", "choices": ["pet", "house"], "hide": hide})
