"""What preparation made of a data set: concepts found, sizes of subgraphs, and how many relational paths they hold."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.lemmas import lemmatize
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import write_json
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import track
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKER = "report.json"
FORMAT = 1
FIGURE = "paths.png"
BINS = 20  # of statements with about the same number of nodes
COUNTED = {
    "question_to_answer": "walks of K edges from a question concept to an answer concept",
    "all": "walks of K edges between any two nodes, the same one included",
}
HOW = (
    "A walk may visit a node again. Each fact can be walked in both directions, each relation between two nodes is an edge of its"
    " own, and walks by other middle nodes are other walks. All statements are counted, none is sampled; counts of 2^53 and more"
    " are rounded to 16 digits."
)

Floats = NDArray[np.float64]


def summary(data: PreparedData) -> dict[str, Any]:
    """Concepts found on each side, statements without any, and sizes of subgraphs."""
    return {"questions": len(data.questions), "statements": len(data.node_ptr) - 1, **data.about["report"]}


def count_walks(subgraph: Subgraph, hops: int) -> Floats:
    """The number of walks of 1 … ``hops`` edges: first row from question to answer concepts, second row all; [2, hops].

    Computed by one product of the adjacency matrix with a vector for each hop, so that its cost grows with facts times hops
    however many walks there are.

    >>> pair = Subgraph(np.arange(2), np.array([QUESTION, ANSWER]), np.array([0]), np.array([3]), np.array([1]))
    >>> count_walks(pair, 3).tolist()  # forth; forth and back; forth, back and forth
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
    """Of the questions that name the concept they were written around: how many have it in the graph, and how many among the
    concepts found in any of their statements.

    Grounding goes by lemmas, so another form of the same words counts as found ("dogs" for "dog").
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
    """A summary of prepared data, and its walks counted by statement."""

    about: dict[str, Any]  # what was prepared, from what
    summary: dict[str, Any]
    nodes: Ints  # [statements]
    walks: Floats  # [statements, 2, hops], as of count_walks

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

    def save(self, folder: str | Path) -> None:
        """Write ``report.json`` and ``paths.png`` into a folder that appears whole or not at all."""
        with new_folder(Path(folder), MARKER, [FIGURE]) as partial:
            write_json(partial / MARKER, self.to_dict())
            self.draw(partial / FIGURE)

    def draw(self, path: str | Path) -> None:
        """The paper's figure 2 of this data set: counts against a subgraph's nodes, and against hops."""
        from mhgrn.drawing.figures import check_image, plotting, write_figure

        path = Path(path)
        check_image(path)
        with plotting():
            from matplotlib.figure import Figure

            figure = Figure(figsize=(11.5, 4.8), layout="constrained")
            left, right = figure.subplots(1, 2)
            self._draw_by_nodes(left)
            self._draw_by_hops(right)
            figure.suptitle(f"K-hop relational paths in {len(self.nodes):,} statements", weight="bold")
            figure.supxlabel(
                "A path is a walk: nodes may repeat, facts are walked in both directions, every statement is counted.",
                fontsize=8,
            )
            write_figure(figure, path)

    def _draw_by_nodes(self, axes: "Axes") -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        for k in reversed(range(self.hops)):  # the legend has the lines' order
            counts = self.walks[:, 0, k]
            groups = [which for which in bins(self.nodes) if counts[which].any()]
            if not groups:
                continue
            power = exponent(self.nodes, counts)
            axes.plot(
                [float(self.nodes[which].mean()) for which in groups],
                [float(counts[which].mean()) for which in groups],
                marker="o",
                markersize=3,
                linewidth=1.2,
                color=_colour(k, self.hops),
                label=f"K = {k + 1}" + (f", as $n^{{{power:.1f}}}$" if power is not None else ""),
            )
        axes.set_xlabel("nodes n of the subgraph")
        axes.set_ylabel("paths from question to answer, mean")
        axes.set_title("by number of nodes")
        if _has_lines(axes):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)

    def _draw_by_hops(self, axes: "Axes") -> None:
        hops = range(1, self.hops + 1)
        for row, (label, style) in enumerate((("from question to answer", "-"), ("between any two nodes", "--"))):
            if len(self.walks) and self.walks[:, row].any():
                axes.plot(hops, self.walks[:, row].mean(0), style, marker="o", markersize=4, color="#3e6fc4", label=label)
        axes.set_xticks(list(hops))
        axes.set_xlabel("hops K")
        axes.set_ylabel("paths of K hops, mean of all statements")
        axes.set_title("by number of hops")
        if _has_lines(axes):
            axes.legend(fontsize=8)


def _has_lines(axes: "Axes") -> bool:
    """Whether there is anything in a panel, which then gets a grid and a logarithmic scale; else it says that there is not."""
    if not axes.lines:
        axes.text(0.5, 0.5, "no paths", transform=axes.transAxes, ha="center")
        return False
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
    return True


def _colour(k: int, hops: int) -> tuple[float, float, float]:
    """From light to dark blue."""
    share = (k + 1) / hops
    return (0.75 * (1 - share), 0.85 - 0.6 * share, 0.95 - 0.35 * share)


def bins(nodes: Ints) -> list[Ints]:
    """Statements in groups of about the same size by their number of nodes; those without a node are left out."""
    some = np.flatnonzero(nodes)
    if not len(some):
        return []
    edges = np.unique(np.quantile(nodes[some], np.linspace(0, 1, BINS + 1)[1:-1], method="inverted_cdf"))
    group = np.searchsorted(edges, nodes[some], side="left")
    return [some[group == g] for g in np.unique(group)]


def exponent(nodes: Ints, counts: Floats) -> float | None:
    """The slope of log count against log nodes over the statements that have a walk: count grows as nodes ** slope."""
    which = (counts > 0) & (nodes > 0)
    if len(np.unique(nodes[which])) < 2:
        return None
    x, y = np.log(nodes[which].astype(np.float64)), np.log(counts[which])
    x = x - x.mean()
    return round(float((x * y).sum() / (x * x).sum()), 3)


def check_output(folder: Path) -> None:
    """Refuse a folder that cannot be written, or a figure that cannot be drawn, better before the work than after it."""
    from mhgrn.drawing.figures import plotting

    check_replaceable(folder, MARKER, [FIGURE])
    with plotting():
        pass


def report(data: PreparedData, hops: int = 5, kg: str | Path | None = None) -> Report:
    """Look through prepared data; ``kg`` is the place of its graph, if that has moved."""
    found = summary(data)
    if any(question.concept is not None for question in data.questions):
        found["question_concept"] = question_concepts_found(data, data.load_graph(kg))
    about = {key: data.about[key] for key in ("splits", "statements", "settings", "graph_fingerprint", "fingerprint")}
    return Report(about, found, np.diff(data.node_ptr), count_all_walks(data, hops))
