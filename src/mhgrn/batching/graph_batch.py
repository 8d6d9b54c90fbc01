"""Subgraphs of a batch as one disjoint graph of tensors, and the states over which multi-hop messages run."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from mhgrn.batching import collating as kernels
from mhgrn.batching.walk_index import Longs, WalkIndex, blocks_of
from mhgrn.compiled.threads import parallel_for
from mhgrn.errors import UserError
from mhgrn.subgraphs.extract import OTHER, Subgraph

if TYPE_CHECKING:
    from mhgrn.nn.backends.dense import Matrices


@dataclass(frozen=True)
class GraphBatch:
    """The disjoint union of several subgraphs: N nodes, E directed edges, G graphs.

    An edge (j, r, i) carries a message from node j to node i. For r < m/2 the fact (j, r, i) is in the knowledge graph, for
    r >= m/2 the fact (i, r - m/2, j) is: every fact gives two edges.
    """

    concepts: Tensor  # [N] concept numbers of the knowledge graph
    node_type: Tensor  # [N] question, answer or other
    batch: Tensor  # [N] the graph of each node, 0 … G - 1, ascending
    edge_index: Tensor  # [2, E] source j and target i
    edge_type: Tensor  # [E]
    num_graphs: int
    num_relations: int  # m, the reverse relations included
    edge_ptr: Longs | None = None  # [G + 1] each graph's edges, if they stand together
    feature_row: Tensor | None = None  # [N] the row of features that a node has, if nodes share rows

    @classmethod
    def collate(cls, subgraphs: Sequence[Subgraph], schema_size: int, reach: "Reach | None" = None) -> Self:
        """Join subgraphs of a graph with ``schema_size`` relations (without their reverses).

        With ``reach``, only what can reach the nodes it names is taken in: nodes and edges that no walk carries there are left out.
        """
        node_ptr = np.cumsum([0, *(len(s.concepts) for s in subgraphs)], dtype=np.int64)
        fact_ptr = np.cumsum([0, *(len(s.head) for s in subgraphs)], dtype=np.int64)
        concepts, types = (_join([getattr(s, column) for s in subgraphs], np.int64) for column in ("concepts", "types"))
        head, relation, tail = (_join([getattr(s, column) for s in subgraphs], np.int32) for column in ("head", "relation", "tail"))
        blocks = blocks_of(fact_ptr)
        distance = np.zeros(len(concepts), np.int32)
        steps = 1  # an edge into a node nearer than this is kept
        if reach is not None:
            steps = reach.steps
            distance[~reach.wanted(types, node_ptr)] = steps + 1
        nodes, edges = (np.zeros(len(subgraphs) + 1, np.int64) for _ in range(2))

        def measure(first: int, last: int) -> None:
            kernels.measure(blocks[first], blocks[last], node_ptr, fact_ptr, head, tail, steps, distance, nodes, edges)

        parallel_for(measure, len(blocks) - 1)
        np.cumsum(nodes, out=nodes)
        np.cumsum(edges, out=edges)
        kept = np.empty(nodes[-1], np.int64)
        graph = np.empty(nodes[-1], np.int64)
        edge_index, edge_type = np.empty((2, edges[-1]), np.int64), np.empty(edges[-1], np.int64)

        def fill(first: int, last: int) -> None:
            kernels.fill(
                blocks[first], blocks[last], node_ptr, fact_ptr, head, relation, tail, schema_size, steps, distance, nodes, edges,
                kept, graph, edge_index, edge_type,
            )  # fmt: skip

        parallel_for(fill, len(blocks) - 1)
        return cls(
            concepts=torch.from_numpy(concepts[kept]),
            node_type=torch.from_numpy(types[kept]),
            batch=torch.from_numpy(graph),
            edge_index=torch.from_numpy(edge_index),
            edge_type=torch.from_numpy(edge_type),
            num_graphs=len(subgraphs),
            num_relations=2 * schema_size,
            edge_ptr=edges,
        )

    @classmethod
    def from_pyg(cls, data: Any, num_relations: int) -> Self:
        """From a ``Data`` or ``Batch`` of PyTorch Geometric with ``edge_index`` and ``edge_type`` (of ``num_relations`` relations,
        reverses included); ``node_type`` is "other" and ``concepts`` are running numbers where it has none."""
        edge_index, edge_type = (_attribute(data, name) for name in ("edge_index", "edge_type"))
        if edge_index is None or edge_type is None:
            raise UserError("the data has no edge_index or no edge_type; messages run over edges of several relations.")
        if len(edge_type) and not 0 <= int(edge_type.min()) <= int(edge_type.max()) < num_relations:
            raise UserError(
                f"edge_type holds {int(edge_type.min())} … {int(edge_type.max())}; of {num_relations} relations it should be"
                f" within 0 … {num_relations - 1}."
            )
        nodes, place = int(data.num_nodes), edge_index.device
        graph, types, concepts = (_attribute(data, name) for name in ("batch", "node_type", "concepts"))
        return cls(
            concepts=torch.arange(nodes, device=place) if concepts is None else concepts,
            node_type=torch.full((nodes,), OTHER, device=place) if types is None else types,
            batch=torch.zeros(nodes, dtype=torch.long, device=place) if graph is None else graph,
            edge_index=edge_index,
            edge_type=edge_type,
            num_graphs=_graph_count(data, graph),
            num_relations=num_relations,
        )

    def to_pyg(self, x: Tensor | None = None) -> Any:
        """As a ``Batch`` of PyTorch Geometric, one ``Data`` a graph: edge_index, edge_type, node_type, concepts, ``x`` if given.

        Edges come in the order of their graphs.
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

    def to(self, device: torch.device | str) -> "GraphBatch":
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: v.to(device) for name, v in columns.items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def sharing_features(self) -> tuple[Self, Tensor]:
        """This batch with one row of features for every concept, however many graphs it is in; and the concepts of these rows."""
        concepts, row = torch.unique(self.concepts, return_inverse=True)
        return replace(self, feature_row=row), concepts

    def distances(self, nodes: Tensor, limit: int) -> Tensor:
        """[N] the fewest hops from each node to one of ``nodes``; ``limit + 1`` where it takes more than ``limit``."""
        if "walk_index" in vars(self):  # at hand already
            return limit + 1 - torch.from_numpy(self.walk_index.depths(nodes.numpy(), limit + 1)[0]).long()
        source, target = self.edge_index
        distance = torch.full_like(self.concepts, limit + 1)
        distance[nodes] = 0
        for hop in range(1, limit + 1):
            before = source[distance[target] == hop - 1]
            distance[before[distance[before] > hop]] = hop
        return distance

    @cached_property
    def walk_index(self) -> WalkIndex:
        """The edges sorted for the compiled kernels; computed once a batch."""
        graph_ptr = np.searchsorted(self.batch.numpy(), np.arange(self.num_graphs + 1))
        edge_ptr, edge_index, edge_type = self.edge_ptr, self.edge_index, self.edge_type
        if edge_ptr is None:
            graph, order = torch.sort(self.batch[edge_index[1]], stable=True)
            edge_index, edge_type = edge_index[:, order], edge_type[order]
            edge_ptr = np.searchsorted(graph.numpy(), np.arange(self.num_graphs + 1))
        source, target = edge_index.numpy()
        return WalkIndex.of(graph_ptr, edge_ptr, source, target, edge_type.numpy(), self.num_relations)

    @cached_property
    def matrices(self) -> "Matrices":
        """The edges as the dense reference has them; computed once a batch."""
        from mhgrn.nn.backends.dense import Matrices

        return Matrices.of(self)

    @cached_property
    def states(self) -> "States":
        return States.of(self.edge_index, self.edge_type, self.num_nodes, self.num_relations)


class WalkedBatch(GraphBatch):
    """A batch that came sorted for walking: its edges become a list of their own only when somebody asks for it."""

    @classmethod
    def of(cls, index: WalkIndex, num_relations: int, concepts: Tensor, types: Tensor, graph: Tensor, feature_row: Tensor) -> Self:
        batch = cls.__new__(cls)
        vars(batch).update(
            walk_index=index,
            concepts=concepts,
            node_type=types,
            batch=graph,
            num_graphs=len(index.graph_ptr) - 1,
            num_relations=num_relations,
            feature_row=feature_row,
        )
        return batch

    @cached_property
    def _edges(self) -> tuple[Tensor, Tensor]:
        source, target, relation = self.walk_index.edge_list()
        return torch.from_numpy(np.stack([source, target])), torch.from_numpy(relation)

    @cached_property
    def edge_index(self) -> Tensor:  # type: ignore[override]
        return self._edges[0]

    @cached_property
    def edge_type(self) -> Tensor:  # type: ignore[override]
        return self._edges[1]


def _graph_count(data: Any, graph: Tensor | None) -> int:
    """As a ``Batch`` says; a ``Data`` with a batch vector does not."""
    if graph is None:
        return 1
    return int(getattr(data, "num_graphs", 0) or (int(graph.max()) + 1 if len(graph) else 0))


def _attribute(data: Any, name: str) -> Tensor | None:
    found: Tensor | None = getattr(data, name, None)
    return found


@dataclass(frozen=True)
class Reach:
    """What a graph encoder reads of a graph: the nodes of some types, and all that walks of so many hops carry to them."""

    types: tuple[int, ...]
    steps: int
    or_first: bool = False  # a graph without a node of these types is represented by its first

    def wanted(self, types: NDArray[Any], node_ptr: Longs) -> NDArray[np.bool_]:
        """[N] whether a node is one of those to be reached."""
        wanted = np.isin(types, self.types)
        if self.or_first:
            some = (
                np.add.reduceat(np.append(wanted, False), node_ptr[:-1]) > 0 if len(wanted) else np.zeros(len(node_ptr) - 1, bool)
            )
            wanted[node_ptr[:-1][~some & (np.diff(node_ptr) > 0)]] = True
        return wanted


def _join(parts: list[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    return np.concatenate(parts, dtype=dtype, casting="unsafe") if parts else np.zeros(0, dtype)


@dataclass(frozen=True)
class Links:
    """Links from sources to targets, sorted by target, with what their transpose needs: a sparse matrix without its values."""

    source: Tensor  # [links]
    target: Tensor  # [links] ascending
    pointer: Tensor  # [targets + 1]
    source_pointer: Tensor  # [sources + 1] into the links sorted by source
    by_source: Tensor  # [links] the links in order of their source
    order: Tensor  # [links] which of the given pairs a link is

    @classmethod
    def of(cls, source: Tensor, target: Tensor, source_count: int, target_count: int) -> Self:
        order = torch.argsort(target, stable=True)
        source, target = source[order], target[order]
        by_source = torch.argsort(source, stable=True)
        return cls(source, target, _pointer(target, target_count), _pointer(source, source_count), by_source, order)

    @property
    def target_count(self) -> int:
        return len(self.pointer) - 1


def _pointer(index: Tensor, count: int) -> Tensor:
    return torch.cat([index.new_zeros(1), torch.bincount(index, minlength=count).cumsum(0)])


@dataclass(frozen=True)
class States:
    """The pairs that can carry a message, far fewer than N·m.

    A *state* is a node and a relation by which some edge ends in it. An *exit* is a node and a relation by which some edge
    leaves it. Edges lead from exits to states; within a node every state leads to every exit (weighted by τ).
    """

    node: Tensor  # [states]
    relation: Tensor  # [states]
    exit_node: Tensor  # [exits]
    exit_relation: Tensor  # [exits]
    edges: Links  # exit → state, one for every edge
    first_edges: Links  # node → state, one for every edge
    turns: Links  # state → exit of the same node
    ends: Links  # state → its node

    @classmethod
    def of(cls, edge_index: Tensor, edge_type: Tensor, node_count: int, num_relations: int) -> Self:
        source, target = edge_index
        state_key, edge_state = torch.unique(target * num_relations + edge_type, return_inverse=True)
        exit_key, edge_exit = torch.unique(source * num_relations + edge_type, return_inverse=True)
        node, relation = state_key // num_relations, state_key % num_relations
        exit_node, exit_relation = exit_key // num_relations, exit_key % num_relations
        states, exits = len(node), len(exit_node)
        # every exit is reached from the states of its node, which are contiguous
        in_count = torch.bincount(node, minlength=node_count)
        first_state = in_count.cumsum(0) - in_count
        turns_into = in_count[exit_node]  # [exits]
        turn_exit = torch.repeat_interleave(torch.arange(exits, device=source.device), turns_into)
        start = turns_into.cumsum(0) - turns_into
        within = torch.arange(len(turn_exit), device=source.device) - start[turn_exit]
        turn_state = first_state[exit_node[turn_exit]] + within
        return cls(
            node=node,
            relation=relation,
            exit_node=exit_node,
            exit_relation=exit_relation,
            edges=Links.of(edge_exit, edge_state, exits, states),
            first_edges=Links.of(source, edge_state, node_count, states),
            turns=Links.of(turn_state, turn_exit, states, exits),
            ends=Links.of(torch.arange(states, device=source.device), node, states, node_count),
        )
