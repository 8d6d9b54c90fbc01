"""The report on prepared data: walk counts against enumeration, and summary numbers against the data."""

import json
from itertools import pairwise, product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.drawing.path_counts import save_report
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.subgraphs.report import (
    bins,
    count_all_walks,
    count_walks,
    exponent,
    question_concepts_found,
    report,
    summary,
)


@st.composite
def subgraphs(draw: st.DrawFn, most: int = 5) -> Subgraph:
    """Small ones, with parallel facts, facts in both directions and, as imports may keep them, of a concept with itself."""
    types = np.array(sorted(draw(st.lists(st.sampled_from([QUESTION, ANSWER, OTHER]), max_size=most))), dtype=np.uint8)
    ends = st.integers(0, max(len(types) - 1, 0))
    facts = draw(st.lists(st.tuples(ends, st.integers(0, 2), ends), unique=True, max_size=6)) if len(types) else []
    return Subgraph(np.arange(len(types)), types, *np.array(sorted(facts), dtype=np.int64).reshape(-1, 3).T)


def enumerated(subgraph: Subgraph, hops: int) -> list[list[int]]:
    """Every walk over the edges that the model's batches have."""
    batch = GraphBatch.collate([subgraph], 3)
    edges = list(zip(*batch.edge_index.tolist(), strict=True))
    counts: list[list[int]] = [[], []]
    for k in range(1, hops + 1):
        walks = [w for w in product(edges, repeat=k) if all(a[1] == b[0] for a, b in pairwise(w))]
        ends = [(subgraph.types[w[0][0]], subgraph.types[w[-1][1]]) for w in walks]
        counts[0].append(ends.count((QUESTION, ANSWER)))
        counts[1].append(len(walks))
    return counts


@given(subgraphs())
def test_counts_equal_enumeration(subgraph: Subgraph) -> None:
    assert count_walks(subgraph, 3).tolist() == enumerated(subgraph, 3)


@given(subgraphs(most=8), st.integers(1, 12))
def test_counts_equal_integer_arithmetic(subgraph: Subgraph, hops: int) -> None:
    n = len(subgraph.types)
    adjacency = [[0] * n for _ in range(n)]
    for h, t in zip(subgraph.head.tolist(), subgraph.tail.tolist(), strict=True):
        adjacency[h][t] += 1
        adjacency[t][h] += 1
    here = [int(kind == QUESTION) for kind in subgraph.types]
    for k in range(hops):
        here = [sum(adjacency[j][i] * here[j] for j in range(n)) for i in range(n)]
        assert count_walks(subgraph, hops)[0, k] == sum(here[i] for i in range(n) if subgraph.types[i] == ANSWER)


def test_large_counts_do_not_overflow() -> None:
    """A ring of parallel facts: 16 ways at each of 40 hops, far beyond 64-bit whole numbers."""
    facts = np.array([(i, r, (i + 1) % 4) for i in range(4) for r in range(8)]).T
    ring = Subgraph(np.arange(4), np.array([QUESTION, OTHER, ANSWER, OTHER], dtype=np.uint8), *facts)
    counts = count_walks(ring, 40)
    assert counts[1].tolist() == pytest.approx([4 * 16.0**k for k in range(1, 41)], rel=1e-12)
    assert counts[0, 0] == 0  # only even numbers of hops lead to the opposite node, by half of the walks
    assert counts[0, 1::2].tolist() == pytest.approx([16.0**k / 2 for k in range(2, 41, 2)], rel=1e-12)


def test_counting_all_statements_equals_one_by_one(small_data: PreparedData) -> None:
    counts = count_all_walks(small_data, 3)
    assert len(counts) == small_data.about["statements"]
    for statement in range(0, len(counts), 7):
        assert counts[statement].tolist() == count_walks(small_data.subgraph(statement), 3).tolist()
    assert (counts > 0).any(0).all()


def test_the_summary_equals_that_of_single_statements(small_data: PreparedData) -> None:
    subgraphs = [small_data.subgraph(s) for s in range(small_data.about["statements"])]
    found = summary(small_data)
    assert (found["questions"], found["statements"]) == (len(small_data.questions), len(subgraphs))
    for side, kind in (("question", QUESTION), ("answer", ANSWER)):
        counts = [int((s.types == kind).sum()) for s in subgraphs]
        assert found[f"without {side} concepts"] == counts.count(0)
        assert found[f"{side} concepts a statement"]["mean"] == pytest.approx(np.mean(counts), abs=0.01)
    assert found["without facts"] == sum(len(s.head) == 0 for s in subgraphs)
    nodes = sorted(len(s.concepts) for s in subgraphs)
    ninety = found["nodes a statement"]["90 %"]
    assert sum(n <= ninety for n in nodes) >= 0.9 * len(nodes)
    assert sum(n < ninety for n in nodes) < 0.9 * len(nodes)
    assert found["nodes a statement"]["max"] == nodes[-1]
    assert found["nodes a statement"]["median"] == np.median(nodes)
    assert found["facts a statement"]["max"] == max(len(s.head) for s in subgraphs)
    for name in ("without question concepts", "without answer concepts"):
        assert found[name] == small_data.about["report"][name]


@given(st.lists(st.integers(0, 40), max_size=120).map(lambda values: np.array(values, dtype=np.int64)))
def test_bins_hold_each_statement_with_nodes_once_in_order(nodes: np.ndarray) -> None:
    groups = bins(nodes)
    assert sorted(i for group in groups for i in group.tolist()) == np.flatnonzero(nodes).tolist()
    assert all(nodes[a].max() < nodes[b].min() for a, b in pairwise(groups))
    assert len(groups) <= 20


@pytest.mark.parametrize("power", [0.5, 2.0, 3.5])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    nodes = np.arange(1, 60)
    assert exponent(nodes, 3.0 * nodes**power) == pytest.approx(power, abs=1e-3)
    assert exponent(nodes, np.zeros(59)) is None
    assert exponent(np.full(5, 7), np.ones(5)) is None


def test_a_saved_report_has_the_numbers_and_two_panels(small_data: PreparedData, tmp_path: Path) -> None:
    made = report(small_data, 4)
    save_report(made, tmp_path / "one")
    save_report(made, tmp_path / "two")
    for name in ("report.json", "paths.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    found = json.loads((tmp_path / "one" / "report.json").read_text(encoding="utf-8"))
    assert found["summary"] == summary(small_data)
    counts = count_all_walks(small_data, 4)
    for row, name in enumerate(("question_to_answer", "all")):
        part = found["paths"][name]
        assert list(part["by_hops"]) == ["1", "2", "3", "4"]
        assert part["by_hops"]["3"]["max"] == counts[:, row, 2].max()
        assert part["by_hops"]["2"]["without"] == (counts[:, row, 1] == 0).sum()
        assert sum(group["statements"] for group in part["by_nodes"]) == (np.diff(small_data.node_ptr) > 0).sum()
        weighted = sum(group["statements"] * group["mean"]["2"] for group in part["by_nodes"])
        assert weighted == pytest.approx(counts[:, row, 1].sum(), rel=1e-3)
    image = plt.imread(tmp_path / "one" / "paths.png")
    left, right = np.array_split(image[..., :3], 2, axis=1)
    for panel in (left, right):
        assert (panel.max(2) - panel.min(2) > 0.3).sum() > 100  # coloured lines on white


def test_data_without_any_concept_is_reported_too(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts([("cat", "IsA", "animal")])
    graph.save(tmp_path / "graph")
    row = {"id": "1", "question": {"stem": "Zyx?", "choices": [{"label": "A", "text": "qwv"}, {"label": "B", "text": "vwq"}]}}
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    data = prepare(tmp_path / "q.jsonl", graph, tmp_path / "data", PrepareOptions(workers=1))
    made = report(data, 2)
    save_report(made, tmp_path / "report")
    assert made.summary["without facts"] == 2
    assert made.to_dict()["paths"]["all"]["by_nodes"] == []


def test_question_concepts_are_looked_for_by_lemma(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts([("dog", "AtLocation", "kennel"), ("dog", "Desires", "bone"), ("cat", "IsA", "animal")])
    graph.save(tmp_path / "graph")
    choices = [{"label": "A", "text": "kennel"}, {"label": "B", "text": "bone"}]
    rows = [
        {"id": "found", "question": {"stem": "Where is the dog?", "question_concept": "dogs", "choices": choices}},
        {"id": "elsewhere", "question": {"stem": "Where is the dog?", "question_concept": "cat", "choices": choices}},
        {"id": "unknown", "question": {"stem": "Where is the dog?", "question_concept": "zebra", "choices": choices}},
        {"id": "none", "question": {"stem": "Where is the dog?", "choices": choices}},
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in rows), encoding="utf-8")
    data = prepare(tmp_path / "q.jsonl", graph, tmp_path / "data", PrepareOptions(workers=1))
    assert question_concepts_found(data, graph) == {"known": 3, "in the graph": 2, "found": 1}
    assert report(data, 1).summary["question_concept"]["found"] == 1


def test_questions_that_name_no_concept_need_no_graph(small_data: PreparedData) -> None:
    assert "question_concept" not in report(small_data, 1, "nowhere").summary
