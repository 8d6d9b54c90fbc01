"""Multi-hop messages over sparse states in torch operations, for any device and data type."""

import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.nn.segments import segment_softmax, weighted_sum
from mhgrn.nn.states import States
from mhgrn.nn.walk_weights import WalkWeights


def messages(
    x: Tensor,
    weights: WalkWeights,
    W: Tensor,
    batch: GraphBatch,
    needed: Tensor,
    edge_log_weight: Tensor | None = None,
    passing: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute messages [K, n, d] and log d [K, n] of the needed nodes, before padding."""
    states = batch.derived(States.of)
    start, relation, turn = weights
    delta = relation[batch.batch[states.node], states.relation]  # [states]
    turns = states.relation[states.turn_state], states.exit_relation[states.turn_exit]
    tau = turn[turns] if turn.dim() == 2 else turn[batch.batch[states.exit_node[states.turn_exit]], *turns]  # [turns]
    if passing is not None:
        tau = tau + passing[states.exit_node[states.turn_exit]]
    zs, log_ds = [], []
    mean = log_d = x  # of the states; set by the first hop
    for hop in range(len(W)):
        if hop == 0:
            edges, incoming, log_incoming = states.first_edges, x, start
        else:
            share, log_incoming = segment_softmax(log_d[states.turn_state] + tau, states.turn_exit, len(states.exit_node))
            edges, incoming = states.edges, weighted_sum(share.to(x.dtype), mean, states.turns)
        log_edge = log_incoming[edges.source]  # [E]
        if edge_log_weight is not None:
            log_edge = log_edge + edge_log_weight[torch.from_numpy(batch.edge_order).to(x.device)]
        share, log_sum = segment_softmax(log_edge, states.edge_state, len(states.node))
        mean = _transform(W[hop], states.relation, weighted_sum(share.to(x.dtype), incoming, edges))  # [states, d]
        log_d = delta + log_sum  # [states]
        share, log_total = segment_softmax(log_d, states.node, len(x))
        z = weighted_sum(share.to(x.dtype), mean, states.ends)  # [N, d]
        zs.append(z[needed])
        log_ds.append(log_total[needed])
    return torch.stack(zs), torch.stack(log_ds)


def _transform(W: Tensor, relation: Tensor, message: Tensor) -> Tensor:
    """Apply W_r to the message of each state."""
    if W.dim() == 2:
        return message * W[relation]
    order = torch.argsort(relation, stable=True)
    sizes = torch.bincount(relation, minlength=len(W)).tolist()
    parts = [part @ W_r.T for part, W_r in zip(torch.split(message[order], sizes), W, strict=True)]
    return torch.cat(parts)[torch.argsort(order)]
