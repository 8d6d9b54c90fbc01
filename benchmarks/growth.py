"""Growth of time and peak memory of multi-hop message passing, with fitted exponents; the paper's figure 7 and table 2, measured.

    python benchmarks/growth.py [--json FILE] [--plots FOLDER] [--quick]

A step is a forward and a backward pass, d = 100, from a batch's edges to all gradients: sorting the edges is part of it.

Time is the processor time of a process with one thread, the least of several steps after a first one. Memory is kept between steps
of one size, because the cost of fresh pages depends on what else runs. In parts 1 and 2 each size has its own process. The sizes
take turns for several rounds; every round gives an exponent, and the median of these is reported with its quartiles. Large tensors
are in huge pages where the system has them, as under the ``mhgrn`` command: with small pages, address translation gets slower the
more memory is in use. Memory is how far a last step raises the process's peak resident memory, after free memory was returned.
An exponent is the slope of a least-squares line through the logarithms of the larger half of the sizes: 1 is linear.

1. In K, nodes (at a fixed degree), edges (in one graph of a fixed number of nodes), relation types and the largest degree (both
   at fixed nodes and edges). Everything is random and uniform, which gives most states, and nothing is pruned. The first hop costs
   less than half of another, so the cost of a further hop, (t(2K) - t(K))/K, is printed too. While n is small, time in nodes
   includes that less and less of the graph fits into caches, so n goes up to 8 GB of memory: the larger half exceeds all caches.
2. t(2K)/t(K) with pruning (everything skipped that reaches no answer node): on the random graphs in which K grows, and on a batch
   of questions for the whole graph encoder, from features to score, and for its messages alone. A question has few answer nodes:
   the last hops are nearly free, which raises the ratio at small K, while the cost of a further hop stays the same. No line is
   fitted here.
3. Table 2: K hops of MHGRN, K layers of RGCN (PyTorch Geometric's ``RGCNConv``), and all simple paths of at most K hops from
   question to answer nodes as KagNet reads them (found and stored, not yet encoded). The dense graph has every edge of every
   relation, the sparse one Δ edges of each relation out of each node. Half of the nodes are the question's, half the answer's.
4. Figure 7: the same on a batch of 32 questions with 5 choices, by K and by the nodes a graph may have. Real CommonsenseQA if
   ``../shared/data`` holds it, graphs of about its shape otherwise. More than 5 million walks are not enumerated.
"""

import argparse
import ctypes
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import message_passing
from graphs import DATA, graph_of
from measuring import GB, MB, Comparison, Sample, Spread, Step, add_json_option, compare, in_fresh_process, machine_time, write_json
from measuring import memory_of as peak_of
from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.compiled import buffers
from mhgrn.drawing.figures import plotting, write_figure
from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder
from mhgrn.kg import KnowledgeGraph
from mhgrn.nn.message_passing import WalkWeights, multi_hop_messages
from mhgrn.nn.walks import find_walks
from mhgrn.questions.reading import read_splits
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Extractor, Subgraph, SubgraphLimits
from mhgrn.subgraphs.prepared import ground

WIDTH, TEXT_WIDTH, SCHEMA = 100, 384, 17
MOST_WALKS = 5_000_000
LEAST_SECONDS, MOST_SECONDS, MOST_STEPS = 0.5, 40.0, 50  # spent on the time of one point
PRUNED = ("pruned", "real encoder", "real messages")
Point = dict[str, float | None]  # size, seconds, memory, totals of all steps; None where a method gave up


@dataclass(frozen=True)
class Shape:
    """A random graph, and how far messages go in it."""

    nodes: int
    edges: int
    relations: int
    hops: int
    hub: int = 0  # edges at node 0, half in and half out

    def batch(self) -> GraphBatch:
        rng = np.random.default_rng(0)
        ends = rng.integers(0, self.nodes, (2, self.edges))
        ends[1, : self.hub // 2] = 0
        ends[0, self.hub // 2 : self.hub] = 0
        return one_graph(self.nodes, ends, rng.integers(0, self.relations, self.edges), self.relations)


def one_graph(nodes: int, ends: Any, relation: Any, num_relations: int) -> GraphBatch:
    """Half of the nodes are the question's, half the answer's."""
    return GraphBatch(
        concepts=torch.arange(nodes),
        node_type=torch.tensor([QUESTION, ANSWER])[torch.arange(nodes) % 2],
        batch=torch.zeros(nodes, dtype=torch.int64),
        edge_index=torch.from_numpy(ends),
        edge_type=torch.from_numpy(relation),
        num_graphs=1,
        num_relations=num_relations,
    )


def dense_graph(nodes: int, relations: int) -> GraphBatch:
    source, target, relation = np.indices((nodes, nodes, relations)).reshape(3, -1)
    kept = source != target
    return one_graph(nodes, np.stack([source, target])[:, kept], relation[kept], relations)


def sparse_graph(nodes: int, relations: int, degree: int) -> GraphBatch:
    """``degree`` edges of each relation out of each node, and as many into it."""
    rng = np.random.default_rng(0)
    source, relation, _ = np.indices((nodes, relations, degree)).reshape(3, -1)
    target = np.stack([rng.permutation(nodes) for _ in range(relations * degree)], axis=1).reshape(-1)
    return one_graph(nodes, np.stack([source, target]), relation, relations)


def normal(*shape: int) -> Tensor:
    return torch.randn(shape).requires_grad_()


def mhgrn_step(batch: GraphBatch, hops: int, needed: Tensor | None = None) -> Step:
    m = batch.num_relations
    weights = WalkWeights(normal(batch.num_nodes), normal(batch.num_graphs, m), normal(m, m))
    leaves = [x, W, padding] = normal(batch.num_nodes, WIDTH), normal(hops, m, WIDTH), normal(hops - 1, WIDTH)

    def step() -> None:
        fresh = replace(batch)  # what is derived from a batch is derived again
        z, _ = multi_hop_messages(x, weights, W, padding, fresh, "compiled", needed)
        z.backward(torch.ones(()).expand_as(z))  # type: ignore[no-untyped-call]
        for leaf in (*leaves, *weights):
            leaf.grad = None

    return step


def pruned_step(batch: GraphBatch, hops: int) -> Step:
    return mhgrn_step(batch, hops, (batch.node_type == ANSWER).nonzero()[:, 0])


def rgcn_step(batch: GraphBatch, hops: int) -> Step:
    from torch_geometric.nn import RGCNConv

    layers = torch.nn.ModuleList(RGCNConv(WIDTH, WIDTH, batch.num_relations) for _ in range(hops))
    x = normal(batch.num_nodes, WIDTH)

    def step() -> None:
        h = x
        for layer in layers:
            h = layer(h, batch.edge_index, batch.edge_type).relu()
        h.sum().backward()  # type: ignore[no-untyped-call]
        x.grad = None
        layers.zero_grad(set_to_none=True)

    return step


def paths_step(batch: GraphBatch, hops: int) -> Step | None:
    """None if there are too many."""
    walks = float(find_walks(batch, hops, limit=0).cut.sum())
    return None if walks > MOST_WALKS else lambda: find_walks(batch, hops, simple=True)


def encoder_step(batch: GraphBatch, hops: int) -> Step:
    return message_passing.encoder_step([batch.sharing_features()], hops, "compiled", TEXT_WIDTH)


METHODS: dict[str, Callable[[GraphBatch, int], Step | None]] = {
    "encoder": encoder_step,
    "MHGRN": mhgrn_step,
    "MHGRN, pruned": pruned_step,
    "RGCN": rgcn_step,
    "paths": paths_step,
}


def keep_memory() -> None:
    """Make malloc keep freed memory: the cost of fresh pages depends on what else runs on the machine."""
    M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_MAX, 0)
    libc.mallopt(M_TRIM_THRESHOLD, -1)  # never
    buffers.MOST = max(buffers.MOST, buffers.memory())


def series(method: str, graphs: Sequence[tuple[float, Callable[[], GraphBatch], int]], rounds: int) -> list[Point]:
    """A point for each (size, graph, K), in rising order; after a method has given up it is not asked again."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_memory()
    small = METHODS[method](sparse_graph(4, 2, 1), 2)
    assert small is not None
    small()  # compiles
    points: list[Point] = []
    for size, graph, hops in graphs:
        gave_up = bool(points) and points[-1]["seconds"] is None
        step = None if gave_up else METHODS[method](graph(), hops)
        if step is not None:
            step()  # takes the memory that later ones use again
        times: list[float] = []
        machine, began_all = machine_time(), time.perf_counter()
        while step is not None and len(times) < MOST_STEPS and (len(times) < rounds or sum(times) < LEAST_SECONDS):
            began = time.process_time()
            step()
            times.append(time.process_time() - began)
            if sum(times) > MOST_SECONDS:
                break
        totals = {"wall": time.perf_counter() - began_all, "cpu": sum(times), "machine": machine_time() - machine}
        memory = None if step is None else memory_of(step)  # last: what it gives back comes again in small pages
        points.append({"size": size, "seconds": min(times, default=None), "memory": memory, **totals})
        del step
        forget()  # another size's arrays would be in the way
    return points


def forget() -> None:
    """Give back memory that is kept for later."""
    buffers.clear()
    ctypes.CDLL(None).malloc_trim(0)


Graphs = Sequence[tuple[float, Callable[[], GraphBatch], int]]


def in_turns(method: str, graphs: Graphs, steps: int, rounds: int) -> tuple[list[list[Point]], Comparison]:
    """The points of every round: the sizes take turns, each point in a fresh process that no earlier size has fragmented."""
    found: dict[str, list[Point]] = {}

    def point(name: str, graph: tuple[float, Callable[[], GraphBatch], int]) -> Sample:
        one = in_fresh_process(series, method, [graph], steps)[0]
        found.setdefault(name, []).append(one)
        return Sample(one["wall"] or 0.0, one["cpu"] or 0.0, one["machine"] or 0.0)

    forms = {str(number): partial(point, str(number), graph) for number, graph in enumerate(graphs)}
    comparison = compare(forms, rounds, warm_up=0, threads=1)
    return [list(points) for points in zip(*found.values(), strict=True)], comparison


def memory_of(step: Step) -> int:
    """Peak memory of a step, after memory kept for later was returned."""
    forget()
    return peak_of(step)


def exponent(points: Sequence[Point], what: str) -> float:
    """The slope in logarithms over the larger half of the sizes."""
    return float(line(points, what)[1][0])


def line(points: Sequence[Point], what: str) -> tuple[Any, Any]:
    """The logarithms of the larger half of the sizes, and slope and height of the line through them."""
    found = [(p["size"], max(p[what] or 0.0, 1e-9)) for p in points if p["size"] and p["seconds"] is not None]
    x, y = np.log(found[-max(3, math.ceil(len(found) / 2)) :]).T
    return x, np.polyfit(x, y, 1)


def fitted(rounds: list[list[Point]]) -> dict[str, Any]:
    """Exponents of every round; points are medians over the rounds."""
    found: dict[str, Any] = {"points": middle(rounds)}
    for name, what in (("time", "seconds"), ("memory", "memory")):
        spread = Spread.of(exponent(points, what) for points in rounds)
        found |= {name: spread.median, f"{name}_quartiles": (spread.lower, spread.upper)}
    return found


def middle(rounds: list[list[Point]]) -> list[Point]:
    """For every size the median over the rounds."""
    found: list[Point] = []
    for points in zip(*rounds, strict=True):
        gave_up = points[0]["seconds"] is None
        found.append(
            {"size": points[0]["size"]}
            | {w: None if gave_up else Spread.of(p[w] or 0.0 for p in points).median for w in ("seconds", "memory")}
        )
    return found


def axes(quick: bool) -> dict[str, list[Shape]]:
    """What grows, and the graphs it grows in."""
    if quick:
        base = Shape(64, 512, 6, 2)
        return {
            "K": [replace(base, hops=K) for K in (1, 2, 4)],
            "nodes": [replace(base, nodes=n, edges=8 * n) for n in (32, 64, 128)],
            "edges": [replace(base, edges=e) for e in (256, 512, 1024)],
            "relations": [replace(base, relations=m) for m in (2, 4, 8)],
            "degree": [replace(base, hub=h) for h in (32, 64, 128)],
        }
    base = Shape(16_000, 256_000, 34, 2)  # beyond the processor's caches already
    return {
        "K": [replace(base, hops=K) for K in (1, 2, 4, 8, 12, 16)],
        "nodes": [replace(base, nodes=n, edges=8 * n) for n in (16_000, 32_000, 64_000, 128_000, 256_000, 512_000)],
        "edges": [replace(base, nodes=50_000, edges=10_000_000 // 2**i) for i in reversed(range(6))],
        "relations": [replace(base, relations=m) for m in (4, 8, 16, 32, 64, 128, 256)],
        "degree": [replace(base, hub=h) for h in (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)],
    }


def size_of(axis: str, shape: Shape) -> int:
    return {"K": shape.hops, "nodes": shape.nodes, "edges": shape.edges, "relations": shape.relations, "degree": shape.hub}[axis]


def grow(quick: bool, subgraphs: list[Subgraph], only: Sequence[str] = ()) -> dict[str, Any]:
    """The exponents on random graphs, and t(2K)/t(K) on random graphs and on a batch of ``subgraphs``; ``only`` some of them."""
    steps, rounds = (1, 1) if quick else (3, 3)
    shapes = axes(quick)
    found: dict[str, Any] = {}
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # for the processes below: torch reads it when it first takes memory
    for axis in shapes:
        if not only or axis in only:
            graphs = [(size_of(axis, s), s.batch, s.hops) for s in shapes[axis]]
            points, comparison = in_turns("MHGRN", graphs, steps, rounds)
            found[axis] = fitted(points) | {"others_share": comparison.others}
            print(f"{axis}: measured\n{comparison.conditions()}", flush=True)
    base, depths = shapes["K"][0], (1, 2, 4) if quick else (1, 2, 4, 8, 16)
    real = [(K, partial(GraphBatch.collate, subgraphs, SCHEMA, Reach((ANSWER,), K)), K) for K in depths]
    batches: dict[str, Any] = {
        "pruned": [(K, replace(base, hops=K).batch, K) for K in depths],
        "real encoder": real,
        "real messages": real,
    }
    for name in PRUNED:
        if not only or name in only:
            method = "encoder" if name == "real encoder" else "MHGRN, pruned"
            points, comparison = in_turns(method, batches[name], steps, rounds)
            print(f"{name}: measured\n{comparison.conditions()}", flush=True)
            of_rounds = [doubled(one) for one in points]
            found[name] = {
                "points": middle(points),
                "doubled": {K: Spread.of(one[K] for one in of_rounds).median for K in of_rounds[0]},
                "doubled_rounds": of_rounds,
                "others_share": comparison.others,
            }
    for axis in ("K", *PRUNED):
        if axis in found:
            found[axis]["further_hop"] = further_hop(found[axis]["points"])
    return found


def doubled(points: Sequence[Point]) -> dict[int, float]:
    """t(2K)/t(K)."""
    seconds = {int(p["size"] or 0): p["seconds"] or 0.0 for p in points}
    return {K: seconds[2 * K] / seconds[K] for K in seconds if 2 * K in seconds}


def further_hop(points: Sequence[Point]) -> dict[int, float]:
    """(t(2K) - t(K))/K: the same for all K where growth is linear, whatever the first and last hops cost."""
    seconds = {int(p["size"] or 0): p["seconds"] or 0.0 for p in points}
    return {K: (seconds[2 * K] - seconds[K]) / K for K in seconds if 2 * K in seconds}


def exponents(subgraphs: list[Subgraph], quick: bool = False) -> dict[str, dict[str, float]]:
    """Parts 1 and 2: exponents of time and memory in K, nodes, edges, relations and degree; under ``pruned``, t(2K)/t(K)."""
    return summary(grow(quick, subgraphs))


def summary(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    fits = {axis: {w: round(entry[w], 2) for w in ("time", "memory")} for axis, entry in found.items() if axis not in PRUNED}
    ratios = {axis: found[axis]["doubled"].items() for axis in PRUNED if axis in found}
    return fits | {axis: {f"t({2 * K})/t({K})": round(ratio, 2) for K, ratio in of} for axis, of in ratios.items()}


def table_2(quick: bool) -> dict[str, Any]:
    """For dense and sparse graphs and each method: the exponents in what the table names; of paths in K, the factor a hop."""
    rounds = 1 if quick else 3
    found: dict[str, Any] = {}
    for kind in ("dense", "sparse"):
        for method in ("paths", "RGCN", "MHGRN"):
            few = method == "paths"

            def graph(n: int, m: int, degree: int, kind: str = kind) -> Callable[[], GraphBatch]:
                return lambda: dense_graph(n, m) if kind == "dense" else sparse_graph(n, m, degree)

            if quick:
                n, m, K = 8, 2, 2
                sizes = {"K": [1, 2, 3], "n": [4, 6, 8], "m": [2, 3, 4], "Δ": [1, 2, 3]}
            elif kind == "dense":
                n, m, K = (16, 2, 2) if few else (64, 8, 2)
                sizes = {"K": [1, 2, 3, 4] if few else [1, 2, 4, 8], "n": [16, 32, 64, 128], "m": [4, 8, 16, 32]}
                if not few:
                    sizes["n"].append(256)
            else:
                n, m, K = (1024, 2, 2) if few else (1024, 8, 2)
                sizes = {"K": [1, 2, 4, 6] if few else [1, 2, 4, 8], "m": [4, 8, 16, 32, 64], "Δ": [1, 2, 4, 8, 16]}
                sizes["n"] = [512, 1024, 2048, 4096, 8192]
            for axis, values in sizes.items():
                if axis == "Δ" and kind == "dense":
                    continue
                graphs = [
                    (v, graph(v if axis == "n" else n, v if axis == "m" else m, v if axis == "Δ" else 2), v if axis == "K" else K)
                    for v in values
                ]
                points = series(method, graphs, rounds)
                entry = fitted([points])
                if few and axis == "K":
                    entry["a_hop"] = {what: a_hop(points, what) for what in ("seconds", "memory")}
                found.setdefault(kind, {}).setdefault(method, {})[axis] = entry
    return found


def a_hop(points: Sequence[Point], what: str) -> float:
    """By what factor one more hop multiplies it, at the largest two K."""
    (K, y), (K_last, y_last) = [(p["size"] or 0, p[what] or 1e-9) for p in points if p["seconds"] is not None][-2:]
    return float((y_last / y) ** (1 / (K_last - K)))


def synthetic_subgraphs(count: int, most_nodes: int) -> list[Subgraph]:
    """Graphs with about as many nodes and facts as those of CommonsenseQA, with hubs."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        n = min(int(rng.integers(20, 201)), most_nodes)
        popularity = rng.pareto(1.5, n) + 0.1
        head, tail = (rng.choice(n, 15 * n, p=popularity / popularity.sum()) for _ in range(2))
        triples = np.unique(np.stack([head, rng.integers(0, SCHEMA, 15 * n), tail])[:, head != tail], axis=1)
        types = np.full(n, OTHER, np.uint8)
        types[:7], types[7:9] = QUESTION, ANSWER
        found.append(Subgraph(np.arange(n), types, *triples))
    return found


def real_subgraphs(kg: Path, questions: int, caps: Sequence[int | None]) -> list[list[Subgraph]]:
    """The same questions with graphs of at most so many nodes."""
    graph = KnowledgeGraph.load(kg)
    grounder = Grounder(graph)
    mentions = [m for q in read_splits(DATA / "csqa")["train"][:questions] for m in ground(q, grounder, "fill-in-the-blank")]
    return [[Extractor(graph, SubgraphLimits(cap))(m) for m in mentions] for cap in caps]


def figure_7(batches: list[list[Subgraph]], depths: Sequence[int], rounds: int) -> dict[str, Any]:
    """By K at the largest cap, and by cap at K = 2; caps rise."""
    graphs = [GraphBatch.collate(subgraphs, SCHEMA) for subgraphs in batches]
    largest = graphs[-1]
    return {
        method: {
            "K": series(method, [(K, lambda: largest, K) for K in depths], rounds),
            "nodes": series(method, [(len(g.concepts), lambda g=g: g, 2) for g in graphs], rounds),  # type: ignore[misc]
        }
        for method in METHODS
        if method != "encoder"
    }


def quartiles(entry: dict[str, Any], what: str) -> str:
    lower, upper = entry[f"{what}_quartiles"]
    return f"{entry[what]:.2f} ({lower:.2f} to {upper:.2f})"


def print_growth(found: dict[str, Any]) -> None:
    for axis, entry in found.items():
        if axis not in PRUNED:
            first, last = entry["points"][0], entry["points"][-1]
            largest = f"{last['seconds']:.2f} s and {last['memory'] / MB:,.0f} MB at {last['size']:,}"
            print(f"{axis:<10} {first['size']:,} … {largest}: time ^ {quartiles(entry, 'time')}, memory ^ {entry['memory']:.2f}")
    for axis, ratios in summary(found).items():
        if axis in PRUNED:
            print(f"{axis:<16}" + ", ".join(f"{ratio} = {value}" for ratio, value in ratios.items()))
    for axis in (axis for axis in ("K", *PRUNED) if axis in found):
        cost = ", ".join(f"{1000 * seconds:.0f} ms from K = {K}" for K, seconds in found[axis]["further_hop"].items())
        print(f"{axis:<16}a further hop costs {cost}", flush=True)


def print_table(found: dict[str, Any]) -> None:
    for kind, methods in found.items():
        for method, grown in methods.items():
            for title, what, fit in (("time", "seconds", "time"), ("space", "memory", "memory")):
                parts = []
                for axis, entry in grown.items():
                    parts.append(f"{entry['a_hop'][what]:.1f}^K" if "a_hop" in entry else f"{axis}^{entry[fit]:.2f}")
                print(f"{kind:<7}{method:<6} {title:<6}" + "  ".join(parts))


def print_figure(found: dict[str, Any]) -> None:
    for axis in ("K", "nodes"):
        sizes = [p["size"] for p in found["MHGRN"][axis]]
        print(f"{axis:<14}" + "".join(f"{size:>16,}" for size in sizes))
        for method, grown in found.items():
            cells = ["gave up" if p["seconds"] is None else f"{p['seconds']:.3f} s {p['memory'] / GB:.2f} GB" for p in grown[axis]]
            print(f"{method:<14}" + "".join(f"{cell:>16}" for cell in cells))


def plot(numbers: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with plotting():
        from matplotlib.figure import Figure

        grown = {axis: entry for axis, entry in numbers["growth"].items() if axis not in PRUNED}
        figure = Figure(figsize=(12, 5), layout="constrained")
        for column, (axis, entry) in enumerate(grown.items()):
            for row, (what, unit, label) in enumerate((("seconds", 1.0, "CPU seconds"), ("memory", MB, "peak memory, MB"))):
                axes = figure.add_subplot(2, len(grown), row * len(grown) + column + 1)
                x = [p["size"] for p in entry["points"]]
                axes.loglog(x, [p[what] / unit for p in entry["points"]], "o-", markersize=3)
                fitted_x, fit = line(entry["points"], what)
                axes.loglog(np.exp(fitted_x), np.exp(np.polyval(fit, fitted_x)) / unit, "--", linewidth=1)
                axes.set_title(f"exponent {entry['time' if what == 'seconds' else 'memory']:.2f}", fontsize=9)
                axes.set_xlabel(axis if row else "")
                axes.set_ylabel("" if column else label)
        write_figure(figure, folder / "growth.svg")
        figure = Figure(figsize=(9, 6), layout="constrained")
        for column, axis in enumerate(("K", "nodes")):
            for row, (what, unit, label) in enumerate(
                (("seconds", 1.0, "CPU seconds per batch"), ("memory", MB, "peak memory, MB"))
            ):
                axes = figure.add_subplot(2, 2, 2 * row + column + 1)
                for method, found in numbers["figure_7"].items():
                    points = [p for p in found[axis] if p["seconds"] is not None]
                    axes.plot([p["size"] for p in points], [p[what] / unit for p in points], "o-", markersize=3, label=method)
                axes.set_yscale("log")
                axes.set_xlabel(axis if row else "")
                axes.set_ylabel("" if column else label)
        figure.axes[0].legend(fontsize=8)
        write_figure(figure, folder / "figure-7.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kg", type=Path, help="folder of a built graph; default: built from ../shared/data, if that exists")
    add_json_option(parser)
    parser.add_argument("--plots", type=Path, help="write growth.svg and figure-7.svg into this folder")
    parser.add_argument("--only", nargs="+", default=[], choices=(*axes(True), *PRUNED), help="only these of parts 1 and 2")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that everything runs")
    options = parser.parse_args()
    caps = (50, 100) if options.quick else (25, 50, 100, 200)
    real = DATA.is_dir() and not options.quick
    if real:
        with tempfile.TemporaryDirectory() as work:
            *batches, whole = real_subgraphs(graph_of(DATA, options.kg, Path(work)), 32, (*caps, None))
    else:
        *batches, whole = (synthetic_subgraphs(2 if options.quick else 160, cap) for cap in (*caps, 200))
    numbers: dict[str, Any] = {"width": WIDTH, "threads": 1, "questions": "CommonsenseQA" if real else "synthetic"}
    print(f"processor time of one thread, d = {WIDTH}, forward and backward; exponents of the larger half of the sizes")
    numbers["growth"] = grow(options.quick, whole, options.only)
    numbers["exponents"] = summary(numbers["growth"])
    print_growth(numbers["growth"])
    if not options.only:
        compare_methods(numbers, batches, options.quick)
    write_json(options.json, numbers)
    if options.plots and not options.only:
        plot(numbers, options.plots)


def compare_methods(numbers: dict[str, Any], batches: list[list[Subgraph]], quick: bool) -> None:
    """Parts 3 and 4, added to ``numbers``."""
    print("table 2, measured (paths in K: the factor of one more hop)", flush=True)
    numbers["table_2"] = in_fresh_process(table_2, quick)
    print_table(numbers["table_2"])
    print(f"figure 7, a batch of {numbers['questions']} questions: by K, and by nodes at K = 2", flush=True)
    depths, rounds = ((1, 2, 3), 1) if quick else ((1, 2, 3, 4, 5), 2)
    numbers["figure_7"] = in_fresh_process(figure_7, batches, depths, rounds)
    print_figure(numbers["figure_7"])


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(str(error)) from None
