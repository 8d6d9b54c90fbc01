"""Multi-hop message passing: how fast, in how little memory, how near to what the machine can do.

    python benchmarks/message_passing.py [--json FILE] [--kg GRAPH]

One batch of 32 questions of real CommonsenseQA on real ConceptNet (``--data``). Everything is a forward and a backward pass; what
depends on no parameter (the sorted edges, the dense matrices) is prepared beforehand in every form.

- against the dense reference (the paper's algorithm 1), graphs cut at 200 nodes so that it can run, each form at its best
  micro-batch; the reference's rate is printed beside the machine's rate of matrix products. Memory at equal micro-batch;
- the whole graph encoder from node features to score, for sentences 384 and 1024 wide;
- against three RGCN layers of PyTorch Geometric on the same uncut edges, with and without leaving out what reaches no answer;
- against the machine: bytes of states and floating-point operations of K = 3 at measured bandwidth and rate of products;
- collating a batch of prepared questions as a share of a step of the encoder: joining its subgraphs, which were sorted for walking
  when the data set was first used (mhgrn.batching.walk_store), and gathering the features of its concepts, 384 wide;
- growth, by benchmarks/growth.py (``--no-growth`` leaves it out).

Each measurement is a fresh process, and the quickest of several repeats.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from measuring import best_of, graph_of, in_fresh_process, memory_of, subgraphs_of
from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.batching.walk_store import WalkStore
from mhgrn.config import MHGRNConfig
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN
from mhgrn.features.sources import RandomFeatures
from mhgrn.kg import KnowledgeGraph
from mhgrn.model import KnowledgeAwareQA
from mhgrn.nn.message_passing import WalkWeights, multi_hop_messages
from mhgrn.questions.reading import read_splits
from mhgrn.subgraphs.extract import ANSWER, Subgraph
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions
from mhgrn.subgraphs.prepared import prepare as prepare_questions

DATA = Path(__file__).parents[2] / "shared" / "data"
WIDTH, CAP = 100, 200
MICRO_BATCHES = (1, 2, 5)  # graphs at once, for the reference; more is slower, and 160 are more than memory holds
SHARED_MICRO_BATCH = 20  # at which memory is compared
Form = Literal["compiled", "plain", "dense"]


def collated(subgraphs: Sequence[Subgraph], schema: int, reach: Reach | None, micro: int) -> list[GraphBatch]:
    return [GraphBatch.collate(subgraphs[i : i + micro], schema, reach) for i in range(0, len(subgraphs), micro)]


def prepare(batch: GraphBatch, form: Form) -> None:
    """What depends on no parameter."""
    _ = batch.walk_index if form == "compiled" else batch.states if form == "plain" else batch.matrices


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape).requires_grad_()


def messages_step(batch: GraphBatch, K: int, form: Form, pruned: bool, full: bool = False) -> Callable[[], None]:
    """Message passing alone, with fixed random inputs."""
    N, m = batch.num_nodes, batch.num_relations
    x, weights = normal(N, WIDTH), WalkWeights(normal(N), normal(batch.num_graphs, m), normal(m, m))
    square = (WIDTH, WIDTH) if full else (WIDTH,)
    W, W_pad = normal(K, m, *square), normal(K - 1, *square)
    needed = (batch.node_type == ANSWER).nonzero()[:, 0] if pruned else None

    def step() -> None:
        for leaf in (x, *weights, W, W_pad):
            leaf.grad = None
        z, _ = multi_hop_messages(x, weights, W, W_pad, batch, form, needed)
        z.sum().backward()  # type: ignore[no-untyped-call]

    return step


def encoder_step(batches: Sequence[tuple[GraphBatch, torch.Tensor]], K: int, form: Form, width: int) -> Callable[[], None]:
    """From node features and sentence vectors to scores; with each batch come the concepts that have features."""
    torch.manual_seed(0)
    m = batches[0][0].num_relations
    model = KnowledgeAwareQA(MHGRN(Dims(width, width, m), MHGRNConfig(hops=K), form), width)
    inputs = []
    for batch, concepts in batches:
        prepare(batch, form)
        inputs.append((torch.randn(batch.num_graphs, width), torch.randn(len(concepts), width), batch))

    def step() -> None:
        model.zero_grad()
        for given in inputs:
            model(*given).score.sum().backward()

    return step


def timed(
    kind: str, subgraphs: list[Subgraph], schema: int, K: int, form: Form, micro: int, pruned: bool, repeats: int, width: int = 384
) -> dict[str, float]:
    """Seconds of a step over all graphs in micro-batches, and the memory it takes at its peak."""
    reach = Reach((ANSWER,), K) if pruned else None
    batches = collated(subgraphs, schema, reach, micro)
    if kind == "encoder":
        steps = [encoder_step([batch.sharing_features() for batch in batches], K, form, width)]
    else:
        for batch in batches:
            prepare(batch, form)
        steps = [messages_step(batch, K, form, pruned, full=kind == "full") for batch in batches]

    def step() -> None:
        for one in steps:
            one()

    memory = memory_of(step)
    return {"seconds": best_of(step, repeats), "memory": memory}


def dense_flops(subgraphs: Sequence[Subgraph], m: int, K: int) -> float:
    """Of the reference, one graph at a time: products with the adjacency and with the transitions, forward and backward."""
    sizes = [len(s.concepts) for s in subgraphs]
    return sum(4.0 * K * m * n * n * (WIDTH + 1) + 6.0 * (K - 1) * m * m * n * (WIDTH + 1) for n in sizes)


def matrix_rate(repeats: int) -> float:
    """Floating-point operations a second of a large matrix product."""
    a, b = torch.randn(2000, 2000), torch.randn(2000, 2000)
    return 2 * 2000**3 / best_of(lambda: a @ b, repeats)


def bandwidth(repeats: int) -> float:
    """Bytes a second of copying memory that no cache holds: half read, half written."""
    a, b = torch.randn(50_000_000), torch.empty(50_000_000)
    return 2 * 4 * len(a) / best_of(lambda: b.copy_(a), repeats)


def rgcn_step(subgraphs: list[Subgraph], schema: int, repeats: int) -> float:
    """Seconds of three RGCN layers."""
    from torch_geometric.nn import RGCNConv  # type: ignore[import-untyped]

    batch = GraphBatch.collate(subgraphs, schema)
    layers = [RGCNConv(WIDTH, WIDTH, batch.num_relations) for _ in range(3)]
    x = normal(batch.num_nodes, WIDTH)

    def step() -> None:
        h = x
        for layer in layers:
            h = layer(h, batch.edge_index, batch.edge_type)
        h.sum().backward()  # type: ignore[no-untyped-call]

    return best_of(step, repeats)


def moved(subgraphs: list[Subgraph], schema: int, K: int) -> dict[str, float]:
    """Bytes and operations of a step without pruning, by count. States are read and written once a pass wherever a pass needs
    them; rows that an edge or a turn reads again are taken to be in the cache."""
    index = GraphBatch.collate(subgraphs, schema).walk_index
    states, edges, turns = len(index.state_relation), len(index.edge_exit), int(index.turn_ptr[-1])
    nodes = int(index.graph_ptr[-1])
    row = 4.0 * WIDTH
    # forward: x or the states before are read, the states written. Backward: gradients, messages and the messages before are
    # read, gradients before written. Reading a hop's result and its gradient touch the states once more each.
    first = row * (nodes + states) + row * (2 * states + 3 * nodes)
    later = row * (2 * states) + row * (4 * states)
    read = row * (states + nodes) + row * (2 * states + 2 * nodes)
    scalars = 2 * (4.0 + 4.0) * edges + 2 * 4.0 * turns  # shares and places of edges, shares of turns
    operations = (2 + 2) * edges * WIDTH * K + (2 + 4) * turns * WIDTH * (K - 1) + 10 * states * WIDTH * K
    return {"bytes": first + (K - 1) * later + K * read + K * scalars, "flops": float(operations)}


def prepared(graph: KnowledgeGraph, data: Path, questions: int, folder: Path) -> Path:
    """CommonsenseQA's first questions as a prepared data set, for training to read."""
    asked = read_splits(data / "csqa")["train"][:questions]
    rows = [json.dumps({"id": q.id, "stem": q.stem, "choices": q.choices}) for q in asked]
    (folder / "questions.jsonl").write_text("\n".join(rows), encoding="utf-8")
    prepare_questions(folder / "questions.jsonl", graph, folder / "prepared", PrepareOptions("fill-in-the-blank", workers=1))
    return folder / "prepared"


def collating(folder: Path, K: int, repeats: int) -> dict[str, float]:
    data = PreparedData.load(folder)
    store, statements = WalkStore.beside(data, Reach((ANSWER,), K)), np.arange(data.statement_ptr[-1])
    assert store is not None, "no room for the sorted questions"
    features = RandomFeatures(384)
    features.require(data.used)

    def collate() -> None:
        _, concepts = store.batch(statements, K)
        features.rows(concepts)

    step = encoder_step([store.batch(statements, K)], K, "compiled", 384)
    return {"collate": best_of(collate, 5 * repeats), "step": best_of(step, 5 * repeats)}  # milliseconds: the more the steadier


def collating_shares(questions: Path, hops: Sequence[int], repeats: int) -> dict[int, float]:
    shares = {}
    for K in hops:
        parts = in_fresh_process(collating, questions, K, repeats)
        shares[K] = parts["collate"] / parts["step"]
        print(f"K = {K}: collating an uncut batch takes {shares[K]:.1%} of a step of the encoder", flush=True)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="a folder with conceptnet/ and csqa/")
    parser.add_argument("--kg", type=Path, help="a graph built from the same assertions, to save time")
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--hops", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only-collating", action="store_true", help="the share of collating, and nothing else")
    parser.add_argument("--no-growth", action="store_true", help="leave out benchmarks/growth.py")
    parser.add_argument("--json", type=Path, help="write the ratios to this file")
    options = parser.parse_args()
    source = options.data / "conceptnet" / "assertions-en.csv.gz"
    if not source.is_file() and options.kg is None:
        parser.error(f"{source} does not exist; name the folder of the data with --data")
    with tempfile.TemporaryDirectory() as folder:
        graph = KnowledgeGraph.load(graph_of(options.data, options.kg, Path(folder)))
        schema = len(graph.schema)
        cut, whole = (list(chain.from_iterable(subgraphs_of(graph, options.data, options.questions, cap))) for cap in (CAP, None))
        questions = prepared(graph, options.data, options.questions, Path(folder))
        if options.only_collating:
            result: dict[str, Any] = {"collating_share": collating_shares(questions, options.hops, options.repeats)}
        else:
            result = measured(cut, whole, questions, schema, options.hops, options.repeats)
    if not options.no_growth and not options.only_collating:
        import growth

        result["exponents"] = growth.exponents(whole)
        print(f"growth: {result['exponents']}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def measured(
    cut: list[Subgraph], whole: list[Subgraph], questions: Path, schema: int, hops: list[int], repeats: int
) -> dict[str, Any]:
    m = 2 * schema
    sizes = {"cut": cut, "uncut": whole}
    counts = {k: f"{sum(len(s.concepts) for s in v):,} nodes, {2 * sum(len(s.head) for s in v):,} edges" for k, v in sizes.items()}
    print(f"{len(cut)} graphs, d = {WIDTH}, {torch.get_num_threads()} threads")
    print(f"cut at {CAP} nodes: {counts['cut']}; uncut: {counts['uncut']}")
    rate = in_fresh_process(matrix_rate, repeats)
    print(f"matrix products: {rate / 1e9:.0f} GFLOP/s")
    result: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "graphs": len(cut),
        "width": WIDTH,
        "threads": torch.get_num_threads(),
        "matrix_gflops": rate / 1e9,
        "speedup": {},
        "dense_fraction_of_matrix_rate": {},
        "memory_ratio": {},
        "encoder_speedup": {},
    }

    def both(kind: str, K: int, micro: Sequence[int], width: int = 384) -> tuple[float, float, int]:
        """Seconds of the reference at the best of some micro-batches, of the compiled form with all graphs at once, and which."""
        dense = {
            size: in_fresh_process(timed, kind, cut, schema, K, "dense", size, False, max(1, repeats // 2), width)["seconds"]
            for size in micro
        }
        ours = in_fresh_process(timed, kind, cut, schema, K, "compiled", len(cut), True, repeats, width)["seconds"]
        best = min(dense, key=dense.__getitem__)
        return dense[best], ours, best

    best = {}  # micro-batch of the reference, for each K
    for K in hops:
        dense, ours, best[K] = both("messages", K, MICRO_BATCHES)
        fraction = dense_flops(cut, m, K) / dense / rate
        result["speedup"][K], result["dense_fraction_of_matrix_rate"][K] = dense / ours, fraction
        small = cut[:SHARED_MICRO_BATCH]
        memory = [
            in_fresh_process(timed, "messages", small, schema, K, form, len(small), form == "compiled", 1)["memory"]
            for form in ("dense", "compiled")
        ]
        result["memory_ratio"][K] = memory[1] / memory[0]
        print(
            f"K = {K}: messages {dense / ours:6.1f} times as fast as dense (which reaches {fraction:.0%} of matrix products),"
            f" {memory[1] / memory[0]:.3f} of the memory (both at {len(small)} graphs)",
            flush=True,
        )
    for width in (384, 1024):
        result["encoder_speedup"][width] = {}
        for K in hops:
            dense, ours, _ = both("encoder", K, [best[K]], width)
            result["encoder_speedup"][width][K] = dense / ours
            print(f"K = {K}: whole encoder, sentences {width} wide, {dense / ours:6.1f} times as fast as dense", flush=True)
    dense, ours, _ = both("full", 2, MICRO_BATCHES[:2])
    result["full_matrix_speedup"] = dense / ours
    print(f"K = 2, full matrices: {dense / ours:.1f} times as fast as dense")

    rgcn = in_fresh_process(rgcn_step, whole, schema, repeats)
    pruned, unpruned = (
        in_fresh_process(timed, "messages", whole, schema, 3, "compiled", len(whole), prune, repeats)["seconds"]
        for prune in (True, False)
    )
    result["rgcn_ratio"] = {"pruned": pruned / rgcn, "unpruned": unpruned / rgcn}
    print(
        f"K = 3, uncut: {pruned / rgcn:.3f} of the time of three RGCNConv layers, {unpruned / rgcn:.3f} without pruning", flush=True
    )

    speed = in_fresh_process(bandwidth, repeats)
    work = in_fresh_process(moved, whole, schema, 3)
    least = work["bytes"] / speed + work["flops"] / rate
    result["bandwidth_fraction"] = least / unpruned
    result["limit"] = {"bandwidth": speed, **work, "least_seconds": least, "seconds": unpruned}
    print(
        f"K = 3, uncut, no pruning: {work['bytes'] / 1e9:.2f} GB at {speed / 1e9:.1f} GB/s and {work['flops'] / 1e9:.1f} GFLOP"
        f" at {rate / 1e9:.0f} GFLOP/s would take {least:.3f} s: {least / unpruned:.0%} of that pace is reached"
    )
    result["collating_share"] = collating_shares(questions, hops, repeats)
    return result


if __name__ == "__main__":
    main()
