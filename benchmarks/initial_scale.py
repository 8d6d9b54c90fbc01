"""Trainable at any depth: what each hop's weights and messages feel at the start, and how training goes on from there.

    python benchmarks/initial_scale.py [--data DIR] [--kg GRAPH] [--json FILE] [--plots FOLDER]

Two settings of ``mhgrn.initial_scale`` on CommonsenseQA from DIR (``../shared/data`` if not named): 0.02, as published, and
``level``, the default. The graph is built from DIR's ``conceptnet/assertions-en.csv.gz`` unless one is named.

1. For K = 1 … 4 and 8, before the first step, at dropout 0, on one batch of questions and as the mean (geometric) of a few seeds:
   the size of the messages z^k (root mean square over the nodes that a walk of k hops reaches), the norm of the loss's gradient by
   W^k, and that of its gradient by z^k.
2. Loss and dev accuracy of every epoch of ``mhgrn.train`` on the first training questions, for K = 1 … 4, with one thread.

Node features are random: nothing but the text and the relations of walks can be learned from.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from measuring import graph_of
from mhgrn.config import Config
from mhgrn.data.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.data.questions import Question, find_splits
from mhgrn.drawing.figures import plotting, write_figure
from mhgrn.encoders.text import TextEncoder
from mhgrn.errors import UserError
from mhgrn.features import open_features
from mhgrn.kg import KnowledgeGraph
from mhgrn.nn.message_passing import Messages, MultiHopMessagePassing
from mhgrn.training.loop import Examples, question_loss, set_seed, train
from mhgrn.training.run import Run, build_model

DATA = Path(__file__).parents[2] / "shared" / "data"
SCALES = {"published": "0.02", "level": "level"}
NORMS = ("messages", "by_weights", "by_messages")


def settings(scale: str, hops: int, *others: str) -> Config:
    return Config.load(overrides=["features=random", f"mhgrn.initial_scale={scale}", f"mhgrn.hops={hops}", *others])


def some_questions(source: Path, train_count: int, dev_count: int, graph: KnowledgeGraph, work: Path) -> PreparedData:
    """The first questions of train and dev, prepared in a folder."""
    splits = find_splits(source)
    (work / "questions").mkdir()
    for split, count in (("train", train_count), ("dev", dev_count)):
        rows = [as_row(question) for question in splits[split][:count]]
        (work / "questions" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    prepare(work / "questions", graph, work / "prepared", PrepareOptions())
    return PreparedData.load(work / "prepared")


def as_row(question: Question) -> dict[str, Any]:
    return {
        "id": question.id,
        "question": question.stem,
        "choices": question.choices,
        "answer": question.label(question.answer or 0),
    }


def at_start(examples: Examples, questions: int) -> dict[str, list[float]]:
    """Of every hop k = 1 … K of a fresh model."""
    kept: list[Messages] = []

    def keep(module: torch.nn.Module, arguments: Any, found: Messages) -> None:
        found.z.retain_grad()
        kept.append(found)

    model = examples.run.model.eval()
    (passing,) = (module for module in model.modules() if isinstance(module, MultiHopMessagePassing))
    passing.register_forward_hook(keep)
    batch = examples.batch(range(min(questions, len(examples.data.questions))))
    loss = question_loss(examples.scores(batch, live_text=False), batch) / len(batch.first)
    loss.backward()  # type: ignore[no-untyped-call]
    z, log_d = kept[0]
    assert z.grad is not None
    assert passing.W.grad is not None
    return {
        "messages": [float(of_hop[reached > -torch.inf].detach().square().mean().sqrt()) for of_hop, reached in zip(z, log_d, strict=True)],
        "by_weights": [float(of_hop.norm()) for of_hop in passing.W.grad],
        "by_messages": [float(of_hop.norm()) for of_hop in z.grad],
    }


def starts(data: PreparedData, graph: KnowledgeGraph, depths: Sequence[int], questions: int, seeds: int) -> list[dict[str, Any]]:
    encoder = TextEncoder(settings("level", 1).text)
    features = open_features("random", graph, encoder)
    rows = []
    for name, scale in SCALES.items():
        for hops in depths:
            config = settings(scale, hops)
            found = []
            for seed in range(seeds):
                set_seed(seed)
                model = build_model(config, encoder, features.dim, 2 * len(graph.schema))
                found.append(at_start(Examples(data, Run(data.folder, {}, config, graph, encoder, features, model)), questions))
            norms = {what: torch.tensor([f[what] for f in found]).clamp_min(1e-30).log().mean(0).exp().tolist() for what in NORMS}
            rows.append({"scale": name, "K": hops, **norms})
            for what, values in norms.items():
                print(f"{name:<10} K = {hops}  {what:<12}" + "".join(f"{value:>10.1e}" for value in values), flush=True)
    return rows


def curves(data: PreparedData, graph: KnowledgeGraph, depths: Sequence[int], epochs: int, work: Path) -> list[dict[str, Any]]:
    rows = []
    for hops in depths:
        for name, scale in SCALES.items():
            began = time.process_time()
            limits = [f"training.epochs={epochs}", f"training.patience={epochs}", "training.threads=1"]
            run = train(data, settings(scale, hops, *limits), work / f"{name}-{hops}", graph)
            lines = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            found = [json.loads(line) for line in lines]
            row = {"scale": name, "K": hops, "cpu": round(time.process_time() - began, 1)}
            rows.append(row | {what: [of_epoch[what] for of_epoch in found] for what in ("loss", "dev_accuracy")})
            print(f"{name:<10} K = {hops}  loss" + "".join(f" {of_epoch['loss']:.3f}" for of_epoch in found), end="")
            print("  dev" + "".join(f" {of_epoch['dev_accuracy']:.1%}" for of_epoch in found), flush=True)
    return rows


def plot(numbers: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    colours = {"published": "tab:orange", "level": "tab:blue"}
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 3.2), layout="constrained")
        titles = ("size of the messages z^k", "gradient by W^k", "gradient by z^k")
        for column, (what, title) in enumerate(zip(NORMS, titles, strict=True)):
            axes = figure.add_subplot(1, 3, column + 1)
            for row in numbers["starts"]:
                longest = row["K"] == max(r["K"] for r in numbers["starts"])
                label = row["scale"] if longest else None
                axes.semilogy(range(1, row["K"] + 1), row[what], "o-", markersize=3, color=colours[row["scale"]], label=label)
            axes.set_title(title, fontsize=10)
            axes.set_xlabel("hop k")
        figure.axes[0].legend(fontsize=8)
        write_figure(figure, folder / "depth-start.svg")
        depths = sorted({row["K"] for row in numbers["curves"]})
        figure = Figure(figsize=(10, 4.5), layout="constrained")
        for line, (what, label) in enumerate((("loss", "training loss"), ("dev_accuracy", "dev accuracy"))):
            first = None
            for column, hops in enumerate(depths):
                axes = figure.add_subplot(2, len(depths), line * len(depths) + column + 1, sharey=first)
                first = first or axes
                for row in numbers["curves"]:
                    if row["K"] == hops:
                        x = range(1, len(row[what]) + 1)
                        axes.plot(x, row[what], "o-", markersize=3, color=colours[row["scale"]], label=row["scale"])
                axes.set_title("" if line else f"K = {hops}", fontsize=10)
                axes.set_xlabel("epoch" if line else "")
                axes.set_ylabel("" if column else label)
        figure.axes[0].legend(fontsize=8)
        write_figure(figure, folder / "depth-curves.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds csqa and conceptnet")
    parser.add_argument("--kg", type=Path, help="folder of a built graph")
    parser.add_argument("--train", type=int, default=640, help="training questions")
    parser.add_argument("--dev", type=int, default=320, help="dev questions")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--start-depths", type=int, nargs="+", default=[1, 2, 3, 4, 8], metavar="K", help="for part 1")
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 3, 4], metavar="K", help="for part 2")
    parser.add_argument("--seeds", type=int, default=3, help="for part 1")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--plots", type=Path, help="write depth-start.svg and depth-curves.svg into this folder")
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"{options.data} does not exist; name the folder of the data sets with --data.")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        graph = KnowledgeGraph.load(graph_of(options.data, options.kg, work))
        data = some_questions(options.data / "csqa", options.train, options.dev, graph, work)
        numbers: dict[str, Any] = {"train": options.train, "dev": options.dev}
        numbers["starts"] = starts(data, graph, options.start_depths, 32, options.seeds)
        numbers["curves"] = curves(data, graph, options.depths, options.epochs, work)
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    if options.plots:
        plot(numbers, options.plots)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(str(error)) from None
