"""Parts of the adjoint that threads compute side by side in one graph, see :mod:`mhgrn.nn.backends.wide`.

The steps of :func:`mhgrn.nn.backends.adjoint_kernels.hop_back` add to exits along edges. Here each thread adds to a range of exits
of its own, and reads all edges to find those that begin there: numbers of edges are quick to read beside the rows that are added.
"""

from mhgrn.compiled.jit import sum_kernel


@sum_kernel
def states_back(number, nodes, o, index, depth, hop, adjoint, grad_W, grad_delta):  # type: ignore[no-untyped-def]
    """Gradients of messages after W become those before it, for a range of nodes. Adds to the gradients of W [m, d] and δ [m]."""
    v, scale, grad = hop.v, hop.scale, adjoint.grad
    d = v.shape[1]
    for i in range(nodes[0], nodes[1]):
        if depth[i] < number:
            continue
        for s in range(index.state_ptr[i], index.state_ptr[i + 1]):
            r = index.state_relation[s]
            along = v.dtype.type(0)
            for c in range(d):
                grad_W[r, c] += grad[s - o, c] * v[s, c]
                grad[s - o, c] *= scale[r, c]
                along += grad[s - o, c] * v[s, c]
            grad_delta[r] += along + adjoint.beta[s - o]


@sum_kernel
def exits_back(number, places, g, o, index, plan, p, adjoint):  # type: ignore[no-untyped-def]
    """Gradients of states become those of a range of exits, numbered from the first one of the graph."""
    n0, n1 = index.graph_ptr[g], index.graph_ptr[g + 1]
    x0, d = index.exit_ptr[n0], adjoint.grad_Y.shape[1]
    for x in range(places[0], places[1]):
        if plan.exit_depth[x0 + x] >= number:
            adjoint.beta_Y[x] = 0
            for c in range(d):
                adjoint.grad_Y[x, c] = 0
    _scatter(number, places, (n0, n1), o, index, (index.edge_exit, x0, plan.depth), p, adjoint, (adjoint.grad_Y, adjoint.beta_Y))


@sum_kernel
def sources_back(places, g, o, index, plan, p, adjoint, totals):  # type: ignore[no-untyped-def]
    """Gradients of states become those of a range of nodes that walks begin at."""
    nodes = (index.graph_ptr[g], index.graph_ptr[g + 1])
    _scatter(1, places, nodes, o, index, (index.edge_source, 0, plan.depth), p, adjoint, (totals.x, totals.start))


@sum_kernel
def _scatter(number, places, nodes, o, index, ends, p, adjoint, out):  # type: ignore[no-untyped-def]
    """Add the gradients of states, by the shares of their edges, to the rows ``places`` that the edges begin at."""
    begin, offset, depth = ends
    rows, numbers = out
    first, last = places
    d = rows.shape[1]
    for i in range(nodes[0], nodes[1]):
        if depth[i] < number:
            continue
        for s in range(index.state_ptr[i], index.state_ptr[i + 1]):
            for e in range(index.edge_ptr[s], index.edge_ptr[s + 1]):
                j = begin[e] - offset
                if first <= j < last:
                    share = p[e]
                    numbers[j] += share * adjoint.beta[s - o]
                    for c in range(d):
                        rows[j, c] += share * adjoint.grad[s - o, c]


@sum_kernel
def starts_back(nodes, x, totals):  # type: ignore[no-untyped-def]
    """Complete the gradients of the start weights of a range of nodes."""
    for i in range(nodes[0], nodes[1]):
        along = x.dtype.type(0)
        for c in range(x.shape[1]):
            along += totals.x[i, c] * x[i, c]
        totals.start[i] += along
