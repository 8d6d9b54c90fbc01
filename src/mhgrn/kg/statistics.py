"""Statistics of a graph: size, hubs, connected components."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.kg.graph import Ints, KnowledgeGraph

HUBS = 10
LONG = 5  # names of this many words or more are counted together


@dataclass(frozen=True)
class Statistics:
    """Counts of a graph. The neighbours of a concept are the other concepts that share a fact with it, in either direction.

    >>> graph = KnowledgeGraph.from_facts([("cat", "IsA", "animal"), ("cat", "Likes", "animal"), ("desk", "MadeOf", "hard_wood")])
    >>> found = Statistics.of(graph)
    >>> found.components, found.largest_component, found.parallel, found.words
    (2, 2, 1, {'1': 3, '2': 1})
    """

    schema: str
    concepts: int
    facts: int
    isolated: int  # concepts without a neighbour
    self_loops: int  # facts from a concept to itself
    pairs: int  # pairs of concepts with at least one fact
    parallel: int  # facts beyond the first between the same two concepts
    neighbours: dict[str, float]  # per concept: mean and percentiles
    hubs: dict[str, int]  # the concepts with the most neighbours, and how many
    components: int  # including isolated concepts
    largest_component: int  # number of its concepts
    relations: dict[str, int]  # number of facts of each
    pruned_relations: tuple[str, ...]
    words: dict[str, int]  # concepts by the number of words in their names

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> "Statistics":
        root, degree = _components(graph.neighbor_ptr, graph.neighbor)
        sizes = np.bincount(root, minlength=1)  # of components, at their roots
        self_loops = int(np.count_nonzero(graph.heads() == graph.tail))
        pairs = int(degree.sum()) // 2
        counts = np.bincount(graph.relation, minlength=len(graph.schema)).tolist()
        names = [r.name for r in graph.schema.relations]
        return cls(
            schema=graph.schema.name,
            concepts=len(graph),
            facts=graph.fact_count,
            isolated=int(np.count_nonzero(degree == 0)),
            self_loops=self_loops,
            pairs=pairs,
            parallel=graph.fact_count - self_loops - pairs,
            neighbours=_distribution(degree),
            hubs={graph.name(i): int(degree[i]) for i in np.argsort(-degree, kind="stable")[:HUBS].tolist()},
            components=int(np.count_nonzero(sizes)),
            largest_component=int(sizes.max()),
            relations=dict(zip(names, counts, strict=True)),
            pruned_relations=graph.schema.pruned_relations,
            words=_words(graph),
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        n = max(self.concepts, 1)
        near = self.neighbours
        rows = {
            "isolated concepts": f"{self.isolated:,} ({self.isolated / n:.1%})",
            "connected components": f"{self.components:,}, the largest of {self.largest_component:,} concepts"
            f" ({self.largest_component / n:.1%})",
            "neighbours": f"mean {near['mean']:.2f}; " + ", ".join(f"{k} {near[k]:,}" for k in ("median", "90%", "99%", "max")),
            "connected pairs": f"{self.pairs:,}; {self.parallel:,} parallel facts, {self.self_loops:,} self-loops",
            "words per name": ", ".join(f"{length}: {count / n:.1%}" for length, count in self.words.items()),
            "hubs": ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in self.hubs.items()),
        }
        lines = [f"{self.concepts:,} concepts, {self.facts:,} facts"]
        lines += [f"  {what:<21} {value}" for what, value in rows.items()]
        width = max(map(len, self.relations), default=0)
        lines.append(f"{len(self.relations):,} relations (schema {self.schema})")
        for name, count in sorted(self.relations.items(), key=lambda item: -item[1]):
            mark = "  (pruned by the schema)" if name in self.pruned_relations else ""
            lines.append(f"  {name:<{width}} {count:>11,} {count / max(self.facts, 1):>6.1%}{mark}")
        return "\n".join(lines)


def _distribution(degree: Ints) -> dict[str, float]:
    if not len(degree):
        return {"mean": 0.0, "median": 0, "90%": 0, "99%": 0, "max": 0}
    shares = np.percentile(degree, [50, 90, 99, 100], method="inverted_cdf").tolist()
    return {"mean": float(degree.mean()), **dict(zip(("median", "90%", "99%", "max"), map(int, shares), strict=True))}


def _words(graph: KnowledgeGraph) -> dict[str, int]:
    lengths = Counter(min(graph.name(i).count("_") + 1, LONG) for i in range(len(graph)))
    return {f"{length}" if length < LONG else f"{LONG} or more": lengths[length] for length in sorted(lengths)}


@kernel
def _components(ptr: Ints, neighbour: Ints) -> tuple[Ints, Ints]:
    """Return for each concept the smallest concept of its component, and its number of neighbors besides itself."""
    n = len(ptr) - 1
    parent = np.arange(n)
    degree = np.zeros(n, np.int64)
    for i in range(n):
        for e in range(ptr[i], ptr[i + 1]):
            j = np.int64(neighbour[e])
            degree[i] += j != i
            if j >= i:
                continue
            a = i
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[j] != j:
                parent[j] = parent[parent[j]]
                j = parent[j]
            if a < j:
                parent[j] = a
            else:
                parent[a] = j
    for i in range(n):
        parent[i] = parent[parent[i]]  # a parent is never larger, so the parent's own is final
    return parent, degree
