"""Kernels that join subgraphs into one, leaving out what cannot reach the nodes that matter: as they are, or sorted beforehand.

A subgraph that is sorted for walking has its nodes in the order of their distance (the hops to the nearest node that matters), so
that what walks of some number of hops read of it is a prefix.
"""

import numpy as np

from mhgrn.compiled.jit import kernel

FAR = 255  # stands for any distance that is not less


@kernel
def _measure(f0, f1, n0, head, tail, steps, distance):  # type: ignore[no-untyped-def]
    """Spread distances from the nodes where they are 0, up to ``steps``; elsewhere they are larger to begin with."""
    for hop in range(1, steps + 1):
        spread = False
        for f in range(f0, f1):
            h, t = n0 + head[f], n0 + tail[f]
            if distance[t] == hop - 1 and distance[h] > hop:
                distance[h] = hop
                spread = True
            if distance[h] == hop - 1 and distance[t] > hop:
                distance[t] = hop
                spread = True
        if not spread:
            break


@kernel
def measure(g0, g1, node_ptr, fact_ptr, head, tail, steps, distance, nodes, edges):  # type: ignore[no-untyped-def]
    """Hops from each node to the nearest that matters (distance 0, given), and how many nodes and edges each graph keeps."""
    for g in range(g0, g1):
        n0, n1 = node_ptr[g], node_ptr[g + 1]
        _measure(fact_ptr[g], fact_ptr[g + 1], n0, head, tail, steps, distance)
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


@kernel
def sort(  # type: ignore[no-untyped-def]
    statements, node_ptr, fact_ptr, concepts, types, head, relation, tail, schema_size, used, is_wanted, or_first,
    ends, row, kind, distance, states, exits, state_relation, edges, exit_relation, exit_distance, source, source_exit,
):  # fmt: skip
    """Sort the subgraphs of some statements for walking, one behind the other, without what no walk connects with a wanted node.

    States of a node stand by relation, its exits by the distance of the nearest node they lead to, edges by the state they lead
    to. ``ends`` [graphs, 4] are given the ends of each graph's nodes, states, exits and edges. Returns the most edges of a state.
    """
    m = 2 * schema_size
    most = 0
    for g in range(len(statements)):
        most = max(most, node_ptr[statements[g] + 1] - node_ptr[statements[g]])
    hops, place, order = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    into, nearest, exit_place = np.empty(most * m, np.int64), np.empty(most * m, np.int32), np.empty(most * m, np.int32)
    level = np.empty(FAR + 2, np.int64)
    node, state, exit_, edge, widest = 0, 0, 0, 0, 0
    for g in range(len(statements)):
        n0, n1 = node_ptr[statements[g]], node_ptr[statements[g] + 1]
        f0, f1 = fact_ptr[statements[g]], fact_ptr[statements[g] + 1]
        n = n1 - n0
        some = False
        for i in range(n):
            wanted = is_wanted[types[n0 + i]]
            hops[i] = 0 if wanted else FAR
            some |= wanted
        if or_first and n > 0 and not some:
            hops[0] = 0
        _measure(f0, f1, 0, head, tail, FAR - 1, hops)
        level[:] = 0
        for i in range(n):
            level[hops[i] + 1] += 1
        for step in range(FAR + 1):
            level[step + 1] += level[step]
        kept = level[FAR]
        for i in range(n):
            place[i] = level[hops[i]]
            order[place[i]] = i
            level[hops[i]] += 1
        into[: kept * m] = 0
        nearest[: kept * m] = FAR
        for f in range(f0, f1):
            h, t, r = head[f], tail[f], relation[f]
            if hops[h] < FAR and hops[t] < FAR:
                j, i = place[h] * m + r, place[t] * m + r
                into[i] += 1
                into[j + schema_size] += 1
                nearest[j] = min(nearest[j], hops[t])
                nearest[i + schema_size] = min(nearest[i + schema_size], hops[h])
        for p in range(kept):
            i = order[p]
            row[node] = np.searchsorted(used, concepts[n0 + i])
            kind[node] = types[n0 + i]
            distance[node] = hops[i]
            first = state
            for r in range(m):
                size = into[p * m + r]
                if size > 0:
                    state_relation[state] = r
                    edges[state] = size
                    into[p * m + r] = edge
                    edge += size
                    state += 1
                    widest = max(widest, size)
            states[node] = state - first
            first = exit_
            for r in range(m):
                near = nearest[p * m + r]
                if near < FAR:
                    x = exit_
                    while x > first and exit_distance[x - 1] > near:
                        exit_relation[x], exit_distance[x] = exit_relation[x - 1], exit_distance[x - 1]
                        x -= 1
                    exit_relation[x], exit_distance[x] = r, near
                    exit_ += 1
            exits[node] = exit_ - first
            for x in range(first, exit_):
                exit_place[p * m + exit_relation[x]] = x - first
            node += 1
        for f in range(f0, f1):
            h, t, r = head[f], tail[f], relation[f]
            if hops[h] < FAR and hops[t] < FAR:
                j, i = place[h] * m + r, place[t] * m + r
                source[into[i]], source_exit[into[i]] = place[h], exit_place[j]
                into[i] += 1
                j, i = j + schema_size, i + schema_size
                source[into[j]], source_exit[into[j]] = place[t], exit_place[i]
                into[j] += 1
        ends[g, 0], ends[g, 1], ends[g, 2], ends[g, 3] = node, state, exit_, edge
    return widest


@kernel
def count_kept(  # type: ignore[no-untyped-def]
    g0, g1, statements, steps, node_ptr, state_ptr, exit_ptr, edge_ptr, distance, states, exits, edges, exit_distance, sizes
):
    """How many nodes, states, exits, edges and turns walks of so many hops read of sorted subgraphs: ``sizes`` [graphs + 1, 5].

    False if some graph's numbers do not fit together.
    """
    for g in range(g0, g1):
        s = statements[g]
        state, x, edge = state_ptr[s], exit_ptr[s], 0
        nodes, kept_exits, turns = 0, 0, 0
        for i in range(node_ptr[s], node_ptr[s + 1]):
            if distance[i] > steps:
                break
            into = states[i] if distance[i] < steps else 0
            out_of = 0
            if x + exits[i] > exit_ptr[s + 1]:
                return False
            while out_of < exits[i] and exit_distance[x + out_of] < steps:
                out_of += 1
            x += exits[i]
            nodes += 1
            state += into
            kept_exits += out_of
            turns += into * out_of
        if state > state_ptr[s + 1]:
            return False
        for t in range(state_ptr[s], state):
            edge += edges[t]
        if edge > edge_ptr[s + 1] - edge_ptr[s]:
            return False
        size = sizes[g + 1]
        size[0], size[1], size[2], size[3], size[4] = nodes, state - state_ptr[s], kept_exits, edge, turns
    return True


@kernel
def join(  # type: ignore[no-untyped-def]
    g0, g1, statements, steps, num_relations, used_count, node_ptr, state_ptr, exit_ptr, edge_ptr,
    row, kind, distance, states, exits, state_relation, edges, exit_relation, exit_distance, source, source_exit, sizes,
    node_row, types, graph, out_state_ptr, out_state_relation, out_exit_ptr, out_exit_relation, out_exit_node,
    out_edge_ptr, out_edge_exit, out_edge_source, turn_ptr,
):  # fmt: skip
    """Join what walks of so many hops read of sorted subgraphs; ``sizes`` are what :func:`count_kept` found, added up.

    False if some number is out of range.
    """
    start = np.empty(2**16 + 1, np.int32)  # exits of a node, for whatever number a node may have
    for g in range(g0, g1):
        s = statements[g]
        n0, n1 = sizes[g, 0], sizes[g + 1, 0]
        state, x_out, turn = sizes[g, 1], sizes[g, 2], sizes[g, 4]
        x = exit_ptr[s]
        for i in range(n0, n1):
            old = node_ptr[s] + i - n0
            if row[old] < 0 or row[old] >= used_count or kind[old] > 2:
                return False
            node_row[i], types[i], graph[i] = row[old], kind[old], g
            first_state, first_exit = state, x_out
            if distance[old] < steps:
                state += states[old]
            for y in range(x, x + exits[old]):
                if exit_distance[y] >= steps:
                    break
                if exit_relation[y] >= num_relations:
                    return False
                out_exit_relation[x_out], out_exit_node[x_out] = exit_relation[y], i
                x_out += 1
            x += exits[old]
            turn += (state - first_state) * (x_out - first_exit)
            out_state_ptr[i + 1], out_exit_ptr[i + 1], turn_ptr[i + 1] = state, x_out, turn
        edge = sizes[g, 3]
        shift = state_ptr[s] - sizes[g, 1]
        for t in range(sizes[g, 1], state):
            if state_relation[t + shift] >= num_relations:
                return False
            out_state_relation[t] = state_relation[t + shift]
            edge += edges[t + shift]
            out_edge_ptr[t + 1] = edge
        first, count = edge_ptr[s], edge - sizes[g, 3]
        from_node, from_exit = source[first : first + count], source_exit[first : first + count]
        to_node, to_exit = out_edge_source[sizes[g, 3] : edge], out_edge_exit[sizes[g, 3] : edge]
        start[0] = sizes[g, 2]
        for i in range(n0, n1):
            start[i - n0 + 1] = out_exit_ptr[i + 1]
        wrong = False
        for e in range(count):
            j = from_node[e]
            x = start[j] + from_exit[e]
            to_node[e], to_exit[e] = n0 + j, x
            wrong |= (j >= n1 - n0) | (x >= start[j + 1])
        if wrong:
            return False
    return True


@kernel
def share_rows(node_row, used, feature_row, concepts, distinct):  # type: ignore[no-untyped-def]
    """Each node's concept and its place among the ``distinct`` ones, ascending, of which there are as many as is returned."""
    number = np.zeros(len(used), np.int32)
    for i in range(len(node_row)):
        number[node_row[i]] = 1
    count = 0
    for u in range(len(used)):
        if number[u] > 0:
            distinct[count] = used[u]
            number[u] = count
            count += 1
    for i in range(len(node_row)):
        feature_row[i], concepts[i] = number[node_row[i]], used[node_row[i]]
    return count
