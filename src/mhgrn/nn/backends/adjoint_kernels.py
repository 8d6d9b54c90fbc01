"""The adjoint of the recursion over states, compiled: gradients by hand, see :mod:`mhgrn.nn.backends.kernels`."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel, sum_kernel
from mhgrn.nn.backends.kernels import FAR, Hop, fetch_ahead

Array = NDArray[Any]


class Delivered(NamedTuple):
    """The result of a hop, and its gradients."""

    z: Array  # [n, d]
    log_d: Array  # [n]
    grad_z: Array  # [n, d]
    grad_log_d: Array  # [n]


class Adjoint(NamedTuple):
    """Gradients of messages and of log-weights at fixed messages (beta): of states, and of one graph's exits."""

    grad: Array  # [states, d]
    beta: Array  # [states]
    grad_Y: Array  # [exits, d]
    beta_Y: Array  # [exits]


class Totals(NamedTuple):
    """Gradients of the inputs. Those of W and τ are summed apart for each block (τ: each graph, where graphs have their own)."""

    W: Array  # [blocks, K, m, d]; [m, d] for one hop
    delta: Array  # [G, m]
    tau: Array  # [slots, m, m]; [m, m] for one hop
    slot: Array  # [G] where a graph's gradient of τ is added
    x: Array  # [N, d]
    start: Array  # [N]
    node: Array  # [N]


@sum_kernel
def read_back(r0, r1, needed, index, L, out, fresh, o, adjoint):  # type: ignore[no-untyped-def]
    """The adjoint of ``kernels.read``: adds to the gradients of the needed nodes' states, which begin at zero if ``fresh``.

    Gradients of states are stored ``o`` places before them.
    """
    state_ptr, z, grad, beta = index.state_ptr, out.z, adjoint.grad, adjoint.beta
    d = z.shape[1]
    for row in range(r0, r1):
        if fresh:
            for s in range(state_ptr[needed[row]], state_ptr[needed[row] + 1]):
                beta[s - o] = 0
                for c in range(d):
                    grad[s - o, c] = 0
        if out.log_d[row] == -np.inf:
            continue
        along = z.dtype.type(0)
        for c in range(d):
            along += out.grad_z[row, c] * z[row, c]
        rest = out.grad_log_d[row] - along
        for s in range(state_ptr[needed[row]], state_ptr[needed[row] + 1]):
            share = z.dtype.type(np.exp(L[s] - out.log_d[row]))
            beta[s - o] += share * rest
            for c in range(d):
                grad[s - o, c] += share * out.grad_z[row, c]


@sum_kernel
def turns_back(number, nodes, g, o, index, plan, hop, before, adjoint, totals):  # type: ignore[no-untyped-def]
    """The second half of :func:`hop_back` for a range of nodes: gradients of exits become those of the states before them."""
    state_ptr, state_relation, exit_ptr, exit_relation = index.state_ptr, index.state_relation, index.exit_ptr, index.exit_relation
    depth, exit_depth, q, grad_tau = plan.depth, plan.exit_depth, hop.q, totals.tau
    grad, beta, grad_Y, beta_Y = adjoint.grad, adjoint.beta, adjoint.grad_Y, adjoint.beta_Y
    m, d = hop.scale.shape
    x0 = exit_ptr[index.graph_ptr[g]]
    M = np.empty((m, d), hop.v.dtype)
    here = np.empty(m, np.int64)  # the exits of a node that matter
    zero = hop.v.dtype.type(0)
    for i in range(nodes[0], nodes[1]):
        if depth[i] < number - 1:
            continue
        s0, s1 = state_ptr[i], state_ptr[i + 1]
        for s in range(s0, s1):
            r = state_relation[s]
            beta[s - o] = 0
            for c in range(d):
                M[s - s0, c] = before.scale[r, c] * before.v[s, c]
                grad[s - o, c] = 0
        count = 0
        for x in range(exit_ptr[i], exit_ptr[i + 1]):
            if exit_depth[x] >= number:
                here[count] = x
                count += 1
        passing = 0.0  # the gradient of the node's log-weight
        for s in range(s0, s1):
            first = index.turn_ptr[i] + s - s0 - exit_ptr[i] * (s1 - s0)  # of the shares of this state
            r = state_relation[s]
            n = 0
            while n + 4 <= count:
                x1, x2, x3, x4 = here[n], here[n + 1], here[n + 2], here[n + 3]
                q1, q2 = q[first + x1 * (s1 - s0)], q[first + x2 * (s1 - s0)]
                q3, q4 = q[first + x3 * (s1 - s0)], q[first + x4 * (s1 - s0)]
                y1, y2, y3, y4 = x1 - x0, x2 - x0, x3 - x0, x4 - x0
                a1, a2, a3, a4 = zero, zero, zero, zero
                for c in range(d):
                    message = M[s - s0, c]
                    g1, g2, g3, g4 = grad_Y[y1, c], grad_Y[y2, c], grad_Y[y3, c], grad_Y[y4, c]
                    a1 += g1 * message
                    a2 += g2 * message
                    a3 += g3 * message
                    a4 += g4 * message
                    grad[s - o, c] += q1 * g1 + q2 * g2 + q3 * g3 + q4 * g4
                beta[s - o] += q1 * beta_Y[y1] + q2 * beta_Y[y2] + q3 * beta_Y[y3] + q4 * beta_Y[y4]
                t1, t2 = q1 * (a1 + beta_Y[y1]), q2 * (a2 + beta_Y[y2])
                t3, t4 = q3 * (a3 + beta_Y[y3]), q4 * (a4 + beta_Y[y4])
                grad_tau[r, exit_relation[x1]] += t1
                grad_tau[r, exit_relation[x2]] += t2
                grad_tau[r, exit_relation[x3]] += t3
                grad_tau[r, exit_relation[x4]] += t4
                passing += t1 + t2 + t3 + t4
                n += 4
            while n < count:
                x = here[n]
                share = q[first + x * (s1 - s0)]
                along = zero
                for c in range(d):
                    along += grad_Y[x - x0, c] * M[s - s0, c]
                    grad[s - o, c] += share * grad_Y[x - x0, c]
                beta[s - o] += share * beta_Y[x - x0]
                t1 = share * (along + beta_Y[x - x0])
                grad_tau[r, exit_relation[x]] += t1
                passing += t1
                n += 1
        totals.node[i] += passing


@sum_kernel
def hop_back(number, g0, g1, o, index, plan, hop, before, adjoint, totals):  # type: ignore[no-untyped-def]
    """The adjoint of ``kernels.next_hop``: gradients of this hop's states become those of the hop before, in the same place.

    With β the gradient of the log-weights at fixed messages, the gradient of a share needs no product per edge:
    ∂/∂log-weight of any part is ⟨gradient of its message, its message⟩ + its β.
    """
    state_ptr, state_relation, exit_ptr, edge_ptr = index.state_ptr, index.state_relation, index.exit_ptr, index.edge_ptr
    edge_exit, depth, exit_depth = index.edge_exit, plan.depth, plan.exit_depth
    v, scale, p = hop.v, hop.scale, hop.p
    grad, beta, grad_Y, beta_Y = adjoint.grad, adjoint.beta, adjoint.grad_Y, adjoint.beta_Y
    grad_scale = totals.W
    d = v.shape[1]
    grad_v = np.empty(d, v.dtype)
    for g in range(g0, g1):
        n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
        x0 = exit_ptr[n0]
        far = (exit_ptr[n1] - x0) * d * v.itemsize > FAR
        for x in range(exit_ptr[n1] - x0):
            if exit_depth[x0 + x] >= number:
                beta_Y[x] = 0
                for c in range(d):
                    grad_Y[x, c] = 0
        for i in range(n0, n1):
            if depth[i] < number:
                continue
            for s in range(state_ptr[i], state_ptr[i + 1]):
                r = state_relation[s]
                along = v.dtype.type(0)
                for c in range(d):
                    grad_v[c] = scale[r, c] * grad[s - o, c]
                    along += grad_v[c] * v[s, c]
                    grad_scale[r, c] += grad[s - o, c] * v[s, c]
                totals.delta[g, r] += along + beta[s - o]
                if far:
                    fetch_ahead(grad_Y, beta_Y, edge_exit, edge_ptr[s], edge_ptr[s + 1], x0)
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    x, share = edge_exit[e] - x0, p[e]
                    beta_Y[x] += share * beta[s - o]
                    for c in range(d):
                        grad_Y[x, c] += share * grad_v[c]
        turns_back(number, (n0, n1), g, o, index, plan, hop, before, adjoint, totals)


@sum_kernel
def first_hop_back(g0, g1, o, index, depth, x, hop, adjoint, totals):  # type: ignore[no-untyped-def]
    """The adjoint of ``kernels.first_hop``."""
    graph_ptr, edge_ptr, edge_source = index.graph_ptr, index.edge_ptr, index.edge_source
    v, scale, grad, beta, grad_x, grad_start = hop.v, hop.scale, adjoint.grad, adjoint.beta, totals.x, totals.start
    d = v.shape[1]
    grad_v = np.empty(d, v.dtype)
    for g in range(g0, g1):
        far = (graph_ptr[g + 1] - graph_ptr[g]) * d * v.itemsize > FAR
        for i in range(graph_ptr[g], graph_ptr[g + 1]):
            if depth[i] < 1:
                continue
            for s in range(index.state_ptr[i], index.state_ptr[i + 1]):
                r = index.state_relation[s]
                along = v.dtype.type(0)
                for c in range(d):
                    grad_v[c] = scale[r, c] * grad[s - o, c]
                    along += grad_v[c] * v[s, c]
                    totals.W[r, c] += grad[s - o, c] * v[s, c]
                totals.delta[g, r] += along + beta[s - o]
                if far:
                    fetch_ahead(grad_x, grad_start, edge_source, edge_ptr[s], edge_ptr[s + 1], 0)
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    j, share = edge_source[e], hop.p[e]
                    grad_start[j] += share * beta[s - o]
                    for c in range(d):
                        grad_x[j, c] += share * grad_v[c]
        for i in range(graph_ptr[g], graph_ptr[g + 1]):
            along = v.dtype.type(0)
            for c in range(d):
                along += grad_x[i, c] * x[i, c]
            grad_start[i] += along


@kernel
def backward(b0, b1, index, plan, x, W, kept, given, totals, adjoint):  # type: ignore[no-untyped-def]
    """The adjoint of ``kernels.forward`` for the blocks b0 … b1; ``given`` are the gradients of z and log d of all hops."""
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
                    first_hop_back(g, g + 1, o, index, plan.depth, x, hop, adjoint, total)
                else:
                    before = Hop(kept.v[k - 1], W[k - 1], kept.L[k - 1], kept.p[k - 1], kept.q[k - 1])
                    hop_back(k + 1, g, g + 1, o, index, plan, hop, before, adjoint, total)
