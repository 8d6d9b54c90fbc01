"""The recursion over states and its adjoint, compiled. Called by :mod:`mhgrn.nn.backends.compiled` for blocks of whole graphs.

Names as there: L is the log-weight of a state or exit, v the mean message of a state before W, μ = scale ∘ v (or a matrix product
made elsewhere, with a scale of 1), Y the mean message of an exit, T = exp τ with the later relation first. p, q and c are the
shares of edges in their state, of turns in their exit, and of states in their node. Shares are made of exponentials relative to
the largest of a node or graph; where all parts of one vanish beside that, they are made again from the logarithms, so that nothing
is lost to underflow.
"""

import numpy as np

from mhgrn.compiled import kernel, sum_kernel

TINY = 1e-250


@kernel
def _top(values, a, b):  # type: ignore[no-untyped-def]
    top = -np.inf
    for i in range(a, b):
        if values[i] > top:
            top = values[i]
    return top


@sum_kernel
def first_hop(  # type: ignore[no-untyped-def]
    g0, g1, graph_ptr, state_ptr, state_relation, edge_ptr, edge_exit, exit_node,
    depth, start, delta, x, v, L, p,
):  # fmt: skip
    """Walks of one hop: v, L and p of the states of every node that is needed at depth 1."""
    d = x.shape[1]
    for g in range(g0, g1):
        n0, n1 = graph_ptr[g], graph_ptr[g + 1]
        top = _top(start, n0, n1)
        weight = np.zeros(n1 - n0)
        if top > -np.inf:
            for i in range(n0, n1):
                weight[i - n0] = np.exp(start[i] - top)
        for i in range(n0, n1):
            if depth[i] < 1:
                continue
            for s in range(state_ptr[i], state_ptr[i + 1]):
                total = 0.0
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    total += weight[exit_node[edge_exit[e]] - n0]
                if total > TINY:
                    whole = 1 / total
                    for e in range(edge_ptr[s], edge_ptr[s + 1]):
                        p[e] = weight[exit_node[edge_exit[e]] - n0] * whole
                    L[s] = np.log(total) + top + delta[g, state_relation[s]]
                else:
                    here = -np.inf
                    for e in range(edge_ptr[s], edge_ptr[s + 1]):
                        here = max(here, start[exit_node[edge_exit[e]]])
                    total = 0.0
                    for e in range(edge_ptr[s], edge_ptr[s + 1]):
                        p[e] = np.exp(start[exit_node[edge_exit[e]]] - here) if here > -np.inf else 0.0
                        total += p[e]
                    for e in range(edge_ptr[s], edge_ptr[s + 1]):
                        p[e] = p[e] / total if total > 0 else 0.0
                    L[s] = np.log(total) + here + delta[g, state_relation[s]] if total > 0 else -np.inf
                for c in range(d):
                    v[s, c] = 0
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    j, share = exit_node[edge_exit[e]], p[e]
                    for c in range(d):
                        v[s, c] += share * x[j, c]


@sum_kernel
def next_hop(  # type: ignore[no-untyped-def]
    hop, g0, g1, graph_ptr, state_ptr, state_relation, exit_ptr, exit_relation, edge_ptr, edge_exit, turn_ptr,
    depth, exit_depth, delta, tau, T, tau_top, mu, scale, L_before, v, L, p, q,
):  # fmt: skip
    """From the states of the hop before (mu, L_before) to those of this one."""
    d = v.shape[1]
    m = scale.shape[0]
    most = 0
    for g in range(g0, g1):
        most = max(most, exit_ptr[graph_ptr[g + 1]] - exit_ptr[graph_ptr[g]])
    Y = np.empty((most, d), v.dtype)
    M = np.empty((m, d), v.dtype)
    L_exit = np.empty(most)
    weight = np.empty(most)
    a = np.empty(m)
    for g in range(g0, g1):
        t = g if tau.shape[0] > 1 else 0
        n0, n1 = graph_ptr[g], graph_ptr[g + 1]
        x0 = exit_ptr[n0]
        top = -np.inf
        for i in range(n0, n1):
            s0, s1 = state_ptr[i], state_ptr[i + 1]
            if depth[i] < hop - 1:
                for x in range(exit_ptr[i], exit_ptr[i + 1]):
                    L_exit[x - x0] = -np.inf
                continue
            here = _top(L_before, s0, s1)
            for s in range(s0, s1):
                a[s - s0] = np.exp(L_before[s] - here) if here > -np.inf else 0.0
                r = state_relation[s]
                for c in range(d):
                    M[s - s0, c] = scale[r, c] * mu[s, c]
            turn = turn_ptr[i]
            for x in range(exit_ptr[i], exit_ptr[i + 1]):
                L_exit[x - x0] = -np.inf
                if exit_depth[x] >= hop:
                    r = exit_relation[x]
                    total = 0.0
                    for s in range(s0, s1):
                        total += a[s - s0] * T[t, r, state_relation[s]]
                    if total > TINY:
                        whole = 1 / total
                        for s in range(s0, s1):
                            q[turn + s - s0] = a[s - s0] * T[t, r, state_relation[s]] * whole
                        L_exit[x - x0] = np.log(total) + here + tau_top
                    else:
                        high = -np.inf
                        for s in range(s0, s1):
                            high = max(high, L_before[s] + tau[t, state_relation[s], r])
                        total = 0.0
                        for s in range(s0, s1):
                            share = np.exp(L_before[s] + tau[t, state_relation[s], r] - high) if high > -np.inf else 0.0
                            q[turn + s - s0] = share
                            total += share
                        for s in range(s0, s1):
                            q[turn + s - s0] = q[turn + s - s0] / total if total > 0 else 0.0
                        L_exit[x - x0] = np.log(total) + high if total > 0 else -np.inf
                    for c in range(d):
                        Y[x - x0, c] = 0
                    for s in range(s0, s1):
                        share = q[turn + s - s0]
                        for c in range(d):
                            Y[x - x0, c] += share * M[s - s0, c]
                    top = max(top, L_exit[x - x0])
                turn += s1 - s0
        for x in range(exit_ptr[n1] - x0):
            weight[x] = np.exp(L_exit[x] - top) if top > -np.inf else 0.0
        for i in range(n0, n1):
            if depth[i] < hop:
                continue
            for s in range(state_ptr[i], state_ptr[i + 1]):
                total = 0.0
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    total += weight[edge_exit[e] - x0]
                if total > TINY:
                    whole = 1 / total
                    for e in range(edge_ptr[s], edge_ptr[s + 1]):
                        p[e] = weight[edge_exit[e] - x0] * whole
                    L[s] = np.log(total) + top + delta[g, state_relation[s]]
                else:
                    here = -np.inf
                    for e in range(edge_ptr[s], edge_ptr[s + 1]):
                        here = max(here, L_exit[edge_exit[e] - x0])
                    total = 0.0
                    for e in range(edge_ptr[s], edge_ptr[s + 1]):
                        p[e] = np.exp(L_exit[edge_exit[e] - x0] - here) if here > -np.inf else 0.0
                        total += p[e]
                    for e in range(edge_ptr[s], edge_ptr[s + 1]):
                        p[e] = p[e] / total if total > 0 else 0.0
                    L[s] = np.log(total) + here + delta[g, state_relation[s]] if total > 0 else -np.inf
                for c in range(d):
                    v[s, c] = 0
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    x, share = edge_exit[e] - x0, p[e]
                    for c in range(d):
                        v[s, c] += share * Y[x, c]


@sum_kernel
def read(r0, r1, needed, state_ptr, state_relation, mu, scale, L, z, log_d):  # type: ignore[no-untyped-def]
    """z and log d of the rows r0 … r1 of the needed nodes."""
    d = z.shape[1]
    for row in range(r0, r1):
        s0, s1 = state_ptr[needed[row]], state_ptr[needed[row] + 1]
        top = _top(L, s0, s1)
        total = 0.0
        for c in range(d):
            z[row, c] = 0
        if top > -np.inf:
            for s in range(s0, s1):
                total += np.exp(L[s] - top)
            for s in range(s0, s1):
                share = z.dtype.type(np.exp(L[s] - top) / total)
                r = state_relation[s]
                for c in range(d):
                    z[row, c] += share * scale[r, c] * mu[s, c]
        log_d[row] = np.log(total) + top if total > 0 else -np.inf


@sum_kernel
def unread(r0, r1, needed, state_ptr, L, z, log_d, grad_z, grad_log_d, fresh, grad, beta):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`read`: adds to the gradients of the needed nodes' states, which begin at zero if ``fresh``."""
    d = z.shape[1]
    for row in range(r0, r1):
        if fresh:
            for s in range(state_ptr[needed[row]], state_ptr[needed[row] + 1]):
                beta[s] = 0
                for c in range(d):
                    grad[s, c] = 0
        if log_d[row] == -np.inf:
            continue
        along = z.dtype.type(0)
        for c in range(d):
            along += grad_z[row, c] * z[row, c]
        rest = grad_log_d[row] - along
        for s in range(state_ptr[needed[row]], state_ptr[needed[row] + 1]):
            share = z.dtype.type(np.exp(L[s] - log_d[row]))
            beta[s] += share * rest
            for c in range(d):
                grad[s, c] += share * grad_z[row, c]


@sum_kernel
def hop_back(  # type: ignore[no-untyped-def]
    hop, g0, g1, graph_ptr, state_ptr, state_relation, exit_ptr, exit_relation, edge_ptr, edge_exit, turn_ptr,
    depth, exit_depth, p, q, v, scale, grad, beta, mu_before, scale_before, grad_before, beta_before,
    grad_scale, grad_delta, grad_tau,
):  # fmt: skip
    """The adjoint of :func:`next_hop`: from gradients of this hop's states to those of the hop before.

    With β the gradient of the log-weights at fixed messages, a share's gradient needs no product an edge:
    ∂/∂log-weight of any part is ⟨gradient of its message, its message⟩ + its β.
    """
    d = v.shape[1]
    m = scale.shape[0]
    most = 0
    for g in range(g0, g1):
        most = max(most, exit_ptr[graph_ptr[g + 1]] - exit_ptr[graph_ptr[g]])
    grad_Y = np.empty((most, d), v.dtype)
    beta_Y = np.empty(most)
    M = np.empty((m, d), v.dtype)
    grad_v = np.empty(d, v.dtype)
    for g in range(g0, g1):
        slot = g - g0 if grad_tau.shape[0] > 1 else 0
        n0, n1 = graph_ptr[g], graph_ptr[g + 1]
        x0 = exit_ptr[n0]
        for x in range(exit_ptr[n1] - x0):
            if exit_depth[x0 + x] >= hop:
                beta_Y[x] = 0
                for c in range(d):
                    grad_Y[x, c] = 0
        for i in range(n0, n1):
            if depth[i] < hop:
                continue
            for s in range(state_ptr[i], state_ptr[i + 1]):
                r = state_relation[s]
                along = v.dtype.type(0)
                for c in range(d):
                    grad_v[c] = scale[r, c] * grad[s, c]
                    along += grad_v[c] * v[s, c]
                    grad_scale[r, c] += grad[s, c] * v[s, c]
                grad_delta[g, r] += along + beta[s]
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    x, share = edge_exit[e] - x0, p[e]
                    beta_Y[x] += share * beta[s]
                    for c in range(d):
                        grad_Y[x, c] += share * grad_v[c]
        for i in range(n0, n1):
            if depth[i] < hop - 1:
                continue
            s0, s1 = state_ptr[i], state_ptr[i + 1]
            for s in range(s0, s1):
                r = state_relation[s]
                beta_before[s] = 0
                for c in range(d):
                    M[s - s0, c] = scale_before[r, c] * mu_before[s, c]
                    grad_before[s, c] = 0
            turn = turn_ptr[i]
            for x in range(exit_ptr[i], exit_ptr[i + 1]):
                if exit_depth[x] >= hop:
                    for s in range(s0, s1):
                        share = q[turn + s - s0]
                        along = v.dtype.type(0)
                        for c in range(d):
                            along += grad_Y[x - x0, c] * M[s - s0, c]
                            grad_before[s, c] += share * grad_Y[x - x0, c]
                        beta_before[s] += share * beta_Y[x - x0]
                        grad_tau[slot, state_relation[s], exit_relation[x]] += share * (along + beta_Y[x - x0])
                turn += s1 - s0


@sum_kernel
def first_hop_back(  # type: ignore[no-untyped-def]
    g0, g1, graph_ptr, state_ptr, state_relation, edge_ptr, edge_exit, exit_node,
    depth, p, v, scale, grad, beta, x, grad_scale, grad_delta, grad_x, grad_start,
):  # fmt: skip
    """The adjoint of :func:`first_hop`."""
    d = v.shape[1]
    grad_v = np.empty(d, v.dtype)
    for g in range(g0, g1):
        for i in range(graph_ptr[g], graph_ptr[g + 1]):
            if depth[i] < 1:
                continue
            for s in range(state_ptr[i], state_ptr[i + 1]):
                r = state_relation[s]
                along = v.dtype.type(0)
                for c in range(d):
                    grad_v[c] = scale[r, c] * grad[s, c]
                    along += grad_v[c] * v[s, c]
                    grad_scale[r, c] += grad[s, c] * v[s, c]
                grad_delta[g, r] += along + beta[s]
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    j, share = exit_node[edge_exit[e]], p[e]
                    grad_start[j] += share * beta[s]
                    for c in range(d):
                        grad_x[j, c] += share * grad_v[c]
        for i in range(graph_ptr[g], graph_ptr[g + 1]):
            along = v.dtype.type(0)
            for c in range(d):
                along += grad_x[i, c] * x[i, c]
            grad_start[i] += along


@kernel
def depths(n0, n1, state_ptr, edge_ptr, edge_exit, exit_node, K, depth, exit_depth):  # type: ignore[no-untyped-def]
    """The last hop at which a node's, or an exit's, messages matter: K at the needed nodes (given), one less a step back."""
    for hop in range(K, 0, -1):
        for i in range(n0, n1):
            if depth[i] != hop:
                continue
            for e in range(edge_ptr[state_ptr[i]], edge_ptr[state_ptr[i + 1]]):
                x = edge_exit[e]
                exit_depth[x] = max(exit_depth[x], hop)
                j = exit_node[x]
                depth[j] = max(depth[j], hop - 1)
