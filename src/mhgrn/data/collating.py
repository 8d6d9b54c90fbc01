"""Kernels that join subgraphs into one, leaving out what cannot reach the nodes that matter."""

from mhgrn.compiled import kernel


@kernel
def measure(g0, g1, node_ptr, fact_ptr, head, tail, steps, distance, nodes, edges):  # type: ignore[no-untyped-def]
    """Hops from each node to the nearest that matters (distance 0, given), and how many nodes and edges each graph keeps."""
    for g in range(g0, g1):
        n0, n1 = node_ptr[g], node_ptr[g + 1]
        for hop in range(1, steps + 1):
            for f in range(fact_ptr[g], fact_ptr[g + 1]):
                h, t = n0 + head[f], n0 + tail[f]
                if distance[t] == hop - 1 and distance[h] > hop:
                    distance[h] = hop
                if distance[h] == hop - 1 and distance[t] > hop:
                    distance[t] = hop
        for i in range(n0, n1):
            nodes[g + 1] += distance[i] <= steps
        for f in range(fact_ptr[g], fact_ptr[g + 1]):
            edges[g + 1] += distance[n0 + tail[f]] < steps
            edges[g + 1] += distance[n0 + head[f]] < steps


@kernel
def fill(  # type: ignore[no-untyped-def]
    g0, g1, node_ptr, fact_ptr, head, relation, tail, schema_size, steps, distance, nodes, edges, kept, graph, edge_index, edge_type
):
    """Write the kept nodes and the edges into nodes nearer than ``steps``; distances become new node numbers."""
    for g in range(g0, g1):
        n0, edge = node_ptr[g], edges[g]
        new = nodes[g]
        for f in range(fact_ptr[g], fact_ptr[g + 1]):
            if distance[n0 + tail[f]] < steps:
                edge_index[0, edge], edge_index[1, edge], edge_type[edge] = n0 + head[f], n0 + tail[f], relation[f]
                edge += 1
        for f in range(fact_ptr[g], fact_ptr[g + 1]):
            if distance[n0 + head[f]] < steps:
                edge_index[0, edge], edge_index[1, edge], edge_type[edge] = n0 + tail[f], n0 + head[f], relation[f] + schema_size
                edge += 1
        for i in range(n0, node_ptr[g + 1]):
            if distance[i] <= steps:
                kept[new], graph[new], distance[i] = i, g, new
                new += 1
        for e in range(edges[g], edge):
            edge_index[0, e], edge_index[1, e] = distance[edge_index[0, e]], distance[edge_index[1, e]]
