"""Statistics of prepared data: concepts found, sizes of subgraphs, and numbers of relational paths."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.errors import UserError
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.lemmas import lemmatize
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.printing import shortened
from mhgrn.progress import track
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData, spread

FORMAT = 1
MOST_HOPS = 16  # of counted paths
BINS = 20  # groups of statements with similar numbers of nodes
COUNTED = {
    "question_to_answer": "walks of K edges from a question concept to an answer concept",
    "all": "walks of K edges between any two nodes, the same one included",
}
HOW = (
    "A walk may visit a node several times. Facts can be traversed in both directions. Walks that differ in a relation or in an"
    " intermediate node are counted separately. All statements are counted, without sampling; counts of 2^53 and more are rounded"
    " to 16 digits."
)

Floats = NDArray[np.float64]


def summary(data: PreparedData) -> dict[str, Any]:
    """Concepts found in questions and answers, statements without any, and sizes of subgraphs."""
    return {"questions": len(data.questions), "statements": len(data.node_ptr) - 1, **data.about["report"]}


def count_walks(subgraph: Subgraph, hops: int) -> Floats:
    """The number of walks of 1 … ``hops`` edges [2, hops]: from question to answer concepts, and between any two nodes.

    Each hop multiplies a vector by the adjacency matrix, so the cost is the number of facts times hops.

    >>> pair = Subgraph(np.arange(2), np.array([QUESTION, ANSWER]), np.array([0]), np.array([3]), np.array([1]))
    >>> count_walks(pair, 3).tolist()  # there; there and back; there, back and there again
    [[1.0, 0.0, 1.0], [2.0, 2.0, 2.0]]
    """
    node_ptr, edge_ptr = np.array([0, len(subgraph.types)]), np.array([0, len(subgraph.head)])
    out = np.zeros((1, 2, hops))
    _count_walks(node_ptr, edge_ptr, subgraph.types, subgraph.head, subgraph.tail, 0, 1, out)
    counted: Floats = out[0]
    return counted


def count_all_walks(data: PreparedData, hops: int) -> Floats:
    """:func:`count_walks` of every statement; [statements, 2, hops]."""
    total = len(data.node_ptr) - 1
    out = np.zeros((total, 2, hops))
    types, head, tail = (data.columns[name] for name in ("types", "head", "tail"))

    def count(start: int) -> None:
        data.ensure(start, min(start + 256, total))
        _count_walks(data.node_ptr, data.edge_ptr, types, head, tail, start, min(start + 256, total), out)

    with ThreadPoolExecutor() as pool:
        for _ in track(pool.map(count, range(0, total, 256)), "counting paths", -(-total // 256)):
            pass
    return out


@kernel
def _count_walks(node_ptr: Ints, edge_ptr: Ints, types: Ints, head: Ints, tail: Ints, first: int, last: int, out: Floats) -> None:
    for s in range(first, last):
        start, n = node_ptr[s], node_ptr[s + 1] - node_ptr[s]
        here = np.ones((n, 2))
        for i in range(n):
            here[i, 0] = 1.0 if types[start + i] == QUESTION else 0.0
        for k in range(out.shape[2]):
            there = np.zeros((n, 2))
            for e in range(edge_ptr[s], edge_ptr[s + 1]):
                h, t = head[e], tail[e]
                for c in range(2):
                    there[t, c] += here[h, c]
                    there[h, c] += here[t, c]
            here = there
            for i in range(n):
                if types[start + i] == ANSWER:
                    out[s, 0, k] += here[i, 0]
                out[s, 1, k] += here[i, 1]


def question_concepts_found(data: PreparedData, graph: KnowledgeGraph) -> dict[str, int]:
    """For questions with a known concept: how many have it in the graph, and how many in one of their statements.

    Grounding compares lemmas, so another form of the same words counts as found ("dogs" for "dog").
    """
    index = ConceptIndex.of(graph)
    known = in_graph = found = 0
    for number, question in enumerate(data.questions):
        if question.concept is None:
            continue
        known += 1
        forms = index.with_pattern(lemmatize(question.concept))
        in_graph += bool(forms)
        mentioned: set[int] = set()
        for subgraph in data.subgraphs(number):
            mentioned.update(subgraph.concepts[subgraph.types != OTHER].tolist())
        found += not mentioned.isdisjoint(forms)
    return {"known": known, "in the graph": in_graph, "found": found}


@dataclass(frozen=True)
class Report:
    """A summary of prepared data, and the number of walks of each statement. See :func:`mhgrn.drawing.path_counts.save_report`."""

    about: dict[str, Any]  # the prepared data
    summary: dict[str, Any]
    nodes: Ints  # [statements]
    walks: Floats  # [statements, 2, hops], see count_walks

    @property
    def hops(self) -> int:
        return int(self.walks.shape[2])

    def __str__(self) -> str:
        lines = []
        for name, value in self.summary.items():
            shown = ", ".join(f"{k} {v:,}" for k, v in value.items()) if isinstance(value, dict) else f"{value:,}"
            lines.append(f"{name}: {shown}")
        for k, counts in self.to_dict()["paths"]["question_to_answer"]["by_hops"].items():
            shown = ", ".join(f"{name} {value:,}" for name, value in counts.items())
            lines.append(f"paths of {k} hop{'s' if k != '1' else ''} from question to answer: {shown}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        paths: dict[str, Any] = {"hops": self.hops, "how": HOW}
        for row, (name, what) in enumerate(COUNTED.items()):
            counts = self.walks[:, row]  # [statements, hops]
            paths[name] = {
                "counted": what,
                "by_hops": {
                    str(k + 1): {"without": int((counts[:, k] == 0).sum()), **spread(counts[:, k])} for k in range(self.hops)
                },
                "by_nodes": [
                    {
                        "nodes": {"least": int(self.nodes[which].min()), "most": int(self.nodes[which].max())},
                        "mean_nodes": round(float(self.nodes[which].mean()), 2),
                        "statements": len(which),
                        "mean": {str(k + 1): round(float(counts[which, k].mean()), 2) for k in range(self.hops)},
                    }
                    for which in bins(self.nodes)
                ],
                "exponent": {str(k + 1): exponent(self.nodes, counts[:, k]) for k in range(self.hops)},
            }
        return {"format": FORMAT, "prepared": self.about, "summary": self.summary, "paths": paths}


def bins(nodes: Ints) -> list[Ints]:
    """Groups of statements with similar numbers of nodes, of about the same size. Statements without nodes are left out."""
    some = np.flatnonzero(nodes)
    if not len(some):
        return []
    edges = np.unique(np.quantile(nodes[some], np.linspace(0, 1, BINS + 1)[1:-1], method="inverted_cdf"))
    group = np.searchsorted(edges, nodes[some], side="left")
    return [some[group == g] for g in np.unique(group)]


def exponent(nodes: Ints, counts: Floats) -> float | None:
    """The slope of log count against log nodes, for statements with a walk: count grows as nodes ** slope."""
    which = (counts > 0) & (nodes > 0)
    if len(np.unique(nodes[which])) < 2:
        return None
    x, y = np.log(nodes[which].astype(np.float64)), np.log(counts[which])
    x = x - x.mean()
    return round(float((x * y).sum() / (x * x).sum()), 3)


def report(data: PreparedData, hops: int = 5, kg: str | Path | None = None) -> Report:
    """Compute the statistics of prepared data.

    Args:
        data: The prepared data.
        hops: Length of the longest paths to count.
        kg: Folder of the graph, if it has moved.
    """
    if isinstance(hops, bool) or not isinstance(hops, int) or not 1 <= hops <= MOST_HOPS:
        raise UserError(f"hops is {shortened(hops)}; it should be an integer from 1 to {MOST_HOPS}.")
    found = summary(data)
    if any(question.concept is not None for question in data.questions):
        found["question_concept"] = question_concepts_found(data, data.load_graph(kg))
    about = {key: data.about[key] for key in ("splits", "statements", "settings", "graph_fingerprint", "fingerprint")}
    return Report(about, found, np.diff(data.node_ptr), count_all_walks(data, hops))
