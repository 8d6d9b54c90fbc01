"""Compiled kernels that join subgraphs into one batch and drop what cannot reach the nodes that an encoder reads."""

from typing import NamedTuple

from mhgrn.batching.walk_index import Longs, Numbers
from mhgrn.compiled.jit import kernel


class Facts(NamedTuple):
    """The facts of several subgraphs, one subgraph behind the other."""

    node_ptr: Longs  # [G + 1] nodes of a subgraph
    ptr: Longs  # [G + 1] facts of a subgraph
    head: Numbers  # [facts] node, counted from the first of its subgraph
    relation: Numbers  # [facts]
    tail: Numbers  # [facts]


@kernel
def are_valid(g0, g1, facts, schema_size):  # type: ignore[no-untyped-def]
    """Whether the facts join nodes of their own subgraph by relations of the schema: the other kernels index with them."""
    bad = 0
    for g in range(g0, g1):
        nodes = facts.node_ptr[g + 1] - facts.node_ptr[g]
        for f in range(facts.ptr[g], facts.ptr[g + 1]):
            bad |= (facts.head[f] >= nodes) | (facts.tail[f] >= nodes) | (facts.relation[f] >= schema_size)
    return bad == 0


@kernel
def measure(g0, g1, facts, steps, distance, nodes, edges):  # type: ignore[no-untyped-def]
    """Spread distances from the nodes where they are 0, and count the nodes and edges that each graph keeps.

    ``distance`` is ``steps`` + 1 elsewhere to begin with. Nodes at most ``steps`` away are kept, and edges into nodes nearer than
    ``steps``. The loops are free of branches, which the processor would predict wrongly half of the time.
    """
    for g in range(g0, g1):
        here = distance[facts.node_ptr[g] : facts.node_ptr[g + 1]]
        for _ in range(steps):
            has_spread = False
            for f in range(facts.ptr[g], facts.ptr[g + 1]):
                h, t = facts.head[f], facts.tail[f]
                a, b = here[h], here[t]
                here[h], here[t] = min(a, b + 1), min(b, a + 1)
                has_spread |= abs(a - b) > 1
            if not has_spread:
                break
        nodes[g + 1] = (here <= steps).sum()
        count = 0
        for f in range(facts.ptr[g], facts.ptr[g + 1]):
            count += here[facts.tail[f]] < steps
            count += here[facts.head[f]] < steps
        edges[g + 1] = count


@kernel
def number(g0, g1, facts, steps, distance, nearest_first, nodes, place, kept, batch):  # type: ignore[no-untyped-def]
    """Number the kept nodes of each graph, in their order or, with ``nearest_first``, by distance."""
    for g in range(g0, g1):
        new = nodes[g]
        for step in range(steps + 1 if nearest_first else 1):
            for i in range(facts.node_ptr[g], facts.node_ptr[g + 1]):
                if distance[i] == step or (not nearest_first and distance[i] <= steps):
                    kept[new], batch[new], place[i] = i, g, new
                    new += 1


@kernel
def list_edges(g0, g1, facts, schema_size, steps, distance, place, edges):  # type: ignore[no-untyped-def]
    """List the kept edges of each graph: first along the facts, then their reverses, each in the order of the facts."""
    for g in range(g0, g1):
        e, end = edges.ptr[g], edges.ptr[g + 1]
        near = distance[facts.node_ptr[g] : facts.node_ptr[g + 1]] < steps
        number = place[facts.node_ptr[g] : facts.node_ptr[g + 1]]
        for is_reverse in range(2):
            source, target = (facts.tail, facts.head) if is_reverse else (facts.head, facts.tail)
            for f in range(facts.ptr[g], facts.ptr[g + 1]):
                if e == end:
                    break
                edges.source[e], edges.target[e] = number[source[f]], number[target[f]]
                edges.relation[e] = facts.relation[f] + is_reverse * schema_size
                e += near[target[f]]  # an edge that is not kept is overwritten
