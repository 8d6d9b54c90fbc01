"""Statements sorted for walking: batches are those that collating makes, whatever becomes of the folder they are kept in."""

import errno
import json
import os
import shutil
from collections import Counter, namedtuple
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.batching import walk_store
from mhgrn.batching.graph_batch import GraphBatch, Reach, WalkedBatch
from mhgrn.batching.walk_index import WalkIndex
from mhgrn.batching.walk_store import MARKER, Walks, WalkStore
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.errors import UserError
from mhgrn.io.arrays import ArrayWriter
from mhgrn.io.atomic import partial_suffix
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import COLUMNS, PreparedData

RELATIONS = 3
REACHES = [
    Reach((ANSWER,), 1),
    Reach((ANSWER,), 2, or_first=True),
    Reach((QUESTION,), 3),
    Reach((QUESTION, ANSWER), 4, or_first=True),
]
Usage = namedtuple("Usage", "total used free")


def random_subgraph(rng: np.random.Generator, relations: int = RELATIONS) -> Subgraph:
    """None, one or several nodes; some without facts, some out of reach; now and then without an answer."""
    nodes = int(rng.choice([0, 1, 2, 5, 9, 14]))
    facts = int(rng.integers(0, 2 * nodes + 1)) if nodes else 0
    types = np.sort(rng.choice([0, 1, 2] if rng.random() < 0.7 else [0, 2], nodes))
    concepts = rng.permutation(40)[:nodes]
    head, relation, tail = (
        rng.integers(0, max(nodes, 1), facts),
        rng.integers(0, relations, facts),
        rng.integers(0, max(nodes, 1), facts),
    )
    return Subgraph(concepts, types, head, relation, tail)


def data_of(subgraphs: Sequence[Subgraph], folder: Path, relations: int = RELATIONS) -> PreparedData:
    """A prepared data set of these, of which only the subgraphs are ever asked for."""
    folder.mkdir(exist_ok=True)
    columns = {
        name: np.concatenate([np.zeros(0, dtype), *(getattr(s, name) for s in subgraphs)]).astype(dtype)
        for name, dtype in COLUMNS.items()
    }
    for column in columns.values():
        column.flags.writeable = False
    node_ptr, edge_ptr = (np.cumsum([0, *(len(getattr(s, name)) for s in subgraphs)]) for name in ("concepts", "head"))
    about = {"relations": relations, "fingerprint": f"{len(subgraphs)} graphs"}
    used = np.unique(columns["concepts"]).astype(np.int64)
    cut = np.zeros(len(subgraphs), np.int64)
    return PreparedData(folder, about, [], {}, np.arange(2), node_ptr, edge_ptr, cut, columns, used)


def random_data(seed: int, graphs: int, folder: Path, relations: int = RELATIONS) -> PreparedData:
    rng = np.random.default_rng(seed)
    return data_of([random_subgraph(rng, relations) for _ in range(graphs)], folder, relations)


def collated(data: PreparedData, statements: Sequence[int], reach: Reach) -> GraphBatch:
    return GraphBatch.collate([data.subgraph(s) for s in statements], data.about["relations"], reach)


def as_graph(batch: GraphBatch) -> tuple[Any, ...]:
    """What does not depend on the order of nodes and edges; within a graph a concept names a node."""
    node = list(zip(batch.batch.tolist(), batch.concepts.tolist(), strict=True))
    source, target = batch.edge_index.tolist()
    edges = Counter((node[j], r, node[i]) for j, r, i in zip(source, batch.edge_type.tolist(), target, strict=True))
    kinds = dict(zip(node, batch.node_type.tolist(), strict=True))
    return kinds, edges, batch.num_graphs, batch.num_relations


def assert_sound(index: WalkIndex, batch: GraphBatch) -> None:
    """The index that came with a batch is one of the batch's edges, in the order of their states."""
    fresh = replace(batch).walk_index  # made from the edge list
    for name in ("graph_ptr", "state_ptr", "state_relation", "exit_ptr", "exit_node", "edge_ptr", "turn_ptr", "block_ptr"):
        assert np.array_equal(getattr(index, name), getattr(fresh, name)), name
    for i in range(batch.num_nodes):
        exits = slice(index.exit_ptr[i], index.exit_ptr[i + 1])
        assert sorted(index.exit_relation[exits]) == fresh.exit_relation[exits].tolist()
    assert np.array_equal(index.exit_node[index.edge_exit], index.edge_source)
    assert np.array_equal(index.exit_relation[index.edge_exit], batch.edge_type.numpy())
    assert sorted(zip(*(side.tolist() for side in index.edge_list()), strict=True)) == sorted(
        zip(*(side.tolist() for side in fresh.edge_list()), strict=True)
    )


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), graphs=st.integers(0, 6), reach=st.sampled_from(REACHES), steps=st.integers(1, 4))
def test_a_batch_is_the_graph_that_collating_makes(
    seed: int, graphs: int, reach: Reach, steps: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = random_data(seed, graphs, tmp_path_factory.getbasetemp() / "any")
    some = np.random.default_rng(seed).permutation(graphs)[: max(0, graphs - 1)]  # in any order, not all
    for statements in (np.arange(graphs), some):
        expected = collated(data, statements.tolist(), replace(reach, steps=steps))
        batch, concepts = WalkStore.sort(data, np.arange(graphs), reach).batch(statements, steps)
        assert as_graph(batch) == as_graph(expected)
        assert batch.batch.tolist() == sorted(batch.batch.tolist())
        assert_sound(batch.walk_index, batch)
        assert batch.feature_row is not None
        assert torch.equal(concepts, batch.concepts.unique())
        assert torch.equal(concepts[batch.feature_row], batch.concepts)
        wanted = torch.from_numpy(reach.wanted(batch.node_type.numpy(), batch.walk_index.graph_ptr))
        distance = batch.distances(wanted.nonzero()[:, 0], steps)
        assert torch.equal(distance, replace(batch).distances(wanted.nonzero()[:, 0], steps))
        keys = list(zip(batch.batch.tolist(), distance.tolist(), strict=True))
        assert keys == sorted(keys)  # nearest first


def test_more_relations_than_a_byte_counts(tmp_path: Path) -> None:
    data = random_data(1, 8, tmp_path / "data", relations=300)
    assert int(data.columns["relation"].max()) > 256
    store, reach = WalkStore.sort(data, np.arange(8), REACHES[2]), REACHES[2]
    batch, _ = store.batch(np.arange(8), 3)
    assert as_graph(batch) == as_graph(collated(data, range(8), reach))
    assert_sound(batch.walk_index, batch)


def test_a_chain_longer_than_the_longest_walk(tmp_path: Path) -> None:
    nodes = np.arange(300)
    chain = Subgraph(nodes, np.array([ANSWER] + [2] * 299), nodes[:-1], np.zeros(299, np.int64), nodes[1:])
    data = data_of([chain], tmp_path / "data")
    store = WalkStore.sort(data, np.arange(1), REACHES[0])
    for steps in (1, 100, walk_store.MOST_STEPS):
        batch, _ = store.batch(np.arange(1), steps)
        assert as_graph(batch) == as_graph(collated(data, [0], Reach((ANSWER,), steps)))
        assert batch.num_nodes == steps + 1


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("or_first", [False, True])
@pytest.mark.parametrize("relation_weights", ["diagonal", "full"])
def test_a_model_cannot_tell_the_batches_apart(layers: int, or_first: bool, relation_weights: Any, tmp_path: Path) -> None:
    data = random_data(7, 12, tmp_path / "data")
    config = MHGRNSettings(
        hops=2, layers=layers, hidden_dim=6, relation_weights=relation_weights, pool_first_node_if_no_answer=or_first, dropout=0.0
    )
    torch.manual_seed(0)
    model = MHGRN(Dims(5, 4, 2 * RELATIONS), config).double()
    assert model.reach is not None
    s, vectors = torch.randn(12, 5).double(), torch.randn(40, 4).double()
    batch, concepts = WalkStore.sort(data, np.arange(12), model.reach).batch(np.arange(12), model.reach.steps)
    plain = MHGRN(Dims(5, 4, 2 * RELATIONS), config, "plain").double()
    plain.load_state_dict(model.state_dict())
    expected = collated(data, range(12), model.reach)
    found = []
    for module, of, features in (
        (model, expected, vectors[expected.concepts]),
        (model, batch, vectors[concepts]),
        (plain, batch, vectors[concepts]),
    ):
        module.zero_grad()
        g = module(s, features, of).g
        (g * torch.arange(g.shape[1])).sum().backward()
        found.append([g, *(p.grad for p in module.parameters())])
        assert ("edge_index" in vars(of)) == (of is expected or module is plain)  # the list of edges was made for those who ask
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-9, atol=1e-9)


def test_a_batch_can_be_changed_and_moved(tmp_path: Path) -> None:
    data = random_data(3, 9, tmp_path / "data")
    batch, _ = WalkStore.sort(data, np.arange(9), REACHES[3]).batch(np.arange(9), 2)
    assert isinstance(batch, WalkedBatch)
    kept = batch.edge_type % 2 == 0
    fewer = replace(batch, edge_index=batch.edge_index[:, kept], edge_type=batch.edge_type[kept])
    assert len(fewer.walk_index.edge_exit) == int(kept.sum()) < len(kept)
    again, _ = WalkStore.sort(data, np.arange(9), REACHES[3]).batch(np.arange(9), 2)
    moved = again.to("meta")
    assert {t.device.type for t in vars(moved).values() if isinstance(t, torch.Tensor)} == {"meta"}
    assert moved.edge_index.shape == batch.edge_index.shape


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def data(tmp_path: Path) -> PreparedData:
    return random_data(11, 300, tmp_path / "data")  # several parts


def kept(data: PreparedData, reach: Reach = REACHES[1]) -> Path:
    """The folder of the store beside the data, after making sure that there is one."""
    store = WalkStore.beside(data, reach)
    assert store is not None
    return Path(store.place)


def test_the_store_is_made_once_for_every_number_of_hops(data: PreparedData, capsys: pytest.CaptureFixture[str]) -> None:
    folder = kept(data)
    assert folder.parent == data.folder / "cache"
    assert f"sorting 300 statements for walking, once; they are kept in {folder}" in capsys.readouterr().err
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert kept(data, replace(REACHES[1], steps=4)) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert capsys.readouterr().err == ""
    assert kept(data, REACHES[0]) != folder  # other nodes matter
    assert kept(replace(data, about=data.about | {"fingerprint": "another"})) != folder


def test_neither_bytes_nor_batches_depend_on_threads_or_on_the_store(data: PreparedData) -> None:
    folder = kept(data)
    one = contents(folder)
    shutil.rmtree(folder)
    torch.set_num_threads(3)
    try:
        assert contents(kept(data)) == one
        store = WalkStore.beside(data, REACHES[1])
        statements = np.random.default_rng(0).permutation(300)[:50]
        batches = [Walks(data, REACHES[1], s).batch(statements)[0] for s in (store, None)]
    finally:
        torch.set_num_threads(1)
    batches.append(Walks(data, REACHES[1], store).batch(statements)[0])
    for batch in batches[1:]:
        for name, array in vars(batches[0].walk_index).items():
            if isinstance(array, np.ndarray):
                assert np.array_equal(array, getattr(batch.walk_index, name)), name
        for name in ("concepts", "node_type", "batch", "feature_row"):
            assert torch.equal(getattr(batch, name), getattr(batches[0], name))


def stop_after(writes: int, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    append, left = ArrayWriter.append, [writes]

    def fail(writer: ArrayWriter, values: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise error
        append(writer, values)

    monkeypatch.setattr(ArrayWriter, "append", fail)


def test_an_interrupted_build_leaves_nothing_and_is_done_again(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stop_after(30, KeyboardInterrupt(), patch)
        with pytest.raises(KeyboardInterrupt):
            WalkStore.beside(data, REACHES[1])
    assert list((data.folder / "cache").iterdir()) == []
    folder = kept(data)
    whole = contents(folder)
    # a killed process could not clear away what it had written
    left = folder.with_name(f".{folder.name}.partial-{partial_suffix(2**22 + 1)}")
    folder.rename(left)
    (left / MARKER).unlink()
    assert contents(kept(data)) == whole
    assert not left.exists()


def test_without_room_on_the_disk_questions_are_sorted_as_they_come(
    data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(walk_store, "LEAST_FACTS", 0)
    expected = Walks(data, REACHES[1], WalkStore.sort(data, np.arange(300), REACHES[1])).batch(np.arange(40))[0]
    for says in ("No space left on device", "0.0 GB are free"):
        with monkeypatch.context() as patch:
            stop_after(30, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), patch)
            if "free" in says:
                patch.setattr(shutil, "disk_usage", lambda place: Usage(100, 90, 10))
            walks = Walks.of(data, REACHES[1])
        assert walks is not None
        assert walks.store is None
        message = capsys.readouterr().err
        assert says in message
        assert "sorted anew whenever they are read" in message
        assert list((data.folder / "cache").iterdir()) == []
        assert as_graph(walks.batch(np.arange(40))[0]) == as_graph(expected)


def test_small_data_and_walks_without_end_are_collated_as_ever(data: PreparedData, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Walks.of(data, REACHES[1]) is None
    monkeypatch.setattr(walk_store, "LEAST_FACTS", 0)
    assert Walks.of(data, replace(REACHES[1], steps=walk_store.MOST_STEPS + 1)) is None
    assert not (data.folder / "cache").exists()
    assert Walks.of(data, REACHES[1]) is not None


def cut_short(folder: Path) -> None:
    os.truncate(folder / "source.npy", (folder / "source.npy").stat().st_size - 10)


def lose_a_file(folder: Path) -> None:
    (folder / "edge_ptr.npy").unlink()


def scribble_on_the_marker(folder: Path) -> None:
    (folder / MARKER).write_text("{", encoding="utf-8")


def be_of_other_data(folder: Path) -> None:
    about = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    (folder / MARKER).write_text(json.dumps(about | {"key": "another"}), encoding="utf-8")


def be_of_another_version(folder: Path) -> None:
    about = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    (folder / MARKER).write_text(json.dumps(about | {"format": 99}), encoding="utf-8")


@pytest.mark.parametrize("damage", [cut_short, lose_a_file, scribble_on_the_marker, be_of_other_data, be_of_another_version])
def test_a_store_that_is_not_whole_is_made_again(
    damage: Callable[[Path], None], data: PreparedData, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = kept(data)
    whole = contents(folder)
    damage(folder)
    capsys.readouterr()
    assert contents(kept(data)) == whole
    said = capsys.readouterr().err
    assert str(folder) in said
    assert "It is made again." in said


@pytest.mark.parametrize("name", [*walk_store.columns(2 * RELATIONS)])
def test_numbers_out_of_range_are_noticed_before_they_do_harm(name: str, data: PreparedData) -> None:
    folder = kept(data)
    stored = np.load(folder / f"{name}.npy")
    refused = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        wrong = stored.copy()
        places = rng.integers(0, len(wrong), 1 + seed)
        wrong[places] = rng.integers(np.iinfo(wrong.dtype).min, np.iinfo(wrong.dtype).max, len(places), endpoint=True)
        np.save(folder / f"{name}.npy", wrong)
        store = WalkStore.beside(data, REACHES[1])
        assert store is not None
        try:
            batch, concepts = store.batch(np.arange(300), 3)
        except UserError as error:
            refused.add(str(error))
            continue
        index = batch.walk_index
        assert int(batch.node_type.max()) <= 2
        assert set(concepts.tolist()) <= set(data.used.tolist())
        assert 0 <= index.edge_source.min() <= index.edge_source.max() < batch.num_nodes
        assert 0 <= index.edge_exit.min() <= index.edge_exit.max() < len(index.exit_node)
        assert max(index.state_relation.max(), index.exit_relation.max()) < 2 * RELATIONS
    assert refused == {f"{folder} is damaged; delete it, and it is made again."}


def test_what_is_not_ours_is_left_alone(data: PreparedData) -> None:
    folder = kept(data)
    (folder / MARKER).unlink()
    with pytest.raises(UserError, match="contains other files"):
        WalkStore.beside(data, REACHES[1])
    assert (folder / "source.npy").is_file()
