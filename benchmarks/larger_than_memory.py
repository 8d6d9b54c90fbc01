"""Graphs of more facts than memory: time, memory and disk to build them, by size, and the time to open and to ask one.

    python benchmarks/larger_than_memory.py [--facts 10000000 30000000 100000000 300000000] [--memory 1GB] [--json FILE]

For each size, a table of facts is written into a temporary folder (``--folder`` says where; 40 bytes a fact). It has a tenth as
many concepts as facts, named by two or three English words, 20 relations, and power-law degrees. The graph and its concept index
are built from it in a fresh process with ``--memory``. Then follow, each in a fresh process, the build in memory (up to
``--in-memory-up-to`` facts) and DuckDB, if it is installed, with the same limit of memory: it reads the same table, removes
repeated facts and sorts them by head, tail and relation, as texts, into a Parquet file. It does not number concepts, and makes no
neighbors and no index. Processor times are of all threads; DuckDB has one thread (``--duckdb-threads``). The peak of the disk is
sampled while the build runs; it includes the graph and excludes the table.

A question has five choices; its words are names of concepts drawn by degree, hubs included. Its time is that of finding its
concepts and extracting its five subgraphs, with a cap on the degree of the concepts that are followed.
"""

import argparse
import math
import os
import statistics
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphs import timed_opening
from large_graph import drawn, random_bits
from measuring import GB, MB, add_json_option, in_fresh_process, peak, sample, write_json
from mhgrn.compiled.jit import kernel
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.large_build import build_folder
from mhgrn.grounding.lemmas import dictionary
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import Extractor, SubgraphLimits
from mhgrn.subgraphs.prepared import ground

WORDS, LAST = 4096, 64  # words of a name: two of the first, and one of the others for numbers above their product
RELATIONS = (
    "RelatedTo IsA PartOf HasA UsedFor CapableOf AtLocation Causes HasSubevent HasProperty MotivatedByGoal CreatedBy DefinedAs"
    " SymbolOf LocatedNear MadeOf ReceivesAction InstanceOf SimilarTo DerivedFrom"
).split()
LONGEST = 3 * 9 + 20  # bytes of a name or relation
AT_ONCE = 1 << 18  # rows
PER_CONCEPT = 10  # facts
QUESTIONS, CHOICES, ASKED = 20, 5, 4
MOST = WORDS * WORDS * LAST

Array = NDArray[Any]


def words_of_names() -> list[str]:
    """Words of the lemma dictionary of four to eight letters, from all over the alphabet."""
    usable = sorted(word for word in dictionary() if 4 <= len(word) <= 8 and word.isascii() and word.isalpha() and word.islower())
    return [usable[i * len(usable) // WORDS] for i in range(WORDS)]


def joined(texts: list[str]) -> tuple[Array, Array]:
    encoded = [text.encode() for text in texts]
    return np.cumsum([0, *map(len, encoded)]), np.frombuffer(b"".join(encoded), dtype=np.uint8)


@kernel
def put(ptr: Array, data: Array, number: int, out: Array, at: int) -> int:
    for j in range(ptr[number], ptr[number + 1]):
        out[at] = data[j]
        at += 1
    return at


@kernel
def put_name(concept: int, ptr: Array, data: Array, out: Array, at: int) -> int:
    """Write a concept's name. Neighboring numbers have different first words."""
    low = concept % (WORDS * WORDS) * 10_368_889 % (WORDS * WORDS)
    at = put(ptr, data, low // WORDS, out, at)
    out[at] = 32
    at = put(ptr, data, low % WORDS, out, at + 1)
    if concept >= WORDS * WORDS:
        out[at] = 32
        at = put(ptr, data, concept // (WORDS * WORDS) * (WORDS // LAST), out, at + 1)
    return at


@kernel
def put_rows(first: int, count: int, concepts: int, words: Any, relations: Any, out: Array) -> int:
    """Rows of head, relation, tail. The heads of the first rows are all concepts, each once."""
    at = 0
    for row in range(first, first + count):
        at = put_name(row if row < concepts else drawn(3 * row, concepts), words[0], words[1], out, at)
        out[at] = 9
        at = put(relations[0], relations[1], np.int64(random_bits(3 * row + 1) % np.uint64(20)), out, at + 1)
        out[at] = 9
        at = put_name(drawn(3 * row + 2, concepts), words[0], words[1], out, at + 1)
        out[at] = 10
        at += 1
    return at


def write_table(path: Path, concepts: int, facts: int) -> None:
    words, relations = joined(words_of_names()), joined(RELATIONS)
    out = np.empty(AT_ONCE * 3 * LONGEST, dtype=np.uint8)
    with path.open("wb") as file:
        for first in range(0, facts, AT_ONCE):
            size = put_rows(first, min(AT_ONCE, facts - first), concepts, words, relations, out)
            file.write(out[:size].data)


def questions(concepts: int) -> list[Question]:
    """Questions about concepts drawn by degree; as the rows use the numbers from 0 up, these use negative ones."""
    ptr, data = joined(words_of_names())
    out = np.empty(LONGEST, dtype=np.uint8)
    found = []
    for i in range(QUESTIONS):
        numbers = range(-1 - i * (ASKED + CHOICES), -1 - (i + 1) * (ASKED + CHOICES), -1)
        names = [out[: put_name(drawn(n, concepts), ptr, data, out, 0)].tobytes().decode() for n in numbers]
        found.append(Question(str(i), "; ".join(names[:ASKED]), tuple(names[ASKED:])))
    return found


def timed(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Time and peak memory of some work, and what it returns."""
    found: dict[str, Any] = {}
    taken = sample(lambda: found.update(work()))
    return {**taken._asdict(), "peak": peak(), **found}


def bounded(table: Path, folder: Path, memory: str) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        graph, report = build_folder(folder, table, memory)
        return {"concepts": len(graph), "facts": graph.fact_count, "rows": report.rows}

    return timed(work)


def in_memory(table: Path, folder: Path) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        graph, _ = build(table)
        graph.save(folder)
        ConceptIndex.of(graph)
        return {"concepts": len(graph), "facts": graph.fact_count}

    return timed(work)


def with_duckdb(table: Path, folder: Path, memory: str, threads: int) -> dict[str, Any]:
    import duckdb

    def work() -> dict[str, Any]:
        database = duckdb.connect()
        for setting in (
            f"memory_limit='{memory}'",
            f"threads={threads}",
            f"temp_directory='{folder}'",
            "preserve_insertion_order=false",
        ):
            database.execute(f"SET {setting}")
        columns = "columns={'head': 'VARCHAR', 'relation': 'VARCHAR', 'tail': 'VARCHAR'}"
        read = f"read_csv('{table}', delim='\t', header=false, quote='', escape='', auto_detect=false, {columns})"
        facts = f"SELECT DISTINCT head, tail, relation FROM {read} ORDER BY head, tail, relation"
        try:
            found = database.execute(f"COPY ({facts}) TO '{folder / 'facts.parquet'}' (FORMAT parquet)").fetchone()
        except duckdb.OutOfMemoryException as error:
            return {"problem": str(error).partition("\n")[0]}
        assert found is not None
        return {"facts": int(found[0])}

    folder.mkdir()
    return timed(work)


def disk_of(place: Path, table: Path) -> int:
    """Bytes of all files in a folder but one; a file with two names counts once."""
    found = {}
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                about = os.stat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            found[about.st_ino] = about.st_size
    return sum(found.values()) - table.stat().st_size


def watched(place: Path, table: Path, function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Call a function in a fresh process and add the greatest disk use that was seen."""
    before, most, is_done = disk_of(place, table), [0], threading.Event()

    def watch() -> None:
        while not is_done.wait(0.2):
            most[0] = max(most[0], disk_of(place, table))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        found = in_fresh_process(function, *arguments)
    finally:
        is_done.set()
        watcher.join()
    return {**found, "disk": max(most[0], disk_of(place, table)) - before}


def time_questions(folder: Path, max_degree: int) -> dict[str, Any]:
    """Seconds for each question, after one that loads kernels and the dictionary."""
    graph = KnowledgeGraph.load(folder)
    grounder, extract = Grounder(graph), Extractor(graph, SubgraphLimits(max_degree=max_degree))
    nodes: list[int] = []

    def ask(question: Question) -> None:
        nodes.extend(len(extract(mentions).concepts) for mentions in ground(question, grounder, "append"))

    asked = questions(len(graph))
    ask(asked[0])
    taken = [sample(partial(ask, question)) for question in asked[1:]]
    clocks = {"wall": [one.wall for one in taken], "cpu": [one.cpu for one in taken]}
    times = {clock: {"median": statistics.median(values), "worst": max(values)} for clock, values in clocks.items()}
    return {**times, "nodes": statistics.median(nodes)}


def shown(found: dict[str, Any], facts: int) -> str:
    disk = f", disk {found['disk'] / facts:.0f} bytes a fact at its peak" if "disk" in found else ""
    pace = f"{1e6 * found['wall'] / facts:.2f} µs a fact, processor {1e6 * found['cpu'] / facts:.2f} µs"
    return f"{found['wall']:.0f} s, {pace}, peak memory {found['peak'] / GB:.2f} GB{disk}"


def measured(place: Path, facts: int, options: argparse.Namespace) -> dict[str, Any]:
    table, folder = place / "table.tsv", place / "graph"
    concepts = facts // PER_CONCEPT
    write_table(table, concepts, facts)
    print(f"{facts:,} rows, {concepts:,} concepts, {table.stat().st_size / GB:.1f} GB of text", flush=True)
    found: dict[str, Any] = {"rows": facts, "bounded": watched(place, table, bounded, table, folder, options.memory)}
    found["graph"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    kept = found["bounded"]["facts"]
    print(f"  --memory {options.memory}: {kept:,} facts in {shown(found['bounded'], facts)}")
    print(f"    the graph with its index has {found['graph'] / GB:.2f} GB", flush=True)
    found["opened"] = min((in_fresh_process(timed_opening, folder) for _ in range(3)), key=lambda opened: opened["seconds"])
    opened = f"{1000 * found['opened']['seconds']:.1f} ms (processor {1000 * found['opened']['cpu']:.1f} ms)"
    print(f"    opened in {opened}, memory grew by {found['opened']['growth'] / MB:.1f} MB")
    asked = found["questions"] = in_fresh_process(time_questions, folder, options.max_degree)
    median, worst = (
        f"{1000 * asked['wall'][of]:.1f} ms (processor {1000 * asked['cpu'][of]:.1f} ms)" for of in ("median", "worst")
    )
    print(
        f"    a question, at most {options.max_degree:,} neighbors: median {median}, worst {worst}; {asked['nodes']:,.0f} nodes",
        flush=True,
    )
    if facts <= options.in_memory_up_to:
        found["in_memory"] = in_fresh_process(in_memory, table, place / "in-memory")
        print(f"  in memory: {shown(found['in_memory'], facts)}")
        found["same"] = same_files(folder, place / "in-memory")
        ratio, cpu = (found["bounded"][clock] / found["in_memory"][clock] for clock in ("wall", "cpu"))
        bytes_of = "the same bytes" if found["same"] else "OTHER BYTES"
        print(f"    {bytes_of}; bounded memory takes {ratio:.2f} times as long ({cpu:.2f} in processor time)", flush=True)
    if not options.no_duckdb and has_duckdb():
        outcome = watched(place, table, with_duckdb, table, place / "duckdb", options.memory, options.duckdb_threads)
        if "problem" in outcome:
            print(f"  DuckDB, sorted and distinct only: {outcome['problem']} after {outcome['wall']:.0f} s", flush=True)
        else:
            found["duckdb"] = outcome
            print(f"  DuckDB, sorted and distinct only: {outcome['facts']:,} facts in {shown(outcome, facts)}", flush=True)
    return found


def same_files(one: Path, other: Path) -> bool:
    names = [{path.relative_to(place) for path in place.rglob("*") if path.is_file()} for place in (one, other)]
    return names[0] == names[1] and all(
        (one / name).read_bytes() == (other / name).read_bytes()
        if (one / name).stat().st_size < GB
        else np.array_equal(np.memmap(one / name), np.memmap(other / name))
        for name in names[0]
    )


def has_duckdb() -> bool:
    try:
        import duckdb  # noqa: F401
    except ImportError:
        print("  DuckDB is not installed; left out")
        return False
    return True


def exponent(sizes: list[int], values: list[float]) -> float:
    """The slope in log-log space."""
    x, y = np.log(sizes), np.log(values)
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()) if len(sizes) > 1 else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = [10_000_000, 30_000_000, 100_000_000, 300_000_000]
    parser.add_argument("--facts", type=int, nargs="+", default=sizes, help="rows of the tables")
    parser.add_argument("--memory", default="1GB", help="as of `mhgrn kg build`")
    parser.add_argument("--in-memory-up-to", type=int, default=100_000_000, help="rows up to which the build in memory is timed")
    parser.add_argument("--max-degree", type=int, default=10_000, help="the cap for questions")
    parser.add_argument("--no-duckdb", action="store_true", help="leave out DuckDB")
    parser.add_argument("--duckdb-threads", type=int, default=1, help="threads of DuckDB")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    add_json_option(parser)
    options = parser.parse_args()
    if not all(2 * PER_CONCEPT <= facts <= PER_CONCEPT * MOST for facts in options.facts):
        parser.error(f"--facts must be from {2 * PER_CONCEPT} to {PER_CONCEPT * MOST:,}.")
    results = []
    with tempfile.TemporaryDirectory(dir=options.folder) as warm:
        place = Path(warm)
        write_table(place / "table.tsv", 1000, 10_000)  # compiles
        in_fresh_process(bounded, place / "table.tsv", place / "bounded", options.memory)
        in_fresh_process(in_memory, place / "table.tsv", place / "graph")
        in_fresh_process(time_questions, place / "graph", options.max_degree)
    for facts in options.facts:
        with tempfile.TemporaryDirectory(dir=options.folder) as name:
            results.append(measured(Path(name), facts, options))
    numbers: dict[str, Any] = {"memory": options.memory, "sizes": results}
    for kind in ("bounded", "in_memory", "duckdb"):
        rows = [found for found in results if kind in found]
        if len(rows) > 1:
            slopes = {clock: exponent([r["rows"] for r in rows], [r[kind][clock] for r in rows]) for clock in ("wall", "cpu")}
            numbers[f"exponent_{kind}"] = slopes
            print(f"exponent of time, {kind.replace('_', ' ')}: {slopes['wall']:.2f}, {slopes['cpu']:.2f} in processor time")
    write_json(options.json, numbers)


if __name__ == "__main__":
    main()
