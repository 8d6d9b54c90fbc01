"""Prepared data: questions with the subgraphs of their choices, stored as a folder of memory-mapped arrays."""

import gc
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError, did_you_mean
from mhgrn.grounding.grounder import Grounder, Mentioned, Mentions
from mhgrn.grounding.statements import BUILDERS
from mhgrn.io.arrays import ArrayWriter, load_array, save_array
from mhgrn.io.atomic import write_text
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import read_marker, write_json
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import bar
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_splits
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph, SubgraphLimits, Subgraphs, count_sides, extract_all

MARKER = "prepared.json"
HOLDS = ("*.npy", "questions.jsonl", "cache")
FORMAT = 2
COLUMNS: dict[str, type[np.integer[Any]]] = {
    "concepts": np.int32,
    "types": np.uint8,
    "head": np.uint16,
    "relation": np.uint16,
    "tail": np.uint16,
}
CHUNK = 32  # questions per task of a thread


@dataclass(frozen=True)
class PreparedData:
    """Questions of all splits with their subgraphs. Choice c of question q is statement ``statement_ptr[q] + c``.

    >>> from tempfile import mkdtemp
    >>> place = Path(mkdtemp())
    >>> KnowledgeGraph.from_facts([("child", "AtLocation", "school")]).save(place / "graph")
    >>> _ = (place / "dev.jsonl").write_text('{"question": "Where is a child?", "choices": ["school", "moon"]}')
    >>> _ = prepare(place, KnowledgeGraph.load(place / "graph"), place / "prepared")
    >>> data = PreparedData.load(place / "prepared")
    >>> [data.questions[number].choices for number in data.split("dev")]
    [('school', 'moon')]
    """

    folder: Path
    about: dict[str, Any]
    questions: list[Question]
    splits: dict[str, range]
    statement_ptr: Ints
    node_ptr: Ints
    edge_ptr: Ints
    cut: Ints  # [statements] nodes that a limit removed from each subgraph
    columns: dict[str, Ints]
    used: Ints  # the concepts that occur in any subgraph, ascending

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        folder = Path(folder)
        keys = ("splits", "statements", "graph", "graph_fingerprint", "relations", "settings", "fingerprint", "report")
        about = read_marker(folder, MARKER, "prepared dataset", FORMAT, keys)
        questions = []
        try:
            with (folder / "questions.jsonl").open(encoding="utf-8") as lines:
                for line in lines:
                    row = json.loads(line)
                    choices, labels = tuple(row["choices"]), tuple(row.get("labels", ()))
                    questions.append(Question(row["id"], row["stem"], choices, row.get("answer"), labels, row.get("concept")))
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise UserError(f"{folder / 'questions.jsonl'} is damaged ({error}); prepare the questions again.") from None
        splits, start = {}, 0
        for split, count in about["splits"].items():
            splits[split] = range(start, start + count)
            start += count
        arrays = {name: load_array(folder / f"{name}.npy") for name in ("node_ptr", "edge_ptr", "cut", *COLUMNS, "used")}
        statement_ptr = np.cumsum([0, *(len(q.choices) for q in questions)])
        expected = {
            "questions.jsonl": (start, len(questions)),
            "questions.jsonl's choices": (about["statements"], int(statement_ptr[-1])),
            "node_ptr.npy": (about["statements"] + 1, len(arrays["node_ptr"])),
            "edge_ptr.npy": (about["statements"] + 1, len(arrays["edge_ptr"])),
            "cut.npy": (about["statements"], len(arrays["cut"])),
        }
        for name, (wanted, found) in expected.items():
            if found != wanted:
                raise UserError(f"{folder / name}: {found} entries, not {wanted}; prepare the questions again.")
        for name in COLUMNS:
            pointer = arrays["node_ptr"] if name in ("concepts", "types") else arrays["edge_ptr"]
            if len(arrays[name]) != pointer[-1]:
                raise UserError(
                    f"{folder / name}.npy: {len(arrays[name])} entries, not {pointer[-1]}; prepare the questions again."
                )
        columns = {name: arrays[name] for name in COLUMNS}
        pointers = statement_ptr, arrays["node_ptr"], arrays["edge_ptr"], arrays["cut"]
        return cls(folder, about, questions, splits, *pointers, columns, arrays["used"])

    @property
    def fingerprint(self) -> str:
        return str(self.about["fingerprint"])

    def split(self, name: str) -> range:
        """The numbers of the questions of a split."""
        if name not in self.splits:
            raise UserError(f"{self.folder} has no split {name!r}.{did_you_mean(name, self.splits)}")
        return self.splits[name]

    def answered_split(self, name: str) -> range:
        """The numbers of the questions of a split, all of which must have an answer."""
        numbers = self.split(name)
        if not numbers:
            raise UserError(f"the split {name} of {self.folder} is empty.")
        for number in numbers:
            if self.questions[number].answer is None:
                raise UserError(
                    f"the split {name} of {self.folder} has questions without an answer, e.g. {self.questions[number].id}."
                )
        return numbers

    def subgraph(self, statement: int) -> Subgraph:
        nodes = slice(int(self.node_ptr[statement]), int(self.node_ptr[statement + 1]))
        edges = slice(int(self.edge_ptr[statement]), int(self.edge_ptr[statement + 1]))
        c = self.columns
        return Subgraph(c["concepts"][nodes], c["types"][nodes], c["head"][edges], c["relation"][edges], c["tail"][edges])

    def subgraphs(self, question: int) -> list[Subgraph]:
        """The subgraphs of a question's choices."""
        return [self.subgraph(s) for s in range(int(self.statement_ptr[question]), int(self.statement_ptr[question + 1]))]

    def load_graph(self, folder: str | Path | None = None) -> KnowledgeGraph:
        """Load the graph of this data, from ``folder`` if it has moved. Another graph is refused."""
        place = Path(folder) if folder is not None else Path(self.about["graph"])
        if not place.exists():
            raise UserError(f"the graph of {self.folder} is not at {place} any more; name its folder with --kg.")
        graph = KnowledgeGraph.load(place)
        if graph.fingerprint != self.about["graph_fingerprint"]:
            raise UserError(f"{self.folder} was prepared from another graph than {place}; prepare the questions again.")
        return graph


@dataclass(frozen=True)
class PrepareOptions:
    """How questions are prepared.

    Args:
        statement: How stem and choice become a statement: ``fill-in-the-blank``, ``append``, or ``auto`` (as the dataset declares,
            otherwise ``fill-in-the-blank`` if most stems end in a question mark).
        max_nodes: Largest number of nodes in a subgraph. The published setting is 200. None: no limit.
        max_degree: Mentioned concepts with more neighbors are not expanded. None: no limit. See :class:`SubgraphLimits`.
        workers: Number of threads.
        dataset: A built-in dataset declaration or a YAML file that says how to read the questions.

    >>> PrepareOptions(max_nodes=200).settings("append")
    {'statement': 'append', 'max_nodes': 200}
    """

    statement: str = "auto"
    max_nodes: int | None = None
    max_degree: int | None = None
    workers: int = os.cpu_count() or 1
    dataset: str | Path | None = None

    def settings(self, statement: str) -> dict[str, Any]:
        """The statement builder that was chosen, and the options that can change a subgraph and differ from their defaults."""
        without_effect = ("statement", "workers", "dataset")  # the dataset's effect is in the questions
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in without_effect}
        defaults = {f.name: f.default for f in fields(self)}
        return {"statement": statement, **{name: value for name, value in found.items() if value != defaults[name]}}


def ground(question: Question, grounder: Grounder, statement: str) -> list[Mentions]:
    """The mentioned concepts of a question's statements."""
    return ground_all([question], grounder, statement).mentions()[0]


def ground_all(questions: Sequence[Question], grounder: Grounder, statement: str) -> Mentioned:
    """The mentioned concepts of several questions; faster than one question at a time."""
    build = BUILDERS[statement]
    statements = [build(question.stem, choice) for question in questions for choice in question.choices]
    choices = [choice for question in questions for choice in question.choices]
    return grounder.mentioned(statements, choices, [len(question.choices) for question in questions])


def statement_builder(name: str, questions: Sequence[Question]) -> str:
    """The name of the statement builder to use."""
    if name == "auto":
        asked = sum(q.stem.rstrip().endswith("?") for q in questions)
        return "fill-in-the-blank" if asked > 0.75 * len(questions) else "append"
    if name not in BUILDERS:
        raise UserError(f"unknown statement builder {name!r}.{did_you_mean(name, [*BUILDERS, 'auto'])}")
    return name


def prepare(
    source: str | Path, graph: KnowledgeGraph, folder: str | Path, options: PrepareOptions = PrepareOptions()
) -> PreparedData:
    """Ground questions in a graph, extract the subgraphs of their choices, and write both to ``folder``.

    Args:
        source: A YAML file that declares a dataset, a folder with train, dev and test files, or one file of questions.
        graph: A graph that is saved in a folder.
        folder: The folder to write. Prepared data that is already there is replaced.
        options: See :class:`PrepareOptions`.

    >>> from tempfile import mkdtemp
    >>> place = Path(mkdtemp())
    >>> graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("desk", "AtLocation", "school")])
    >>> graph.save(place / "graph")
    >>> _ = (place / "questions.jsonl").write_text('{"question": "Where does a child sit?", "choices": ["desk", "moon"]}')
    >>> data = prepare(place / "questions.jsonl", graph, place / "prepared")
    >>> [graph.name(concept) for concept in data.subgraph(0).concepts]
    ['child', 'desk', 'school']
    """
    folder = Path(folder)
    check_replaceable(folder, MARKER, HOLDS)
    if graph.folder is None:
        raise UserError("save the graph first; prepared data stores the folder of its graph.")
    declared = Dataset.find(source, options.dataset)
    splits = read_splits(declared)
    questions = [q for split in splits.values() for q in split]
    if not questions:
        raise UserError(f"{source} contains no questions.")
    statement = statement_builder(declared.statement if options.statement == "auto" else options.statement, questions)
    limits = SubgraphLimits(options.max_nodes, options.max_degree)
    settings = options.settings(statement)
    rows = [_row(q) for q in questions]
    with new_folder(folder, MARKER, HOLDS) as partial, _short_garbage_collection():
        encoded = map(json.JSONEncoder(ensure_ascii=False).encode, rows)
        write_text(partial / "questions.jsonl", "".join(f"{row}\n" for row in encoded))
        total = sum(len(q.choices) for q in questions)
        occurs = np.zeros(len(graph), dtype=np.bool_)
        grounded = _grounded(questions, Grounder(graph), statement)
        written = _write_subgraphs(partial, extract_all(graph, grounded, limits, options.workers), total, occurs)
        save_array(partial / "used.npy", np.flatnonzero(occurs))
        counts = {split: len(found) for split, found in splits.items()}
        about = {
            "format": FORMAT,
            "dataset": declared.name,
            "splits": counts,
            "statements": total,
            "graph": str(graph.folder.absolute()),
            "graph_fingerprint": graph.fingerprint,
            "relations": len(graph.schema),
            "settings": settings,
            "fingerprint": fingerprint(rows, counts, settings, graph.fingerprint, written.nodes_fingerprint),
            "report": written.report,
        }
        write_json(partial / MARKER, about)
    return PreparedData.load(folder)


@contextmanager
def _short_garbage_collection() -> Iterator[None]:
    """Garbage collection ignores the objects that exist now, such as modules and questions."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _row(question: Question) -> dict[str, Any]:
    """A question as it is stored and fingerprinted: without the fields that have their default value."""
    return {f.name: value for f in fields(question) if (value := getattr(question, f.name)) != f.default}


def _grounded(questions: Sequence[Question], grounder: Grounder, statement: str) -> Iterator[Mentioned]:
    """The mentioned concepts of all questions, in chunks."""
    for start in range(0, len(questions), CHUNK):
        yield ground_all(questions[start : start + CHUNK], grounder, statement)


class _Written(NamedTuple):
    report: dict[str, Any]
    nodes_fingerprint: str  # of the nodes of all subgraphs; with the graph they determine the facts


def _write_subgraphs(folder: Path, subgraphs: Iterable[Subgraphs], total: int, occurs: NDArray[np.bool_]) -> _Written:
    """Write the columns of all subgraphs, and mark their concepts in ``occurs``."""
    digests = {name: hashlib.sha256() for name in ("concepts", "types")}
    sizes: dict[str, list[Ints]] = {"nodes": [], "facts": [], "cut": []}
    of_sides: list[Ints] = []
    writers = {name: ArrayWriter(folder / f"{name}.npy", dtype) for name, dtype in COLUMNS.items()}
    try:
        with bar("grounding and extracting", total) as advance:
            done = 0
            for chunk in subgraphs:
                for name, writer in writers.items():
                    writer.append(getattr(chunk, name))
                for name, digest in digests.items():
                    digest.update(np.ascontiguousarray(getattr(chunk, name), dtype=COLUMNS[name]).data)
                for name, parts in sizes.items():
                    parts.append(getattr(chunk, name))
                of_sides.append(count_sides(chunk, occurs))
                done += len(chunk.nodes)
                advance(done)
    finally:
        for writer in writers.values():
            writer.close()
    nodes, facts, cut = (np.concatenate(parts) for parts in sizes.values())
    node_ptr = np.concatenate([[0], np.cumsum(nodes)])
    save_array(folder / "node_ptr.npy", node_ptr)
    save_array(folder / "edge_ptr.npy", np.concatenate([[0], np.cumsum(facts)]))
    save_array(folder / "cut.npy", cut)
    question, answer = np.concatenate(of_sides, axis=1)
    report = {
        "without question concepts": int((question == 0).sum()),
        "without answer concepts": int((answer == 0).sum()),
        "without facts": int((facts == 0).sum()),
        "question concepts a statement": spread(question),
        "answer concepts a statement": spread(answer),
        "nodes a statement": spread(nodes),
        "facts a statement": spread(facts),
        **({"nodes cut a statement": spread(cut)} if cut.any() else {}),
    }
    return _Written(report, fingerprint(node_ptr, *(digest.digest() for digest in digests.values())))


def spread(values: NDArray[Any]) -> dict[str, int | float]:
    """Mean, median, 90th percentile and maximum.

    >>> spread(np.array([1, 2, 3, 10]))
    {'mean': 4.0, 'median': 2.5, '90 %': 10, 'max': 10}
    """
    if not len(values):
        return {"mean": 0, "median": 0, "90 %": 0, "max": 0}
    ninety = np.quantile(values, 0.9, method="inverted_cdf")
    return {
        "mean": round(float(values.mean()), 2),
        "median": _number(float(np.median(values))),
        "90 %": _number(float(ninety)),
        "max": _number(float(values.max())),
    }


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() and value < 2**53 else value


def edges_between(subgraph: Subgraph) -> int:
    """The number of facts between question concepts and answer concepts."""
    ends = subgraph.types[subgraph.head], subgraph.types[subgraph.tail]
    return int(((ends[0] == QUESTION) & (ends[1] == ANSWER)).sum() + ((ends[0] == ANSWER) & (ends[1] == QUESTION)).sum())
