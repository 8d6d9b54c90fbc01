"""Questions with their subgraphs, ready for a model: one folder of mapped arrays, made from one graph by one recipe."""

import gc
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError, did_you_mean
from mhgrn.grounding.grounder import Grounder, Mentioned, Mentions
from mhgrn.grounding.lemmas import LEMMATISER
from mhgrn.grounding.statements import BUILDERS
from mhgrn.io.arrays import ArrayWriter, load_array, save_array
from mhgrn.io.atomic import write_text
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import read_marker, write_json
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.kg.strings import StringIndex
from mhgrn.progress import bar, say
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.question import Question, find_splits
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Limits, Subgraph, Subgraphs, count_sides, extract_all

if TYPE_CHECKING:
    from mhgrn.subgraphs.reuse import Earlier

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
CHUNK = 32  # questions grounded and extracted at a time


@dataclass(frozen=True)
class PreparedData:
    """Questions of all splits in one row; statement ``statement_ptr[q] + c`` is choice c of question q."""

    folder: Path
    about: dict[str, Any]
    questions: list[Question]
    splits: dict[str, range]
    statement_ptr: Ints
    node_ptr: Ints
    edge_ptr: Ints
    cut: Ints  # nodes left out of each subgraph by a cap
    columns: dict[str, Ints]
    used: Ints  # every concept that occurs, ascending
    used_names: StringIndex
    used_hash: Ints  # of the facts they had

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        folder = Path(folder)
        keys = ("splits", "statements", "graph", "graph_fingerprint", "relations", "settings", "fingerprint", "report")
        about = read_marker(folder, MARKER, "prepared data set", FORMAT, keys)
        questions = []
        try:
            with (folder / "questions.jsonl").open(encoding="utf-8") as lines:
                for line in lines:
                    row = json.loads(line)
                    choices, labels = tuple(row["choices"]), tuple(row["labels"])
                    questions.append(Question(row["id"], row["stem"], choices, row["answer"], labels, row.get("concept")))
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise UserError(f"{folder / 'questions.jsonl'} is damaged ({error}); prepare the questions again.") from None
        splits, start = {}, 0
        for split, count in about["splits"].items():
            splits[split] = range(start, start + count)
            start += count
        used = ("used", "used_hash", "used_ptr", "used_bytes", "used_slots")
        arrays = {name: load_array(folder / f"{name}.npy") for name in ("node_ptr", "edge_ptr", "cut", *COLUMNS, *used)}
        statement_ptr = np.cumsum([0, *(len(q.choices) for q in questions)])
        expected = {
            "questions.jsonl": (start, len(questions)),
            "questions.jsonl's choices": (about["statements"], int(statement_ptr[-1])),
            "node_ptr.npy": (about["statements"] + 1, len(arrays["node_ptr"])),
            "edge_ptr.npy": (about["statements"] + 1, len(arrays["edge_ptr"])),
            "cut.npy": (about["statements"], len(arrays["cut"])),
            "used_hash.npy": (len(arrays["used"]), len(arrays["used_hash"])),
            "used_ptr.npy": (len(arrays["used"]) + 1, len(arrays["used_ptr"])),
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
        names = StringIndex.from_arrays("used", arrays)
        return cls(folder, about, questions, splits, *pointers, columns, arrays["used"], names, arrays["used_hash"])

    @property
    def fingerprint(self) -> str:
        return str(self.about["fingerprint"])

    def split(self, name: str) -> range:
        """The numbers of a split's questions."""
        if name not in self.splits:
            raise UserError(f"{self.folder} has no split {name!r}.{did_you_mean(name, self.splits)}")
        return self.splits[name]

    def answered_split(self, name: str) -> range:
        """:meth:`split`, after checking that it has questions and that each has its answer."""
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
        """The graph it was prepared from: where it was then, or in ``folder``. Another graph is refused."""
        place = Path(folder) if folder is not None else Path(self.about["graph"])
        if not place.exists():
            raise UserError(f"the graph of {self.folder} was at {place}, where nothing is now; name its place with --kg.")
        graph = KnowledgeGraph.load(place)
        if graph.fingerprint != self.about["graph_fingerprint"]:
            raise UserError(
                f"{self.folder} was prepared from another graph than the one now at {place}; prepare the questions again."
            )
        return graph


@dataclass(frozen=True)
class PrepareOptions:
    statement: str = "auto"  # fill-in-the-blank, append, or auto: as declared, or the former where most stems end in "?"
    max_nodes: int | None = None  # cap on the nodes of a subgraph; the published setting is 200, cut by concept number
    max_degree: int | None = None  # mentioned concepts with more neighbours are not followed to middles; see Limits
    workers: int = os.cpu_count() or 1
    anew: bool = False  # take nothing over from what an earlier preparation left in the folder
    dataset: str | Path | None = None  # a shipped declaration's name or a YAML file, to read the questions by


def ground(question: Question, grounder: Grounder, statement: str) -> list[Mentions]:
    """The concepts of each of a question's statements."""
    return ground_all([question], grounder, statement).mentions()[0]


def ground_all(questions: Sequence[Question], grounder: Grounder, statement: str) -> Mentioned:
    """:func:`ground` of several questions, which takes less than one by one."""
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
        raise UserError(f"{name!r} is no way to build statements.{did_you_mean(name, [*BUILDERS, 'auto'])}")
    return name


def prepare(
    source: str | Path, graph: KnowledgeGraph, folder: str | Path, options: PrepareOptions = PrepareOptions()
) -> PreparedData:
    """Ground the questions of ``source`` (a declaration, a folder with its splits, or a file) in ``graph`` and write ``folder``.

    What an earlier preparation in ``folder`` holds of the same questions is taken over where their part of the graph has not
    changed; the result is the same as without it.
    """
    from mhgrn.subgraphs.reuse import Earlier

    folder = Path(folder)
    check_replaceable(folder, MARKER, HOLDS)
    if graph.folder is None:
        raise UserError("save the graph first: a prepared data set names the graph it came from.")
    declared = Dataset.find(source, options.dataset)
    splits = find_splits(declared)
    questions = [q for split in splits.values() for q in split]
    if not questions:
        raise UserError(f"{source} holds no question.")
    statement = statement_builder(declared.statement if options.statement == "auto" else options.statement, questions)
    limits = Limits(options.max_nodes, options.max_degree)
    settings = {"statement": statement, **limits._asdict(), "lemmatiser": LEMMATISER}
    work = _Work(graph, statement, None if options.anew else Earlier.find(folder, settings, graph))
    rows = [_row(q) for q in questions]
    with new_folder(folder, MARKER, HOLDS) as partial, _garbage_of_its_own():
        encoded = map(json.JSONEncoder(ensure_ascii=False).encode, rows)
        write_text(partial / "questions.jsonl", "".join(f"{row}\n" for row in encoded))
        total = sum(len(q.choices) for q in questions)
        occurs = np.zeros(len(graph), dtype=np.bool_)
        report = _write_subgraphs(partial, extract_all(graph, work.chunks(questions), limits, options.workers), total, occurs)
        _write_used(partial, graph, np.flatnonzero(occurs))
        about = {
            "format": FORMAT,
            "dataset": declared.name,
            "splits": {split: len(found) for split, found in splits.items()},
            "statements": total,
            "graph": str(graph.folder.absolute()),
            "graph_fingerprint": graph.fingerprint,
            "relations": len(graph.schema),
            "settings": settings,
            "fingerprint": fingerprint(rows, list(splits), settings, graph.fingerprint),
            "report": report,
        }
        write_json(partial / MARKER, about)
    if work.earlier is not None:
        say(f"{work.taken_over:,} of {len(questions):,} questions were taken over from the earlier preparation in {folder}.")
    return PreparedData.load(folder)


@contextmanager
def _garbage_of_its_own() -> Iterator[None]:
    """Python looks for garbage among what is made from here on, not each time through all modules and questions as well."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _row(question: Question) -> dict[str, Any]:
    return {name: value for name, value in vars(question).items() if name != "concept" or value is not None}


class _Work:
    """Questions → chunks of them, to be extracted or taken over from an earlier preparation."""

    def __init__(self, graph: KnowledgeGraph, statement: str, earlier: "Earlier | None") -> None:
        self.grounder = Grounder(graph)
        self.statement = statement
        self.earlier = earlier
        self.taken_over = 0

    def chunks(self, questions: Sequence[Question]) -> Iterator[Mentioned | Subgraphs]:
        for start in range(0, len(questions), CHUNK):
            chunk = questions[start : start + CHUNK]
            if self.earlier is None:
                yield ground_all(chunk, self.grounder, self.statement)
            else:
                yield from self._new_or_taken_over(chunk, self.earlier)

    def _new_or_taken_over(self, questions: Sequence[Question], earlier: "Earlier") -> Iterator[Mentioned | Subgraphs]:
        numbers = [earlier.number(question) for question in questions]
        to_ground = [q for q, number in zip(questions, numbers, strict=True) if number is None or not earlier.same_graph]
        grounded = iter(ground_all(to_ground, self.grounder, self.statement).mentions())
        new: list[list[Mentions]] = []
        for number in numbers:
            mentions = None if number is not None and earlier.same_graph else next(grounded)
            if number is None or (mentions is not None and not earlier.mentions_are(number, mentions)):
                assert mentions is not None
                new.append(mentions)
                continue
            if new:
                yield Mentioned.of(new)
                new = []
            self.taken_over += 1
            yield earlier.subgraphs(number)
        if new:
            yield Mentioned.of(new)


def _write_subgraphs(folder: Path, subgraphs: Iterable[Subgraphs], total: int, occurs: NDArray[np.bool_]) -> dict[str, Any]:
    """Write the columns of all subgraphs, mark the concepts in them in ``occurs``, and say how large they are."""
    sizes: dict[str, list[Ints]] = {"nodes": [], "facts": [], "cut": []}
    of_sides: list[Ints] = []
    writers = {name: ArrayWriter(folder / f"{name}.npy", dtype) for name, dtype in COLUMNS.items()}
    try:
        with bar("grounding and extracting", total) as advance:
            done = 0
            for chunk in subgraphs:
                if (most := int(chunk.nodes.max(initial=0))) > np.iinfo(COLUMNS["head"]).max:
                    raise UserError(f"a subgraph has {most:,} nodes, more than 65,535; cap it with --max-nodes or --max-degree.")
                for name, writer in writers.items():
                    writer.append(getattr(chunk, name))
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
    return {
        "without question concepts": int((question == 0).sum()),
        "without answer concepts": int((answer == 0).sum()),
        "without facts": int((facts == 0).sum()),
        "question concepts a statement": spread(question),
        "answer concepts a statement": spread(answer),
        "nodes a statement": spread(nodes),
        "facts a statement": spread(facts),
        **({"nodes cut a statement": spread(cut)} if cut.any() else {}),
    }


def _write_used(folder: Path, graph: KnowledgeGraph, used: Ints) -> None:
    """Which concepts occur, by name, and what facts they have: by this a later preparation knows what has changed."""
    save_array(folder / "used.npy", used)
    save_array(folder / "used_hash.npy", graph.facts_hash[used])
    for name, array in graph.names.only(used).to_arrays("used").items():
        save_array(folder / f"{name}.npy", array)


def spread(values: NDArray[Any]) -> dict[str, int | float]:
    """Mean, median, the value that nine tenths do not exceed, and the largest.

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
    """The number of facts that join a question concept with an answer concept."""
    ends = subgraph.types[subgraph.head], subgraph.types[subgraph.tail]
    return int(((ends[0] == QUESTION) & (ends[1] == ANSWER)).sum() + ((ends[0] == ANSWER) & (ends[1] == QUESTION)).sum())
