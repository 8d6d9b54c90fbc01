"""Preparation of CommonsenseQA and OpenBookQA: rate, speed-up over networkx with the same output, latency of one question.

    python benchmarks/preparation.py [--data DIR] [--kg GRAPH] [--sample 40] [--json FILE]

DIR defaults to ``../shared/data``. The graph is built from its ``conceptnet/assertions-en.csv.gz`` unless ``--kg`` names one. The
networkx version (networkx_reference.py) runs on a random sample of the statements, because all of them would take hours. Every
statement of the sample is compared. Both versions take turns.
"""

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import networkx_reference
from graphs import DATA, graph_of
from measuring import Step, add_json_option, compare_processes, in_fresh_process, write_json
from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.statements import BUILDERS
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import Extractor
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, ground, prepare

SETS = {"commonsenseqa": "csqa", "openbookqa": "obqa"}
ASKED = [
    ("Where would a child sit at a desk?", ["schoolroom", "patio", "furniture store", "library", "bus"]),
    ("What do you use to cut bread?", ["knife", "plate", "butter", "oven", "baker"]),
]


def ours_step(kg: Path, source: Path, name: str, folder: Path) -> Step:
    """Prepare a whole dataset from scratch with as many threads as cores; the graph is open and the kernels are loaded."""
    graph = KnowledgeGraph.load(kg)

    def step() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        prepare(source, graph, folder, PrepareOptions(dataset=name))

    return step


def first_questions(kg: Path) -> list[float]:
    """Milliseconds from questions to subgraphs: the first after opening the graph, then another."""
    tiny = KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("desk", "AtLocation", "school")])
    Extractor(tiny)(Grounder(tiny).mentions("A child sits at a desk.", "desk"))  # loads the compiled kernels
    graph = KnowledgeGraph.load(kg)
    Extractor(graph)  # and those for mapped arrays
    times = []
    grounder, extract = Grounder(graph), Extractor(graph)
    for stem, choices in ASKED:
        start = time.perf_counter()
        for mentions in ground(Question.asked(stem, choices), grounder, "fill-in-the-blank"):
            extract(mentions)
        times.append(1000 * (time.perf_counter() - start))
    return times


def sample_of(data: PreparedData, size: int) -> list[tuple[int, int]]:
    """Random statements, as numbers of question and choice."""
    statements = [(q, c) for q, question in enumerate(data.questions) for c in range(len(question.choices))]
    return random.Random(0).sample(statements, min(size, len(statements)))


def networkx_step(kg: Path, prepared: Path, size: int) -> Step:
    """Ground and extract a sample of the statements with networkx. The first call compares the result with the prepared data."""
    reference, data = networkx_reference.load(KnowledgeGraph.load(kg)), PreparedData.load(prepared)
    build_statement = BUILDERS[data.about["settings"]["statement"]]
    statements = sample_of(data, size)
    expected = []
    for q, c in statements:
        ours = data.subgraphs(q)[c]
        facts = sorted(zip(ours.head.tolist(), ours.relation.tolist(), ours.tail.tolist(), strict=True))
        expected.append((ours.concepts.tolist(), ours.types.tolist(), facts))

    def step() -> None:
        for (q, c), same in zip(statements, expected, strict=True):
            question, choice = data.questions[q], data.questions[q].choices[c]
            mentions = networkx_reference.ground(reference, build_statement(question.stem, choice), choice)
            if networkx_reference.extract(reference, *mentions) != same:
                raise RuntimeError(f"{question.id}, choice {c}: the networkx version gives another subgraph.")

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds csqa, obqa and conceptnet")
    parser.add_argument("--kg", type=Path, help="folder of a built graph")
    parser.add_argument("--sample", type=int, default=40, help="statements of each data set given to networkx")
    parser.add_argument("--rounds", type=int, default=5)
    add_json_option(parser)
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"{options.data} does not exist; name the folder of the data sets with --data.")
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        kg = graph_of(options.data, options.kg, work)
        in_fresh_process(first_questions, kg)  # compiles what is not compiled
        for name, folder in SETS.items():
            if not (options.data / folder).is_dir():
                continue
            makers: dict[str, Callable[[], Step]] = {"ours": partial(ours_step, kg, options.data / folder, name, work / "again")}
            ours_step(kg, options.data / folder, name, work / name)()
            data = PreparedData.load(work / name)
            total, compared = data.about["statements"], len(sample_of(data, options.sample))
            makers["networkx"] = partial(networkx_step, kg, work / name, options.sample)
            comparison = compare_processes(makers, options.rounds, warm_up=0)
            ratio = comparison.ratio("networkx", "ours").scaled(total / compared)
            seconds, slow = comparison.seconds("ours"), comparison.seconds("networkx").scaled(1000 / compared)
            numbers[name] = comparison.as_json() | {"statements": total, "compared": compared, "speedup": ratio.as_json()}
            print(f"{name}: {total:,} statements in {seconds.wall.text(' s')}, {total / seconds.wall.median:,.0f} per second")
            print(f"  networkx: {slow.wall.text(' ms')} per statement, same output on {compared} of them")
            print(f"  faster than networkx by {ratio.times()}")
            print(comparison.conditions(), flush=True)
        numbers["questions_ms"] = in_fresh_process(first_questions, kg)
        first, second = numbers["questions_ms"]
        print(f"one question with 5 choices: {first:.1f} ms the first after opening the graph, {second:.1f} ms the next")
    write_json(options.json, numbers)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(str(error)) from None
