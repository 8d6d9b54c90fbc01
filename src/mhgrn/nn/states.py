"""The walk structure of a batch as torch tensors, for operations that run on any device."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.nn.segments import SparsePattern


@dataclass(frozen=True)
class States:
    """A :class:`~mhgrn.batching.walk_index.WalkIndex` on the batch's device. ``batch.derived(States.of)`` keeps it."""

    num_nodes: int
    node: Tensor  # [states]
    relation: Tensor  # [states]
    exit_node: Tensor  # [exits]
    exit_relation: Tensor  # [exits]
    edge_source: Tensor  # [edges] node
    edge_exit: Tensor  # [edges]
    edge_state: Tensor  # [edges] ascending
    turn_state: Tensor  # [turns]
    turn_exit: Tensor  # [turns] ascending

    @classmethod
    def of(cls, batch: GraphBatch) -> Self:
        index, device = batch.walk_index, batch.concepts.device

        def tensor(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).long().to(device)

        turn_state, turn_exit = index.turns()
        return cls(
            num_nodes=batch.num_nodes,
            node=tensor(index.state_node()),
            relation=tensor(index.state_relation),
            exit_node=tensor(index.exit_node),
            exit_relation=tensor(index.exit_relation),
            edge_source=tensor(index.edge_source),
            edge_exit=tensor(index.edge_exit),
            edge_state=tensor(index.edge_state()),
            turn_state=tensor(turn_state),
            turn_exit=tensor(turn_exit),
        )

    @cached_property
    def edges(self) -> SparsePattern:
        """exit → state, one entry per edge"""
        return SparsePattern.of(self.edge_exit, self.edge_state, len(self.exit_node), len(self.node))

    @cached_property
    def first_edges(self) -> SparsePattern:
        """node → state, one entry per edge"""
        return SparsePattern.of(self.edge_source, self.edge_state, self.num_nodes, len(self.node))

    @cached_property
    def turns(self) -> SparsePattern:
        """state → exit of the same node"""
        return SparsePattern.of(self.turn_state, self.turn_exit, len(self.node), len(self.exit_node))

    @cached_property
    def ends(self) -> SparsePattern:
        """state → its node"""
        return SparsePattern.of(torch.arange(len(self.node), device=self.node.device), self.node, len(self.node), self.num_nodes)
