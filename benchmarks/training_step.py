"""One training step of every graph encoder on the same batch: time, processor time, memory, and truncated paths.

    python benchmarks/training_step.py [--data DIR] [--kg GRAPH] [--only mhgrn khop-rn] [--set khop_rn.hops=3] [--json FILE]

The batch holds the first questions of CommonsenseQA with all their choices and uncut graphs, from DIR (default:
``../shared/data``). The graph is built from DIR's ``conceptnet/assertions-en.csv.gz`` unless ``--kg`` names one. Text and node
features are random vectors of the built-in text encoder's widths, because a frozen encoder's vectors are only looked up. A step
goes from the collated graphs, pruned as in training to what can reach the encoder's output, to updated weights. It includes
whatever the encoder derives from the batch, such as its list of paths. Each encoder has a process of its own and they take turns.
"""

import argparse
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from graphs import DATA, graph_of, subgraphs_of
from measuring import MB, Step, add_json_option, compare_processes, in_fresh_process, write_json
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders import graph_encoders
from mhgrn.encoders.base import Dims
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.model import KnowledgeAwareQA, assemble, parameter_count
from mhgrn.subgraphs.extract import Subgraph
from mhgrn.text.tokens import Tokens

WIDTH, TOKENS = 384, 20  # of the text encoder; tokens of a stem and a choice


def make_model(name: str, settings: list[str], relations: int) -> tuple[KnowledgeAwareQA, Dims]:
    torch.manual_seed(0)
    kind = graph_encoders.load(name)
    config = Config.load(overrides=[f"graph_encoder={name}", *settings])
    dims = Dims(4 * WIDTH if kind.uses_text else 0, WIDTH if kind.uses_features else 0, 2 * relations, WIDTH)
    return assemble(config, dims.sentence_dim, dims), dims


def make_step(
    name: str, settings: list[str], asked: list[list[Subgraph]], relations: int, counts: dict[str, int] | None = None
) -> Step:
    """A training step; with ``counts``, each call stores there the parameters and the paths beyond the encoder's limit."""
    model, dims = make_model(name, settings, relations)
    subgraphs = [s for choices in asked for s in choices]
    G, encoder = len(subgraphs), model.graph_encoder
    s = torch.randn(G, dims.sentence_dim)
    uses_tokens = graph_encoders.load(name).uses_tokens
    tokens = Tokens(torch.randn(G, TOKENS, WIDTH), torch.ones(G, TOKENS, dtype=torch.bool)) if uses_tokens else None
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-3) if parameter_count(model) else None
    collated = GraphBatch.collate(subgraphs, relations, encoder.reach)
    if encoder.uses_relevance:
        collated = collated.with_relevance(torch.rand(collated.num_nodes))
    collated, concepts = collated.sharing_features() if encoder.shares_features else (collated, collated.concepts)
    features = torch.randn(len(concepts), dims.feature_dim)

    def step() -> None:
        score, encoding = model(s, features, replace(collated), tokens)  # a copy: derived data is derived again
        each = torch.split(score, [len(choices) for choices in asked])  # type: ignore[no-untyped-call]
        if optimizer is not None:
            optimizer.zero_grad()
            torch.stack([part[0] - torch.logsumexp(part, 0) for part in each]).mean().neg().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if counts is not None:
            cut = int(encoding.cut.sum()) if encoding.cut is not None else 0
            counts.update(parameters=parameter_count(model), truncated=cut)

    return step


def counts_of(name: str, settings: list[str], asked: list[list[Subgraph]], relations: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    make_step(name, settings, asked, relations, counts)()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds csqa and conceptnet")
    parser.add_argument("--kg", type=Path, help="folder of a built graph")
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--only", nargs="+", choices=graph_encoders.names(), default=graph_encoders.names(), metavar="ENCODER")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting, as of `mhgrn train`")
    parser.add_argument("--rounds", type=int, default=5)
    add_json_option(parser)
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
    print(f"{len(asked)} questions, {size}; {torch.get_num_threads()} threads", flush=True)
    comparison = compare_processes(
        {name: partial(make_step, name, options.set, asked, relations) for name in options.only}, options.rounds
    )
    result = comparison.as_json()
    base = "mhgrn" if "mhgrn" in options.only else options.only[0]
    print(f"{'encoder':<16}{'seconds':>9}{'processor':>11}{'  times ' + base:<24}{'memory':>11}{'parameters':>12}{'truncated':>12}")
    for name in options.only:
        row = in_fresh_process(counts_of, name, options.set, asked, relations)
        ratio, seconds = comparison.ratio(name, base), comparison.seconds(name)
        result["forms"][name] |= row | {f"times {base}": ratio.as_json()}
        memory = f"{comparison.memory[name] / MB:,.0f} MB"
        print(
            f"{name:<16}{seconds.wall.median:>9.3f}{seconds.cpu.median:>11.3f}{'  ' + ratio.wall.text():<24}{memory:>11}"
            f"{row['parameters']:>12,}{row['truncated']:>12,}",
            flush=True,
        )
    print(comparison.conditions())
    size_of = {"questions": len(asked), "graphs": len(graphs), "nodes": nodes, "edges": 2 * facts, "settings": options.set}
    write_json(options.json, size_of | result)


if __name__ == "__main__":
    main()
