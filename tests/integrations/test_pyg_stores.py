"""The stores give PyTorch Geometric the facts and features of a graph, and its loaders sample from them."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch

pytest.importorskip("torch_geometric")
from torch_geometric.data import TensorAttr
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.data.remote_backend_utils import num_nodes
from torch_geometric.loader import LinkLoader, NeighborLoader, NodeLoader
from torch_geometric.sampler import NodeSamplerInput
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

from mhgrn.errors import UserError
from mhgrn.features import RandomFeatures
from mhgrn.integrations.pytorch_geometric import KnowledgeGraphStore, NeighborSampler, NodeFeatureStore
from mhgrn.integrations.pytorch_geometric.sampler import _distinct_numbers
from mhgrn.kg import KnowledgeGraph
from mhgrn.nn import MHGRNConv

Edge = tuple[int, int, int]


def random_graph(seed: int, concepts: int = 12, facts: int = 40) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, [concepts, 3, concepts], (facts, 3)).tolist()
    return KnowledgeGraph.from_facts([(f"c{head}", f"R{relation}", f"c{tail}") for head, relation, tail in rows])


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return random_graph(0)


def edges_of(graph: KnowledgeGraph) -> list[Edge]:
    """Source, relation and target of every edge, by the definition."""
    found = []
    relations = [relation.name for relation in graph.schema.relations]
    for fact in graph.facts():
        head, relation, tail = graph.id(fact.head), relations.index(fact.relation), graph.id(fact.tail)
        found += [(head, relation, tail), (tail, relation + len(relations), head)]
    return sorted(found)


def stores(graph: KnowledgeGraph, by_relation: bool = False) -> tuple[NodeFeatureStore, KnowledgeGraphStore]:
    return NodeFeatureStore(RandomFeatures(6), graph, by_relation), KnowledgeGraphStore(graph, by_relation)


@pytest.mark.parametrize("seed", range(3))
def test_every_layout_has_every_fact_in_both_directions(seed: int) -> None:
    graph = random_graph(seed)
    store = KnowledgeGraphStore(graph)
    row, col, _ = store.coo()
    assert sorted(zip(row.tolist(), store.edge_type.tolist(), col.tolist(), strict=True)) == edges_of(graph)
    row, pointer, _ = store.csc()
    col = torch.repeat_interleave(torch.arange(len(graph)), pointer.diff())
    assert sorted(zip(row.tolist(), store.edge_type.tolist(), col.tolist(), strict=True)) == edges_of(graph)
    pointer, col, order = store.csr()
    row = torch.repeat_interleave(torch.arange(len(graph)), pointer.diff())
    assert sorted(zip(row.tolist(), store.edge_type[order].tolist(), col.tolist(), strict=True)) == edges_of(graph)
    for layout in EdgeLayout:
        assert len(store.get_edge_index(None, layout)) == 2


def test_edges_by_relation_are_the_same_edges(graph: KnowledgeGraph) -> None:
    store = KnowledgeGraphStore(graph, by_relation=True)
    kinds = [attr.edge_type for attr in store.get_all_edge_attrs()]
    row, col, _ = store.coo()
    found = [
        (a, number, b) for number, kind in enumerate(kinds) for a, b in zip(row[kind].tolist(), col[kind].tolist(), strict=True)
    ]
    assert sorted(found) == edges_of(graph)
    assert kinds[len(kinds) // 2] == ("concept", "rev_" + kinds[0][1], "concept")
    with pytest.raises(KeyError):
        store.get_edge_index(("concept", "None", "concept"), "coo")
    assert num_nodes(*stores(graph, by_relation=True), "concept") == len(graph)


def test_the_graph_cannot_be_changed_through_the_store(graph: KnowledgeGraph) -> None:
    store = KnowledgeGraphStore(graph)
    before = store.coo()[0].clone()
    assert not store.put_edge_index((before, before), None, "coo")
    assert not store.remove_edge_index(None, "coo")
    store.csr(store=True)
    assert torch.equal(store.coo()[0], before)


def test_features_by_every_kind_of_index(graph: KnowledgeGraph) -> None:
    store, _ = stores(graph)
    every = RandomFeatures(6).rows(torch.arange(len(graph)))
    assert torch.equal(store.get_tensor(None, "x", None), every)
    assert torch.equal(store.get_tensor(None, "x", torch.tensor([3, 1])), every[[3, 1]])
    assert torch.equal(store.get_tensor(None, "x", slice(2, 5)), every[2:5])
    assert torch.equal(store.get_tensor(None, "x", 4), every[4:5])
    assert torch.equal(store[None, "x", None], every)
    assert store.get_tensor_size(None, "x") == (len(graph), 6)
    (attr,) = store.get_all_tensor_attrs()
    assert attr.attr_name == "x"
    assert attr.group_name is None
    with pytest.raises(UserError, match="there are"):
        store.get_tensor(None, "x", torch.tensor([len(graph)]))


def test_labels_can_be_added_and_removed_but_features_are_fixed(graph: KnowledgeGraph) -> None:
    store, _ = stores(graph)
    labels = torch.arange(len(graph))
    assert store.put_tensor(labels, None, "y", None)
    assert torch.equal(store.get_tensor(None, "y", torch.tensor([5, 2])), torch.tensor([5, 2]))
    assert {attr.attr_name for attr in store.get_all_tensor_attrs()} == {"x", "y"}
    assert store.get_tensor_size(None, "y") == (len(graph),)
    assert not store.put_tensor(labels, None, "x", None)
    with pytest.raises(UserError, match="a row for each"):
        store.put_tensor(labels[1:], None, "y", None)
    assert store.remove_tensor(None, "y", None)
    assert store.get_tensor(TensorAttr(None, "y", None)) is None


def test_sampled_edges_are_edges_of_the_graph(graph: KnowledgeGraph) -> None:
    features, store = stores(graph)
    features.put_tensor(torch.arange(len(graph)), None, "y", None)
    sampler = NeighborSampler(store, [3, 2])
    loader = NodeLoader(
        (features, store), sampler, input_nodes=torch.arange(len(graph)), batch_size=4, transform=store.add_relations
    )
    every, seeds = set(edges_of(graph)), []
    for batch in loader:
        n_id = batch.n_id
        assert len(set(n_id.tolist())) == len(n_id)
        found = [(int(n_id[a]), int(r), int(n_id[b])) for a, b, r in zip(*batch.edge_index, batch.edge_type, strict=True)]
        assert set(found) <= every
        assert len(found) == len(set(found))
        assert torch.equal(batch.x, RandomFeatures(6).rows(n_id))
        assert torch.equal(batch.y, n_id)
        seeds += n_id[: batch.batch_size].tolist()
        hop = torch.repeat_interleave(torch.arange(3), torch.tensor(batch.num_sampled_nodes))
        for node, count in Counter(batch.edge_index[1].tolist()).items():
            degree = sum(target == int(n_id[node]) for _, _, target in every)
            assert count == min(degree, [3, 2][int(hop[node])])
        conv = MHGRNConv(6, 8, num_relations=2 * len(graph.schema), hops=2)
        assert conv(batch.x, batch.edge_index, batch.edge_type).shape == (len(n_id), 8)
    assert sorted(seeds) == list(range(len(graph)))


def test_without_a_limit_a_batch_has_all_edges_into_its_inner_nodes(graph: KnowledgeGraph) -> None:
    features, store = stores(graph)
    seed = torch.tensor([0])
    (batch,) = NodeLoader((features, store), NeighborSampler(store, [-1, -1]), seed, transform=store.add_relations)
    near = {0} | {a for a, _, b in edges_of(graph) if b == 0}
    expected = [edge for edge in edges_of(graph) if edge[2] in near]
    n_id = batch.n_id.tolist()
    found = sorted((n_id[a], int(r), n_id[b]) for a, b, r in zip(*batch.edge_index.tolist(), batch.edge_type, strict=True))
    assert found == expected


def test_samples_do_not_depend_on_the_number_of_workers(graph: KnowledgeGraph) -> None:
    features, store = stores(graph)

    def run(**options: int) -> list[list[int]]:
        loader = NodeLoader((features, store), NeighborSampler(store, [2, 2], seed=7), torch.arange(8), batch_size=2, **options)
        return [batch.e_id.tolist() for batch in loader]

    assert run() == run(num_workers=2)
    other = NodeLoader((features, store), NeighborSampler(store, [2, 2], seed=8), torch.arange(8), batch_size=2)
    assert run() != [batch.e_id.tolist() for batch in other]


def test_links_are_sampled_with_negative_ones(graph: KnowledgeGraph) -> None:
    features, store = stores(graph)
    row, col, _ = store.coo()
    loader = LinkLoader(
        (features, store),
        NeighborSampler(store, [2]),
        edge_label_index=(None, torch.stack([row, col])[:, :6]),
        neg_sampling="binary",
        batch_size=3,
    )
    for batch in loader:
        assert batch.edge_label_index.shape == (2, 6)
        assert batch.edge_label.tolist() == [1, 1, 1, 0, 0, 0]
        positive = batch.n_id[batch.edge_label_index[:, :3]]
        assert all((int(a), int(b)) in set(zip(row.tolist(), col.tolist(), strict=True)) for a, b in positive.T)


def test_a_repeated_seed_keeps_its_place(graph: KnowledgeGraph) -> None:
    store = KnowledgeGraphStore(graph)
    found = NeighborSampler(store, [2]).sample_from_nodes(NodeSamplerInput(None, torch.tensor([4, 4])))
    assert found.node[:2].tolist() == [4, 4]
    assert set(found.col.tolist()) == {0, 1}


def test_every_set_of_numbers_is_drawn_equally_often() -> None:
    drawn = _distinct_numbers(np.full(20_000, 5), 3, np.random.default_rng(0))
    counts = Counter(map(tuple, np.sort(drawn, axis=1).tolist()))
    assert set(counts) == set(combinations(range(5), 3))
    assert all(abs(count - 2_000) < 5 * 2_000**0.5 for count in counts.values())


def test_wrong_arguments_are_explained(graph: KnowledgeGraph) -> None:
    store = KnowledgeGraphStore(graph)
    with pytest.raises(UserError, match="by_relation=False"):
        NeighborSampler(KnowledgeGraphStore(graph, by_relation=True), [1])
    with pytest.raises(UserError, match="num_neighbors"):
        NeighborSampler(store, [])
    with pytest.raises(UserError, match="out of range"):
        NeighborSampler(store, [1]).sample_from_nodes(NodeSamplerInput(None, torch.tensor([len(graph)])))
    with pytest.raises(UserError, match="time"):
        NeighborSampler(store, [1]).sample_from_nodes(NodeSamplerInput(None, torch.tensor([0]), torch.tensor([1])))


@pytest.mark.skipif(not (WITH_PYG_LIB or WITH_TORCH_SPARSE), reason="NeighborLoader needs pyg-lib or torch-sparse")
@pytest.mark.parametrize("by_relation", [False, True])
def test_the_loader_of_pytorch_geometric_reads_the_stores(graph: KnowledgeGraph, by_relation: bool) -> None:
    nodes = ("concept", torch.arange(len(graph))) if by_relation else torch.arange(len(graph))
    loader = NeighborLoader(stores(graph, by_relation), num_neighbors=[2, 2], input_nodes=nodes, batch_size=4)
    pairs = {(a, b) for a, _, b in edges_of(graph)}
    for batch in loader:
        part = batch["concept"] if by_relation else batch
        assert torch.equal(part.x, RandomFeatures(6).rows(part.n_id))
        for edge_index in batch.edge_index_dict.values() if by_relation else [batch.edge_index]:
            assert {(int(part.n_id[a]), int(part.n_id[b])) for a, b in edge_index.T} <= pairs
