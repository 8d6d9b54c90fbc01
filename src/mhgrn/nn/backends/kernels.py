"""The recursion over states, compiled. Called by :mod:`mhgrn.nn.backends.compiled` for blocks of whole graphs.

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
def fetch_ahead(rows, numbers, row, first, last, offset):  # type: ignore[no-untyped-def]
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
def mix(out, o, share, first, rows, count):  # type: ignore[no-untyped-def]
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


@kernel
def exponentials(logs, a, b, offset, top, weight):  # type: ignore[no-untyped-def]
    """weight[i - offset] = exp(logs[i] - top) for i = a … b; 0 if all are -∞."""
    for i in range(a, b):
        weight[i - offset] = np.exp(logs[i] - top) if top > -np.inf else 0.0


@sum_kernel
def first_states(i0, i1, g, index, depth, logits, x, hop, weight, top):  # type: ignore[no-untyped-def]
    """v, L and p after one hop of the nodes i0 … i1 of graph g. ``weight`` is exp(start - top) of the graph's nodes."""
    start, edge_ptr, edge_source = logits.start, index.edge_ptr, index.edge_source
    n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
    far = (n1 - n0) * x.shape[1] * x.itemsize > FAR
    for i in range(i0, i1):
        if depth[i] < 1:
            continue
        for s in range(index.state_ptr[i], index.state_ptr[i + 1]):
            if far:
                fetch_ahead(x[n0:n1], weight, edge_source, edge_ptr[s], edge_ptr[s + 1], n0)
            log_sum = _share_out(hop.p, edge_ptr[s], edge_ptr[s + 1], weight, start[n0:n1], edge_source, n0, top)
            hop.L[s] = log_sum + logits.delta[g, index.state_relation[s]]
            _gather(hop.v, s, hop.p, edge_ptr[s], edge_ptr[s + 1], x, edge_source, 0)


@sum_kernel
def first_hop(g0, g1, index, depth, logits, x, hop):  # type: ignore[no-untyped-def]
    """Walks of one hop: v, L and p of the states of every node that is needed at depth 1."""
    for g in range(g0, g1):
        n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
        top = _top(logits.start, n0, n1)
        weight = np.empty(n1 - n0)
        exponentials(logits.start, n0, n1, n0, top, weight)
        first_states(n0, n1, g, index, depth, logits, x, hop, weight, top)


@sum_kernel
def exits_of(number, i0, i1, g, index, plan, logits, before, q, exits):  # type: ignore[no-untyped-def]
    """The exits of the nodes i0 … i1 of graph g before hop ``number``. Returns the largest log-weight."""
    state_ptr, state_relation, exit_ptr = index.state_ptr, index.state_relation, index.exit_ptr
    tau, T = logits.tau, logits.T
    d = before.v.shape[1]
    m = before.scale.shape[0]
    M = np.empty((m, d), before.v.dtype)
    a = np.empty(m)
    t = g if tau.shape[0] > 1 else 0
    x0 = exit_ptr[index.graph_ptr[g]]
    top = -np.inf
    for i in range(i0, i1):
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
                mix(exits.Y, x - x0, q, turn, M, s1 - s0)
                top = max(top, exits.L[x - x0])
            turn += s1 - s0
    return top


@sum_kernel
def next_states(number, i0, i1, g, index, depth, logits, hop, exits, top):  # type: ignore[no-untyped-def]
    """v, L and p after hop ``number`` of the nodes i0 … i1 of graph g, whose exits have weights exp(L - top)."""
    state_ptr, edge_ptr = index.state_ptr, index.edge_ptr
    n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
    x0 = index.exit_ptr[n0]
    far = (index.exit_ptr[n1] - x0) * hop.v.shape[1] * exits.Y.itemsize > FAR
    for i in range(i0, i1):
        if depth[i] < number:
            continue
        for s in range(state_ptr[i], state_ptr[i + 1]):
            if far:
                fetch_ahead(exits.Y, exits.weight, index.edge_exit, edge_ptr[s], edge_ptr[s + 1], x0)
            log_sum = _share_out(hop.p, edge_ptr[s], edge_ptr[s + 1], exits.weight, exits.L, index.edge_exit, x0, top)
            hop.L[s] = log_sum + logits.delta[g, index.state_relation[s]]
            _gather(hop.v, s, hop.p, edge_ptr[s], edge_ptr[s + 1], exits.Y, index.edge_exit, x0)


@sum_kernel
def next_hop(number, g0, g1, index, plan, logits, before, hop, exits):  # type: ignore[no-untyped-def]
    """Compute hop ``number`` (from 2) from the one before it."""
    for g in range(g0, g1):
        n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
        top = exits_of(number, n0, n1, g, index, plan, logits, before, hop.q, exits)
        exponentials(exits.L, 0, index.exit_ptr[n1] - index.exit_ptr[n0], 0, top, exits.weight)
        next_states(number, n0, n1, g, index, plan.depth, logits, hop, exits, top)


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
