"""A prepared data set's subgraphs sorted for walking, once: a batch of them is joined by copying what its walks read.

What messages need besides parameters is the same in every epoch and for every number of hops: which nodes lie how far from those
that matter, each node's states and exits, the edges in order of the states they lead to. It is kept beside the data, small, with
local numbers; nodes stand in order of distance, so that a batch takes a prefix of each subgraph.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from mhgrn.batching import collating as kernels
from mhgrn.batching.graph_batch import Reach, WalkedBatch
from mhgrn.batching.walk_index import Longs, WalkIndex, blocks_of
from mhgrn.compiled.buffers import Buffers
from mhgrn.compiled.threads import parallel_for
from mhgrn.errors import UserError
from mhgrn.io.arrays import ArrayWriter, load_array, save_array
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import read_marker, write_json
from mhgrn.progress import bar, say
from mhgrn.subgraphs.prepared import PreparedData

MARKER = "walks.json"
FORMAT = 1
LEAST_FACTS = 1_000_000  # of a data set worth sorting: those of a smaller one are collated within a tenth of a second
MOST_STEPS = kernels.FAR - 1
PART = 64  # statements sorted at a time by a thread
CHUNK = 16  # parts sorted between two writes

Array = NDArray[Any]


def columns(num_relations: int) -> dict[str, tuple[str, DTypeLike]]:
    """What is stored: of what, and as what numbers. A node's states and exits are no more than the relations."""
    few = np.uint8 if num_relations < 256 else np.uint16
    return {
        "row": ("node", np.int32),  # of the concept among those the data uses
        "kind": ("node", np.uint8),  # question, answer or other
        "distance": ("node", np.uint8),  # ascending
        "states": ("node", few),  # how many
        "exits": ("node", few),
        "state_relation": ("state", few),  # ascending within a node
        "edges": ("state", np.uint16),  # how many lead into it
        "exit_relation": ("exit", few),
        "exit_distance": ("exit", np.uint8),  # of the nearest node it leads to; ascending within a node
        "source": ("edge", np.uint16),  # node within the subgraph
        "source_exit": ("edge", few),  # exit within the node
    }


ENTRIES = ("node", "state", "exit", "edge")


@dataclass(frozen=True)
class WalkStore:
    """Statements sorted for walking: each entry of ``pointers`` is [statements + 1], of ``arrays`` as :func:`columns` says."""

    pointers: dict[str, Longs]
    arrays: dict[str, Array]
    used: Longs  # [used] concept numbers
    num_relations: int  # m, the reverse relations included
    place: str  # where it came from

    @classmethod
    def sort(cls, data: PreparedData, statements: Longs, reach: Reach) -> Self:
        """Some of a data set's statements, in memory; they are numbered anew."""
        parts, num_relations = _sorted(data, statements, reach), 2 * data.about["relations"]
        sizes = np.concatenate([np.zeros((1, len(ENTRIES)), np.int64), *(part.sizes for part in parts)]).cumsum(0)
        pointers = {entry: np.ascontiguousarray(sizes[:, i]) for i, entry in enumerate(ENTRIES)}
        arrays = {}
        for name, (_, dtype) in columns(num_relations).items():
            arrays[name] = np.concatenate([np.zeros(0, dtype), *(part.arrays[name] for part in parts)])
            arrays[name].flags.writeable = False  # as those that are mapped: one form of the kernels serves both
        return cls(pointers, arrays, np.asarray(data.used), num_relations, str(data.folder))

    @classmethod
    def beside(cls, data: PreparedData, reach: Reach) -> Self | None:
        """Of all statements, kept beside the data: found, or made now; None, and a word about it, if there is no room for it."""
        key = fingerprint(FORMAT, data.fingerprint, reach.types, reach.or_first)
        folder = data.folder / "cache" / f"walks-{key}"
        if (folder / MARKER).is_file():
            try:
                return cls.load(folder, data, key)
            except UserError as error:
                say(f"{error} It is made again.")
        total = len(data.node_ptr) - 1
        most = _most_entries(data, np.arange(total))
        size = sum(most[entry] * np.dtype(dtype).itemsize for entry, dtype in columns(2 * data.about["relations"]).values())
        instead = "the questions are sorted anew whenever they are read, which takes longer."
        if size > (free := shutil.disk_usage(data.folder).free):
            say(f"{folder} may take {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: {instead}")
            return None
        say(f"sorting {total:,} statements for walking, once; they are kept in {folder} …")
        try:
            _write(folder, data, reach, key)
        except OSError as error:
            say(f"{folder} cannot be written ({error.strerror or error}): {instead}")
            return None
        return cls.load(folder, data, key)

    @classmethod
    def load(cls, folder: Path, data: PreparedData, key: str) -> Self:
        about = read_marker(folder, MARKER, "store of sorted statements", FORMAT, ("key",))
        if about["key"] != key:
            raise UserError(f"{folder} was made from other data.")
        num_relations = 2 * data.about["relations"]
        pointers = {entry: np.array(load_array(folder / f"{entry}_ptr.npy")) for entry in ENTRIES}
        for entry, pointer in pointers.items():
            if pointer.shape != (len(data.node_ptr),) or pointer[0] != 0 or (np.diff(pointer) < 0).any():
                raise UserError(f"{folder / entry}_ptr.npy is damaged.")
        arrays = {}
        for name, (entry, dtype) in columns(num_relations).items():
            arrays[name] = load_array(folder / f"{name}.npy")
            if arrays[name].shape != (pointers[entry][-1],) or arrays[name].dtype != dtype:
                raise UserError(f"{folder / name}.npy is damaged.")
        return cls(pointers, arrays, np.asarray(data.used), num_relations, str(folder))

    def batch(self, statements: Longs, steps: int) -> tuple[WalkedBatch, Tensor]:
        """What walks of so many hops read of some statements, nodes sharing features; and the concepts of their rows.

        It is the graph that :meth:`GraphBatch.collate` makes with a :class:`Reach` of as many steps, but for the order of nodes.
        """
        a, (node, state, exit_, edge) = self.arrays, (self.pointers[entry] for entry in ENTRIES)
        where = node, state, exit_, edge
        graphs = len(statements)
        blocks = blocks_of(np.concatenate([[0], np.cumsum(edge[statements + 1] - edge[statements])]))
        sizes = np.zeros((graphs + 1, 5), np.int64)

        def count(first: int, last: int) -> None:
            self._whole(
                kernels.count_kept(
                    blocks[first], blocks[last], statements, steps, *where,
                    a["distance"], a["states"], a["exits"], a["edges"], a["exit_distance"], sizes,
                )
            )  # fmt: skip

        parallel_for(count, len(blocks) - 1)
        np.cumsum(sizes, axis=0, out=sizes)
        nodes, states, exits, edges, _ = sizes[-1].tolist()
        node_row, types, graph = np.empty(nodes, np.int32), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
        buffers = Buffers()
        index = WalkIndex(
            graph_ptr=np.ascontiguousarray(sizes[:, 0]),
            state_ptr=buffers.empty((nodes + 1,), np.int64),
            state_relation=buffers.empty((states,), np.int32),
            exit_ptr=buffers.empty((nodes + 1,), np.int64),
            exit_relation=buffers.empty((exits,), np.int32),
            exit_node=buffers.empty((exits,), np.int32),
            edge_ptr=buffers.empty((states + 1,), np.int64),
            edge_exit=buffers.empty((edges,), np.int32),
            edge_source=buffers.empty((edges,), np.int32),
            turn_ptr=buffers.empty((nodes + 1,), np.int64),
            block_ptr=blocks_of(np.ascontiguousarray(sizes[:, 3])),
            buffers=buffers,
        )
        for pointer in (index.state_ptr, index.exit_ptr, index.edge_ptr, index.turn_ptr):
            pointer[0] = 0

        def join(first: int, last: int) -> None:
            self._whole(
                kernels.join(
                    blocks[first], blocks[last], statements, steps, self.num_relations, len(self.used), *where, *a.values(), sizes,
                    node_row, types, graph, index.state_ptr, index.state_relation, *index.exits, index.exit_node,
                    *index.edges, index.turn_ptr,
                )
            )  # fmt: skip

        parallel_for(join, len(blocks) - 1)
        feature_row, concepts = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
        distinct = np.empty(min(nodes, len(self.used)), np.int64)
        count_distinct = kernels.share_rows(node_row, self.used, feature_row, concepts, distinct)
        by_node = (torch.from_numpy(array) for array in (concepts, types, graph, feature_row))
        batch = WalkedBatch.of(index, self.num_relations, *by_node)
        return batch, torch.from_numpy(distinct[:count_distinct])

    def _whole(self, is_whole: bool) -> None:
        if not is_whole:
            raise UserError(f"{self.place} is damaged; delete it, and it is made again.")


@dataclass(frozen=True)
class _Part:
    """Some sorted statements."""

    sizes: Longs  # [statements, 4] how many nodes, states, exits and edges each has
    arrays: dict[str, Array]


def _sorted(data: PreparedData, statements: Longs, reach: Reach) -> list[_Part]:
    """Sort statements by all threads; the parts do not depend on how many these are."""
    cuts = [*range(0, len(statements), PART), len(statements)]
    parts: list[_Part] = [None] * (len(cuts) - 1)  # type: ignore[list-item]

    def task(first: int, last: int) -> None:
        for number in range(first, last):
            parts[number] = _sort_part(data, statements[cuts[number] : cuts[number + 1]], reach)

    parallel_for(task, len(parts))
    return parts


def _sort_part(data: PreparedData, statements: Longs, reach: Reach) -> _Part:
    schema_size, c = data.about["relations"], data.columns
    most = _most_entries(data, statements)
    stored = columns(2 * schema_size)
    room = {name: np.empty(most[entry], dtype) for name, (entry, dtype) in stored.items()}
    is_wanted = np.isin(np.arange(256), reach.types)
    ends = np.zeros((len(statements), len(ENTRIES)), np.int64)
    widest = kernels.sort(
        statements, data.node_ptr, data.edge_ptr, c["concepts"], c["types"], c["head"], c["relation"], c["tail"], schema_size,
        data.used, is_wanted, reach.or_first, ends, *room.values(),
    )  # fmt: skip
    if widest > np.iinfo(np.uint16).max:
        raise UserError(f"{data.folder} has facts more than once; prepare the questions again.")
    used = dict(zip(ENTRIES, ends[-1].tolist() if len(ends) else [0] * len(ENTRIES), strict=True))
    return _Part(np.diff(ends, axis=0, prepend=0), {name: room[name][: used[entry]] for name, (entry, _) in stored.items()})


def _most_entries(data: PreparedData, statements: Longs) -> dict[str, int]:
    """How many there can be: a fact gives two edges, an edge at most one state and one exit."""
    nodes, facts = (int((p[statements + 1] - p[statements]).sum()) for p in (data.node_ptr, data.edge_ptr))
    states = min(2 * facts, nodes * 2 * data.about["relations"])
    return {"node": nodes, "state": states, "exit": states, "edge": 2 * facts}


@dataclass(frozen=True)
class Walks:
    """The statements of a data set for models that read so far: from a store if there is one, else sorted batch by batch."""

    data: PreparedData
    reach: Reach
    store: WalkStore | None

    @classmethod
    def of(cls, data: PreparedData, reach: Reach) -> Self | None:
        """With the store beside the data, made now if need be. None if they are not worth it, or too far to walk."""
        if data.edge_ptr[-1] < LEAST_FACTS or reach.steps > MOST_STEPS:
            return None
        return cls(data, reach, WalkStore.beside(data, reach))

    def batch(self, statements: Longs) -> tuple[WalkedBatch, Tensor]:
        """See :meth:`WalkStore.batch`; the result does not depend on whether there is a store."""
        if self.store is not None:
            return self.store.batch(statements, self.reach.steps)
        return WalkStore.sort(self.data, statements, self.reach).batch(np.arange(len(statements)), self.reach.steps)


def _write(folder: Path, data: PreparedData, reach: Reach, key: str) -> None:
    total = len(data.node_ptr) - 1
    label = "sorting statements"
    with new_folder(folder, MARKER) as partial:
        writers = {name: ArrayWriter(partial / f"{name}.npy", t) for name, (_, t) in columns(2 * data.about["relations"]).items()}
        sizes = [np.zeros((1, len(ENTRIES)), np.int64)]
        try:
            with bar(label, total) as advance:
                for start in range(0, total, PART * CHUNK):
                    end = min(start + PART * CHUNK, total)
                    for part in _sorted(data, np.arange(start, end), reach):
                        sizes.append(part.sizes)
                        for name, array in part.arrays.items():
                            writers[name].append(array)
                    written = sum(writer.length * writer.dtype.itemsize for writer in writers.values())
                    advance(end, f"{label} ({written / 1e9:.1f} GB)")
        finally:
            for writer in writers.values():
                writer.close()
        for entry, pointer in zip(ENTRIES, np.concatenate(sizes).cumsum(0).T, strict=True):
            save_array(partial / f"{entry}_ptr.npy", np.ascontiguousarray(pointer))
        write_json(partial / MARKER, {"format": FORMAT, "key": key})
