"""Preparation of CommonsenseQA and OpenBookQA: rates, the same steps by networkx with the same output, and one question at a time.

    python benchmarks/preparation.py [--data DIR] [--kg GRAPH] [--sample 40] [--json FILE]

DIR is ``../shared/data`` if not named; the graph is built from its ``conceptnet/assertions-en.csv.gz`` unless one is named. The
networkx version (networkx_reference.py) runs on a sample of the statements, drawn with a fixed seed, because all of them would
take it hours. Every statement of the sample is compared.
"""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import networkx_reference
from measuring import in_fresh_process
from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.statements import BUILDERS
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import Extractor
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, ground, prepare

DATA = Path(__file__).parents[2] / "shared" / "data"
SETS = {"commonsenseqa": "csqa", "openbookqa": "obqa"}
ASKED = [
    ("Where would a child sit at a desk?", ["schoolroom", "patio", "furniture store", "library", "bus"]),
    ("What do you use to cut bread?", ["knife", "plate", "butter", "oven", "baker"]),
]


def prepared(kg: Path, source: Path, name: str, folder: Path) -> float:
    """Seconds for one data set, the graph open and the kernels loaded; from nothing, as many threads as cores."""
    graph = KnowledgeGraph.load(kg)
    with tempfile.TemporaryDirectory() as place:  # compiles what is not compiled
        choices = [{"label": label, "text": text} for label, text in (("A", "school"), ("B", "knife"))]
        question = {"id": "1", "answerKey": "A", "question": {"stem": "Where does a child sit at a desk?", "choices": choices}}
        one = Path(place) / "train.jsonl"
        one.write_text(json.dumps(question) + "\n", encoding="utf-8")
        prepare(one, graph, Path(place) / "data", PrepareOptions())
    start = time.perf_counter()
    prepare(source, graph, folder, PrepareOptions(dataset=name))
    return time.perf_counter() - start


def first_questions(kg: Path) -> list[float]:
    """Milliseconds from questions to subgraphs: the first after opening the graph, then another."""
    from mhgrn.kg import KnowledgeGraph

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


def by_networkx(graph: KnowledgeGraph, data: PreparedData, size: int) -> dict[str, float]:
    """Seconds a statement for the networkx version on a sample, after checking that it gives what was prepared."""
    reference = networkx_reference.load(graph)
    build_statement = BUILDERS[data.about["settings"]["statement"]]
    statements = [(q, c) for q, question in enumerate(data.questions) for c in range(len(question.choices))]
    sample = random.Random(0).sample(statements, min(size, len(statements)))
    seconds = 0.0
    for q, c in sample:
        question = data.questions[q]
        start = time.perf_counter()
        mentions = networkx_reference.ground(reference, build_statement(question.stem, question.choices[c]), question.choices[c])
        nodes, types, edges = networkx_reference.extract(reference, *mentions)
        seconds += time.perf_counter() - start
        ours = data.subgraphs(q)[c]
        facts = sorted(zip(ours.head.tolist(), ours.relation.tolist(), ours.tail.tolist(), strict=True))
        if (nodes, types, edges) != (ours.concepts.tolist(), ours.types.tolist(), facts):
            raise SystemExit(f"{question.id}, choice {c}: the networkx version gives another subgraph.")
    return {"statements": len(sample), "seconds": seconds / len(sample)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds csqa, obqa and conceptnet")
    parser.add_argument("--kg", type=Path, help="folder of a built graph")
    parser.add_argument("--sample", type=int, default=40, help="statements of each data set given to networkx")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"{options.data} does not exist; name the folder of the data sets with --data.")
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        kg = options.kg
        if kg is None:
            kg = work / "graph"
            build([options.data / "conceptnet" / "assertions-en.csv.gz"])[0].save(kg)
        in_fresh_process(first_questions, kg)  # compiles what is not compiled
        graph = KnowledgeGraph.load(kg)
        for name, folder in SETS.items():
            if not (options.data / folder).is_dir():
                continue
            seconds = in_fresh_process(prepared, kg, options.data / folder, name, work / name)
            data = PreparedData.load(work / name)
            total = data.about["statements"]
            slow = by_networkx(graph, data, options.sample)
            ratio = slow["seconds"] / (seconds / total)
            numbers[name] = {"statements": total, "seconds": seconds, "networkx": slow, "ratio": ratio}
            print(f"{name}: {total:,} statements in {seconds:.1f} s, {total / seconds:,.0f} a second")
            each = f"{1000 * slow['seconds']:.1f} ms a statement, the same output on {slow['statements']}"
            print(f"  networkx: {each}; {ratio:,.0f} times as long")
        numbers["questions_ms"] = in_fresh_process(first_questions, kg)
        first, second = numbers["questions_ms"]
        print(f"one question with 5 choices: {first:.1f} ms the first after opening the graph, {second:.1f} ms the next")
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        raise SystemExit(str(error)) from None
