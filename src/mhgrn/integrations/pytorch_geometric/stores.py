"""A knowledge graph and its node features as ``GraphStore`` and ``FeatureStore`` of PyTorch Geometric."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout

from mhgrn.errors import UserError
from mhgrn.features import NodeFeatures
from mhgrn.kg.graph import KnowledgeGraph

CONCEPT = "concept"  # the node type, where edges have types
REVERSE = "rev_"  # begins the names of reverse relations, as in ``torch_geometric.transforms.ToUndirected``
FEATURES = "x"


class KnowledgeGraphStore(GraphStore):  # type: ignore[misc]
    """The facts of a knowledge graph as edges, in both directions, for the loaders of PyTorch Geometric.

    Every fact (h, r, t) gives the edge h → t of relation r and the edge t → h of relation r + m, m being the number of relations,
    as in :class:`mhgrn.GraphBatch`. Edges are sorted by target. The columns are made at first use: 24 bytes per edge.

    Args:
        graph: The graph. It is not changed: nothing can be put into the store or removed from it.
        by_relation: Edges of one type for each relation and its reverse, ``("concept", "AtLocation", "concept")`` and ``("concept",
            "rev_AtLocation", "concept")``, for models of ``HeteroData``. False: all edges have one type, and ``edge_type`` their
            relations.

    >>> graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("desk", "AtLocation", "school")])
    >>> store = KnowledgeGraphStore(graph)
    >>> source, target_ptr, _ = store.csc()  # edges into child, school and desk
    >>> source.tolist(), target_ptr.tolist(), store.edge_type.tolist()
    ([1, 0, 2, 1], [0, 1, 3, 4], [1, 0, 0, 1])
    >>> [attr.edge_type for attr in KnowledgeGraphStore(graph, by_relation=True).get_all_edge_attrs()]
    [('concept', 'AtLocation', 'concept'), ('concept', 'rev_AtLocation', 'concept')]
    """

    def __init__(self, graph: KnowledgeGraph, by_relation: bool = False) -> None:
        super().__init__()
        self.graph, self.by_relation = graph, by_relation
        names = [relation.name for relation in graph.schema.relations]
        types = [(CONCEPT, name, CONCEPT) for name in [*names, *(REVERSE + name for name in names)]]
        self._relation_of = {kind: number for number, kind in enumerate(types)}

    @cached_property
    def _columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Source, target and relation of every edge, sorted by target, then by source and relation."""
        graph = self.graph
        head = np.repeat(np.arange(len(graph)), np.diff(graph.head_ptr))
        tail, relation = np.asarray(graph.tail, dtype=np.int64), np.asarray(graph.relation, dtype=np.int64)
        source, target = np.concatenate([head, tail]), np.concatenate([tail, head])
        kind = np.concatenate([relation, relation + len(graph.schema)])
        order = np.lexsort((kind, source, target))
        return torch.from_numpy(source[order]), torch.from_numpy(target[order]), torch.from_numpy(kind[order])

    @property
    def edge_type(self) -> Tensor:
        """[E] the relation of each edge, from 0 to 2m - 1; reverse relations are the second half."""
        return self._columns[2]

    @cached_property
    def target_ptr(self) -> Tensor:
        """The edges into concept c are those from ``target_ptr[c]`` to ``target_ptr[c + 1]``."""
        return _pointer(self._columns[1], len(self.graph))

    def add_relations(self, data: Any) -> Any:
        """Set ``edge_type`` of a batch of a loader: ``NodeLoader(..., transform=store.add_relations)``.

        PyTorch Geometric gives batches of stores the numbers of their edges (``e_id``), but no attributes of edges.
        """
        data.edge_type = self.edge_type[data.e_id]
        return data

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """The types of edges."""
        size = len(self.graph), len(self.graph)
        kinds: list[Any] = list(self._relation_of) if self.by_relation else [None]
        return [EdgeAttr(kind, EdgeLayout.CSC, True, size) for kind in kinds]

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[Tensor, Tensor] | None:
        source, target, kind = self._columns
        if self.by_relation:
            relation = self._relation_of.get(edge_attr.edge_type)
            if relation is None:
                return None
            mine = kind == relation
            source, target = source[mine], target[mine]
        elif edge_attr.edge_type is not None:
            return None
        if edge_attr.layout == EdgeLayout.COO:
            return source, target
        if edge_attr.layout == EdgeLayout.CSC:
            return source, _pointer(target, len(self.graph))
        order = torch.argsort(source, stable=True)
        return _pointer(source[order], len(self.graph)), target[order]

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        return False  # the graph does not change

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.graph!r}, by_relation={self.by_relation})"


def _pointer(ascending: Tensor, count: int) -> Tensor:
    """[count + 1] where the entries of each number begin."""
    return torch.searchsorted(ascending, torch.arange(count + 1))


class NodeFeatureStore(FeatureStore):  # type: ignore[misc]
    """The features of the concepts of a graph as ``x``, for the loaders of PyTorch Geometric.

    A batch reads the features of its concepts only; they are computed at first use, as in training. Other tensors with a row for
    each concept, such as labels, can be put into the store: ``store.put_tensor(labels, None, "y", None)``.

    Args:
        features: The features: ``qa.run.features`` of a loaded run, or those of :func:`mhgrn.features.open_features`.
        graph: The graph.
        by_relation: As in :class:`KnowledgeGraphStore`; the concepts have then the node type ``concept``.

    >>> from mhgrn.features import RandomFeatures
    >>> graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school")])
    >>> store = NodeFeatureStore(RandomFeatures(dim=8), graph)
    >>> store.get_tensor(None, "x", index=torch.tensor([1])).shape
    torch.Size([1, 8])
    """

    def __init__(self, features: NodeFeatures, graph: KnowledgeGraph, by_relation: bool = False) -> None:
        super().__init__()
        self.__dict__.update(features=features, graph=graph, _group=CONCEPT if by_relation else None, _more={})

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """The tensors of the store."""
        return [TensorAttr(self._group, name) for name in (FEATURES, *self._more)]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if attr.group_name != self._group:
            return None
        if attr.attr_name == FEATURES:
            return len(self.graph), self.features.dim
        return tuple(self._more[attr.attr_name].shape) if attr.attr_name in self._more else None

    def _get_tensor(self, attr: TensorAttr) -> Tensor | None:
        if attr.group_name != self._group:
            return None
        concepts = _numbers(attr.index, len(self.graph))
        if attr.attr_name == FEATURES:
            found: Tensor = self.features.rows(concepts)
            return found
        return self._more[attr.attr_name][concepts] if attr.attr_name in self._more else None

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        tensor = torch.as_tensor(tensor)
        if attr.attr_name == FEATURES or attr.group_name != self._group or attr.index is not None:
            return False
        if not tensor.dim() or len(tensor) != len(self.graph):
            raise UserError(
                f"{attr.attr_name} has shape {list(tensor.shape)}; give a row for each of {len(self.graph):,} concepts."
            )
        self._more[attr.attr_name] = tensor
        return True

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        return self._more.pop(attr.attr_name, None) is not None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(concepts={len(self.graph)}, dim={self.features.dim})"


def _numbers(index: Any, count: int) -> Tensor:
    """The concepts of an index: None for all, a slice, a number, or numbers; checked."""
    if index is None or isinstance(index, slice):
        return torch.arange(count)[index or slice(None)]
    numbers = torch.as_tensor(index).view(-1)
    if numbers.dtype == torch.bool:
        numbers = numbers.nonzero()[:, 0]
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
        raise UserError(f"concepts from {int(numbers.min())} to {int(numbers.max())} were asked for; there are {count:,}.")
    return numbers.long()
