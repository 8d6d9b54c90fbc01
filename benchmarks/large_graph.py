"""A graph of 10 million concepts and 100 million edges: memory and time to import it, to open it, to answer a question on it.

    python benchmarks/large_graph.py [--concepts 10000000] [--edges 100000000] [--max-degree 10000] [--json FILE]

The graph is synthetic, with 20 relations and power-law degrees: hubs have a hundred thousand neighbors and more. It is written as
a table of triples into a temporary folder (``--folder`` says where; 10 GB at the full size), built in a fresh process, and opened
in another. The questions have five choices each; their words are names of concepts drawn by degree, hubs included. A question's
time is that of finding its concepts and extracting its five subgraphs in one thread. Every question is asked with a cap on the
degree of the concepts that are followed, then without. If that takes more than a minute, only the capped questions are timed.
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphs import timed_build, timed_opening
from measuring import GB, MB, Comparison, Sample, Spread, add_json_option, compare, in_fresh_process, sample, write_json
from mhgrn.compiled.jit import kernel
from mhgrn.grounding.grounder import Grounder
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import Extractor, SubgraphLimits
from mhgrn.subgraphs.prepared import ground

RELATIONS = 20
LETTERS = 5  # of a concept's number in base 26
LINE = 2 * (LETTERS + 2) + 2 + 3  # bytes of a row
AT_ONCE = 1 << 20  # rows
SPREAD = 7_368_787  # a prime: hubs get numbers far from each other
QUESTIONS, CHOICES, WORDS = 20, 5, 8
PATIENCE = 60  # seconds

Array = NDArray[Any]


@kernel
def random_bits(number: int) -> Any:
    """64 bits that look random, the same for the same number (splitmix64)."""
    z = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def drawn(number: int, concepts: int) -> int:
    """A concept, the i-th greatest hub with a probability that falls as i^(-3/4): degrees follow a power law of exponent 7/3."""
    uniform = (random_bits(number) >> np.uint64(11)) * 2.0**-53
    return int(concepts * uniform**4) * SPREAD % concepts


@kernel
def write_name(concept: int, out: Array, at: int) -> int:
    """A concept's name, letters only and no word of any language."""
    out[at], out[at + 1] = 122, 113
    for i in range(LETTERS):
        out[at + LETTERS + 1 - i] = 97 + concept % 26
        concept //= 26
    return at + LETTERS + 2


@kernel
def write_rows(first: int, count: int, concepts: int, out: Array) -> None:
    """Rows of head, relation, tail. The heads of the first rows are all concepts, each once."""
    at = 0
    for row in range(first, first + count):
        at = write_name(row if row < concepts else drawn(3 * row, concepts), out, at)
        out[at], out[at + 1], out[at + 2], out[at + 3] = 9, 82, 97 + random_bits(3 * row + 1) % np.uint64(RELATIONS), 9
        at = write_name(drawn(3 * row + 2, concepts), out, at + 4)
        out[at] = 10
        at += 1


def write_table(path: Path, concepts: int, edges: int) -> None:
    out = np.empty(AT_ONCE * LINE, dtype=np.uint8)
    with path.open("wb") as file:
        for first in range(0, edges, AT_ONCE):
            count = min(AT_ONCE, edges - first)
            write_rows(first, count, concepts, out)
            file.write(out[: count * LINE].data)


def name_of(concept: int) -> str:
    out = np.empty(LETTERS + 2, dtype=np.uint8)
    write_name(concept, out, 0)
    return out.tobytes().decode()


def questions(concepts: int) -> list[Question]:
    """Questions of random words; as the rows use the numbers from 0 up, these use negative ones."""
    found = []
    for i in range(QUESTIONS):
        numbers = range(-1 - i * (WORDS + CHOICES), -1 - (i + 1) * (WORDS + CHOICES), -1)
        words = [name_of(drawn(number, concepts)) for number in numbers]
        found.append(Question(str(i), " ".join(words[:WORDS]), tuple(words[WORDS:])))
    return found


def time_questions(folder: Path, caps: dict[str, int | None]) -> tuple[Comparison, dict[str, Any]]:
    """Ask every question with each cap on the degree, in turns; every question is a round."""
    graph = KnowledgeGraph.load(folder)
    grounder = Grounder(graph)
    asked = questions(len(graph))
    extractors = {name: Extractor(graph, SubgraphLimits(max_degree=cap)) for name, cap in caps.items()}
    mentioned: set[int] = set()
    sizes: dict[str, list[tuple[int, int]]] = {name: [] for name in caps}

    def take(name: str, remaining: Iterator[Question]) -> Sample:
        question = next(remaining)

        def step() -> None:
            for mentions in ground(question, grounder, "append"):
                subgraph = extractors[name](mentions)
                sizes[name].append((len(subgraph.concepts), len(subgraph.head)))
                mentioned.update(c for side in mentions for c in side)

        return sample(step)

    for extract in extractors.values():
        extract(ground(asked[0], grounder, "append")[0])  # loads kernels and the lemmatizer's dictionary
    comparison = compare({name: partial(take, name, iter(asked)) for name in caps}, len(asked), warm_up=0, threads=1)
    degrees = [len(graph.neighbors(c)) for c in mentioned]
    found: dict[str, Any] = {}
    for name, cap in caps.items():
        nodes, facts = zip(*sizes[name], strict=True)
        found[name] = {
            "seconds": Spread.of(s.wall for s in comparison.samples[name])._asdict(),
            "worst": max(s.wall for s in comparison.samples[name]),
            "median_nodes": statistics.median(nodes),
            "most_nodes": max(nodes),
            "most_facts": max(facts),
            "mentioned": len(mentioned),
            "beyond_the_cap": sum(d > cap for d in degrees) if cap is not None else 0,
            "greatest_degree": max(degrees),
        }
    return comparison, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concepts", type=int, default=10_000_000, help="at most 26 to the fifth (11.8 million)")
    parser.add_argument("--edges", type=int, default=100_000_000, help="rows of the table; at least as many as concepts")
    parser.add_argument("--max-degree", type=int, default=10_000, help="the cap for questions")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    add_json_option(parser)
    options = parser.parse_args()
    if not 2 <= options.concepts <= min(26**LETTERS, options.edges):
        parser.error("--concepts must be from 2 to 26 to the fifth, and no more than --edges.")
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        table, folder = Path(place) / "table.tsv", Path(place) / "graph"
        write_table(Path(place) / "warm.tsv", 1000, 10_000)
        in_fresh_process(timed_build, Path(place) / "warm.tsv", Path(place) / "warm", time.time())  # compiles
        began = time.perf_counter()
        write_table(table, options.concepts, options.edges)
        writing = f"{table.stat().st_size / GB:.1f} GB written in {time.perf_counter() - began:.0f} s"
        print(f"{options.concepts:,} concepts, {options.edges:,} rows, {writing}", flush=True)
        built = in_fresh_process(timed_build, table, folder, time.time())
        table.unlink()
        disk = built["disk"] = sum(file.stat().st_size for file in folder.iterdir())
        others = max(0.0, built["machine"] - built["cpu"]) / built["wall"] / (os.cpu_count() or 1)
        pace = f"{built['wall']:.0f} s, {built['rows'] / built['wall']:,.0f} rows/s (processor {built['cpu']:.0f} s)"
        print(f"built: {built['concepts']:,} concepts, {built['facts']:,} facts: {pace}")
        print(f"  peak memory {built['peak'] / GB:.2f} GB, {disk / GB:.2f} GB on disk")
        print(f"  other processes took {others:.0%} of the machine")
        opened = in_fresh_process(timed_opening, folder)
        print(f"opened: {1000 * opened['seconds']:.1f} ms, memory grew by {opened['growth'] / MB:.1f} MB", flush=True)
        caps: dict[str, int | None] = {"capped": options.max_degree, "uncapped": None}
        try:
            comparison, found = in_fresh_process(time_questions, folder, caps, seconds=PATIENCE)
        except multiprocessing.TimeoutError:
            print(f"questions without a cap: not done within {PATIENCE} s")
            caps.pop("uncapped")
            comparison, found = in_fresh_process(time_questions, folder, caps)
    for name, cap in caps.items():
        of = found[name]
        print(
            f"questions, {f'at most {cap:,} neighbors' if cap is not None else 'no cap'}: median"
            f" {1000 * of['seconds']['median']:.1f} ms, worst {1000 * of['worst']:.1f} ms;"
            f" subgraphs of {of['median_nodes']:,.0f} nodes in the median, {of['most_nodes']:,} at most"
        )
        if cap is not None:
            print(
                f"  {of['beyond_the_cap']} of {of['mentioned']} mentioned concepts have more neighbors,"
                f" the greatest {of['greatest_degree']:,}"
            )
    result: dict[str, Any] = {"built": built, "opened": opened, "questions": found, "others_share": comparison.others}
    if "uncapped" in caps:
        ratio = comparison.ratio("uncapped", "capped")
        result["speedup_of_the_cap"] = ratio.as_json()
        print(f"the cap makes questions faster by {ratio.times()}")
    print(comparison.conditions())
    write_json(options.json, result)


if __name__ == "__main__":
    main()
