"""Graphs and prepared questions from downloaded files, built once in a work folder."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mhgrn.errors import UserError
from mhgrn.io.cache import user_cache
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.kg.graph import MARKER as GRAPH
from mhgrn.progress import say
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_splits
from mhgrn.subgraphs.prepared import MARKER as PREPARED
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn_reproduction.papers import Synthesis, TextSettings, Tuning
from mhgrn_reproduction.retrieval import retrieve_into
from mhgrn_reproduction.tuned_encoders import TunedEncoder

if TYPE_CHECKING:
    from mhgrn.features.encoded import ResumableBuild

COMMONSENSEQA, OPENBOOKQA = ("commonsenseqa", "csqa"), ("openbookqa", "obqa")
FOLDERS = {
    "commonsenseqa": COMMONSENSEQA,
    "commonsenseqa-inhouse": COMMONSENSEQA,
    "openbookqa": OPENBOOKQA,
    "openbookqa-fact": OPENBOOKQA,
    "openbookqa-retrieved": OPENBOOKQA,
}
TRIPLES = (".csv.gz", ".tsv.gz", ".csv", ".tsv", ".nt.gz", ".nt", ".parquet")


def default_work() -> Path:
    """The default folder of graphs, prepared questions and runs, in the user's cache."""
    return user_cache() / "reproduce"


@dataclass(frozen=True)
class Sources:
    """The downloaded files of experiments, and the work folder."""

    data: Path  # holds conceptnet/, commonsenseqa/ (or csqa/), openbookqa/ (or obqa/)
    work: Path
    kg: Path | None = None  # a built graph, to be used instead of building one

    def questions(self, name: str) -> Path:
        """The folder of a dataset's files."""
        if not self.data.is_dir():
            raise UserError(f"{self.data} is not a folder; name the folder that has conceptnet/, commonsenseqa/ and openbookqa/.")
        names = FOLDERS.get(name, (name,))
        for folder in names:
            if (self.data / folder).is_dir():
                return self.data / folder
        fetch = f"`mhgrn fetch {names[0]} --to {self.data / names[0]}` downloads them, or " if name in FOLDERS else ""
        raise UserError(
            f"{self.data.resolve()} has no folder {' or '.join(names)} with questions of {name}; {fetch}name another with --data."
        )

    def prepared(self, name: str, text: TextSettings) -> PreparedData:
        """The prepared questions of a dataset, from the work folder or prepared now."""
        source = self.questions(name)
        dataset: str | None = name if name in FOLDERS else None
        if name == "openbookqa-retrieved":
            source, dataset = self._with_retrieved_facts(source), "openbookqa"
        found = Dataset.find(source, dataset)
        for file in _files(found):
            if not file.is_file():
                raise UserError(f"{file} of {name} is missing; download it with `mhgrn fetch`.")
        return self._prepared(name, source, found, text, dataset)

    def prepared_file(self, path: Path, text: TextSettings) -> PreparedData:
        """The prepared questions of a file."""
        return self._prepared(path.stem, path, Dataset.find(path), text, None)

    def synthesized(self, synthesis: Synthesis, text: TextSettings) -> PreparedData:
        """Prepared questions that are made from the graph."""
        from mhgrn.synthesis.options import SynthesisOptions
        from mhgrn.synthesis.synthesizing import MARKER as MADE
        from mhgrn.synthesis.synthesizing import synthesize

        graph = self.graph(text)
        key = fingerprint(synthesis.model_dump(), graph.fingerprint)
        folder = self.work / "synthesized" / key[:12]
        if not (folder / MADE).is_file():
            say(f"making {synthesis.count:,} questions from the graph …")
            synthesize(graph, folder, SynthesisOptions(**synthesis.model_dump()))
        return self._prepared("synthesized", folder, Dataset.find(folder), text, None)

    def _prepared(self, name: str, source: Path, found: Dataset, text: TextSettings, dataset: str | None) -> PreparedData:
        graph = self.graph(text)
        key = fingerprint(name, [file_fingerprint(file) for file in _files(found)], graph.fingerprint, text.max_nodes)
        folder = self.work / "prepared" / f"{name}-{key[:12]}"
        if not (folder / PREPARED).is_file():
            say(f"preparing the questions of {name} …")
            return prepare(source, graph, folder, PrepareOptions(max_nodes=text.max_nodes, dataset=dataset))
        return PreparedData.load(folder)

    def tuned(self, label: str, tuning: Tuning, text: TextSettings, datasets: Iterable[str]) -> TunedEncoder:
        """The text encoder that is tuned on the graph, for experiments with these datasets."""
        questions: list[Question] = []
        if tuning.without:
            for name in dict.fromkeys(map(_without_facts, datasets)):
                splits = read_splits(Dataset.find(self.questions(name), name if name in FOLDERS else None))
                questions += [question for split in tuning.without for question in splits.get(split, ())]
        return TunedEncoder(label, tuning, self.graph(text), questions, self.work / "encoders")

    def graph(self, text: TextSettings) -> KnowledgeGraph:
        """The graph of ``--kg``, or ConceptNet built with the text encoder's settings."""
        if self.kg is not None:
            return KnowledgeGraph.load(self.kg)
        folder = self.data / "conceptnet"
        files = sorted(p for p in folder.iterdir() if p.name.endswith(TRIPLES)) if folder.is_dir() else []
        if not files:
            raise UserError(
                f"{folder} has no file of triples; download ConceptNet with `mhgrn fetch conceptnet --to {folder}`, or name a built"
                " graph with --kg."
            )
        key = fingerprint([file_fingerprint(file) for file in files], text.published_names)
        place = self.work / "graphs" / f"conceptnet-{key[:12]}"
        if not (place / GRAPH).is_file():
            say(f"building the graph from {', '.join(file.name for file in files)} …")
            built, _ = build(files, "conceptnet", ImportOptions(names="published" if text.published_names else "word"))
            built.save(place)
        return KnowledgeGraph.load(place)

    def features(self, text: TextSettings, encoder: str, data: PreparedData) -> "ResumableBuild":
        """Node features from triples for the concepts of a dataset, to be built in the graph's folder."""
        from mhgrn.features.sources.triples import TripleSettings, TripleSource

        settings = TripleSettings(encoder=encoder, max_triples_per_concept=text.max_triples_per_concept)
        return TripleSource(self.graph(text), settings).plan([data.folder])

    def _with_retrieved_facts(self, source: Path) -> Path:
        book = source / "openbook.txt"
        declared = Dataset.find(source, "openbookqa")
        files = [book, *(file for _, files in declared.splits for file in files)]
        for file in files:
            if not file.is_file():
                raise UserError(f"{file} is missing; download it with `mhgrn fetch openbookqa`.")
        folder = self.work / "retrieved" / f"openbookqa-{fingerprint([file_fingerprint(file) for file in files])[:12]}"
        if not (folder / "retrieved.json").is_file():
            say("retrieving facts from the book for each question …")
            retrieve_into(folder, declared, book)
        return folder


def _files(dataset: Dataset) -> list[Path]:
    """The files of all splits, and that of the in-house ids."""
    return [file for _, files in dataset.splits for file in files] + ([dataset.inhouse_ids] if dataset.inhouse_ids else [])


def _without_facts(name: str) -> str:
    """The dataset with the same questions and without facts of the book."""
    return OPENBOOKQA[0] if FOLDERS.get(name) == OPENBOOKQA else name
