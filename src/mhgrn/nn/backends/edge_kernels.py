"""The adjoint of the recursion over states with the gradients of the log-weights of edges, at log-weights of 0 (all edges present).

Training does not need these gradients: they cost a product per edge and hop. See :mod:`mhgrn.nn.backends.kernels`.
"""

import numpy as np

from mhgrn.compiled.jit import kernel, sum_kernel
from mhgrn.nn.backends.adjoint_kernels import Delivered, Totals, first_hop_back, hop_back, read_back
from mhgrn.nn.backends.kernels import Hop, mix


@sum_kernel
def _add_edges(edge, first, last, p, grad_v, beta, rows, row, offset):  # type: ignore[no-untyped-def]
    """Add share · (⟨gradient of the message, message⟩ + β) to the gradients of the edges first … last into one state."""
    for e in range(first, last):
        j = row[e] - offset
        along = grad_v.dtype.type(0)
        for c in range(len(grad_v)):
            along += grad_v[c] * rows[j, c]
        edge[e] += p[e] * (along + beta)


@sum_kernel
def _first_hop(g, o, index, depth, x, hop, adjoint, edge):  # type: ignore[no-untyped-def]
    """The gradients of edges as the first of a walk. ``adjoint`` has those of the first hop's states."""
    d = x.shape[1]
    grad_v = np.empty(d, x.dtype)
    for i in range(index.graph_ptr[g], index.graph_ptr[g + 1]):
        if depth[i] < 1:
            continue
        for s in range(index.state_ptr[i], index.state_ptr[i + 1]):
            r = index.state_relation[s]
            for c in range(d):
                grad_v[c] = hop.scale[r, c] * adjoint.grad[s - o, c]
            first, last = index.edge_ptr[s], index.edge_ptr[s + 1]
            _add_edges(edge, first, last, hop.p, grad_v, adjoint.beta[s - o], x, index.edge_source, 0)


@sum_kernel
def _next_hop(number, g, o, index, plan, hop, before, adjoint, Y, edge):  # type: ignore[no-untyped-def]
    """The same for hop ``number`` (from 2). The messages Y of exits are computed again from those of the hop before."""
    state_ptr, exit_ptr = index.state_ptr, index.exit_ptr
    d = hop.v.shape[1]
    M = np.empty((before.scale.shape[0], d), hop.v.dtype)
    grad_v = np.empty(d, hop.v.dtype)
    n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
    x0 = exit_ptr[n0]
    for i in range(n0, n1):
        if plan.depth[i] < number - 1:
            continue
        s0, s1 = state_ptr[i], state_ptr[i + 1]
        for s in range(s0, s1):
            r = index.state_relation[s]
            for c in range(d):
                M[s - s0, c] = before.scale[r, c] * before.v[s, c]
        for x in range(exit_ptr[i], exit_ptr[i + 1]):
            if plan.exit_depth[x] >= number:
                mix(Y, x - x0, hop.q, index.turn_ptr[i] + (x - exit_ptr[i]) * (s1 - s0), M, s1 - s0)
    for i in range(n0, n1):
        if plan.depth[i] < number:
            continue
        for s in range(state_ptr[i], state_ptr[i + 1]):
            r = index.state_relation[s]
            for c in range(d):
                grad_v[c] = hop.scale[r, c] * adjoint.grad[s - o, c]
            first, last = index.edge_ptr[s], index.edge_ptr[s + 1]
            _add_edges(edge, first, last, hop.p, grad_v, adjoint.beta[s - o], Y, index.edge_exit, x0)


@kernel
def backward(b0, b1, index, plan, x, W, kept, given, totals, working):  # type: ignore[no-untyped-def]
    """As :func:`mhgrn.nn.backends.adjoint_kernels.backward`, with the gradients of edges.

    ``working`` is the adjoint, working memory for exits [exits, d], and the gradients [edges] that are added to.
    """
    adjoint, Y, edge = working
    for block in range(b0, b1):
        for g in range(index.block_ptr[block], index.block_ptr[block + 1]):
            o = index.state_ptr[index.graph_ptr[g]]
            for k in range(len(W) - 1, -1, -1):
                hop = Hop(kept.v[k], W[k], kept.L[k], kept.p[k], kept.q[k])
                out = Delivered(kept.z[k], kept.log_d[k], given[0][k], given[1][k])
                tau = totals.tau[totals.slot[g]]
                total = Totals(totals.W[block, k], totals.delta, tau, totals.slot, totals.x, totals.start, totals.node)
                read_back(plan.row_ptr[g], plan.row_ptr[g + 1], plan.needed, index, hop.L, out, k == len(W) - 1, o, adjoint)
                if k == 0:
                    _first_hop(g, o, index, plan.depth, x, hop, adjoint, edge)
                    first_hop_back(g, g + 1, o, index, plan.depth, x, hop, adjoint, total)
                else:
                    before = Hop(kept.v[k - 1], W[k - 1], kept.L[k - 1], kept.p[k - 1], kept.q[k - 1])
                    _next_hop(k + 1, g, o, index, plan, hop, before, adjoint, Y, edge)
                    hop_back(k + 1, g, g + 1, o, index, plan, hop, before, adjoint, total)
