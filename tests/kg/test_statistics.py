"""A graph's statistics against counting by hand."""

from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.kg import ImportOptions, KnowledgeGraph, Schema, build
from mhgrn.kg.statistics import HUBS, Statistics

NAMES = [f"{a}{b}" for a in "abcd" for b in ["", "_x", "_x_y", "_p_q_r_s_t"]]
RELATIONS = ["IsA", "PartOf", "Eats"]
triples = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(RELATIONS), st.sampled_from(NAMES)), max_size=30)
SCHEMA = Schema.from_dict({"name": "mine", "relations": [{"name": r} for r in RELATIONS], "pruned_relations": ["Eats"]})


def hand_counted(concepts: list[str], facts: set[tuple[str, str, str]]) -> dict[str, object]:
    near = {c: {h if t == c else t for h, _, t in facts if c in (h, t)} - {c} for c in concepts}
    components: list[set[str]] = []
    for concept in concepts:
        joined = [c for c in components if near[concept] & c]
        components = [c for c in components if c not in joined] + [{concept}.union(*joined)]
    pairs = {frozenset((h, t)) for h, _, t in facts if h != t}
    degrees = sorted(map(len, near.values()))
    shares = {"median": 0.5, "90%": 0.9, "99%": 0.99, "max": 1.0}
    lengths = Counter(min(c.count("_") + 1, 5) for c in concepts)
    return {
        "concepts": len(concepts),
        "facts": len(facts),
        "isolated": degrees.count(0),
        "self_loops": sum(h == t for h, _, t in facts),
        "pairs": len(pairs),
        "parallel": len([1 for h, _, t in facts if h != t]) - len(pairs),
        "neighbours": {
            "mean": sum(degrees) / max(len(degrees), 1),
            # the smallest number that at least this share of concepts does not exceed
            **{k: next((d for d in degrees if sum(e <= d for e in degrees) >= q * len(degrees)), 0) for k, q in shares.items()},
        },
        "hubs": {c: len(near[c]) for c in sorted(concepts, key=lambda c: (-len(near[c]), concepts.index(c)))[:HUBS]},
        "components": len(components),
        "largest_component": max(map(len, components), default=0),
        "relations": {r: sum(fact[1] == r for fact in facts) for r in RELATIONS},
        "pruned_relations": ("Eats",),
        "words": {str(k) if k < 5 else "5 or more": lengths[k] for k in sorted(lengths)},
    }


@settings(max_examples=50)
@given(triples)
def test_statistics_are_those_counted_by_hand(rows: list[tuple[str, str, str]]) -> None:
    concepts = list(dict.fromkeys(name for h, _, t in rows for name in (h, t)))
    graph = KnowledgeGraph.from_table(
        concepts,
        *(np.array(column, dtype=np.int64) for column in columns(concepts, sorted(set(rows)))),
        np.ones(len(set(rows)), dtype=np.float32),
        SCHEMA,
        {},
    )
    found = Statistics.of(graph).to_dict()
    assert found.pop("schema") == "mine"
    assert found == hand_counted(concepts, set(rows))


def columns(concepts: list[str], facts: list[tuple[str, str, str]]) -> list[list[int]]:
    return [
        [concepts.index(h) for h, _, _ in facts],
        [RELATIONS.index(r) for _, r, _ in facts],
        [concepts.index(t) for _, _, t in facts],
    ]


@settings(max_examples=20)
@given(st.integers(0, 400), st.randoms(use_true_random=False))
def test_long_chains_are_one_component_whatever_their_numbering(length: int, random: object) -> None:
    order = list(range(length + 1))
    random.shuffle(order)  # type: ignore[attr-defined]
    head, tail = np.array(order[:-1], dtype=np.int64), np.array(order[1:], dtype=np.int64)
    names = [f"n{i}" for i in range(length + 1)]
    graph = KnowledgeGraph.from_table(names, head, head * 0, tail, np.ones(length, dtype=np.float32), SCHEMA, {})
    found = Statistics.of(graph)
    assert (found.components, found.largest_component, found.isolated) == (1, length + 1, int(length == 0))


def test_concepts_of_pruned_facts_are_isolated_and_the_relation_is_marked(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("cat\tIsA\tanimal\ncat\tEats\tmouse\n")
    (tmp_path / "mine.yaml").write_text(SCHEMA.to_yaml())
    graph, _ = build([tmp_path / "facts.tsv"], str(tmp_path / "mine.yaml"))
    found = Statistics.of(graph)
    assert (found.isolated, found.components, found.relations["Eats"]) == (1, 2, 0)
    assert [line.split()[0] for line in str(found).splitlines() if line.endswith("(pruned by the schema)")] == ["Eats"]
    kept, _ = build([tmp_path / "facts.tsv"], str(tmp_path / "mine.yaml"), ImportOptions(prune=False))
    assert Statistics.of(kept).isolated == 0


def test_an_empty_graph_has_statistics() -> None:
    assert "0 concepts, 0 facts" in str(Statistics.of(KnowledgeGraph.from_facts([])))


def test_a_loaded_graph_has_the_same_statistics(starter_graph: KnowledgeGraph) -> None:
    assert starter_graph.folder is not None
    assert Statistics.of(KnowledgeGraph.load(starter_graph.folder)) == Statistics.of(starter_graph)
