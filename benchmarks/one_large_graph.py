"""Message passing in one large graph with one thread and with several, beside what a plain copy of memory gains.

    python benchmarks/one_large_graph.py [--nodes N] [--facts N] [--width N] [--hops K] [--threads N] [--rounds N] [--json FILE]

Facts connect random nodes, a tenth of which are the ends of half of the facts. Forms take turns in one process: a forward pass, a
forward and a backward pass, and a copy of 256 MB. The results of both numbers of threads are compared bit by bit.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from measuring import Sample, add_json_option, available_cores, compare, sample, write_json
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.compiled.threads import parallel_for
from mhgrn.nn.message_passing import WalkWeights, multi_hop_messages
from mhgrn.subgraphs.extract import OTHER, Subgraph

RELATIONS = 17
COPIED = 1 << 28  # bytes


def random_graph(nodes: int, facts: int) -> GraphBatch:
    random = np.random.default_rng(0)

    def ends() -> np.ndarray:
        is_hub = random.random(facts) < 0.5
        return np.where(is_hub, random.integers(0, max(1, nodes // 10), facts), random.integers(0, nodes, facts))

    subgraph = Subgraph(np.arange(nodes), np.full(nodes, OTHER), ends(), random.integers(0, RELATIONS, facts), ends())
    return GraphBatch.collate([subgraph], RELATIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--facts", type=int, default=2_000_000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--hops", type=int, default=2)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--rounds", type=int, default=5)
    add_json_option(parser)
    options = parser.parse_args()

    batch = random_graph(options.nodes, options.facts)
    _ = batch.walk_index
    torch.manual_seed(0)
    n, m, d, K = options.nodes, batch.num_relations, options.width, options.hops
    x, start, delta, tau, W, W_pad = (
        torch.randn(shape).requires_grad_() for shape in ((n, d), (n,), (1, m), (m, m), (K, m, d), (K - 1, d))
    )
    leaves = x, start, delta, tau, W

    def forward() -> Tensor:
        z: Tensor = multi_hop_messages(x, WalkWeights(start, delta, tau), W, W_pad, batch, "compiled").z
        return z

    def answer() -> Tensor:
        with torch.inference_mode():
            return forward()

    def train() -> list[Tensor]:
        return list(torch.autograd.grad(forward().sum(), leaves))

    source, target = np.ones(COPIED // 8), np.empty(COPIED // 8)

    def copy() -> None:
        parallel_for(lambda a, b: np.copyto(target[a << 16 : b << 16], source[a << 16 : b << 16]), COPIED >> 19)

    def with_threads(threads: int, step: Callable[[], object]) -> Callable[[], Sample]:
        def take() -> Sample:
            torch.set_num_threads(threads)
            return sample(step)

        return take

    counts = (1, options.threads)
    results = []
    for threads in counts:
        torch.set_num_threads(threads)
        results.append([answer(), *train()])
    are_equal = all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    print(f"{n:,} nodes, {options.facts:,} facts, K = {K}, {d} wide; results of 1 and {options.threads} threads are", end=" ")
    print("equal bit by bit" if are_equal else "DIFFERENT")
    found: dict[str, Any] = {"are_equal": are_equal}
    for name, step in {"forward": answer, "forward and backward": train, "plain copy": copy}.items():
        comparison = compare({f"{threads}": with_threads(threads, step) for threads in counts}, options.rounds)
        print(f"{name}: {comparison.ratio('1', str(options.threads)).times()} with {options.threads} threads")
        print(comparison.conditions())
        found[name] = comparison.as_json()
    write_json(options.json, found)


if __name__ == "__main__":
    main()
