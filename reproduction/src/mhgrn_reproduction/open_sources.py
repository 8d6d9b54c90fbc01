"""Open questions of experiments: graphs and prepared questions from downloaded files, built once in a work folder."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.kg.graph import MARKER as GRAPH
from mhgrn.kg.sampling import sample_facts
from mhgrn.progress import say
from mhgrn_reproduction.papers import TextSettings
from mhgrn_reproduction.sources import Sources

if TYPE_CHECKING:
    from mhgrn.open.data import OpenData

HOPS = ("1-hop", "2-hop", "3-hop")
GENERATED = {"metaqa": 24_000, "starter": 12_000}  # questions made from a graph
SPLIT = (0.9, 0.1, 0.0)  # of MetaQA's dev questions into train and dev


class OpenTask(NamedTuple):
    """Questions to train on, and questions to test on."""

    data: "OpenData"
    tests: dict[str, tuple["OpenData", str]]  # prepared questions and their split

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.data.fingerprint, {label: (data.fingerprint, split) for label, (data, split) in self.tests.items()})


def open_tasks(name: str, sources: Sources, graph: str = "whole") -> dict[str, OpenTask]:
    """The tasks of a dataset by the names of their training questions.

    Args:
        name: ``metaqa``, ``commonsenseqa`` or ``generated``.
        sources: The downloaded files, and the work folder.
        graph: ``whole``, or ``half``: with half of its facts.
    """
    tasks: dict[str, Callable[[Sources, str], dict[str, OpenTask]]] = {
        "metaqa": _metaqa,
        "commonsenseqa": _commonsenseqa,
        "generated": _generated,
    }
    return tasks[name](sources, graph)


def _metaqa(sources: Sources, which: str) -> dict[str, OpenTask]:
    folder = sources.data / "metaqa"
    files = {(hop, split): folder / hop / f"qa_{split}.txt" for hop in HOPS for split in ("dev", "test")}
    for file in (folder / "kb.txt", *files.values()):
        if not file.is_file():
            raise UserError(f"{file} is missing; put MetaQA's vanilla questions and graph into {folder}.")
    graph = _metaqa_graph(sources, folder / "kb.txt", which)
    key = fingerprint({" ".join(names): file_fingerprint(file) for names, file in files.items()}, graph.fingerprint)[:12]
    place = sources.work / "open" / f"metaqa-{which}-{key}"
    together = "".join(f"    - {files[hop, 'dev'].absolute()}\n" for hop in HOPS)
    write_text(place / "all.yaml", f"name: metaqa-dev\nformat: metaqa\nsplits:\n  test:\n{together}")
    tests = {hop: (_prepared(files[hop, "test"], graph, place / f"{hop}-test"), "test") for hop in HOPS}
    own = {hop: OpenTask(_prepared(files[hop, "dev"], graph, place / hop, SPLIT), {hop: tests[hop]}) for hop in HOPS}
    return own | {"all": OpenTask(_prepared(place / "all.yaml", graph, place / "all", SPLIT), tests)}


def _metaqa_graph(sources: Sources, file: Path, which: str) -> KnowledgeGraph:
    place = sources.work / "graphs" / f"metaqa-{file_fingerprint(file)[:12]}"
    if not (place / GRAPH).is_file():
        say(f"building the graph from {file.name} …")
        build([file], None, ImportOptions(delimiter="pipe"))[0].save(place)
    if which == "whole":
        return KnowledgeGraph.load(place)
    half = place.with_name(f"{place.name}-half")
    if not (half / GRAPH).is_file():
        sample_facts(KnowledgeGraph.load(place), 0.5).save(half)
    return KnowledgeGraph.load(half)


def _prepared(source: Path, graph: KnowledgeGraph, folder: Path, split: tuple[float, ...] | None = None) -> "OpenData":
    from mhgrn.open.data import OpenData, prepare_open

    if OpenData.is_at(folder):
        return OpenData.load(folder)
    say(f"preparing {source.parent.name}/{source.name} …")
    return prepare_open(source, graph, folder, None if source.suffix == ".yaml" else "metaqa", split)


def _commonsenseqa(sources: Sources, which: str) -> dict[str, OpenTask]:
    from mhgrn.open.data import OpenData, prepare_open

    graph, source = sources.graph(TextSettings.named("minilm")), sources.questions("commonsenseqa-inhouse")
    place = sources.work / "open" / f"commonsenseqa-{graph.fingerprint[:12]}"
    if not OpenData.is_at(place):
        say("preparing the questions of commonsenseqa …")
        prepare_open(source, graph, place, "commonsenseqa-inhouse")
    data = OpenData.load(place)
    return {"commonsenseqa": OpenTask(data, {split: (data, split) for split in ("dev", "test")})}


def _generated(sources: Sources, which: str) -> dict[str, OpenTask]:
    """Questions from relation paths of two graphs, with separate test questions for each number of facts."""
    from mhgrn.starter import FACTS

    starter = sources.work / "graphs" / f"starter-{file_fingerprint(FACTS)[:12]}"
    if not (starter / GRAPH).is_file():
        build([FACTS], "conceptnet")[0].save(starter)
    films = sources.data / "metaqa" / "kb.txt"
    if not films.is_file():
        raise UserError(f"{films} is missing; put MetaQA's graph there.")
    graphs = {"metaqa": _metaqa_graph(sources, films, which), "starter": KnowledgeGraph.load(starter)}
    return {name: _made_from(name, graph, sources) for name, graph in graphs.items()}


def _made_from(name: str, graph: KnowledgeGraph, sources: Sources) -> OpenTask:
    from mhgrn.open.data import OpenData, prepare_open
    from mhgrn.open.synthesis import OpenSynthesisOptions, synthesize_open

    options = OpenSynthesisOptions(count=GENERATED[name])
    place = sources.work / "open" / f"generated-{name}-{fingerprint(asdict(options), graph.fingerprint)[:12]}"
    if not OpenData.is_at(place / "prepared"):
        say(f"making {options.count:,} questions from the graph of {name} …")
        synthesize_open(graph, place / "questions", options)
        prepare_open(place / "questions", graph, place / "prepared")
    rows = [json.loads(line) for line in (place / "questions" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    tests = {}
    for hops in sorted(options.hops):
        folder, own = place / f"test-{hops}", [row for row in rows if len(row["made_from"]["path"]) == hops]
        if not OpenData.is_at(folder):
            file = place / f"test-{hops}.jsonl"
            write_text(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in own))
            prepare_open(file, graph, folder)
        tests[str(hops)] = OpenData.load(folder), "test"
    return OpenTask(OpenData.load(place / "prepared"), tests)
