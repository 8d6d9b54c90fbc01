"""Multi-hop message passing, sparse against dense: ratios of time and peak memory, forward and backward, for K = 1 … 4.

    python benchmarks/message_passing.py [--json FILE]

One batch of questions from real CommonsenseQA on real ConceptNet where ``../shared/data`` holds them, synthetic graphs of the same
shape otherwise. Graphs are cut at 200 nodes so that the dense form can run at all. Times are compared with each form at its best
micro-batch, memory at equal micro-batch; each measurement is a fresh process.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from mhgrn.data.batch import GraphBatch
from mhgrn.data.prepared import ground
from mhgrn.data.questions import find_splits
from mhgrn.data.subgraphs import Extractor, Limits, Subgraph
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.nn.message_passing import WalkWeights, multi_hop_messages
from mhgrn.text.grounding import Grounder

DATA = Path(__file__).parents[2] / "shared" / "data"
WIDTH, CAP, SCHEMA = 100, 200, 17
MICRO_BATCHES = (1, 5, 20)  # graphs at once
Form = Literal["auto", "dense"]


def real_subgraphs(questions: int) -> list[Subgraph]:
    with tempfile.TemporaryDirectory() as folder:
        graph, _ = build([DATA / "conceptnet" / "assertions-en.csv.gz"])
        graph.save(Path(folder) / "graph")
        graph = KnowledgeGraph.load(Path(folder) / "graph")
        asked = find_splits(DATA / "csqa")["train"][:questions]
        grounder, extract = Grounder(graph), Extractor(graph, Limits(CAP))
        return [extract(m) for q in asked for m in ground(q, grounder, "fill-in-the-blank")]


def synthetic_subgraphs(questions: int) -> list[Subgraph]:
    """Graphs with as many nodes and facts as the real ones have, with hubs."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(questions * 5):
        n = int(rng.integers(20, CAP + 1))
        facts = 15 * n
        popularity = rng.pareto(1.5, n) + 0.1
        head, tail = (rng.choice(n, facts, p=popularity / popularity.sum()) for _ in range(2))
        triples = np.unique(np.stack([head, rng.integers(0, SCHEMA, facts), tail])[:, head != tail], axis=1)
        types = np.full(n, 2, np.uint8)
        types[:7], types[7:9] = 0, 1
        found.append(Subgraph(np.arange(n), types, *triples))
    return found


def step(batch: GraphBatch, K: int, form: Form) -> None:
    """One forward and backward pass with fixed random inputs."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).requires_grad_()

    m = batch.relation_count
    weights = WalkWeights(normal(len(batch.concepts)), normal(batch.graph_count, m), normal(m, m))
    z, _ = multi_hop_messages(normal(len(batch.concepts), WIDTH), weights, normal(K, m, WIDTH), normal(K - 1, WIDTH), batch, form)
    z.sum().backward()  # type: ignore[no-untyped-call]


def measure(subgraphs: list[Subgraph], K: int, form: Form, micro: int, repeats: int) -> dict[str, float]:
    """Seconds of a step over all graphs in micro-batches of ``micro``, and the memory it takes at its peak."""
    batches = [GraphBatch.collate(subgraphs[i : i + micro], SCHEMA) for i in range(0, len(subgraphs), micro)]
    for batch in batches:
        _ = batch.states  # depends on no parameter: prepared once a batch
    times, peaks = [], []
    for _ in range(repeats):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew from here
        before = resident("VmRSS")
        began = time.perf_counter()
        for batch in batches:
            step(batch, K, form)
        times.append(time.perf_counter() - began)
        peaks.append(resident("VmHWM") - before)
    return {"seconds": statistics.median(times), "memory": max(peaks)}


def resident(field: str) -> float:
    """Now (VmRSS) or at its peak (VmHWM), in bytes, as Linux counts it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024.0 * int(status.partition(f"{field}:")[2].split()[0])


def in_fresh_process(*arguments: Any) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--hops", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the ratios to this file")
    options = parser.parse_args()
    real = DATA.is_dir()
    subgraphs = (real_subgraphs if real else synthetic_subgraphs)(options.questions)
    nodes, facts = (sum(len(getattr(s, column)) for s in subgraphs) for column in ("concepts", "head"))
    kind = "real CommonsenseQA" if real else "synthetic"
    print(f"{kind}: {len(subgraphs)} graphs of at most {CAP} nodes, {nodes:,} nodes, {2 * facts:,} edges, d = {WIDTH}")
    result: dict[str, Any] = {"data": kind, "graphs": len(subgraphs), "speedup": {}, "memory_ratio": {}}
    for K in options.hops:
        seconds: dict[str, float] = {}
        memory: dict[str, float] = {}
        micro: dict[str, int] = {}
        for form in ("dense", "auto"):
            found = {m: in_fresh_process(subgraphs, K, form, m, options.repeats) for m in MICRO_BATCHES}
            micro[form] = min(found, key=lambda m: found[m]["seconds"])
            seconds[form], memory[form] = found[micro[form]]["seconds"], found[MICRO_BATCHES[-1]]["memory"]
        speedup, ratio = seconds["dense"] / seconds["auto"], memory["dense"] / memory["auto"]
        result["speedup"][K], result["memory_ratio"][K] = round(speedup, 1), round(ratio, 1)
        pace = f"{speedup:5.1f} times as fast (micro-batches of {micro['auto']} and {micro['dense']} graphs)"
        print(f"K = {K}: {pace}, {1 / ratio:.2f} of the memory (both at {MICRO_BATCHES[-1]})", flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
