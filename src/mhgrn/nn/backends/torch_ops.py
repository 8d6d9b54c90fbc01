"""Multi-hop messages over sparse states in plain torch operations: for any device and type."""

import torch
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch, States
from mhgrn.nn.segments import segment_softmax, weighted_sum
from mhgrn.nn.walk_weights import WalkWeights


def messages(
    x: Tensor, weights: WalkWeights, W: Tensor, batch: GraphBatch, needed: Tensor, edge_log_weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """[K, n, d] and [K, n] at the needed nodes, before padding."""
    states: States = batch.states
    node_count = len(x)
    state_count = len(states.node)
    start, relation, turn = weights
    delta = relation[batch.batch[states.node], states.relation]  # [states]
    turns = states.relation[states.turns.source], states.exit_relation[states.turns.target]
    tau = turn[turns] if turn.dim() == 2 else turn[batch.batch[states.exit_node[states.turns.target]], *turns]  # [turns]
    zs, log_ds = [], []
    mean = log_d = x  # of the states; set by the first hop
    for hop in range(len(W)):
        if hop == 0:
            links, incoming, log_incoming = states.first_edges, x, start
        else:
            share, log_incoming = segment_softmax(log_d[states.turns.source] + tau, states.turns.target, len(states.exit_node))
            links, incoming = states.edges, weighted_sum(share.to(x.dtype), mean, states.turns)
        log_edge = log_incoming[links.source]  # [E]
        if edge_log_weight is not None:
            log_edge = log_edge + edge_log_weight[links.order]
        share, log_sum = segment_softmax(log_edge, links.target, state_count)
        mean = _transform(W[hop], states.relation, weighted_sum(share.to(x.dtype), incoming, links))  # [states, d]
        log_d = delta + log_sum  # [states]
        share, log_total = segment_softmax(log_d, states.node, node_count)
        z = weighted_sum(share.to(x.dtype), mean, states.ends)  # [N, d]
        zs.append(z[needed])
        log_ds.append(log_total[needed])
    return torch.stack(zs), torch.stack(log_ds)


def _transform(W: Tensor, relation: Tensor, message: Tensor) -> Tensor:
    """W_r applied to each state's message."""
    if W.dim() == 2:
        return message * W[relation]
    order = torch.argsort(relation, stable=True)
    sizes = torch.bincount(relation, minlength=len(W)).tolist()
    parts = [part @ W_r.T for part, W_r in zip(torch.split(message[order], sizes), W, strict=True)]
    return torch.cat(parts)[torch.argsort(order)]
