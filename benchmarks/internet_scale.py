"""Arithmetic for internet scale: disk, memory and node-hours for Wikidata and a hundred million questions, from measured rates.

    python benchmarks/internet_scale.py [--cores 32] [--json-rate 18] [--build-seconds 2] ... [--json FILE]

Nothing is measured here. Each rate is an option; its default was printed by the command that the help text names. Work grows in
proportion to its amount, and cores do not slow each other down: both are assumptions, not measurements. A file is read and a graph
is built by one process.
"""

import argparse
from typing import NamedTuple

from measuring import GB, MB, add_json_option, write_json

TB = 1e12


class Rate(NamedTuple):
    """A number that the arithmetic takes from elsewhere."""

    value: float
    meaning: str


RATES = {
    "statements": Rate(1.5e9, "truthy statements of Wikidata whose value is an entity or a text (assumed)"),
    "concepts": Rate(115e6, "entities of Wikidata (assumed)"),
    "json-bytes": Rate(1.5 * TB, "bytes of Wikidata's JSON dump, uncompressed (assumed)"),
    "statement-bytes": Rate(130.0, "bytes of a statement in N-Triples (benchmarks/dumps.py)"),
    "json-rate": Rate(18.2, "MB of Wikidata JSON read per processor second (benchmarks/readers.py)"),
    "triples-rate": Rate(6.9, "MB of N-Triples read per processor second (benchmarks/readers.py)"),
    "build-seconds": Rate(2.77, "processor seconds to build a million facts with --memory (benchmarks/larger_than_memory.py)"),
    "build-disk": Rate(36.0, "bytes of disk per fact at the peak of the same build, of 100 million facts"),
    "build-memory": Rate(8.0, "GB of memory for a build of this size (assumed; 100 million facts were built in 1 GB)"),
    "fact-bytes": Rate(25.4, "bytes of graph and concept index per fact, without labels (the same build)"),
    "label-bytes": Rate(260.0, "bytes of the graph per concept for ids, labels and aliases (benchmarks/readers.py --build)"),
    "questions": Rate(100e6, "questions with five choices"),
    "question-ms": Rate(20.0, "processor ms to find and extract the subgraphs of a question (benchmarks/large_graph.py)"),
    "answer-ms": Rate(21.2, "processor ms of an answer of predict, two threads for 10.6 ms (benchmarks/predict.py)"),
    "prepared-kb": Rate(93.6, "kB per question of the folder of `mhgrn prepare` for CommonsenseQA (10,962 questions)"),
    "answer-kb": Rate(2.0, "kB of a predicted answer with one path (assumed)"),
    "cores": Rate(32, "cores of a node (assumed)"),
}


class Step(NamedTuple):
    """A step with its needs."""

    name: str
    core_hours: float
    cores: float  # that it uses
    disk: str
    memory: str


def steps_of(rate: dict[str, float]) -> list[Step]:
    """The steps, from the rates by name."""
    statements, questions, cores = rate["statements"], rate["questions"], rate["cores"]
    labels = rate["concepts"] * rate["label-bytes"]
    graph, peak = ((statements * rate[name] + labels) / GB for name in ("fact-bytes", "build-disk"))
    triples = statements * rate["statement-bytes"] / MB
    return [
        Step("read the JSON dump", rate["json-bytes"] / MB / rate["json-rate"] / 3600, 1, "the compressed dump", "0.2 GB"),
        Step(
            "or read the same statements as N-Triples",
            triples / rate["triples-rate"] / 3600,
            1,
            f"{triples / 1000:,.0f} GB, uncompressed",
            "0.2 GB",
        ),
        Step(
            "build the graph with `--memory`",
            statements / 1e6 * rate["build-seconds"] / 3600,
            1,
            f"{peak:,.0f} GB at the peak; the graph: {graph:,.0f} GB with labels",
            f"{rate['build-memory']:g} GB",
        ),
        Step(
            "prepare the questions for training",
            questions * rate["question-ms"] / 3.6e6,
            cores,
            f"{questions * rate['prepared-kb'] * 1000 / TB:,.1f} TB",
            f"up to {graph:,.0f} GB of page cache",
        ),
        Step(
            "or answer them with `predict`",
            questions * (rate["question-ms"] + rate["answer-ms"]) / 3.6e6,
            cores,
            f"{questions * rate['answer-kb'] * 1000 / TB:,.1f} TB of answers",
            f"up to {graph:,.0f} GB of page cache, 1 GB for each process",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in RATES.items():
        parser.add_argument(f"--{name}", type=float, default=default.value, help=f"{default.meaning}; default {default.value:,g}")
    add_json_option(parser)
    options = vars(parser.parse_args())
    rate = {name: options[name.replace("-", "_")] for name in RATES}
    if min(rate.values()) <= 0:
        parser.error("every rate must be positive.")
    found = steps_of(rate)
    print("| step | core-hours | cores used | hours | disk | memory |\n|---|---|---|---|---|---|")
    for step in found:
        used = "1 (one process)" if step.cores == 1 else f"{step.cores:g}"
        hours = step.core_hours / step.cores
        print(f"| {step.name} | {step.core_hours:,.1f} | {used} | {hours:,.1f} | {step.disk} | {step.memory} |")
    print()
    for name, value in rate.items():
        print(f"- `--{name} {value:g}`: {RATES[name].meaning}")
    write_json(options["json"], {"rates": rate, "steps": [step._asdict() for step in found]})


if __name__ == "__main__":
    main()
