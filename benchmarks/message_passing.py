"""Speed and memory of multi-hop message passing, against other implementations and against the limits of the machine.

    python benchmarks/message_passing.py [--json FILE] [--kg GRAPH]

One batch of 32 questions of real CommonsenseQA on real ConceptNet (``--data``). A step is a forward and a backward pass. What
depends on no parameter (sorted edges, dense matrices) is prepared beforehand in every form.

- dense: the paper's algorithm 1 as matrix products. Graphs are cut at 200 nodes so that it fits into memory, and it runs at its
  fastest micro-batch. Memory is compared at equal micro-batch;
- encoder: the whole graph encoder from node features to score, for sentences 384 and 1024 wide;
- RGCN: three RGCNConv layers of PyTorch Geometric on the same uncut edges, against K = 3 with and without pruning (skipping
  what cannot reach an answer node);
- machine: bytes of states and floating-point operations of K = 3 at the measured bandwidth and rate of matrix products;
- collating: joining the subgraphs of a batch, building the walk index and gathering the features of its concepts, 384 wide, as a
  share of a step of the encoder;
- growth with K, nodes, edges: benchmarks/growth.py (``--no-growth`` skips it).

Compared forms run in processes of their own and take turns. The median ratio of the rounds is printed with its quartiles, in
wall-clock and in processor time (see benchmarks/measuring.py).
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch

from graphs import DATA, graph_of, subgraphs_of
from measuring import Comparison, Measure, Step, add_json_option, compare_processes, in_fresh_process, memory_of, write_json
from mhgrn.batching.graph_batch import GraphBatch, Reach
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.features import RandomFeatures
from mhgrn.kg import KnowledgeGraph
from mhgrn.model import KnowledgeAwareQA
from mhgrn.nn.backends.dense import Matrices
from mhgrn.nn.message_passing import WalkWeights, multi_hop_messages
from mhgrn.nn.states import States
from mhgrn.questions.reading import read_splits
from mhgrn.subgraphs.extract import ANSWER, Subgraph
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions
from mhgrn.subgraphs.prepared import prepare as prepare_questions

WIDTH, CAP = 100, 200
MICRO_BATCHES = (1, 2, 5)  # graphs at once, for the reference; more is slower, and 160 are more than memory holds
SHARED_MICRO_BATCH = 20  # at which memory is compared
Form = Literal["compiled", "plain", "dense"]
PARTS = ("messages", "encoder", "full_matrices", "rgcn", "collating")


def collated(subgraphs: Sequence[Subgraph], schema: int, reach: Reach | None, micro: int) -> list[GraphBatch]:
    return [GraphBatch.collate(subgraphs[i : i + micro], schema, reach) for i in range(0, len(subgraphs), micro)]


def prepare(batch: GraphBatch, form: Form) -> None:
    """What depends on no parameter."""
    _ = batch.walk_index if form == "compiled" else batch.derived(States.of) if form == "plain" else batch.derived(Matrices.of)


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
    model = KnowledgeAwareQA(MHGRN(Dims(width, width, m), MHGRNSettings(hops=K), form), width)
    inputs = []
    for batch, concepts in batches:
        prepare(batch, form)
        inputs.append((torch.randn(batch.num_graphs, width), torch.randn(len(concepts), width), batch))

    def step() -> None:
        model.zero_grad()
        for given in inputs:
            model(*given).score.sum().backward()

    return step


def make_step(
    kind: str, subgraphs: list[Subgraph], schema: int, K: int, form: Form, micro: int, pruned: bool, width: int = 384
) -> Step:
    """A step over all graphs, ``micro`` of them at once."""
    reach = Reach((ANSWER,), K) if pruned else None
    batches = collated(subgraphs, schema, reach, micro)
    if kind == "encoder":
        return encoder_step([batch.sharing_features() for batch in batches], K, form, width)
    for batch in batches:
        prepare(batch, form)
    steps = [messages_step(batch, K, form, pruned, full=kind == "full") for batch in batches]

    def step() -> None:
        for one in steps:
            one()

    return step


def memory_of_step(kind: str, subgraphs: list[Subgraph], schema: int, K: int, form: Form) -> int:
    return memory_of(make_step(kind, subgraphs, schema, K, form, len(subgraphs), form == "compiled"))


def dense_flops(subgraphs: Sequence[Subgraph], m: int, K: int) -> float:
    """Of the reference, one graph at a time: products with the adjacency and with the transitions, forward and backward."""
    sizes = [len(s.concepts) for s in subgraphs]
    return sum(4.0 * K * m * n * n * (WIDTH + 1) + 6.0 * (K - 1) * m * m * n * (WIDTH + 1) for n in sizes)


PRODUCT = 2000  # rows and columns of the matrices
PRODUCT_FLOPS = 2 * PRODUCT**3
COPIED = 50_000_000  # numbers that no cache holds
COPIED_BYTES = 2 * 4 * COPIED  # half read, half written


def matrix_product() -> Step:
    a, b = torch.randn(PRODUCT, PRODUCT), torch.randn(PRODUCT, PRODUCT)
    return lambda: a @ b


def copying() -> Step:
    a, b = torch.randn(COPIED), torch.empty(COPIED)
    return lambda: b.copy_(a)


def rgcn_step(subgraphs: list[Subgraph], schema: int) -> Step:
    """Three RGCN layers."""
    from torch_geometric.nn import RGCNConv  # type: ignore[import-untyped]

    batch = GraphBatch.collate(subgraphs, schema)
    layers = [RGCNConv(WIDTH, WIDTH, batch.num_relations) for _ in range(3)]
    x = normal(batch.num_nodes, WIDTH)

    def step() -> None:
        h = x
        for layer in layers:
            h = layer(h, batch.edge_index, batch.edge_type)
        h.sum().backward()  # type: ignore[no-untyped-call]

    return step


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


def collating_step(folder: Path, K: int, part: Literal["collate", "encoder"]) -> Step:
    data = PreparedData.load(folder)
    subgraphs = [data.subgraph(statement) for statement in range(int(data.statement_ptr[-1]))]

    def joined() -> tuple[GraphBatch, torch.Tensor]:
        graph = GraphBatch.collate(subgraphs, data.about["relations"], Reach((ANSWER,), K)).sharing_features()
        _ = graph[0].walk_index
        return graph

    if part == "encoder":
        return encoder_step([joined()], K, "compiled", 384)
    features = RandomFeatures(384)
    features.require(data.used)

    def collate() -> None:
        features.rows(joined()[1])

    return collate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="a folder with conceptnet/ and csqa/")
    parser.add_argument("--kg", type=Path, help="a graph built from the same assertions, to save time")
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--hops", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--rounds", type=int, default=5, help="rounds of every comparison")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="these comparisons, nothing else")
    parser.add_argument("--no-growth", action="store_true", help="skip benchmarks/growth.py")
    add_json_option(parser)
    options = parser.parse_args()
    source = options.data / "conceptnet" / "assertions-en.csv.gz"
    if not source.is_file() and options.kg is None:
        parser.error(f"{source} does not exist; name the folder of the data with --data")
    with tempfile.TemporaryDirectory() as folder:
        graph = KnowledgeGraph.load(graph_of(options.data, options.kg, Path(folder)))
        schema = len(graph.schema)
        cut, whole = (list(chain.from_iterable(subgraphs_of(graph, options.data, options.questions, cap))) for cap in (CAP, None))
        questions = prepared(graph, options.data, options.questions, Path(folder))
        result = Benchmark(cut, whole, questions, schema, options.hops, options.rounds).run(options.only)
    if not options.no_growth:
        import growth

        result["exponents"] = growth.exponents(whole)
        print(f"growth: {result['exponents']}")
    write_json(options.json, result)


@dataclass
class Benchmark:
    """Runs the comparisons, prints them and collects their numbers."""

    cut: list[Subgraph]
    whole: list[Subgraph]
    questions: Path
    schema: int
    hops: list[int]
    rounds: int
    micro_batches: dict[tuple[str, int], int] = field(default_factory=dict)  # fastest of the dense form, by kind and K
    comparisons: dict[str, Any] = field(default_factory=dict)

    def run(self, parts: Sequence[str]) -> dict[str, Any]:
        print(f"{len(self.cut)} graphs, d = {WIDTH}, {torch.get_num_threads()} threads, {self.rounds} rounds")
        for title, graphs in ((f"cut at {CAP} nodes", self.cut), ("uncut", self.whole)):
            print(f"{title}: {sum(len(s.concepts) for s in graphs):,} nodes, {2 * sum(len(s.head) for s in graphs):,} edges")
        result: dict[str, Any] = {
            "date": time.strftime("%Y-%m-%d"),
            "graphs": len(self.cut),
            "width": WIDTH,
            "threads": torch.get_num_threads(),
            "rounds": self.rounds,
        }
        for part in parts:
            result |= getattr(self, part)()
        return result | {"comparisons": self.comparisons}

    def compare(self, name: str, makers: Mapping[str, Callable[[], Step]]) -> Comparison:
        comparison = compare_processes(makers, self.rounds)
        self.comparisons[name] = comparison.as_json()
        return comparison

    def dense_and_compiled(self, kind: str, K: int, width: int = 384) -> dict[str, Callable[[], Step]]:
        """Both forms on the cut graphs, the dense one at its fastest micro-batch."""
        made = partial(make_step, kind, self.cut, self.schema, K, width=width)
        key = ("full" if kind == "full" else "messages", K)
        if key not in self.micro_batches:
            tried = {str(size): partial(made, form="dense", micro=size, pruned=False) for size in MICRO_BATCHES}
            quick = compare_processes(tried, rounds=1)
            self.micro_batches[key] = min(MICRO_BATCHES, key=lambda size: quick.seconds(str(size)).cpu.median)
        return {
            "dense": partial(made, form="dense", micro=self.micro_batches[key], pruned=False),
            "compiled": partial(made, form="compiled", micro=len(self.cut), pruned=True),
        }

    def messages(self) -> dict[str, Any]:
        speedup, memory_ratio, fraction = {}, {}, {}
        for K in self.hops:
            makers = self.dense_and_compiled("messages", K) | {"matrix product": matrix_product}
            comparison = self.compare(f"messages, K = {K}", makers)
            speedup[K] = comparison.ratio("dense", "compiled")
            products = dense_flops(self.cut, 2 * self.schema, K) / PRODUCT_FLOPS
            fraction[K] = comparison.ratio("matrix product", "dense").scaled(products)
            small = self.cut[:SHARED_MICRO_BATCH]
            dense, ours = (
                in_fresh_process(memory_of_step, "messages", small, self.schema, K, form) for form in ("dense", "compiled")
            )
            memory_ratio[K] = dense / ours
            print(f"K = {K}: messages are faster than dense by {speedup[K].times()}")
            print(f"  dense reaches {fraction[K].wall.median:.0%} of the rate of matrix products")
            print(f"  {memory_ratio[K]:.1f}x less memory than dense (both {len(small)} graphs at once)")
            print(comparison.conditions(), flush=True)
        return {
            "speedup": as_json(speedup),
            "memory_ratio": memory_ratio,
            "dense_fraction_of_matrix_rate": as_json(fraction),
        }

    def encoder(self) -> dict[str, Any]:
        speedup: dict[int, dict[int, Measure]] = {}
        for width in (384, 1024):
            speedup[width] = {}
            for K in self.hops:
                makers = self.dense_and_compiled("encoder", K, width)
                comparison = self.compare(f"encoder, sentences {width} wide, K = {K}", makers)
                speedup[width][K] = comparison.ratio("dense", "compiled")
                print(f"K = {K}: the encoder, sentences {width} wide, is faster than dense by {speedup[width][K].times()}")
                print(comparison.conditions(), flush=True)
        return {"encoder_speedup": {width: as_json(by_hops) for width, by_hops in speedup.items()}}

    def full_matrices(self) -> dict[str, Any]:
        comparison = self.compare("full matrices, K = 2", self.dense_and_compiled("full", 2))
        speedup = comparison.ratio("dense", "compiled")
        print(f"K = 2, full matrices: faster than dense by {speedup.times()}")
        print(comparison.conditions(), flush=True)
        return {"full_matrix_speedup": speedup.as_json()}

    def rgcn(self) -> dict[str, Any]:
        """RGCN and the machine's limits in one comparison: both are measured against the same steps."""
        ours = partial(make_step, "messages", self.whole, self.schema, 3, "compiled", len(self.whole))
        comparison = self.compare(
            "RGCN, K = 3",
            {
                "RGCN": partial(rgcn_step, self.whole, self.schema),
                "pruned": partial(ours, pruned=True),
                "unpruned": partial(ours, pruned=False),
                "matrix product": matrix_product,
                "copy": copying,
            },
        )
        speedup = {name: comparison.ratio("RGCN", name) for name in ("pruned", "unpruned")}
        for name, measure in speedup.items():
            print(f"K = 3, uncut, {name}: faster than three RGCNConv layers by {measure.times()}")
        work = moved(self.whole, self.schema, 3)
        copies, products = work["bytes"] / COPIED_BYTES, work["flops"] / PRODUCT_FLOPS
        reached = comparison.per_round(lambda t: (copies * t["copy"] + products * t["matrix product"]) / t["unpruned"])
        product, copy = (comparison.seconds(name).wall.median for name in ("matrix product", "copy"))
        print(
            f"K = 3, uncut, unpruned: {work['bytes'] / 1e9:.2f} GB at {COPIED_BYTES / copy / 1e9:.1f} GB/s and"
            f" {work['flops'] / 1e9:.1f} GFLOP at {PRODUCT_FLOPS / product / 1e9:.0f} GFLOP/s:"
            f" {reached.wall.median:.0%} of that pace ({reached.wall.lower:.0%} to {reached.wall.upper:.0%})"
        )
        print(comparison.conditions(), flush=True)
        return {"rgcn_speedup": as_json(speedup), "limit": {**work, "reached": reached.as_json()}}

    def collating(self) -> dict[str, Any]:
        shares = {}
        for K in self.hops:
            makers = {part: partial(collating_step, self.questions, K, part) for part in ("collate", "encoder")}
            comparison = self.compare(f"collating, K = {K}", makers)
            shares[K] = comparison.ratio("collate", "encoder")
            wall = shares[K].wall
            print(
                f"K = {K}: collating an uncut batch takes {wall.median:.1%} ({wall.lower:.1%} to {wall.upper:.1%}) of a step of"
                " the encoder"
            )
            print(comparison.conditions(), flush=True)
        return {"collating_share": as_json(shares)}


def as_json(measures: dict[Any, Measure]) -> dict[Any, Any]:
    return {key: measure.as_json() for key, measure in measures.items()}


if __name__ == "__main__":
    main()
