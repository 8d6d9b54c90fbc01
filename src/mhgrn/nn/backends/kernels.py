"""The recursion over states and its adjoint, compiled. Called by :mod:`mhgrn.nn.backends.compiled` for blocks of whole graphs.

L is the log-weight of a state or exit, v the mean message of a state before W, scale ∘ v the one after W, Y the mean message of an
exit. p and q are the shares of edges in their state and of turns in their exit. Shares are computed from exponentials relative to
the largest of a node or graph; where all of them underflow, they are computed from the logarithms instead, so that nothing is
lost. Rows of graphs that are far larger than the caches are prefetched.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel, sum_kernel

TINY = 1e-250
FAR = 1 << 22  # bytes of rows that are worth fetching ahead; less is in some cache anyway
AHEAD = 8  # edges
LINE = 64  # bytes of a cache line

Array = NDArray[Any]


class Plan(NamedTuple):
    """What to compute: the needed nodes, and the last hop at which the messages of nodes and exits matter to them."""

    needed: Array  # [n] ascending
    row_ptr: Array  # [G + 1] each graph's rows of ``needed``
    depth: Array  # [N]
    exit_depth: Array  # [exits]


class Logits(NamedTuple):
    """The structured attention."""

    start: Array  # [N]
    delta: Array  # [G, m]
    tau: Array  # [1 or G, m, m]
    T: Array  # [1 or G, m, m] exp(τ - tau_top), the later relation first
    tau_top: float  # the largest of τ
    node: Array  # [N] added to the log-weight of a walk that passes a node


class Hop(NamedTuple):
    """The messages of one hop. Values of states and edges are defined where the hop matters."""

    v: Array  # [states, d] means of messages before W; or behind it, where W is not diagonal
    scale: Array  # [m, d] diagonal W; 1 where W is not diagonal
    L: Array  # [states]
    p: Array  # [edges]
    q: Array  # [turns]


class Kept(NamedTuple):
    """Everything that the forward pass leaves for the backward pass, by hop."""

    v: Array  # [K, states, d]
    L: Array  # [K, states]
    p: Array  # [K, edges]
    q: Array  # [K, turns] undefined at the first hop
    z: Array  # [K, n, d]
    log_d: Array  # [K, n]


class Exits(NamedTuple):
    """Working memory for the exits of one graph."""

    Y: Array  # [exits, d]
    L: Array  # [exits]
    weight: Array  # [exits]


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


@intrinsic  # type: ignore[untyped-decorator]
def _fetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Prefetch the cache line of an element of a contiguous array, counted through all rows."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        elements = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        )
        address = builder.bitcast(builder.gep(elements, [arguments[1]]), byte)
        builder.call(prefetch, [address, number(0), number(3), number(1)])  # to read; into all caches; data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@kernel
def _fetch_ahead(rows, numbers, row, first, last, offset):  # type: ignore[no-untyped-def]
    """Prefetch the rows and numbers of the edges that come ``AHEAD`` after first … last."""
    d = rows.shape[1]
    for e in range(first + AHEAD, min(last + AHEAD, len(row))):
        j = row[e] - offset
        _fetch(numbers, j)
        for c in range(0, d, LINE // rows.itemsize):
            _fetch(rows, j * d + c)


@kernel
def _top(values, a, b):  # type: ignore[no-untyped-def]
    top = -np.inf
    for i in range(a, b):
        if values[i] > top:
            top = values[i]
    return top


@sum_kernel
def _mix(out, o, share, first, rows, count):  # type: ignore[no-untyped-def]
    """out[o] = Σ share[first + i] · rows[i], four rows at a time."""
    d = out.shape[1]
    i = count % 4
    if i == 0:
        for c in range(d):
            out[o, c] = 0
    elif i == 1:
        a = share[first]
        for c in range(d):
            out[o, c] = a * rows[0, c]
    elif i == 2:
        a, b = share[first], share[first + 1]
        for c in range(d):
            out[o, c] = a * rows[0, c] + b * rows[1, c]
    else:
        a, b, e = share[first], share[first + 1], share[first + 2]
        for c in range(d):
            out[o, c] = a * rows[0, c] + b * rows[1, c] + e * rows[2, c]
    while i < count:
        a, b, e, f = share[first + i], share[first + i + 1], share[first + i + 2], share[first + i + 3]
        for c in range(d):
            out[o, c] += a * rows[i, c] + b * rows[i + 1, c] + e * rows[i + 2, c] + f * rows[i + 3, c]
        i += 4


@sum_kernel
def _gather(out, o, share, first, last, rows, row, offset):  # type: ignore[no-untyped-def]
    """out[o] = Σ share[i] · rows[row[i] - offset] over i = first … last, four rows at a time."""
    d = out.shape[1]
    i = first + (last - first) % 4
    if i == first:
        for c in range(d):
            out[o, c] = 0
    elif i == first + 1:
        a, j = share[first], row[first] - offset
        for c in range(d):
            out[o, c] = a * rows[j, c]
    elif i == first + 2:
        a, j, b, k = share[first], row[first] - offset, share[first + 1], row[first + 1] - offset
        for c in range(d):
            out[o, c] = a * rows[j, c] + b * rows[k, c]
    else:
        a, j, b, k = share[first], row[first] - offset, share[first + 1], row[first + 1] - offset
        e, n = share[first + 2], row[first + 2] - offset
        for c in range(d):
            out[o, c] = a * rows[j, c] + b * rows[k, c] + e * rows[n, c]
    while i < last:
        a, j, b, k = share[i], row[i] - offset, share[i + 1], row[i + 1] - offset
        e, n, f, q = share[i + 2], row[i + 2] - offset, share[i + 3], row[i + 3] - offset
        for c in range(d):
            out[o, c] += a * rows[j, c] + b * rows[k, c] + e * rows[n, c] + f * rows[q, c]
        i += 4


@sum_kernel
def _share_out(p, first, last, weight, logs, row, offset, top):  # type: ignore[no-untyped-def]
    """The shares p of the edges first … last, and the logarithm of their sum; each has the weight of the row it comes from.

    ``weight`` is exp(logs - top). Where all weights vanish beside the largest, shares are made from the logarithms.
    """
    total = 0.0
    for e in range(first, last):
        total += weight[row[e] - offset]
    if total > TINY:
        whole = 1 / total
        for e in range(first, last):
            p[e] = weight[row[e] - offset] * whole
        return np.log(total) + top
    here = -np.inf
    for e in range(first, last):
        here = max(here, logs[row[e] - offset])
    total = 0.0
    for e in range(first, last):
        p[e] = np.exp(logs[row[e] - offset] - here) if here > -np.inf else 0.0
        total += p[e]
    for e in range(first, last):
        p[e] = p[e] / total if total > 0 else 0.0
    return np.log(total) + here if total > 0 else -np.inf


@sum_kernel
def first_hop(g0, g1, index, depth, logits, x, hop):  # type: ignore[no-untyped-def]
    """Walks of one hop: v, L and p of the states of every node that is needed at depth 1."""
    start, edge_ptr, edge_source = logits.start, index.edge_ptr, index.edge_source
    for g in range(g0, g1):
        n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
        top = _top(start, n0, n1)
        far = (n1 - n0) * x.shape[1] * x.itemsize > FAR
        weight = np.zeros(n1 - n0)
        if top > -np.inf:
            for i in range(n0, n1):
                weight[i - n0] = np.exp(start[i] - top)
        for i in range(n0, n1):
            if depth[i] < 1:
                continue
            for s in range(index.state_ptr[i], index.state_ptr[i + 1]):
                if far:
                    _fetch_ahead(x[n0:n1], weight, edge_source, edge_ptr[s], edge_ptr[s + 1], n0)
                log_sum = _share_out(hop.p, edge_ptr[s], edge_ptr[s + 1], weight, start[n0:n1], edge_source, n0, top)
                hop.L[s] = log_sum + logits.delta[g, index.state_relation[s]]
                _gather(hop.v, s, hop.p, edge_ptr[s], edge_ptr[s + 1], x, edge_source, 0)


@sum_kernel
def next_hop(number, g0, g1, index, plan, logits, before, hop, exits):  # type: ignore[no-untyped-def]
    """Compute hop ``number`` (from 2) from the one before it."""
    state_ptr, state_relation, exit_ptr, edge_ptr = index.state_ptr, index.state_relation, index.exit_ptr, index.edge_ptr
    tau, T, q = logits.tau, logits.T, hop.q
    d = hop.v.shape[1]
    m = before.scale.shape[0]
    M = np.empty((m, d), hop.v.dtype)
    a = np.empty(m)
    for g in range(g0, g1):
        t = g if tau.shape[0] > 1 else 0
        n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
        x0 = exit_ptr[n0]
        top = -np.inf
        for i in range(n0, n1):
            s0, s1 = state_ptr[i], state_ptr[i + 1]
            if plan.depth[i] < number - 1:
                for x in range(exit_ptr[i], exit_ptr[i + 1]):
                    exits.L[x - x0] = -np.inf
                continue
            here = _top(before.L, s0, s1)
            for s in range(s0, s1):
                a[s - s0] = np.exp(before.L[s] - here) if here > -np.inf else 0.0
                r = state_relation[s]
                for c in range(d):
                    M[s - s0, c] = before.scale[r, c] * before.v[s, c]
            turn = index.turn_ptr[i]
            for x in range(exit_ptr[i], exit_ptr[i + 1]):
                exits.L[x - x0] = -np.inf
                if plan.exit_depth[x] >= number:
                    r = index.exit_relation[x]
                    total = 0.0
                    for s in range(s0, s1):
                        total += a[s - s0] * T[t, r, state_relation[s]]
                    if total > TINY:
                        whole = 1 / total
                        for s in range(s0, s1):
                            q[turn + s - s0] = a[s - s0] * T[t, r, state_relation[s]] * whole
                        exits.L[x - x0] = np.log(total) + here + logits.tau_top
                    else:
                        high = -np.inf
                        for s in range(s0, s1):
                            high = max(high, before.L[s] + tau[t, state_relation[s], r])
                        total = 0.0
                        for s in range(s0, s1):
                            share = np.exp(before.L[s] + tau[t, state_relation[s], r] - high) if high > -np.inf else 0.0
                            q[turn + s - s0] = share
                            total += share
                        for s in range(s0, s1):
                            q[turn + s - s0] = q[turn + s - s0] / total if total > 0 else 0.0
                        exits.L[x - x0] = np.log(total) + high if total > 0 else -np.inf
                    exits.L[x - x0] += logits.node[i]
                    _mix(exits.Y, x - x0, q, turn, M, s1 - s0)
                    top = max(top, exits.L[x - x0])
                turn += s1 - s0
        far = (exit_ptr[n1] - x0) * d * exits.Y.itemsize > FAR
        for x in range(exit_ptr[n1] - x0):
            exits.weight[x] = np.exp(exits.L[x] - top) if top > -np.inf else 0.0
        for i in range(n0, n1):
            if plan.depth[i] < number:
                continue
            for s in range(state_ptr[i], state_ptr[i + 1]):
                if far:
                    _fetch_ahead(exits.Y, exits.weight, index.edge_exit, edge_ptr[s], edge_ptr[s + 1], x0)
                log_sum = _share_out(hop.p, edge_ptr[s], edge_ptr[s + 1], exits.weight, exits.L, index.edge_exit, x0, top)
                hop.L[s] = log_sum + logits.delta[g, state_relation[s]]
                _gather(hop.v, s, hop.p, edge_ptr[s], edge_ptr[s + 1], exits.Y, index.edge_exit, x0)


@sum_kernel
def read(r0, r1, needed, index, hop, z, log_d):  # type: ignore[no-untyped-def]
    """Compute z and log d of the rows r0 … r1 of the needed nodes."""
    d = z.shape[1]
    L, scale, mu = hop.L, hop.scale, hop.v
    for row in range(r0, r1):
        s0, s1 = index.state_ptr[needed[row]], index.state_ptr[needed[row] + 1]
        top = _top(L, s0, s1)
        total = 0.0
        for c in range(d):
            z[row, c] = 0
        if top > -np.inf:
            for s in range(s0, s1):
                total += np.exp(L[s] - top)
            for s in range(s0, s1):
                share = z.dtype.type(np.exp(L[s] - top) / total)
                r = index.state_relation[s]
                for c in range(d):
                    z[row, c] += share * scale[r, c] * mu[s, c]
        log_d[row] = np.log(total) + top if total > 0 else -np.inf


@sum_kernel
def read_back(r0, r1, needed, index, L, out, fresh, o, adjoint):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`read`: adds to the gradients of the needed nodes' states, which begin at zero if ``fresh``.

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
def hop_back(number, g0, g1, o, index, plan, hop, before, adjoint, totals):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`next_hop`: gradients of this hop's states become those of the hop before, in the same place.

    With β the gradient of the log-weights at fixed messages, the gradient of a share needs no product per edge:
    ∂/∂log-weight of any part is ⟨gradient of its message, its message⟩ + its β.
    """
    state_ptr, state_relation, exit_ptr, edge_ptr = index.state_ptr, index.state_relation, index.exit_ptr, index.edge_ptr
    exit_relation, edge_exit, depth, exit_depth = index.exit_relation, index.edge_exit, plan.depth, plan.exit_depth
    v, scale, p, q = hop.v, hop.scale, hop.p, hop.q
    grad, beta, grad_Y, beta_Y = adjoint.grad, adjoint.beta, adjoint.grad_Y, adjoint.beta_Y
    grad_scale, grad_tau = totals.W, totals.tau
    d = v.shape[1]
    m = scale.shape[0]
    M = np.empty((m, d), v.dtype)
    here = np.empty(m, np.int64)  # the exits of a node that matter
    zero = v.dtype.type(0)
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
                    _fetch_ahead(grad_Y, beta_Y, edge_exit, edge_ptr[s], edge_ptr[s + 1], x0)
                for e in range(edge_ptr[s], edge_ptr[s + 1]):
                    x, share = edge_exit[e] - x0, p[e]
                    beta_Y[x] += share * beta[s - o]
                    for c in range(d):
                        grad_Y[x, c] += share * grad_v[c]
        for i in range(n0, n1):
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
def first_hop_back(g0, g1, o, index, depth, x, hop, adjoint, totals):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`first_hop`."""
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
                    _fetch_ahead(grad_x, grad_start, edge_source, edge_ptr[s], edge_ptr[s + 1], 0)
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
def forward(g0, g1, index, plan, logits, x, W, kept, exits):  # type: ignore[no-untyped-def]
    """All hops with diagonal W, graph by graph: the messages of a hop are still in the cache when the next hop reads them."""
    for g in range(g0, g1):
        before = Hop(kept.v[0], W[0], kept.L[0], kept.p[0], kept.q[0])
        for k in range(len(W)):
            hop = Hop(kept.v[k], W[k], kept.L[k], kept.p[k], kept.q[k])
            if k == 0:
                first_hop(g, g + 1, index, plan.depth, logits, x, hop)
            else:
                next_hop(k + 1, g, g + 1, index, plan, logits, before, hop, exits)
            read(plan.row_ptr[g], plan.row_ptr[g + 1], plan.needed, index, hop, kept.z[k], kept.log_d[k])
            before = hop


@kernel
def backward(b0, b1, index, plan, x, W, kept, given, totals, adjoint):  # type: ignore[no-untyped-def]
    """The adjoint of :func:`forward` for the blocks b0 … b1; ``given`` are the gradients of z and log d of all hops."""
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
