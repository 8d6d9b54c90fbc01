"""Batches against naive enumeration."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.extract import ANSWER, Subgraph
from mhgrn.subgraphs.prepared import PreparedData

Edge = tuple[int, int, int]  # source, relation, target


def edges_of(batch: GraphBatch) -> list[Edge]:
    source, target = batch.edge_index.tolist()
    return list(zip(source, batch.edge_type.tolist(), target, strict=True))


def test_every_fact_becomes_two_edges_within_its_graph() -> None:
    first = Subgraph(np.array([7, 9]), np.array([0, 1]), np.array([0]), np.array([2]), np.array([1]))
    empty = Subgraph(*(np.zeros(0, np.int64) for _ in range(5)))
    second = Subgraph(np.array([9, 7, 3]), np.array([0, 1, 2]), np.array([2, 2]), np.array([0, 1]), np.array([0, 0]))
    batch = GraphBatch.collate([first, empty, second], 3)
    assert batch.concepts.tolist() == [7, 9, 9, 7, 3]
    assert batch.node_type.tolist() == [0, 1, 0, 1, 2]
    assert batch.batch.tolist() == [0, 0, 2, 2, 2]
    assert (batch.num_graphs, batch.num_relations) == (3, 6)
    assert sorted(edges_of(batch)) == sorted([(0, 2, 1), (1, 5, 0), (4, 0, 2), (2, 3, 4), (4, 1, 2), (2, 4, 4)])


def test_the_edges_of_prepared_questions_are_the_graphs_facts(small_data: PreparedData, starter_graph: KnowledgeGraph) -> None:
    batch = GraphBatch.collate([s for q in range(10) for s in small_data.subgraphs(q)], len(starter_graph.schema))
    half = batch.num_relations // 2
    facts = set(zip(starter_graph.heads().tolist(), starter_graph.relation.tolist(), starter_graph.tail.tolist(), strict=True))
    edges = edges_of(batch)
    assert len(edges) == len(set(edges)) > 0
    for j, r, i in edges:
        assert batch.batch[j] == batch.batch[i]
        a, b = int(batch.concepts[j]), int(batch.concepts[i])
        assert ((a, r, b) if r < half else (b, r - half, a)) in facts
        assert (i, (r + half) % batch.num_relations, j) in set(edges)


def as_graph(batch: GraphBatch) -> tuple[object, ...]:
    """What does not depend on the order of nodes; within a graph of :func:`distinct_subgraphs` a concept names a node."""
    node = list(zip(batch.batch.tolist(), batch.concepts.tolist(), strict=True))
    edges = sorted((node[j], r, node[i]) for j, r, i in edges_of(batch))
    return dict(zip(node, batch.node_type.tolist(), strict=True)), edges, batch.num_graphs, batch.num_relations


def distinct_subgraphs(seed: int, graphs: int) -> list[Subgraph]:
    rng = np.random.default_rng(seed)
    found = oracles.random_subgraphs(rng, graphs, 2, max_nodes=6, edges=7)
    return [replace(subgraph, concepts=rng.permutation(50)[: len(subgraph.types)]) for subgraph in found]


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), graphs=st.integers(0, 4), steps=st.integers(1, 3), or_first=st.booleans())
def test_what_cannot_reach_the_answers_is_dropped(seed: int, graphs: int, steps: int, or_first: bool) -> None:
    subgraphs = distinct_subgraphs(seed, graphs)
    reach = Reach((ANSWER,), steps, or_first)
    whole, trimmed = GraphBatch.collate(subgraphs, 2), GraphBatch.collate(subgraphs, 2, reach)
    graph_ptr = np.searchsorted(whole.batch.numpy(), np.arange(graphs + 1))
    wanted = torch.from_numpy(reach.wanted(whole.node_type.numpy(), graph_ptr)).nonzero()[:, 0]
    distance = whole.distances(wanted, steps)
    kept = distance <= steps
    assert torch.equal(trimmed.concepts, whole.concepts[kept])
    assert torch.equal(trimmed.batch, whole.batch[kept])
    number = (kept.cumsum(0) - 1).tolist()
    expected = [(number[j], r, number[i]) for j, r, i in edges_of(whole) if distance[i] < steps]
    assert edges_of(trimmed) == expected


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), graphs=st.integers(0, 4), steps=st.integers(1, 3))
def test_nodes_may_come_nearest_first(seed: int, graphs: int, steps: int) -> None:
    subgraphs, reach = distinct_subgraphs(seed, graphs), Reach((ANSWER,), steps)
    batch = GraphBatch.collate(subgraphs, 2, reach, nearest_first=True)
    assert as_graph(batch) == as_graph(GraphBatch.collate(subgraphs, 2, reach))
    distance = batch.distances((batch.node_type == ANSWER).nonzero()[:, 0], steps)
    keys = list(zip(batch.batch.tolist(), distance.tolist(), strict=True))
    assert keys == sorted(keys)


@given(seed=st.integers(0, 10**6), graphs=st.integers(0, 4))
def test_nodes_share_the_features_of_their_concept(seed: int, graphs: int) -> None:
    batch, concepts = oracles.random_batch(np.random.default_rng(seed), graphs, 2).sharing_features()
    assert batch.feature_row is not None
    assert torch.equal(concepts, batch.concepts.unique())
    assert torch.equal(concepts[batch.feature_row], batch.concepts)


def test_a_batch_moves_as_a_whole() -> None:
    batch = oracles.random_batch(np.random.default_rng(0), 3, 2)
    moved = batch.to("meta")
    assert {t.device.type for t in vars(moved).values() if isinstance(t, torch.Tensor)} == {"meta"}
    assert (moved.num_graphs, moved.num_relations) == (3, 4)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), graphs=st.integers(1, 4))
def test_to_pytorch_geometric_and_back(seed: int, graphs: int) -> None:
    pytest.importorskip("torch_geometric")
    batch = oracles.random_batch(np.random.default_rng(seed), graphs, 2)
    x = torch.randn(batch.num_nodes, 3)
    theirs = batch.to_pyg(x)
    assert theirs.num_graphs == graphs
    assert torch.equal(theirs.x, x)
    back = GraphBatch.from_pyg(theirs, batch.num_relations)
    assert sorted(edges_of(back)) == sorted(edges_of(batch))
    for name in ("concepts", "node_type", "batch"):
        assert torch.equal(getattr(back, name), getattr(batch, name)), name
    assert (back.num_graphs, back.num_relations) == (graphs, batch.num_relations)
    for number, graph in enumerate(theirs.to_data_list()):  # each graph alone, its nodes counted from 0
        nodes = (batch.batch == number).nonzero()[:, 0]
        mine = batch.batch[batch.edge_index[0]] == number
        assert graph.num_nodes == len(nodes)
        assert torch.equal(graph.concepts, batch.concepts[nodes])
        offset = int(nodes[0]) if len(nodes) else 0
        assert sorted(map(tuple, graph.edge_index.T.tolist())) == sorted(
            map(tuple, (batch.edge_index[:, mine] - offset).T.tolist())
        )


def test_from_pytorch_geometric_data_with_edges_alone() -> None:
    data = pytest.importorskip("torch_geometric.data").Data(
        edge_index=torch.tensor([[0, 1], [1, 2]]), edge_type=torch.tensor([0, 2]), num_nodes=4
    )
    batch = GraphBatch.from_pyg(data, 3)
    assert edges_of(batch) == [(0, 0, 1), (1, 2, 2)]
    assert (batch.node_type.tolist(), batch.batch.tolist(), batch.num_graphs) == ([2] * 4, [0] * 4, 1)
    assert batch.to_pyg().x is None
    data.batch = torch.tensor([0, 0, 0, 1])
    assert GraphBatch.from_pyg(data, 3).num_graphs == 2
    with pytest.raises(UserError, match="edge_type has values from 0 to 2; with num_relations=2"):
        GraphBatch.from_pyg(data, 2)
    del data.edge_type
    with pytest.raises(UserError, match="no edge_type"):
        GraphBatch.from_pyg(data, 3)


def test_pytorch_geometric_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(UserError, match=r"pip install 'mhgrn\[pyg\]'"):
        oracles.random_batch(np.random.default_rng(0), 1, 2).to_pyg()


@pytest.mark.parametrize(
    "changes",
    [
        {"head": np.array([2])},
        {"tail": np.array([-1])},
        {"tail": np.array([2**31])},
        {"relation": np.array([3])},
        {"relation": np.array([0, 1])},
        {"types": np.array([0])},
    ],
)
def test_subgraphs_that_cannot_be_are_refused(changes: dict[str, np.ndarray]) -> None:
    good = Subgraph(np.array([7, 9]), np.array([0, 1]), np.array([0]), np.array([2]), np.array([1]))
    GraphBatch.collate([good, good], 3)
    with pytest.raises(UserError, match="a subgraph"):
        GraphBatch.collate([good, replace(good, **changes)], 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"edge_index": torch.tensor([[0], [4]])}, "edge_index should be"),
        ({"edge_index": torch.tensor([[-1], [0]])}, "edge_index should be"),
        ({"edge_index": torch.tensor([[0, 1], [1, 0]])}, "edge_index should be"),
        ({"edge_index": torch.tensor([[0], [2]])}, "joins nodes of two graphs"),
        ({"edge_type": torch.tensor([2])}, "edge_type should have relations from 0 to 1"),
        ({"batch": torch.tensor([0, 1, 0, 1])}, "batch should ascend"),
        ({"batch": torch.tensor([0, 0, 2, 2])}, "batch should ascend, with values from 0 to 1"),
    ],
)
def test_edges_that_cannot_be_are_refused(changes: dict[str, torch.Tensor], says: str) -> None:
    numbers = torch.arange(4)
    batch = GraphBatch(numbers, 0 * numbers, torch.tensor([0, 0, 1, 1]), torch.tensor([[0], [1]]), torch.tensor([1]), 2, 2)
    assert len(batch.walk_index.edge_exit) == 1
    with pytest.raises(UserError, match=says):
        _ = replace(batch, **changes).walk_index


def test_a_batch_with_more_edges_than_32_bits_count_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Subgraph(np.array([7, 9]), np.array([0, 1]), np.array([0]), np.array([2]), np.array([1]))
    batch = GraphBatch.collate([good] * 3, 3)
    monkeypatch.setattr("mhgrn.batching.walk_index.MOST", 5)
    with pytest.raises(UserError, match="a batch has 6 nodes and 6 edges, more than 5; use smaller batches"):
        GraphBatch.collate([good] * 3, 3)
    with pytest.raises(UserError, match="use smaller batches"):
        _ = batch.walk_index
