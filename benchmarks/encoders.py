"""One training step of every graph encoder on the same batch: time, processor time, memory, and what is left out.

    python benchmarks/encoders.py [--data DIR] [--kg GRAPH] [--only mhgrn khop-rn] [--set khop_rn.hops=3] [--json FILE]

The batch is the first questions of CommonsenseQA with all their choices and uncut graphs, from DIR (``../shared/data`` if not
named); the graph is built from its ``conceptnet/assertions-en.csv.gz`` unless one is named. Text and node features are random
vectors of the built-in text encoder's widths: a frozen encoder's vectors are only looked up. A step goes from the joined graphs, of
which what cannot reach an encoder's output is left out as in training, to changed weights, with whatever the encoder derives from
the batch, such as its list of paths. Each encoder runs in a fresh process; the quickest of several steps counts.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from measuring import MB, graph_of, in_fresh_process, peak, resident, subgraphs_of
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders import registry
from mhgrn.encoders.base import Dims
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import assemble, parameter_count
from mhgrn.subgraphs.extract import Subgraph
from mhgrn.text.tokens import Tokens

DATA = Path(__file__).parents[2] / "shared" / "data"
WIDTH, TOKENS = 384, 20  # of the text encoder; tokens of a stem and a choice


def measure(name: str, settings: list[str], asked: list[list[Subgraph]], relations: int, repeats: int) -> dict[str, float]:
    """Seconds and memory of a step, parameters, and what is left out; the first step, which may compile, is not counted."""
    torch.manual_seed(0)
    kind = registry.load(name)
    config = Config.load(overrides=[f"graph_encoder={name}", *settings])
    dims = Dims(4 * WIDTH if kind.uses_text else 0, WIDTH if kind.uses_features else 0, 2 * relations, WIDTH)
    model = assemble(config, dims.sentence_dim, dims)
    subgraphs = [s for choices in asked for s in choices]
    G, encoder = len(subgraphs), model.graph_encoder
    s = torch.randn(G, dims.sentence_dim)
    tokens = Tokens(torch.randn(G, TOKENS, WIDTH), torch.ones(G, TOKENS, dtype=torch.bool)) if kind.uses_tokens else None
    optimiser = torch.optim.RAdam(model.parameters(), lr=1e-3) if parameter_count(model) else None
    times, cpu, peaks, cut = [], [], [], 0.0
    for _ in range(repeats + 1):
        batch = GraphBatch.collate(subgraphs, relations, encoder.reach)
        batch, concepts = batch.sharing_features() if encoder.shares_features else (batch, batch.concepts)
        features = torch.randn(len(concepts), dims.feature_dim)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew from here
        before, began, began_cpu = resident(), time.perf_counter(), time.process_time()
        score, encoding = model(s, features, batch, tokens)
        each = torch.split(score, [len(choices) for choices in asked])  # type: ignore[no-untyped-call]
        if optimiser is not None:
            optimiser.zero_grad()
            torch.stack([part[0] - torch.logsumexp(part, 0) for part in each]).mean().neg().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        times.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
        peaks.append(peak() - before)
        cut = float(encoding.cut.sum()) if encoding.cut is not None else 0.0
    return {
        "seconds": min(times[1:]),
        "cpu": min(cpu[1:]),
        "memory": max(peaks[1:]),
        "parameters": parameter_count(model),
        "cut": cut,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="a folder with csqa and conceptnet")
    parser.add_argument("--kg", type=Path, help="a built graph")
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--only", nargs="+", choices=registry.names(), default=registry.names(), metavar="ENCODER")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, as of `mhgrn train`")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            graph = KnowledgeGraph.load(graph_of(options.data, options.kg, Path(folder)))
            asked, relations = subgraphs_of(graph, options.data, options.questions), len(graph.schema)
        Config.load(overrides=options.set)
    except UserError as error:
        parser.error(str(error))
    graphs = [s for choices in asked for s in choices]
    nodes, facts = (sum(len(getattr(s, column)) for s in graphs) for column in ("concepts", "head"))
    size = f"{len(graphs)} uncut graphs, {nodes:,} nodes, {2 * facts:,} edges"
    print(f"{len(asked)} questions, {size}; {torch.get_num_threads()} threads")
    print(f"{'encoder':<16}{'seconds':>9}{'processor':>11}{'memory':>11}{'parameters':>12}{'left out':>12}")
    found: dict[str, Any] = {}
    for name in options.only:
        row = in_fresh_process(measure, name, options.set, asked, relations, options.repeats)
        found[name] = row
        memory = f"{row['memory'] / MB:,.0f} MB"
        print(
            f"{name:<16}{row['seconds']:>9.3f}{row['cpu']:>11.3f}{memory:>11}{row['parameters']:>12,}{int(row['cut']):>12,}",
            flush=True,
        )
    if options.json:
        result = {"questions": len(asked), "graphs": len(graphs), "nodes": nodes, "edges": 2 * facts, "settings": options.set}
        options.json.write_text(json.dumps(result | {"encoders": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
