"""A random part of a graph's facts, for experiments with incomplete graphs."""

import numpy as np
from xxhash import xxh64_intdigest

from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.printing import shortened
from mhgrn.progress import track


def sample_facts(graph: KnowledgeGraph, keep: float, seed: int = 0) -> KnowledgeGraph:
    """Keep a random share of the facts, and all concepts. Returns a graph in memory, without provenance.

    Facts are drawn by a hash of their names and the seed: the order of facts and concepts does not matter, and a smaller share is
    part of a larger one. The two directions of a fact with a symmetric relation are one fact.

    Args:
        graph: The graph. It does not change.
        keep: The share of the facts that are kept, above 0 and below 1.
        seed: Another seed draws other facts.

    >>> graph = KnowledgeGraph.from_facts([("a", "IsA", "b"), ("b", "IsA", "c"), ("c", "IsA", "d"), ("d", "IsA", "e")])
    >>> half = sample_facts(graph, 0.5)
    >>> half.fact_count, len(half)
    (2, 5)
    """
    if not 0 < keep < 1:
        raise UserError(f"keep is {shortened(keep)}; it should be above 0 and below 1.")
    symmetric = graph.schema.symmetric_ids
    head, tail, relation = graph.heads(), np.asarray(graph.tail), np.asarray(graph.relation)
    names, labels = list(graph.names), [relation.name for relation in graph.schema.relations]
    draws = np.empty(len(head), dtype=np.uint64)
    columns = zip(head.tolist(), relation.tolist(), tail.tolist(), strict=True)
    for number, (h, r, t) in enumerate(track(columns, "drawing facts", len(head))):
        ends = sorted((names[h], names[t])) if r in symmetric else (names[h], names[t])
        draws[number] = xxh64_intdigest("\t".join((ends[0], labels[r], ends[1])).encode(), seed)
    facts = np.unique(draws)
    count = round(keep * len(facts))
    if not count:
        raise UserError(f"keep is {keep:g}: none of {len(facts):,} facts would be left; keep more.")
    kept = np.flatnonzero(draws <= facts[count - 1])
    weight = None if graph.weight is None else np.asarray(graph.weight)[kept]
    source = {"sampled": {"keep": keep, "seed": seed, "of": graph.fingerprint}}
    columns_kept = head[kept], relation[kept], tail[kept], weight
    return KnowledgeGraph.from_sorted(graph.names, *columns_kept, graph.schema, source, labels=graph.labels)
