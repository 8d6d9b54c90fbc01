"""Table 2 and figure 7: the time of a training step by hops and by nodes, on random graphs."""

import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mhgrn.config import Config
from mhgrn.encoders import graph_encoders
from mhgrn.progress import track
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn_reproduction.printed import result

if TYPE_CHECKING:
    from mhgrn.model import KnowledgeAwareQA


def random_subgraph(nodes: int, facts: int, relations: int, rng: np.random.Generator) -> Subgraph:
    """A random subgraph: 20 % question nodes, 10 % answer nodes, at most one fact between two nodes."""
    pairs = rng.choice(nodes * (nodes - 1) // 2, size=min(facts, nodes * (nodes - 1) // 2), replace=False)
    tail = ((1 + np.sqrt(1 + 8 * pairs)) // 2).astype(np.int64)
    tail -= tail * (tail - 1) // 2 > pairs  # where the root was rounded up
    head = pairs - tail * (tail - 1) // 2
    asked, answers = max(1, nodes // 5), max(1, nodes // 10)
    types = np.array([QUESTION] * asked + [ANSWER] * answers + [OTHER] * (nodes - asked - answers))
    return Subgraph(np.arange(nodes), types, head, rng.integers(relations, size=len(head)), tail)


def small_model(name: str, relations: int, *settings: str) -> "KnowledgeAwareQA":
    """An untrained model with the widths of the built-in text encoder."""
    import torch

    from mhgrn.encoders.base import Dims
    from mhgrn.model import assemble

    torch.manual_seed(0)
    kind = graph_encoders.load(name)
    config = Config.load(overrides=[f"graph_encoder={name}", *settings])
    dims = Dims(384 if kind.uses_text else 0, 384 if kind.uses_features else 0, 2 * relations, 384)
    return assemble(config, dims.sentence_dim, dims)


def step(model: "KnowledgeAwareQA", graphs: Sequence[Subgraph], relations: int, learn: bool) -> Any:
    """The scores of graphs with random text and node features; with ``learn``, gradients are computed too."""
    import torch

    from mhgrn.batching.graph_batch import GraphBatch
    from mhgrn.text.tokens import Tokens

    encoder = model.graph_encoder
    model.train(learn)
    generator = torch.Generator().manual_seed(1)
    batch = GraphBatch.collate(graphs, relations, encoder.reach)
    encoder.prepare(batch)
    s = torch.randn(len(graphs), 384 if encoder.uses_text else 0, generator=generator)
    features = torch.randn(batch.num_nodes, 384 if encoder.uses_features else 0, generator=generator)
    tokens = None
    if encoder.uses_tokens:
        tokens = Tokens(torch.randn(len(graphs), 12, 384, generator=generator), torch.ones(len(graphs), 12, dtype=torch.bool))
    if encoder.uses_relevance:
        batch = batch.with_relevance(torch.rand(batch.num_nodes, generator=generator))
    with torch.set_grad_enabled(learn):
        score = model(s, features, batch, tokens).score
        if learn:
            score.square().sum().backward()
    return score.detach()


SCALED = {  # the setting of K
    "rgcn": "rgcn.layers={}",
    "mhgrn": "mhgrn.hops={}",
    "khop-rn": "khop_rn.hops={}",
    "kagnet": "kagnet.hops={}",
}
COMPLEXITY = {"rgcn": "O(mnKΔ)", "mhgrn": "O(m²nKΔ)", "kagnet": "O(mᴷnKΔᴷ)"}
HOPS, NODES = (1, 2, 3, 4, 5), (25, 50, 100, 200, 400)
LONG = 1.0  # seconds; larger sizes are skipped after a step that takes longer


def scalability(graphs: int = 10, degree: int = 5, repeats: int = 3) -> dict[str, Any]:
    """Seconds of a training step by hops (100 nodes) and by nodes (K = 2)."""
    times: dict[str, dict[str, dict[int, float]]] = {}
    for name in track(SCALED, "measuring steps"):
        times[name] = {
            "hops": _times(name, ((k, k, 100) for k in HOPS), graphs, degree, repeats),
            "nodes": _times(name, ((n, 2, n) for n in NODES), graphs, degree, repeats),
        }
    rows = []
    for name, by in times.items():
        shown = [_milliseconds(by["hops"].get(k)) for k in HOPS] + [_milliseconds(by["nodes"].get(n)) for n in NODES]
        rows.append([name, *shown, COMPLEXITY.get(name, "–")])
    columns = ["graph encoder", *(f"K = {k}" for k in HOPS), *(f"n = {n}" for n in NODES), "paper's time, sparse graph"]
    notes = [
        f"Milliseconds of a training step (forward and backward) on {graphs} random graphs with {degree} facts per node and 17"
        f" relations, median of {repeats}: by hops with 100 nodes, by nodes with K = 2.",
        f"Larger sizes are skipped after a step that takes more than {LONG:g} s. khop-rn and kagnet read at most 5,000 paths of a"
        " graph, their default limit.",
        "The paper measured on a GPU and reports a ratio of MHGRN's cost to RGCN's that approaches 2; it shows figure 7 without"
        " numbers.",
    ]
    return result("scalability", columns, rows, notes, seconds=times)


def _times(name: str, sizes: Iterable[tuple[int, int, int]], graphs: int, degree: int, repeats: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for size, hops, nodes in sizes:
        rng = np.random.default_rng(nodes)
        batch = [random_subgraph(nodes, degree * nodes, 17, rng) for _ in range(graphs)]
        model = small_model(name, 17, SCALED[name].format(hops))
        seconds = []
        for _ in range(repeats + 1):  # the first step may compile
            began = time.perf_counter()
            step(model, batch, 17, learn=True)
            seconds.append(time.perf_counter() - began)
        found[size] = round(statistics.median(seconds[1:]), 6)
        if found[size] > LONG:
            break
    return found


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:,.1f}"


def draw_scalability(found: dict[str, Any], path: Path) -> None:
    """Two panels: by hops and by nodes."""
    from mhgrn.drawing.figures import check_image, plotting, write_figure

    check_image(path)
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 4), layout="constrained")
        for axes, (by, label) in zip(figure.subplots(1, 2), (("hops", "hops K"), ("nodes", "nodes n, K = 2")), strict=True):
            for name, times in found["seconds"].items():
                axes.plot([int(x) for x in times[by]], [1000 * s for s in times[by].values()], marker="o", label=name)
            measured = max((times[by] for times in found["seconds"].values()), key=len)
            axes.set_xticks([int(x) for x in measured])
            axes.set_xlabel(label)
            axes.set_yscale("log")
            axes.set_ylabel("milliseconds of a training step")
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.yaxis.set_minor_formatter("")
            axes.set_yticks([30, 100, 300, 1000])
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        write_figure(figure, path)
