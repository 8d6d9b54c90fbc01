"""Merged graphs against graphs built at once."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, KnowledgeGraph, Relation, Schema, build
from mhgrn.kg.merge import merge
from mhgrn.starter import FACTS

NAMES = ["cat", "dog", "furniture_store", "naïve", "desk"]
RELATIONS = ["IsA", "PartOf", "eats"]
rows = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(RELATIONS), st.sampled_from(NAMES), st.integers(1, 9)), max_size=12
)


def graph_of(facts: list[tuple[str, str, str, int]], schema: Schema | None = None) -> KnowledgeGraph:
    """A graph with weights, and with the relations of the facts or of a schema."""
    schema = schema or Schema.derived(relation for _, relation, _, _ in facts)
    concepts: dict[str, int] = {}
    weights: dict[tuple[int, int, int], int] = {}
    for head, relation, tail, weight in facts:
        number, swapped = schema.lookup[relation.lower()]
        h, t = (concepts.setdefault(name, len(concepts)) for name in ((tail, head) if swapped else (head, tail)))
        if h != t and number not in schema.pruned_ids:
            weights.setdefault((h, number, t), weight)
    columns = np.array(list(weights), dtype=np.int64).reshape(-1, 3).T
    return KnowledgeGraph.from_table(list(concepts), *columns, np.array(list(weights.values()), dtype=np.float32), schema, {})


def facts_of(graph: KnowledgeGraph) -> dict[tuple[str, str, str], float]:
    """Every fact by names, with its weight."""
    relations = [r.name for r in graph.schema.relations]
    columns = (graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), graph.weight.tolist())
    return {(graph.name(h), relations[r], graph.name(t)): w for h, r, t, w in zip(*columns, strict=True)}


def names_of(graph: KnowledgeGraph) -> list[str]:
    return [graph.name(i) for i in range(len(graph))]


@settings(max_examples=40)
@given(st.lists(rows, min_size=2, max_size=4))
def test_merged_parts_are_the_graph_of_all_facts(parts: list[list[tuple[str, str, str, int]]]) -> None:
    joined = merge([graph_of(part) for part in parts])
    whole = graph_of([row for part in parts for row in part])
    assert names_of(joined) == names_of(whole)
    assert facts_of(joined) == facts_of(whole)  # weights too: the first is kept
    appearing = dict.fromkeys(r.name for part in parts for r in graph_of(part).schema.relations)
    assert [r.name for r in joined.schema.relations] == list(appearing)
    of_one_schema = merge([graph_of(part, Schema.derived(RELATIONS)) for part in parts])
    assert of_one_schema.fingerprint == graph_of([row for part in parts for row in part], Schema.derived(RELATIONS)).fingerprint


@settings(max_examples=30)
@given(st.tuples(rows, rows, rows))
def test_merging_is_associative(parts: tuple[list[tuple[str, str, str, int]], ...]) -> None:
    a, b, c = map(graph_of, parts)
    at_once = merge([a, b, c])
    for joined in (merge([merge([a, b]), c]), merge([a, merge([b, c])])):
        assert joined.fingerprint == at_once.fingerprint
        assert joined.schema == at_once.schema
        assert facts_of(joined) == facts_of(at_once)


@settings(max_examples=30)
@given(rows)
def test_a_graph_merged_with_itself_is_itself(facts: list[tuple[str, str, str, int]]) -> None:
    graph = graph_of(facts)
    joined = merge([graph, graph])
    assert joined.fingerprint == graph.fingerprint
    assert facts_of(joined) == facts_of(graph)


def test_merged_parts_of_a_file_are_the_graph_of_the_file(tmp_path: Path) -> None:
    lines = FACTS.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
    for name, part in (("a", lines[:4000]), ("b", lines[3000:]), ("all", lines)):
        (tmp_path / f"{name}.tsv").write_text("".join(part), encoding="utf-8")
    a, b, whole = (build([tmp_path / f"{name}.tsv"], "conceptnet", ImportOptions(weights=True))[0] for name in ("a", "b", "all"))
    joined = merge([a, b])
    assert joined.schema == whole.schema
    assert set(names_of(joined)) == set(names_of(whole))
    assert facts_of(joined) == facts_of(whole)
    joined.save(tmp_path / "joined")
    assert KnowledgeGraph.load(tmp_path / "joined").fingerprint == joined.fingerprint


def mine(*relations: Relation, **pruned: tuple[str, ...]) -> Schema:
    return Schema("mine", relations, **pruned)


def test_relations_of_one_name_are_merged_and_keep_the_first_gloss() -> None:
    one = graph_of([("cat", "IsA", "pet", 1)], mine(Relation("IsA", gloss="is a"), pruned_concepts=("thing",)))
    two = graph_of(
        [("dog", "InstanceOf", "pet", 1), ("dog", "eats", "pet", 1)],
        mine(Relation("eats"), Relation("ISA", ("isa", "InstanceOf"), "is some"), pruned_relations=("eats",)),
    )
    joined = merge([one, two])
    assert joined.schema.relations == (Relation("IsA", ("IsA", "InstanceOf"), "is a"), Relation("eats"))
    assert (joined.schema.name, joined.schema.pruned_concepts, joined.schema.pruned_relations) == ("merged", ("thing",), ("eats",))
    assert set(facts_of(joined)) == {("cat", "IsA", "pet"), ("dog", "IsA", "pet")}  # the pruned fact was not in the second


def test_a_schema_decides_how_relations_are_merged() -> None:
    """HasA is the reverse of PartOf; the schema decides where the graphs disagree."""
    conceptnet = graph_of([("wheel", "PartOf", "car", 1)], Schema.shipped("conceptnet"))
    own = graph_of([("car", "HasA", "wheel", 2), ("bike", "HasA", "wheel", 3)])
    with pytest.raises(UserError, match=r"HasA is imported as PartOf with .* swapped in graph 1 and as HasA in graph 2; .*schema"):
        merge([conceptnet, own])
    joined = merge([conceptnet, own], Schema.shipped("conceptnet"))
    assert facts_of(joined) == {("wheel", "PartOf", "car"): 1, ("wheel", "PartOf", "bike"): 3}
    assert joined.schema == Schema.shipped("conceptnet")


def test_a_symmetric_relation_is_merged_in_both_directions() -> None:
    one_way = graph_of([("cat", "Meets", "dog", 2)])
    both = mine(Relation("Meets", symmetric=True))
    assert facts_of(merge([one_way, one_way], both)) == {("cat", "Meets", "dog"): 2, ("dog", "Meets", "cat"): 2}
    with pytest.raises(UserError, match=r"Meets is symmetric in graph 2 and not in an earlier graph; .*schema"):
        merge([one_way, graph_of([], both)])
    with pytest.raises(UserError, match=r"Meets is not symmetric in graph 2 and symmetric in an earlier graph; .*schema"):
        merge([graph_of([], both), one_way])


def test_graphs_that_cannot_be_merged_are_refused() -> None:
    one, two = graph_of([("cat", "IsA", "pet", 1)]), graph_of([("dog", "Hunts", "pet", 1)])
    with pytest.raises(UserError, match="two graphs or more"):
        merge([one])
    schema = mine(Relation("IsA"), Relation("Hunt"))
    with pytest.raises(UserError, match=r"mine lacks the relation Hunts of graph 2 \(1 facts\)\. Did you mean Hunt\?"):
        merge([one, two], schema)
    swapped = graph_of([("pet", "kinds", "cat", 1)], mine(Relation("IsA", ("IsA", "*kinds"))))
    straight = graph_of([("pet", "kinds", "cat", 1)], mine(Relation("IsA", ("IsA", "kinds"))))
    with pytest.raises(UserError, match="kinds is imported as IsA with head and tail swapped in graph 1 and as IsA in graph 2"):
        merge([swapped, straight])


def test_relations_without_facts_may_be_missing_in_the_schema() -> None:
    conceptnet = graph_of([("wheel", "PartOf", "car", 1)], Schema.shipped("conceptnet"))
    joined = merge([conceptnet, conceptnet], mine(Relation("PartOf")))
    assert facts_of(joined) == {("wheel", "PartOf", "car"): 1}


def test_a_graph_without_weights_counts_each_fact_as_one() -> None:
    plain, weighted = graph_of([("cat", "IsA", "pet", 7)]), graph_of([("dog", "IsA", "pet", 3)])
    del plain._stored["weight"]
    assert facts_of(merge([plain, weighted])) == {("cat", "IsA", "pet"): 1, ("dog", "IsA", "pet"): 3}
