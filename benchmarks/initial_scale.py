"""Trainability at any depth: sizes of messages and gradients of each hop at the start, and the training curves that follow.

    python benchmarks/initial_scale.py [--data DIR] [--kg GRAPH] [--json FILE] [--plots FOLDER]

Two values of the setting ``mhgrn.initial_scale`` on CommonsenseQA from DIR (default: ``../shared/data``): 0.02, as published, and
``level``, the default. The graph is built from DIR's ``conceptnet/assertions-en.csv.gz`` unless ``--kg`` names one.

1. For K = 1 … 4 and 8, before the first step, at dropout 0, on one batch of questions, as geometric mean over seeds: the size of
   the messages z^k (root mean square over the nodes that a walk of k hops reaches), the norm of the loss's gradient by W^k, and
   the norm of its gradient by z^k.
2. For K = 1 … 4, the loss of every step and the dev accuracy of every epoch, trained as ``mhgrn.train`` does with one thread, and
   the size of the messages afterwards.

Graphs are cut at 50 nodes. The score sees the graph's vector alone (text still enters attention), and node features are random.
The numbers do not depend on the machine's load.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphs import DATA, graph_of
from measuring import add_json_option, write_json
from mhgrn.config import Config
from mhgrn.drawing.figures import plotting, write_figure
from mhgrn.errors import UserError
from mhgrn.features import open_features
from mhgrn.kg import KnowledgeGraph
from mhgrn.model import build_model
from mhgrn.nn.message_passing import Messages, MultiHopMessagePassing
from mhgrn.questions.fields import letter
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_splits
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.training.evaluation import accuracy
from mhgrn.training.examples import Examples, question_losses
from mhgrn.training.loop import set_seed

SCALES = {"published": "0.02", "level": "level"}
NORMS = ("messages", "by_weights", "by_messages")


def some_questions(
    source: Path, train_count: int, dev_count: int, max_nodes: int, graph: KnowledgeGraph, work: Path
) -> PreparedData:
    """The first questions of train and dev, prepared in a folder."""
    splits = read_splits(source)
    (work / "questions").mkdir()
    for split, count in (("train", train_count), ("dev", dev_count)):
        rows = [as_row(question) for question in splits[split][:count]]
        (work / "questions" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    prepare(work / "questions", graph, work / "prepared", PrepareOptions(max_nodes=max_nodes))
    return PreparedData.load(work / "prepared")


def as_row(question: Question) -> dict[str, Any]:
    assert question.answer is not None
    return {"id": question.id, "question": question.stem, "choices": question.choices, "answer": letter(question.answer)}


def norms_of(examples: Examples, questions: int) -> dict[str, list[float]]:
    """Of every hop k = 1 … K."""
    kept: list[Messages] = []

    def keep(module: torch.nn.Module, arguments: Any, found: Messages) -> None:
        found.z.retain_grad()
        kept.append(found)

    model = examples.run.model.eval()
    (passing,) = (module for module in model.modules() if isinstance(module, MultiHopMessagePassing))
    hook = passing.register_forward_hook(keep)
    batch = examples.batch(range(min(questions, len(examples.data.questions))))
    loss = question_losses(examples.scores(batch, live_text=False), batch).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    hook.remove()
    z, log_d = kept[0]
    assert z.grad is not None
    assert passing.W.grad is not None
    return {
        "messages": [
            float(of_hop[reached > -torch.inf].detach().square().mean().sqrt()) for of_hop, reached in zip(z, log_d, strict=True)
        ],
        "by_weights": [float(of_hop.norm()) for of_hop in passing.W.grad],
        "by_messages": [float(of_hop.norm()) for of_hop in z.grad],
    }


def fresh(name: str, hops: int, data: PreparedData, graph: KnowledgeGraph, encoder: TextEncoder, seed: int) -> Examples:
    """The data with an untrained model whose score does not see the text."""
    config = Config.load(overrides=["features=random", f"mhgrn.initial_scale={SCALES[name]}", f"mhgrn.hops={hops}"])
    features = open_features(config.features, graph, encoder)
    set_seed(seed)
    model = build_model(config, encoder, features.dim, 2 * len(graph.schema))
    seen = torch.zeros(model.graph_encoder.out_dim + encoder.sentence_dim)
    seen[: model.graph_encoder.out_dim] = 1
    assert model.score is not None
    model.score.register_forward_pre_hook(lambda _, given: (given[0] * seen,))
    return Examples(data, Run(data.folder, {}, config, graph, encoder, features, model))


def starts(
    data: PreparedData, graph: KnowledgeGraph, encoder: TextEncoder, depths: Sequence[int], questions: int, seeds: int
) -> list[dict[str, Any]]:
    rows = []
    for name in SCALES:
        for hops in depths:
            found = [norms_of(fresh(name, hops, data, graph, encoder, seed), questions) for seed in range(seeds)]
            norms = {what: torch.tensor([f[what] for f in found]).clamp_min(1e-30).log().mean(0).exp().tolist() for what in NORMS}
            rows.append({"scale": name, "K": hops, **norms})
            for what, values in norms.items():
                print(f"{name:<10} K = {hops}  {what:<12}" + "".join(f"{value:>10.1e}" for value in values), flush=True)
    return rows


def curves(
    data: PreparedData, graph: KnowledgeGraph, encoder: TextEncoder, depths: Sequence[int], epochs: int
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for hops in depths:
        for name in SCALES:
            began = time.process_time()
            examples = fresh(name, hops, data, graph, encoder, seed=0)
            row: dict[str, Any] = {"scale": name, "K": hops, "loss": [], "dev_accuracy": []}
            for losses in learn(examples, epochs):
                row["loss"] += losses
                row["dev_accuracy"].append(accuracy(examples, "dev", live_text=False))
                mean = sum(losses) / len(losses)
                print(f"{name:<10} K = {hops}  loss {mean:.4f}  dev {row['dev_accuracy'][-1]:.1%}", flush=True)
            row["messages"] = norms_of(examples, 32)["messages"]
            print(f"{name:<10} K = {hops}  messages now" + "".join(f"{value:>10.1e}" for value in row["messages"]), flush=True)
            rows.append(row | {"cpu": round(time.process_time() - began, 1)})
    return rows


def learn(examples: Examples, epochs: int) -> Iterator[list[float]]:
    """The losses of an epoch's steps; the optimizer and its settings are those of ``mhgrn.train``."""
    settings, model = examples.run.config.training, examples.run.model
    optimizer = torch.optim.RAdam(
        model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, decoupled_weight_decay=True
    )
    order, shuffler = np.array(examples.data.split("train")), np.random.default_rng(0)
    for _ in range(epochs):
        model.train()
        shuffled, losses = shuffler.permutation(order), []
        for start in range(0, len(order), settings.batch_size):
            batch = examples.batch(shuffled[start : start + settings.batch_size].tolist())
            optimizer.zero_grad(set_to_none=True)
            loss = question_losses(examples.scores(batch, live_text=False), batch).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            losses.append(float(loss.detach()))
        yield losses


def smooth(values: Sequence[float]) -> list[float]:
    """Running mean of ten."""
    return [float(np.mean(values[max(0, i - 9) : i + 1])) for i in range(len(values))]


def plot(numbers: dict[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    colors = {"published": "tab:orange", "level": "tab:blue"}
    with plotting():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 3.2), layout="constrained")
        titles = ("RMS of the messages z^k", "gradient norm of W^k", "gradient norm of z^k")
        for column, (what, title) in enumerate(zip(NORMS, titles, strict=True)):
            axes = figure.add_subplot(1, 3, column + 1)
            for row in numbers["starts"]:
                longest = row["K"] == max(r["K"] for r in numbers["starts"])
                label = row["scale"] if longest else None
                axes.semilogy(range(1, row["K"] + 1), row[what], "o-", markersize=3, color=colors[row["scale"]], label=label)
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
                        y = smooth(row[what]) if what == "loss" else row[what]
                        axes.plot(range(1, len(y) + 1), y, color=colors[row["scale"]], label=row["scale"])
                axes.set_title("" if line else f"K = {hops}", fontsize=10)
                axes.set_xlabel("epoch" if line else "step")
                axes.set_ylabel("" if column else label)
        figure.axes[0].legend(fontsize=8)
        write_figure(figure, folder / "depth-curves.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds csqa and conceptnet")
    parser.add_argument("--kg", type=Path, help="folder of a built graph")
    parser.add_argument("--train", type=int, default=1920, help="training questions")
    parser.add_argument("--dev", type=int, default=320, help="dev questions")
    parser.add_argument("--max-nodes", type=int, default=50, help="maximum nodes of a graph")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--start-depths", type=int, nargs="+", default=[1, 2, 3, 4, 8], metavar="K", help="for part 1")
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 2, 3, 4], metavar="K", help="for part 2")
    parser.add_argument("--seeds", type=int, default=3, help="for part 1")
    add_json_option(parser)
    parser.add_argument("--plots", type=Path, help="write depth-start.svg and depth-curves.svg into this folder")
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"{options.data} does not exist; name the folder of the data sets with --data.")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        graph = KnowledgeGraph.load(graph_of(options.data, options.kg, work))
        data = some_questions(options.data / "csqa", options.train, options.dev, options.max_nodes, graph, work)
        numbers: dict[str, Any] = {"train": options.train, "dev": options.dev, "max_nodes": options.max_nodes}
        encoder = load_text_encoder(Config().text)
        numbers["starts"] = starts(data, graph, encoder, options.start_depths, 32, options.seeds)
        numbers["curves"] = curves(data, graph, encoder, options.depths, options.epochs)
    write_json(options.json, numbers)
    if options.plots:
        plot(numbers, options.plots)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(str(error)) from None
