"""Do the relations answer the question? The starter model against baselines, and against itself with shuffled relation labels.

    python benchmarks/starter.py [--seeds 5] [--test] [--json FILE]

Prints dev accuracy over seeds of text and graph, text alone, the edge-count baseline, and text and graph after the graph's relation
labels were shuffled, with the differences between runs of the same seed. The wrong choices of the dev and test questions were
selected against the built-in text encoder, so its text-only score may be biased low. The comparison is therefore repeated on
training questions that were written without looking at any text similarity. They are held out here together with every other
question that uses the same facts. ``--test`` evaluates the test questions too.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
from pathlib import Path
from typing import Any

from measuring import Spread, add_json_option, write_json
from mhgrn.kg import KnowledgeGraph
from mhgrn.starter import HERE, Starter
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.training.evaluation import evaluate, most_edges_accuracy
from mhgrn.training.loop import train

HELD_OUT = 400


def unscreened(graph: KnowledgeGraph, folder: Path) -> PreparedData:
    """A split of the training questions alone: dev and test from those written without regard to text similarity."""
    rows = [json.loads(line) for line in (HERE / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    free = [row for row in rows if not row["screened"]]
    held = free[:: max(len(free) // HELD_OUT, 1)]
    facts = {tuple(fact) for row in held for fact in row["support"]}
    kept = [row for row in rows if not any(tuple(fact) in facts for fact in row["support"])]
    folder.mkdir(parents=True)
    for split, part in (("train", kept), ("dev", held[::2]), ("test", held[1::2])):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part), encoding="utf-8")
    return prepare(folder, graph, folder / "prepared", PrepareOptions(statement="fill-in-the-blank"))


def one_run(job: tuple[str, Path, str, int, tuple[str, ...]]) -> tuple[str, dict[str, float]]:
    """Train one model with one thread; its accuracies by split."""
    import torch

    torch.set_num_threads(1)
    name, place, graph_encoder, seed, splits = job
    data = PreparedData.load(place)
    with tempfile.TemporaryDirectory() as folder:
        text = {"score_text": True} if graph_encoder == "none" else {}
        config = Starter.config(seed=seed, graph_encoder=graph_encoder, **text)
        run = train(data, config, Path(folder) / "run", data.load_graph())
        return name, {split: evaluate(run, data, split)["accuracy"] for split in splits}


PAIRS = (
    ("text and graph", "text alone"),
    ("text and graph", "text and graph, relations shuffled"),
    ("unscreened: text and graph", "unscreened: text alone"),
)


def differences(result: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Median and quartiles of the differences in accuracy between runs of the same seed."""
    return {
        f"{one} minus {other}": {
            split: Spread.of(a - b for a, b in zip(result[one][split], result[other][split], strict=True))._asdict()
            for split in result[one]
        }
        for one, other in PAIRS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--test", action="store_true", help="evaluate the test questions too")
    add_json_option(parser)
    options = parser.parse_args()
    splits = ("dev", "test") if options.test else ("dev",)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        real, shuffled = Starter.build(folder / "real"), Starter.build(folder / "shuffled", shuffle_relations=0)
        free = unscreened(real.graph, folder / "unscreened")
        settings = {
            "text and graph": (real.written.folder, "mhgrn", splits),
            "text alone": (real.written.folder, "none", splits),
            "text and graph, relations shuffled": (shuffled.written.folder, "mhgrn", splits),
            "unscreened: text and graph": (free.folder, "mhgrn", ("test",)),
            "unscreened: text alone": (free.folder, "none", ("test",)),
        }
        result: dict[str, Any] = {name: {split: [] for split in s[2]} for name, s in settings.items()}
        result["edge-count baseline"] = {split: [most_edges_accuracy(real.written, split)] for split in splits}
        result["unscreened: edge-count baseline"] = {"test": [most_edges_accuracy(free, "test")]}
        for name, (data, _, _) in settings.items():  # computes once what all seeds share
            if name in ("text and graph", "text and graph, relations shuffled", "unscreened: text and graph"):
                warm = Starter.config().model_copy(update={"training": Starter.config().training.model_copy(update={"epochs": 1})})
                train(PreparedData.load(data), warm, folder / f"warm-{len(list(folder.iterdir()))}")
        jobs = [(name, data, encoder, seed, of) for seed in range(options.seeds) for name, (data, encoder, of) in settings.items()]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            for name, found in pool.imap(one_run, jobs):
                for split, accuracy in found.items():
                    result[name][split].append(accuracy)
    print(f"{options.seeds} seeds; mean ± standard deviation")
    for name, by_split in result.items():
        for split, values in by_split.items():
            spread = f" ± {statistics.stdev(values):.1%}" if len(values) > 1 else ""
            print(f"  {name:<36} {split:<5} {statistics.mean(values):.1%}{spread}")
    result["differences"] = differences(result)
    for name, by_split in result["differences"].items():
        for split, spread in by_split.items():
            text = "{median:+.1%} ({lower:+.1%} to {upper:+.1%})".format(**spread)
            print(f"  {name:<60} {split:<5} {text} per seed, median and quartiles")
    write_json(options.json, result)


if __name__ == "__main__":
    main()
