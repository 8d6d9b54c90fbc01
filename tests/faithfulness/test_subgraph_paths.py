"""Paths in subgraphs, compared with networkx."""

from itertools import pairwise

import networkx as nx
import numpy as np

import oracles
from mhgrn.faithfulness.subgraph_paths import LONGEST, Neighbors
from mhgrn.subgraphs.extract import Subgraph


def graphs() -> list[Subgraph]:
    return [graph for seed in range(40) for graph in oracles.random_subgraphs(np.random.default_rng(seed), 2, 3, 9, 12)]


def facts_of(graph: Subgraph) -> list[tuple[int, int]]:
    return list(zip(np.asarray(graph.head).tolist(), np.asarray(graph.tail).tolist(), strict=True))


def reference(graph: Subgraph) -> nx.MultiGraph:
    whole = nx.MultiGraph()
    whole.add_nodes_from(range(len(graph.concepts)))
    whole.add_edges_from((head, tail, number) for number, (head, tail) in enumerate(facts_of(graph)))
    return whole


def test_shortest_paths_are_all_simple_paths_shortest_first() -> None:
    found_any = 0
    for graph in graphs():
        neighbors = Neighbors.of(graph, np.arange(len(graph.head)))
        paths = neighbors.shortest(10_000, np.random.default_rng(0))
        assert [len(path) for path in paths] == sorted(len(path) for path in paths)
        wanted = []
        for start in neighbors.asked.tolist():
            for end in neighbors.answers.tolist():
                every = nx.all_simple_edge_paths(reference(graph), start, end, cutoff=LONGEST)
                wanted += [[number for _, _, number in path] for path in every]
        assert sorted(paths) == sorted(wanted)
        found_any += len(paths)
    assert found_any > 100


def test_distances_and_random_paths() -> None:
    for number, graph in enumerate(graphs()):
        neighbors, whole = Neighbors.of(graph, np.arange(len(graph.head))), reference(graph)
        known = nx.multi_source_dijkstra_path_length(whole, set(neighbors.asked.tolist())) if len(neighbors.asked) else {}
        assert neighbors.distances(neighbors.asked).tolist() == [known.get(node, np.inf) for node in range(len(graph.concepts))]
        path = neighbors.random(3, np.random.default_rng(number))
        if path:
            ends = [set(facts_of(graph)[fact]) for fact in path]
            assert ends[-1] & set(neighbors.answers.tolist())
            assert all(one & other for one, other in pairwise(ends))
            assert len(set().union(*ends)) == len(path) + 1  # no node twice
