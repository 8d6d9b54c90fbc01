"""The content of drawings: only facts of the graph, within the limits, and the best-connected nodes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.drawing import Picture, PictureLimits, picture_of_concepts, picture_of_question, picture_of_subgraph
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData, prepare

RELATIONS = ("IsA", "AtLocation", "UsedFor")


def graph_of(size: int) -> KnowledgeGraph:
    """A graph whose concepts are c0, c1 … and whose relations are known."""
    return KnowledgeGraph.from_facts(
        [(f"c{i}", relation, f"c{i + 1}") for i in range(size) for relation in RELATIONS if i % 2 == 0 or relation == "IsA"]
    )


@st.composite
def subgraphs(draw: st.DrawFn) -> Subgraph:
    types = np.array(sorted(draw(st.lists(st.sampled_from([QUESTION, ANSWER, OTHER]), max_size=9))), dtype=np.uint8)
    ends = st.integers(0, max(len(types) - 1, 0))
    facts = draw(st.lists(st.tuples(ends, st.integers(0, 2), ends), unique=True, max_size=30)) if len(types) else []
    table = np.array(sorted(f for f in facts if f[0] != f[2]), dtype=np.int64).reshape(-1, 3).T
    return Subgraph(np.arange(len(types)), types, *table)


GRAPH = graph_of(12)
ORDER = [relation.name for relation in GRAPH.schema.relations]


def shown_facts(picture: Picture) -> set[tuple[str, str, str]]:
    names = [node.name for node in picture.nodes]
    return {(names[a.head], relation, names[a.tail]) for a in picture.arrows for relation in a.relations}


def facts_of(subgraph: Subgraph) -> set[tuple[str, str, str]]:
    names = [GRAPH.name(int(c)) for c in subgraph.concepts]
    columns = zip(subgraph.head.tolist(), subgraph.relation.tolist(), subgraph.tail.tolist(), strict=True)
    return {(names[h], ORDER[r], names[t]) for h, r, t in columns}


@given(subgraphs())
def test_a_picture_without_tight_limits_shows_everything_that_is_joined(subgraph: Subgraph) -> None:
    picture = picture_of_subgraph(subgraph, GRAPH, ("t",), PictureLimits(99, 999))
    assert shown_facts(picture) == facts_of(subgraph)
    joined = set(subgraph.head.tolist()) | set(subgraph.tail.tolist())
    expected = {GRAPH.name(int(c)) for i, c in enumerate(subgraph.concepts) if subgraph.types[i] != OTHER or i in joined}
    assert {node.name for node in picture.nodes} == expected


@given(subgraphs(), st.integers(1, 8), st.integers(1, 12))
def test_limits_hold_and_only_facts_of_the_subgraph_are_shown(subgraph: Subgraph, nodes: int, arrows: int) -> None:
    picture = picture_of_subgraph(subgraph, GRAPH, ("t",), PictureLimits(nodes, arrows))
    assert len(picture.nodes) <= nodes
    assert len(picture.arrows) <= arrows
    assert shown_facts(picture) <= facts_of(subgraph)
    assert (picture.node_count, picture.fact_count) == (len(subgraph.types), len(subgraph.head))
    types = {GRAPH.name(int(c)): int(t) for c, t in zip(subgraph.concepts, subgraph.types, strict=True)}
    assert all(types[node.name] == node.type for node in picture.nodes)


def brute_visits(subgraph: Subgraph, node: int) -> int:
    """Walks of at most two edges from a question to an answer node that visit a node, once for each place they do."""
    steps = [*zip(subgraph.head.tolist(), subgraph.tail.tolist(), strict=True)]
    steps += [(t, h) for h, t in steps]
    types = subgraph.types
    walks = [[a, b] for a, b in steps] + [[a, b, d] for a, b in steps for c, d in steps if b == c]
    return sum(w.count(node) for w in walks if types[w[0]] == QUESTION and types[w[-1]] == ANSWER)


@given(subgraphs(), st.integers(1, 8))
def test_concepts_left_out_are_on_no_more_walks_than_those_kept(subgraph: Subgraph, limit: int) -> None:
    picture = picture_of_subgraph(subgraph, GRAPH, ("t",), PictureLimits(limit, 999))
    shown = {node.name for node in picture.nodes}
    others = [i for i in range(len(subgraph.types)) if subgraph.types[i] == OTHER]
    kept = [brute_visits(subgraph, i) for i in others if GRAPH.name(int(subgraph.concepts[i])) in shown]
    left = [brute_visits(subgraph, i) for i in others if GRAPH.name(int(subgraph.concepts[i])) not in shown]
    if kept:
        assert max(left, default=0) <= min(kept)
        assert {GRAPH.name(int(c)) for c in subgraph.concepts[subgraph.types != OTHER]} <= shown


def test_a_question_s_columns_and_title(small_data: PreparedData, starter_graph: KnowledgeGraph) -> None:
    question = small_data.questions[0]
    assert question.answer is not None
    picture = picture_of_question(small_data, starter_graph, question.id)
    assert picture.title == (
        question.stem,
        f"{question.label(question.answer)}: {question.choices[question.answer]} ★ correct answer",
    )
    column = {QUESTION: 0, OTHER: 1, ANSWER: 2}
    assert all(node.column == column[node.type] for node in picture.nodes)
    assert all(starter_graph.holds(*(part.replace(" ", "_") for part in fact)) for fact in shown_facts(picture))
    wrong = (question.answer + 1) % len(question.choices)
    assert picture_of_question(small_data, starter_graph, question.id, question.label(wrong)).title[1] == (
        f"{question.label(wrong)}: {question.choices[wrong]}"
    )


def test_a_question_whose_id_is_in_several_splits_is_named_with_its_split(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    for split, stem in (("train", "Where is a desk?"), ("dev", "Where is a child?")):
        row = f"question,choice_A,choice_B,answer\n{stem},school,milk,A\n"
        (tmp_path / f"{split}.csv").write_text(row, encoding="utf-8")
    data = prepare(tmp_path, starter_graph, tmp_path / "data")
    with pytest.raises(UserError, match="a question '1' in train and in dev; name one with --split"):
        picture_of_question(data, starter_graph, "1")
    assert picture_of_question(data, starter_graph, "1", split="dev").title[0] == "Where is a child?"
    with pytest.raises(UserError, match="no split 'tset'"):
        picture_of_question(data, starter_graph, "1", split="tset")


def test_the_shown_part_is_described(starter_graph: KnowledgeGraph, small_data: PreparedData) -> None:
    whole = picture_of_question(small_data, starter_graph, small_data.questions[0].id, limits=PictureLimits(9999, 9999))
    facts = whole.fact_count
    assert whole.shown == f"showing all {whole.node_count:,} nodes and {facts:,} facts"
    part = picture_of_question(small_data, starter_graph, small_data.questions[0].id, limits=PictureLimits(3, 2))
    shown = sum(len(arrow.relations) for arrow in part.arrows)
    assert part.shown == f"showing {len(part.nodes)} of {whole.node_count:,} nodes and {shown} of {facts:,} facts"


def test_an_unknown_question_or_choice_is_named_with_a_suggestion(small_data: PreparedData, starter_graph: KnowledgeGraph) -> None:
    known = small_data.questions[5].id
    with pytest.raises(UserError, match=rf"no question '{known}x'\. Did you mean"):
        picture_of_question(small_data, starter_graph, known + "x")
    with pytest.raises(UserError, match=f"no question 'ÿÿÿ'. The first are {small_data.questions[0].id}, "):
        picture_of_question(small_data, starter_graph, "ÿÿÿ")
    with pytest.raises(UserError, match=f"{known} has no choice 'Z'. Known: A, B, C, D, E"):
        picture_of_question(small_data, starter_graph, known, "Z")


LINE = KnowledgeGraph.from_facts(
    [("a", "IsA", "b"), ("b", "IsA", "c"), ("c", "IsA", "d"), ("e", "UsedFor", "a"), ("e", "IsA", "b"), ("a", "UsedFor", "b")]
)


@pytest.mark.parametrize(
    ("hops", "nodes", "facts"),
    [
        (1, {"a": 0, "b": 1, "e": 1}, 4),
        (2, {"a": 0, "b": 1, "e": 1, "c": 2}, 5),
        (3, {"a": 0, "b": 1, "e": 1, "c": 2, "d": 3}, 6),
    ],
)
def test_a_neighborhood_has_all_concepts_within_the_hops(hops: int, nodes: dict[str, int], facts: int) -> None:
    picture = picture_of_concepts(LINE, ["a"], hops)
    assert {node.name: node.column for node in picture.nodes} == nodes
    assert (picture.node_count, picture.fact_count, len(shown_facts(picture))) == (len(nodes), facts, facts)
    assert [node.name for node in picture.nodes if node.type == QUESTION] == ["a"]


def test_facts_of_two_nodes_in_one_direction_share_an_arrow() -> None:
    picture = picture_of_concepts(LINE, ["a"])
    names = [node.name for node in picture.nodes]
    assert {(names[a.head], names[a.tail]): a.relations for a in picture.arrows}["a", "b"] == ("IsA", "UsedFor")


def test_neighbors_of_several_concepts_are_shown_before_those_of_one() -> None:
    facts = [("x", "IsA", f"n{i}") for i in range(9)] + [("y", "IsA", "n7"), ("n8", "IsA", "far")]
    graph = KnowledgeGraph.from_facts(facts)
    picture = picture_of_concepts(graph, ["x", "y"], limits=PictureLimits(3, 9))
    assert {node.name for node in picture.nodes} == {"x", "y", "n7"}
    assert picture.shown == "showing 3 of 11 nodes and 2 of 10 facts"


def test_each_hop_gets_its_share_of_the_nodes() -> None:
    facts = [("x", "IsA", f"n{i}") for i in range(30)] + [(f"n{i}", "IsA", f"m{i}") for i in range(30)]
    picture = picture_of_concepts(KnowledgeGraph.from_facts(facts), ["x"], 2, PictureLimits(9, 99))
    assert [node.column for node in picture.nodes] == [0] + [1] * 4 + [2] * 4


def test_more_concepts_than_nodes_are_refused() -> None:
    with pytest.raises(UserError, match="3 concepts do not fit into a drawing of 2 nodes; raise --max-nodes"):
        picture_of_concepts(LINE, ["a", "b", "c", "a"], limits=PictureLimits(2, 9))
    with pytest.raises(UserError, match="'zebra' is not a concept"):
        picture_of_concepts(LINE, ["zebra"])


@pytest.mark.parametrize("hops", [0, -1, 10**9, 1.5])
def test_impossible_hops_and_limits_are_refused(starter_graph: KnowledgeGraph, hops: Any) -> None:
    with pytest.raises(UserError, match="it should be an integer from 1 to 16"):
        picture_of_concepts(starter_graph, ["child"], hops)
    with pytest.raises(UserError, match="the largest number of nodes is -5; it should be 1 or more"):
        PictureLimits(-5)
