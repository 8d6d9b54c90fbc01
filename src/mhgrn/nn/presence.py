"""How present the walks into a node are while weights of edges fall to 0, so that a model is continuous in them."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.nn.backends import presence_kernels
from mhgrn.nn.states import States


def walk_presence(weight: Tensor, starts: Tensor, batch: GraphBatch, hops: int) -> Tensor:
    """[K, N] the largest product of edge weights over the walks of 1 … K hops into each node; 0 where there is none.

    A message is a mean over walks, which stays the same if the weights of all edges shrink together, and is 0 if there is no walk.
    Times the presence, it falls to 0 continuously. With weights 0 and 1 the presence is 0 or 1, and changes nothing. Where several
    walks have the largest product, they share the derivative.

    Args:
        weight: [E] weights from 0 to 1, in the order of ``batch.edge_index``.
        starts: [N] whether a walk may start at a node.
        batch: the graphs.
        hops: K.
    """
    if weight.device.type == "cpu" and weight.dtype == torch.float64 and bool((weight == 1).all()):
        ordered = weight[torch.from_numpy(batch.edge_order)]
        found: Tensor = _FullPresence.apply(ordered, starts, batch, hops)  # type: ignore[no-untyped-call]
        return found
    return _presence(weight, starts, batch, hops)


def _presence(weight: Tensor, starts: Tensor, batch: GraphBatch, hops: int) -> Tensor:
    """The presence for any weights."""
    states = batch.derived(States.of)
    weight = weight[torch.from_numpy(batch.edge_order).to(weight.device)]
    sent = starts.to(weight.dtype)[states.edge_source]  # [E]
    found = []
    for _ in range(hops):
        arrived = _largest(sent * weight, states.edge_state, len(states.node))
        found.append(_largest(arrived, states.node, batch.num_nodes))
        sent = _largest(arrived[states.turn_state], states.turn_exit, len(states.exit_node))[states.edge_exit]
    return torch.stack(found)


def _largest(value: Tensor, index: Tensor, count: int) -> Tensor:
    return value.new_zeros(count).scatter_reduce(0, index, value, "amax")


class _FullPresence(torch.autograd.Function):
    """The presence where all edges are there, by compiled kernels."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, starts: Tensor, batch: GraphBatch, hops: int) -> Tensor:
        index = batch.walk_index
        present = np.zeros((1 + hops, batch.num_nodes), np.bool_)
        present[0] = starts.numpy()
        states, edges = np.zeros((hops, batch.num_nodes), np.int32), np.zeros((hops, len(index.state_relation)), np.int32)
        presence_kernels.forward(index, present, states, edges)
        ctx.index, ctx.found = index, (present, states, edges)
        return torch.from_numpy(present[1:].astype(np.float64))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        present, states, edges = ctx.found
        grad, total = np.zeros(present.shape), np.zeros(len(ctx.index.edge_source))
        grad[1:] = grads[0].numpy()
        presence_kernels.backward(ctx.index, present, states, edges, grad, total)
        return torch.from_numpy(total), None, None, None
