"""What the benchmarks of the graph side share: fresh processes, resident memory, the time to open a graph."""

import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mhgrn.grounding.grounder import Grounder
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.questions.reading import read_splits
from mhgrn.subgraphs.extract import Extractor, Limits, Subgraph
from mhgrn.subgraphs.prepared import ground

Result = TypeVar("Result")
MB, GB = 1e6, 1e9


def in_fresh_process(function: Callable[..., Result], *arguments: Any, seconds: float | None = None) -> Result:
    """Call a function in a new process; after so many seconds it is ended, which raises ``multiprocessing.TimeoutError``."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(function, arguments).get(seconds)


def peak() -> int:
    """The most memory that this process has had resident, in bytes. Not ``ru_maxrss``, which begins with the parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def resident() -> int:
    """What is resident now, in bytes."""
    return resource.getpagesize() * int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])


def graph_of(data: Path, kg: Path | None, work: Path) -> Path:
    """The graph that was named, or one built in ``work`` from the ConceptNet of a data folder."""
    if kg is not None:
        return kg
    build([data / "conceptnet" / "assertions-en.csv.gz"])[0].save(work / "graph")
    return work / "graph"


def subgraphs_of(graph: KnowledgeGraph, data: Path, questions: int, cap: int | None = None) -> list[list[Subgraph]]:
    """The subgraphs of the choices of CommonsenseQA's first questions, cut at ``cap`` nodes."""
    grounder, extract = Grounder(graph), Extractor(graph, Limits(cap))
    asked = read_splits(data / "csqa")["train"][:questions]
    return [[extract(m) for m in ground(q, grounder, "fill-in-the-blank")] for q in asked]


def timed_build(source: Path, target: Path, asked: float) -> dict[str, float]:
    """Build and save a graph: seconds by the clock and of all threads on the processor, peak memory, counts.

    ``asked`` is when the process was asked for, as ``time.time()``.
    """
    start_up = time.time() - asked
    began, cpu = time.perf_counter(), time.process_time()
    graph, report = build([source])
    graph.save(target)
    seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "cpu": time.process_time() - cpu,
        "start_up": start_up,
        "peak": peak(),
        "rows": report.rows,
        "concepts": len(graph),
        "facts": graph.fact_count,
    }


def timed_opening(folder: Path) -> dict[str, float]:
    """Seconds and memory of opening a graph, all modules being loaded."""
    before = resident()
    began = time.perf_counter()
    graph = KnowledgeGraph.load(folder)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "growth": resident() - before, "concepts": len(graph)}


def best_of(step: Callable[[], Any], repeats: int) -> float:
    """Seconds of the quickest of several repeats, after one that does not count: other work on the machine only adds time."""
    step()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return min(times)


def memory_of(step: Callable[[], Any]) -> int:
    """What a first call takes at its peak beyond what is resident, in bytes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew from here
    before = resident()
    step()
    return peak() - before
