"""Graphs that several benchmarks use, and the time to build and to open one."""

import time
from pathlib import Path

from measuring import CLOCK, peak, resident, sample
from mhgrn.grounding.grounder import Grounder
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.questions.reading import read_splits
from mhgrn.subgraphs.extract import Extractor, Subgraph, SubgraphLimits
from mhgrn.subgraphs.prepared import ground

DATA = Path(__file__).parents[2] / "shared" / "data"


def graph_of(data: Path, kg: Path | None, work: Path) -> Path:
    """The given graph, or one built in ``work`` from the ConceptNet of a data folder."""
    if kg is not None:
        return kg
    build([data / "conceptnet" / "assertions-en.csv.gz"])[0].save(work / "graph")
    return work / "graph"


def subgraphs_of(graph: KnowledgeGraph, data: Path, questions: int, cap: int | None = None) -> list[list[Subgraph]]:
    """The subgraphs of every choice of CommonsenseQA's first questions, cut at ``cap`` nodes."""
    grounder, extract = Grounder(graph), Extractor(graph, SubgraphLimits(cap))
    asked = read_splits(data / "csqa")["train"][:questions]
    return [[extract(m) for m in ground(q, grounder, "fill-in-the-blank")] for q in asked]


def timed_build(source: Path, target: Path, started: float) -> dict[str, float]:
    """Build and save a graph: one sample of the time, peak memory, counts.

    Args:
        source: the file to import.
        target: folder of the graph.
        started: ``time.time()`` when the process was asked for; gives the time that starting Python takes.
    """
    start_up = time.time() - started
    counts: dict[str, float] = {}

    def step() -> None:
        graph, report = build([source])
        graph.save(target)
        counts.update(rows=report.rows, concepts=len(graph), facts=graph.fact_count)

    found = sample(step)
    return {**found._asdict(), "start_up": start_up, "peak": peak(), **counts}


def timed_opening(folder: Path) -> dict[str, float]:
    """Seconds and memory of opening a graph once all modules are loaded."""
    before = resident()
    began, cpu = CLOCK.wall(), CLOCK.cpu()
    graph = KnowledgeGraph.load(folder)
    seconds, cpu = CLOCK.wall() - began, CLOCK.cpu() - cpu
    return {"seconds": seconds, "cpu": cpu, "growth": resident() - before, "concepts": len(graph)}
