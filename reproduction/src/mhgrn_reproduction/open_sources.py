"""Open questions of experiments: graphs and prepared questions from downloaded files, built once in a work folder."""

from collections.abc import Callable
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
    tasks: dict[str, Callable[[Sources, str], dict[str, OpenTask]]] = {"metaqa": _metaqa, "commonsenseqa": _commonsenseqa}
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
