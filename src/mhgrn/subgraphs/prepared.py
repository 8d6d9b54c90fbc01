"""Prepared data: questions with the subgraphs of their choices, stored as a folder of memory-mapped arrays."""

import gc
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.engines import Engine, Work
from mhgrn.errors import UserError, did_you_mean
from mhgrn.grounding.grounder import Grounder, Mentions
from mhgrn.grounding.statements import BUILDERS
from mhgrn.io.arrays import ArrayWriter, save_array
from mhgrn.io.atomic import write_text
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import write_marker
from mhgrn.io.places import places, relative_place, whereabouts
from mhgrn.io.remote import local_folder, place_of
from mhgrn.io.stored import StoredArray, StoredFolder, read_folder
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.printing import shortened, shown
from mhgrn.progress import bar
from mhgrn.questions.question import Question
from mhgrn.questions.reading import divide, splits_from
from mhgrn.subgraphs.extract import (
    ANSWER,
    MOST_NODES,
    OTHER,
    QUESTION,
    Subgraph,
    SubgraphLimits,
    Subgraphs,
    count_sides,
)
from mhgrn.subgraphs.extracting import (
    PART,
    extraction_context,
    ground_all,
    question_row,
    subgraphs_from,
    subgraphs_of,
    subgraphs_of_part,
)
from mhgrn.subgraphs.stored_questions import check_about, stored_questions

MARKER = "prepared.json"
QUESTIONS = "questions.jsonl"
HOLDS = ("*.npy", QUESTIONS, "cache")
FORMAT = 2
COLUMNS: dict[str, type[np.integer[Any]]] = {
    "concepts": np.int32,
    "types": np.uint8,
    "head": np.uint16,
    "relation": np.uint16,
    "tail": np.uint16,
}
DIVIDE_HINT = "To divide the questions of one file into splits, prepare them with --split 0.8,0.1,0.1."


KEYS = {
    "splits": dict,
    "statements": int,
    "graph": str,
    "graph_fingerprint": str,
    "relations": int,
    "settings": dict,
    "fingerprint": str,
    "report": dict,
}


@dataclass(frozen=True, repr=False, eq=False)
class PreparedData:
    """Questions of all splits with their subgraphs. Choice c of question q is statement ``statement_ptr[q] + c``.

    ``len(data)`` is the number of questions, and iterating yields them.

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
    columns: dict[str, Ints]  # read them after ``ensure``
    used: Ints  # the concepts that occur in any subgraph, ascending
    _stored: dict[str, StoredArray]
    _is_checked: NDArray[np.bool_]  # [statements]

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open a folder of prepared data. Subgraphs are memory-mapped, and checked when they are first used.

        Args:
            folder: A folder that :func:`prepare` has written, or its URL.
        """
        return read_folder(local_folder(folder_path(folder, "prepared data")), MARKER, "prepared dataset", FORMAT, cls._read, KEYS)

    @classmethod
    def _read(cls, stored: StoredFolder) -> Self:
        about, folder = stored.about, stored.path
        check_about(about, folder / MARKER)
        questions = stored_questions(stored.text(QUESTIONS), folder / QUESTIONS)
        splits, start = {}, 0
        for split, count in about["splits"].items():
            splits[split] = range(start, start + count)
            start += count
        total = about["statements"]
        statement_ptr = np.cumsum([0, *(len(q.choices) for q in questions)])
        for what, found, wanted in (("questions", len(questions), start), ("choices", int(statement_ptr[-1]), total)):
            if found != wanted:
                raise UserError(f"{folder / QUESTIONS} has {found:,} {what}, not {wanted:,}; prepare the questions again.")
        node_ptr, edge_ptr, cut = (
            stored.array("node_ptr", "int64", total + 1, is_pointer=True),
            stored.array("edge_ptr", "int64", total + 1, is_pointer=True),
            stored.array("cut", "int64", total),
        )
        used = stored.array("used", "int64", high=2**31 - 1)
        for array in (node_ptr, edge_ptr, cut, used):
            array.ensure()
        if len(used.values) and (np.diff(used.values) <= 0).any():
            raise UserError(f"{used.path} is damaged (its values do not ascend); prepare the questions again.")
        nodes, facts = int(node_ptr.values[-1]), int(edge_ptr.values[-1])
        highest = {
            "concepts": int(used.values[-1]) if len(used.values) else -1,
            "types": OTHER,
            "head": MOST_NODES,
            "relation": about["relations"] - 1,
            "tail": MOST_NODES,
        }
        columns = {
            name: stored.array(name, np.dtype(dtype).name, nodes if name in ("concepts", "types") else facts, high=highest[name])
            for name, dtype in COLUMNS.items()
        }
        return cls(
            folder,
            about,
            questions,
            splits,
            statement_ptr,
            node_ptr.values,
            edge_ptr.values,
            cut.values,
            {name: array.values for name, array in columns.items()},
            used.values,
            columns,
            np.zeros(total, dtype=np.bool_),
        )

    def __repr__(self) -> str:
        counts = ", ".join(f"{split}={len(numbers)}" for split, numbers in self.splits.items())
        return f"PreparedData({counts}, statements={self.about['statements']}, folder={str(self.folder)!r})"

    def __len__(self) -> int:
        """The number of questions."""
        return len(self.questions)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions)

    @property
    def fingerprint(self) -> str:
        """A hash of what the data was prepared from: questions, graph and options."""
        return str(self.about["fingerprint"])

    def split(self, name: str) -> range:
        """The numbers of the questions of a split."""
        if name not in self.splits:
            divide = f" {DIVIDE_HINT}" if len(self.splits) == 1 else ""
            raise UserError(f"{self.folder} has no split {shortened(name)}.{did_you_mean(shown(name), self.splits)}{divide}")
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
        """The subgraph of a statement, by its number in :attr:`statements`."""
        if not self._is_checked[statement]:
            self.ensure(statement, statement + 1)
        nodes = slice(int(self.node_ptr[statement]), int(self.node_ptr[statement + 1]))
        edges = slice(int(self.edge_ptr[statement]), int(self.edge_ptr[statement + 1]))
        c = self.columns
        of_facts = c["head"][edges], c["relation"][edges], c["tail"][edges]
        return Subgraph(c["concepts"][nodes], c["types"][nodes], *of_facts, int(self.cut[statement]))

    def subgraphs(self, question: int) -> list[Subgraph]:
        """The subgraphs of a question's choices."""
        return [self.subgraph(s) for s in range(int(self.statement_ptr[question]), int(self.statement_ptr[question + 1]))]

    def ensure(self, first: int, last: int) -> None:
        """Check the subgraphs of the statements ``first`` … ``last`` - 1, unless they were checked before."""
        if self._is_checked[first:last].all():
            return
        nodes, edges = (pointer[first : last + 1] for pointer in (self.node_ptr, self.edge_ptr))
        for name, array in self._stored.items():
            pointer = nodes if name in ("concepts", "types") else edges
            array.ensure(int(pointer[0]), int(pointer[-1]))
        sizes = np.repeat(np.diff(nodes), np.diff(edges))  # [facts] the nodes of each fact's subgraph
        for name in ("head", "tail"):
            if (self.columns[name][int(edges[0]) : int(edges[-1])] >= sizes).any():
                raise UserError(f"{self._stored[name].path} is damaged (a fact of no node); prepare the questions again.")
        self._is_checked[first:last] = True

    def load_graph(self, folder: str | Path | None = None) -> KnowledgeGraph:
        """Load the graph of this data. Another graph is refused.

        Args:
            folder: The graph's folder. None: where it was relative to this data, or where it was when the data was prepared.
        """
        stored = self.about["graph"]
        found = (
            [local_folder(folder)] if folder is not None else list(places(self.folder, self.about.get("graph_relative"), stored))
        )
        if not found or not found[0].exists():
            where = whereabouts(stored if folder is None else str(folder))
            raise UserError(f"the graph of {self.folder} was at {where}; name its folder with --kg.")
        problem: UserError | None = None
        for place in found:
            try:
                return self._fitting_graph(place)
            except UserError as error:
                problem = error
        assert problem is not None
        raise problem

    def _fitting_graph(self, place: Path) -> KnowledgeGraph:
        graph = KnowledgeGraph.load(place)
        if graph.fingerprint != self.about["graph_fingerprint"]:
            raise UserError(f"{self.folder} was prepared from another graph than {place}; prepare the questions again.")
        if len(graph.schema) != self.about["relations"] or (len(self.used) and int(self.used[-1]) >= len(graph)):
            raise UserError(f"{self.folder} does not belong to the graph {place}; prepare the questions again.")
        return graph


@dataclass(frozen=True)
class PrepareOptions:
    """How questions are prepared.

    Args:
        statement: How stem and choice become a statement: ``fill-in-the-blank``, ``append``, or ``auto`` (as the dataset declares,
            otherwise ``fill-in-the-blank`` if most stems end in a question mark).
        max_nodes: Largest number of nodes in a subgraph. The published setting is 200. None: 10,000.
        max_degree: Mentioned concepts with more neighbors are not expanded. None: all are. See :class:`SubgraphLimits`.
        workers: Number of threads.
        dataset: A built-in dataset declaration or a YAML file that says how to read the questions.
        max_facts: Largest number of facts in a subgraph. None: 250,000.
        split: Divide the questions of one file at random into these shares of train, dev and test, for example (0.8, 0.1, 0.1).
        seed: Seed of ``split``. The same questions, shares and seed give the same splits.

    >>> PrepareOptions(max_nodes=200).settings("append")
    {'statement': 'append', 'max_nodes': 200}
    """

    statement: str = "auto"
    max_nodes: int | None = None
    max_degree: int | None = None
    workers: int = os.cpu_count() or 1
    dataset: str | Path | None = None
    max_facts: int | None = None
    split: Sequence[float] | None = None
    seed: int = 0

    def settings(self, statement: str) -> dict[str, Any]:
        """The statement builder that was chosen, and the options that can change a subgraph and differ from their defaults."""
        without_effect = ("statement", "workers", "dataset", "split", "seed")  # the effect of the last three is in the questions
        found = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in without_effect}
        defaults = {f.name: f.default for f in fields(self)}
        return {"statement": statement, **{name: value for name, value in found.items() if value != defaults[name]}}


def ground(question: Question, grounder: Grounder, statement: str) -> list[Mentions]:
    """The mentioned concepts of a question's statements."""
    return ground_all([question], grounder, statement).mentions()[0]


def statement_builder(name: str, questions: Sequence[Question]) -> str:
    """The name of the statement builder to use."""
    if name == "auto":
        asked = sum(q.stem.rstrip().endswith("?") for q in questions)
        return "fill-in-the-blank" if asked > 0.75 * len(questions) else "append"
    if name not in BUILDERS:
        raise UserError(f"unknown statement builder {shortened(name)}.{did_you_mean(shown(name), [*BUILDERS, 'auto'])}")
    return name


def prepare(
    questions: Any,
    graph: KnowledgeGraph | str | Path,
    folder: str | Path,
    options: PrepareOptions = PrepareOptions(),
    engine: Engine | None = None,
    **changes: Any,
) -> PreparedData:
    """Ground questions in a graph, extract the subgraphs of their choices, and write both to ``folder``.

    Args:
        questions: A YAML file that declares a dataset, a folder with train, dev and test files, or one file of questions. Or rows
            in memory as :func:`mhgrn.questions_from` takes them, also by split: ``{"train": rows, "dev": rows}``. One file, or
            rows without a split, become the split ``test``, unless ``split`` divides them.
        graph: A graph that is saved in a folder, or the folder.
        folder: The folder to write. Prepared data that is already there is replaced.
        options: See :class:`PrepareOptions`.
        engine: Where to extract subgraphs, of :func:`mhgrn.engines.engine_named`. None: in threads of this process.
        changes: Fields of ``options`` with other values, for example ``split=(0.8, 0.1, 0.1)``.

    >>> from tempfile import mkdtemp
    >>> place = Path(mkdtemp())
    >>> graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school"), ("desk", "AtLocation", "school")])
    >>> graph.save(place / "graph")
    >>> data = prepare([{"question": "Where does a child sit?", "choices": ["desk", "moon"]}], graph, place / "prepared")
    >>> [graph.name(concept) for concept in data.subgraph(0).concepts]
    ['child', 'desk', 'school']
    """
    if not isinstance(options, PrepareOptions):
        raise TypeError(f"options should be PrepareOptions, not {type(options).__name__}.")
    options = replace(options, **changes)
    limits = SubgraphLimits(options.max_nodes, options.max_degree, options.max_facts)
    folder = folder_path(folder, "folder")
    check_replaceable(folder, MARKER, HOLDS)
    if not isinstance(graph, KnowledgeGraph):
        graph = KnowledgeGraph.load(folder_path(graph, "graph"))
    if graph.folder is None:
        raise UserError("save the graph first; prepared data stores the folder of its graph.")
    declared, splits = splits_from(questions, options.dataset)
    if not any(splits.values()):
        raise UserError(f"{questions} contains no questions." if isinstance(questions, str | Path) else "there are no questions.")
    if options.split is not None:
        splits = divide(splits, options.split, options.seed)
    asked = [q for split in splits.values() for q in split]
    statement = statement_builder(declared.statement if options.statement == "auto" else options.statement, asked)
    settings = options.settings(statement)
    rows = [question_row(q) for q in asked]
    with ExitStack() as stack:
        session = None if engine is None else stack.enter_context(engine.session(folder))
        partial = stack.enter_context(new_folder(folder, MARKER, HOLDS))
        stack.enter_context(_short_garbage_collection())
        encoded = map(json.JSONEncoder(ensure_ascii=False).encode, rows)
        write_text(partial / QUESTIONS, "".join(f"{row}\n" for row in encoded))
        total = sum(len(q.choices) for q in asked)
        occurs = np.zeros(len(graph), dtype=np.bool_)
        if session is None:
            subgraphs = subgraphs_of(asked, graph, Grounder(graph), statement, limits, options.workers)
        else:
            context = extraction_context(graph, statement, limits)
            parts = [rows[start : start + PART] for start in range(0, len(rows), PART)]
            subgraphs = map(subgraphs_from, session.map(Work(subgraphs_of_part, context, parts)))
        written = _write_subgraphs(partial, subgraphs, total, occurs, limits)
        save_array(partial / "used.npy", np.flatnonzero(occurs))
        counts = {split: len(found) for split, found in splits.items()}
        about = {
            "format": FORMAT,
            "dataset": declared.name,
            **({} if options.split is None else {"divided": {"split": list(options.split), "seed": options.seed}}),
            "splits": counts,
            "statements": total,
            "graph": place_of(graph.folder),
            "graph_relative": relative_place(graph.folder, folder),
            "graph_fingerprint": graph.fingerprint,
            "relations": len(graph.schema),
            "settings": settings,
            "fingerprint": fingerprint(rows, counts, settings, graph.fingerprint, written.nodes_fingerprint),
            "report": written.report,
        }
        write_marker(partial / MARKER, about)
    return PreparedData.load(folder)


def folder_path(value: object, name: str) -> Path:
    """The argument ``name`` as a path."""
    if not isinstance(value, str | PathLike):
        raise TypeError(f"{name} should be the path of a folder, not {type(value).__name__}.")
    return Path(value)


@contextmanager
def _short_garbage_collection() -> Iterator[None]:
    """Garbage collection ignores the objects that exist now, such as modules and questions."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Written(NamedTuple):
    report: dict[str, Any]
    nodes_fingerprint: str  # of the nodes of all subgraphs; with the graph they determine the facts


def _write_subgraphs(
    folder: Path, subgraphs: Iterable[Subgraphs], total: int, occurs: NDArray[np.bool_], limits: SubgraphLimits
) -> _Written:
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
        **({limits.default_limit: int((cut > 0).sum())} if cut.any() and limits.default_limit else {}),
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
