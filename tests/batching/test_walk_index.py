"""The walk structure against naive enumeration."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.batching.walk_index import MOST_BLOCKS, blocks_of


def edges_of(batch: GraphBatch) -> list[tuple[int, int, int]]:
    return list(zip(batch.edge_index[0].tolist(), batch.edge_type.tolist(), batch.edge_index[1].tolist(), strict=True))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), graphs=st.integers(0, 4))
def test_states_exits_edges_and_turns_are_those_of_the_edge_list(seed: int, graphs: int) -> None:
    batch = oracles.random_batch(np.random.default_rng(seed), graphs, 2)
    index, edges = batch.walk_index, edges_of(batch)
    entered, left = sorted({(i, r) for _, r, i in edges}), sorted({(j, r) for j, r, _ in edges})
    assert list(zip(index.state_node(), index.state_relation, strict=True)) == entered
    assert list(zip(index.exit_node, index.exit_relation, strict=True)) == left
    expected = [(entered.index((i, r)), left.index((j, r)), j) for j, r, i in edges]
    assert list(zip(index.edge_state(), index.edge_exit, index.edge_source, strict=True)) == sorted(expected, key=lambda e: e[0])
    assert [expected[e] for e in batch.edge_order] == sorted(expected, key=lambda e: e[0])
    turn_state, turn_exit = index.turns()
    turns = [(x, s) for x, (i, _) in enumerate(left) for s, (j, _) in enumerate(entered) if i == j]
    assert list(zip(turn_exit, turn_state, strict=True)) == turns
    for node in range(batch.num_nodes):
        mine = [place for place, (x, _) in enumerate(turns) if left[x][0] == node]
        assert list(range(index.turn_ptr[node], index.turn_ptr[node + 1])) == mine


@given(seed=st.integers(0, 10**6), graphs=st.integers(0, 4))
def test_it_does_not_matter_where_the_edges_come_from(seed: int, graphs: int) -> None:
    """From subgraphs, from a list of edges, and from a list in which the graphs' edges are mixed."""
    batch = oracles.random_batch(np.random.default_rng(seed), graphs, 2)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(batch.edge_type)))
    mixed = replace(batch, edge_index=batch.edge_index[:, order], edge_type=batch.edge_type[order])
    assert all(map(np.array_equal, batch.walk_index, replace(batch).walk_index))
    expected, found = batch.walk_index, mixed.walk_index
    for name in set(expected._fields) - {"edge_exit", "edge_source"}:
        assert np.array_equal(getattr(expected, name), getattr(found, name)), name
    # edges into the same state keep the order they have in the list
    rows = [sorted(zip(index.edge_state(), index.edge_exit, index.edge_source, strict=True)) for index in (expected, found)]
    assert rows[0] == rows[1]


@given(seed=st.integers(0, 10**6), hops=st.integers(1, 4))
def test_depths_are_distances_counted_backwards(seed: int, hops: int) -> None:
    rng = np.random.default_rng(seed)
    batch = oracles.random_batch(rng, 2, 2, max_nodes=6)
    nodes = np.flatnonzero(rng.random(batch.num_nodes) < 0.4)
    distance = batch.distances(torch.from_numpy(nodes), hops).numpy()
    depth, exit_depth = batch.walk_index.depths(nodes, hops)
    assert depth.tolist() == np.maximum(hops - distance, 0).tolist()
    for x, (node, relation) in enumerate(zip(batch.walk_index.exit_node, batch.walk_index.exit_relation, strict=True)):
        assert exit_depth[x] == max(depth[i] for j, r, i in edges_of(batch) if (j, r) == (node, relation))


@given(sizes=st.lists(st.integers(0, 50), max_size=100))
def test_blocks_hold_all_graphs(sizes: list[int]) -> None:
    blocks = blocks_of(np.cumsum([0, *sizes]))
    assert blocks[0] == 0
    assert blocks[-1] == len(sizes)
    assert (np.diff(blocks) > 0).all()
    assert len(blocks) <= MOST_BLOCKS + 1
