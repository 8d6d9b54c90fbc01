"""The presence of walks and its adjoint where all edges are present; see :func:`mhgrn.nn.presence.walk_presence`."""

from mhgrn.compiled.jit import kernel


@kernel
def forward(index, present, states, edges):  # type: ignore[no-untyped-def]
    """Compute ``present`` [1 + K, N], whether a walk of k hops ends at a node, from its first row.

    Also ``states`` [K, N], how many states of a node such walks end with, and ``edges`` [K, S], by how many edges into a state.
    """
    for k in range(len(states)):
        for i in range(len(index.state_ptr) - 1):
            for s in range(index.state_ptr[i], index.state_ptr[i + 1]):
                count = 0
                for e in range(index.edge_ptr[s], index.edge_ptr[s + 1]):
                    count += present[k, index.edge_source[e]]
                edges[k, s] = count
                states[k, i] += count > 0
            present[k + 1, i] = states[k, i] > 0


@kernel
def backward(index, present, states, edges, grad, total):  # type: ignore[no-untyped-def]
    """Add to ``total`` [E] the gradients of the edges, from those of ``present`` [1 + K, N]; ``grad`` is used up.

    The states that walks end with share the gradient of their node, the edges of a state that walks take share the state's.
    """
    for k in range(len(states) - 1, -1, -1):
        for i in range(len(index.state_ptr) - 1):
            if grad[k + 1, i] == 0 or states[k, i] == 0:
                continue
            for s in range(index.state_ptr[i], index.state_ptr[i + 1]):
                if edges[k, s] == 0:
                    continue
                share = grad[k + 1, i] / (states[k, i] * edges[k, s])
                for e in range(index.edge_ptr[s], index.edge_ptr[s + 1]):
                    if present[k, index.edge_source[e]]:
                        total[e] += share
                        grad[k, index.edge_source[e]] += share
