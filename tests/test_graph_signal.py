"""The numbers that benchmarks/graph_signal.py reads off a graph, against counting by hand."""

import numpy as np

import graph_signal
from mhgrn.grounding.grounder import Mentions
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.extract import Extractor


def test_counts_and_links_of_a_small_graph() -> None:
    facts = [
        ("child", "AtLocation", "classroom"),
        ("child", "RelatedTo", "classroom"),
        ("desk", "AtLocation", "classroom"),
        ("classroom", "HasA", "desk"),
        ("school", "HasA", "classroom"),
        ("child", "AtLocation", "school"),
    ]
    kg = KnowledgeGraph.from_facts(facts)
    child, desk, classroom = (kg.id(name) for name in ("child", "desk", "classroom"))
    graph = Extractor(kg)(Mentions([child, desk], [classroom]))
    m = len(kg.schema)
    counts = np.expm1(graph_signal.counts_of(graph, m)).reshape(2, 2, m).round(6)
    names = [relation.name for relation in kg.schema.relations]
    at, related, has = (names.index(name) for name in ("AtLocation", "RelatedTo", "HasA"))
    expected = np.zeros((2, 2, m))
    expected[0, 0, at], expected[0, 0, related], expected[0, 1, has], expected[1, 0, has] = 2, 1, 1, 1
    np.testing.assert_allclose(counts, expected)
    degree = np.diff(kg.neighbor_ptr)  # child 2, desk 1, classroom 3
    links = graph_signal.links_of(graph, kg, degree)
    both = np.sqrt([3 * 4, 2 * 4])
    weight = 1 / np.log([4, 3])
    common = np.array([1, 0])  # the school, of child and classroom
    np.testing.assert_allclose(
        links,
        [
            2,
            weight.sum(),
            1 / 3 + 1 / 2,
            (1 / both).sum(),
            np.log1p(common).sum(),
            (np.log1p(common) * weight).sum(),
            (common / both).sum(),
            (common / both).max(),
            np.log1p(3),
        ],
    )
