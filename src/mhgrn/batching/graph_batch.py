"""Subgraphs of a batch as one disjoint graph of tensors."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar, cast

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from mhgrn.batching import collating
from mhgrn.batching.collating import Facts
from mhgrn.batching.walk_index import Edges, Longs, WalkIndex, blocks_of, check_size
from mhgrn.compiled.buffers import Buffers
from mhgrn.compiled.threads import parallel_for
from mhgrn.errors import UserError
from mhgrn.subgraphs.extract import OTHER, Subgraph

Derived = TypeVar("Derived")


@dataclass(frozen=True)
class GraphBatch:
    """The disjoint union of G graphs with N nodes and E directed edges, with the names of PyTorch Geometric.

    An edge (j, r, i) carries a message from node j to node i. In a batch of subgraphs every fact gives two edges: for r < m/2 the
    fact (j, r, i) is in the knowledge graph, for r >= m/2 the fact (i, r - m/2, j) is.

    Args:
        concepts: [N] concept numbers of the knowledge graph.
        node_type: [N] ``QUESTION``, ``ANSWER`` or ``OTHER`` of :mod:`mhgrn.subgraphs.extract`.
        batch: [N] the graph of each node, 0 … G - 1, ascending.
        edge_index: [2, E] source and target of each edge.
        edge_type: [E] relation of each edge.
        num_graphs: G.
        num_relations: m, reverse relations included.
        feature_row: [N] the row of node features of each node, where nodes share rows.
        relevance: [N] the relevance ρ of each node to the question, for graph encoders that use it.
        edge_weight: [E] from 0 (absent) to 1 (present), for graph encoders that weigh edges; all present by default.

    >>> import numpy as np
    >>> from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph
    >>> child, school = 7, 9  # concepts
    >>> subgraph = Subgraph(np.array([child, school]), np.array([QUESTION, ANSWER]), np.array([0]), np.array([2]), np.array([1]))
    >>> batch = GraphBatch.collate([subgraph, subgraph], schema_size=3)
    >>> batch.num_nodes, batch.batch.tolist(), batch.edge_index.tolist(), batch.edge_type.tolist()
    (4, [0, 0, 1, 1], [[0, 1, 2, 3], [1, 0, 3, 2]], [2, 5, 2, 5])
    """

    concepts: Tensor
    node_type: Tensor
    batch: Tensor
    edge_index: Tensor
    edge_type: Tensor
    num_graphs: int
    num_relations: int
    feature_row: Tensor | None = None
    relevance: Tensor | None = None
    edge_weight: Tensor | None = None

    @classmethod
    def collate(
        cls, subgraphs: Sequence[Subgraph], schema_size: int, reach: "Reach | None" = None, nearest_first: bool = False
    ) -> "GraphBatch":
        """Join subgraphs into one batch.

        Args:
            subgraphs: the graphs, in order.
            schema_size: number of relations of the knowledge graph, without reverse relations.
            reach: keep only nodes and edges that walks carry to these nodes; everything by default.
            nearest_first: order the nodes of a graph by their distance to the nodes of ``reach``.
        """
        concepts, types = (_join(subgraphs, name, np.int64) for name in ("concepts", "types"))
        head, relation, tail = (_join(subgraphs, name, np.uint32) for name in ("head", "relation", "tail"))
        node_ptr, fact_ptr = (
            np.cumsum([0, *(len(getattr(s, column)) for s in subgraphs)], dtype=np.int64) for column in ("concepts", "head")
        )
        if len(types) != len(concepts) or not len(head) == len(relation) == len(tail):
            raise UserError("the columns of a subgraph have different lengths.")
        check_size(len(concepts), 2 * len(head))
        facts = Facts(node_ptr, fact_ptr, head, relation, tail)
        parts = blocks_of(fact_ptr)
        distance = np.zeros(len(concepts), np.int32)
        steps = 1  # edges into nodes nearer than this are kept
        if reach is not None:
            steps = reach.steps
            distance[~reach.wanted(types, node_ptr)] = steps + 1
        nodes, edge_ptr = (np.zeros(len(subgraphs) + 1, np.int64) for _ in range(2))

        def measure(first: int, last: int) -> None:
            if not collating.are_valid(parts[first], parts[last], facts, schema_size):
                raise UserError(f"a subgraph has a fact whose nodes it lacks, or whose relation is not one of {schema_size:,}.")
            collating.measure(parts[first], parts[last], facts, steps, distance, nodes, edge_ptr)

        parallel_for(measure, len(parts) - 1)
        np.cumsum(nodes, out=nodes)
        np.cumsum(edge_ptr, out=edge_ptr)
        kept, batch, place = np.empty(nodes[-1], np.int64), np.empty(nodes[-1], np.int64), np.empty(len(concepts), np.int32)
        buffers = Buffers()
        edges = Edges(edge_ptr, *(buffers.empty((int(edge_ptr[-1]),), np.uint32) for _ in range(3)))

        def fill(first: int, last: int) -> None:
            a, b = parts[first], parts[last]
            collating.number(a, b, facts, steps, distance, nearest_first, nodes, place, kept, batch)
            collating.list_edges(a, b, facts, schema_size, steps, distance, place, edges)

        parallel_for(fill, len(parts) - 1)
        return _CollatedBatch.of(
            concepts=torch.from_numpy(concepts[kept]),
            node_type=torch.from_numpy(types[kept]),
            batch=torch.from_numpy(batch),
            num_graphs=len(subgraphs),
            num_relations=2 * schema_size,
            _edges=edges,
            _buffers=buffers,
        )

    @classmethod
    def from_pyg(cls, data: Any, num_relations: int) -> Self:
        """Convert a ``Data`` or ``Batch`` of PyTorch Geometric.

        Args:
            data: has ``edge_index`` and ``edge_type``. Without ``node_type``, all nodes are of type "other"; without
                ``concepts``, concepts are numbered from 0.
            num_relations: number of relations in ``edge_type``, reverse relations included.
        """
        edge_index, edge_type = (_attribute(data, name) for name in ("edge_index", "edge_type"))
        if edge_index is None or edge_type is None:
            raise UserError("the data has no edge_index or no edge_type; both are required.")
        if len(edge_type) and not 0 <= int(edge_type.min()) <= int(edge_type.max()) < num_relations:
            raise UserError(
                f"edge_type has values from {int(edge_type.min())} to {int(edge_type.max())}; with num_relations={num_relations}"
                f" they must lie between 0 and {num_relations - 1}."
            )
        nodes, device = int(data.num_nodes), edge_index.device
        batch, node_type, concepts = (_attribute(data, name) for name in ("batch", "node_type", "concepts"))
        return cls(
            concepts=torch.arange(nodes, device=device) if concepts is None else concepts,
            node_type=torch.full((nodes,), OTHER, device=device) if node_type is None else node_type,
            batch=torch.zeros(nodes, dtype=torch.long, device=device) if batch is None else batch,
            edge_index=edge_index,
            edge_type=edge_type,
            num_graphs=_num_graphs(data, batch),
            num_relations=num_relations,
        )

    def to_pyg(self, x: Tensor | None = None) -> Any:
        """Convert to a ``Batch`` of PyTorch Geometric: one ``Data`` per graph with edge_index, edge_type, node_type, concepts.

        Args:
            x: [N, d] node features to include.

        Edges are in the order of their graphs.
        """
        try:
            from torch_geometric.data import Batch, Data
        except ImportError:
            raise UserError("PyTorch Geometric is not installed: pip install 'mhgrn[pyg]'") from None
        sizes = torch.bincount(self.batch, minlength=self.num_graphs)
        first = sizes.cumsum(0) - sizes
        edge_graph = self.batch[self.edge_index[0]]
        order = torch.argsort(edge_graph, stable=True)
        local = (self.edge_index - first[edge_graph])[:, order]
        edges = torch.bincount(edge_graph, minlength=self.num_graphs).tolist()
        parts = {"node_type": self.node_type, "concepts": self.concepts} | ({} if x is None else {"x": x})
        columns = {name: torch.split(tensor, sizes.tolist()) for name, tensor in parts.items()}
        columns |= {"edge_type": torch.split(self.edge_type[order], edges), "edge_index": torch.split(local, edges, dim=1)}
        graphs = [{name: column[g] for name, column in columns.items()} for g in range(self.num_graphs)]
        return Batch.from_data_list([Data(**graph, num_nodes=len(graph["concepts"])) for graph in graphs])

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes of all graphs."""
        return len(self.concepts)

    def to(self, device: torch.device | str) -> Self:
        """Copy the tensors to a device."""
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return self._with(moved | {"_derived": {}})

    def sharing_features(self) -> tuple[Self, Tensor]:
        """Return this batch with one row of features per concept (``feature_row``), and the concepts of these rows."""
        concepts, row = torch.unique(self.concepts, return_inverse=True)
        return self._with({"feature_row": row}), concepts

    def with_relevance(self, relevance: Tensor) -> Self:
        """Return this batch with the relevance [N] of its nodes."""
        return self._with({"relevance": relevance})

    def with_edge_weight(self, weight: Tensor) -> Self:
        """Return this batch with the weights [E] of its edges, in the order of ``edge_index``."""
        return self._with({"edge_weight": weight})

    def _with(self, changed: dict[str, Any]) -> Self:
        """Return a shallow copy with other attributes. Unlike ``dataclasses.replace`` it computes no lazy ones."""
        other = copy(self)
        vars(other).update(changed)
        return other

    def distances(self, nodes: Tensor, limit: int) -> Tensor:
        """Return the number of hops from each node [N] to the nearest of ``nodes``; ``limit + 1`` where it exceeds ``limit``."""
        if "walk_index" in vars(self):
            depth, _ = self.walk_index.depths(nodes.cpu().numpy(), limit + 1)
            return limit + 1 - torch.from_numpy(depth).long().to(nodes.device)
        source, target = self.edge_index
        distance = torch.full_like(self.concepts, limit + 1)
        distance[nodes] = 0
        for hop in range(1, limit + 1):
            before = source[distance[target] == hop - 1]
            distance[before[distance[before] > hop]] = hop
        return distance

    @cached_property
    def walk_index(self) -> WalkIndex:
        """States, exits, edges and turns, in main memory; computed once per batch."""
        graph_ptr = np.searchsorted(self.batch.cpu().numpy(), np.arange(self.num_graphs + 1))
        return WalkIndex.build(graph_ptr, self._grouped_edges(), self.num_relations)

    def _grouped_edges(self) -> Edges:
        edge_index, edge_type = self.edge_index.cpu(), self.edge_type.cpu()
        self._check_edges(edge_index, edge_type)
        owner = self.batch.cpu()[edge_index[1]]
        if bool((owner[1:] < owner[:-1]).any()):
            owner, order = torch.sort(owner, stable=True)
            edge_index, edge_type = edge_index[:, order], edge_type[order]
        columns = (column.numpy().astype(np.uint32) for column in (*edge_index, edge_type))
        return Edges(np.searchsorted(owner.numpy(), np.arange(self.num_graphs + 1)), *columns)

    def _check_edges(self, edge_index: Tensor, edge_type: Tensor) -> None:
        """Refuse edges that kernels cannot index with."""
        check_size(self.num_nodes, len(edge_type))
        batch = self.batch.cpu()
        if not _are_within(batch, self.num_graphs) or bool((batch[1:] < batch[:-1]).any()):
            raise UserError(f"batch should ascend, with values from 0 to {self.num_graphs - 1}.")
        if edge_index.shape != (2, len(edge_type)) or not _are_within(edge_index, self.num_nodes):
            raise UserError(f"edge_index should be [2, {len(edge_type)}], with nodes from 0 to {self.num_nodes - 1}.")
        if not _are_within(edge_type, self.num_relations):
            raise UserError(f"edge_type should have relations from 0 to {self.num_relations - 1}.")
        if bool((batch[edge_index[0]] != batch[edge_index[1]]).any()):
            raise UserError("an edge joins nodes of two graphs of the batch.")

    @cached_property
    def edge_order(self) -> Longs:
        """[E] the place in ``edge_index`` of each edge of ``walk_index``."""
        key = self.edge_index[1].cpu().numpy() * self.num_relations + self.edge_type.cpu().numpy()
        return np.argsort(key, kind="stable")

    @cached_property
    def _derived(self) -> dict[Any, Any]:
        return {}

    def derived(self, make: Callable[["GraphBatch"], Derived]) -> Derived:
        """Return ``make(self)``, computed once per batch."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast(Derived, self._derived[make])


class _CollatedBatch(GraphBatch):
    """A batch of subgraphs. ``edge_index`` and ``edge_type`` are made at first use: the walk index needs neither."""

    _edges: Edges
    _buffers: Buffers  # the memory of the edges

    @classmethod
    def of(cls, **attributes: Any) -> Self:
        batch = cls.__new__(cls)
        vars(batch).update(feature_row=None, relevance=None, edge_weight=None, **attributes)
        return batch

    @cached_property
    def edge_index(self) -> Tensor:  # type: ignore[override]
        ends = np.empty((2, len(self._edges.source)), np.int64)
        ends[0], ends[1] = self._edges.source, self._edges.target
        return torch.from_numpy(ends).to(self.concepts.device)

    @cached_property
    def edge_type(self) -> Tensor:  # type: ignore[override]
        return torch.from_numpy(self._edges.relation.astype(np.int64)).to(self.concepts.device)

    def _grouped_edges(self) -> Edges:
        # dataclasses.replace makes a batch with a list of edges of its own
        return self._edges if "_edges" in vars(self) else super()._grouped_edges()


def _are_within(values: Tensor, count: int) -> bool:
    """Whether all values are from 0 to ``count`` - 1."""
    return not values.numel() or (bool(values.min() >= 0) and bool(values.max() < count))


def _num_graphs(data: Any, batch: Tensor | None) -> int:
    """Return ``num_graphs`` of a ``Batch``; a ``Data`` with a batch vector has no such number."""
    if batch is None:
        return 1
    return int(getattr(data, "num_graphs", 0) or (int(batch.max()) + 1 if len(batch) else 0))


def _attribute(data: Any, name: str) -> Tensor | None:
    found: Tensor | None = getattr(data, name, None)
    return found


@dataclass(frozen=True)
class Reach:
    """The part of a graph that an encoder reads: nodes of some types, and all that walks of ``steps`` hops carry to them."""

    types: tuple[int, ...]
    steps: int
    or_first: bool = False  # a graph without a node of these types is represented by its first node

    def wanted(self, types: NDArray[Any], node_ptr: Longs) -> NDArray[np.bool_]:
        """Return whether each node [N] is one of those to be reached."""
        wanted = np.isin(types, self.types)
        if self.or_first:
            some = (
                np.add.reduceat(np.append(wanted, False), node_ptr[:-1]) > 0 if len(wanted) else np.zeros(len(node_ptr) - 1, bool)
            )
            wanted[node_ptr[:-1][~some & (np.diff(node_ptr) > 0)]] = True
        return wanted


def _join(subgraphs: Sequence[Subgraph], name: str, dtype: DTypeLike) -> NDArray[Any]:
    parts = [getattr(subgraph, name) for subgraph in subgraphs]
    return np.concatenate(parts, dtype=dtype, casting="unsafe") if parts else np.zeros(0, dtype)
