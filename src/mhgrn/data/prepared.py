"""Questions with their subgraphs, ready for a model: one folder of mapped arrays, made from one graph by one recipe."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from mhgrn.data.datasets import Dataset
from mhgrn.data.questions import Question, find_splits
from mhgrn.data.subgraphs import ANSWER, QUESTION, Limits, Subgraph, Subgraphs, extract_all
from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import bar, track
from mhgrn.storage import (
    ArrayWriter,
    check_replaceable,
    fingerprint,
    load_array,
    new_folder,
    read_marker,
    save_array,
    write_json,
    write_text,
)
from mhgrn.text.grounding import Grounder, Mentions
from mhgrn.text.statements import BUILDERS

MARKER = "prepared.json"
FORMAT = 1
COLUMNS: dict[str, type[np.integer[Any]]] = {
    "concepts": np.int64,
    "types": np.uint8,
    "head": np.uint16,
    "relation": np.uint16,
    "tail": np.uint16,
}


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
    columns: dict[str, Ints]

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        folder = Path(folder)
        keys = ("splits", "statements", "graph", "graph_fingerprint", "settings", "fingerprint")
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
        arrays = {name: load_array(folder / f"{name}.npy") for name in ("node_ptr", "edge_ptr", *COLUMNS)}
        statement_ptr = np.cumsum([0, *(len(q.choices) for q in questions)])
        expected = {
            "questions.jsonl": (start, len(questions)),
            "questions.jsonl's choices": (about["statements"], int(statement_ptr[-1])),
            "node_ptr.npy": (about["statements"] + 1, len(arrays["node_ptr"])),
            "edge_ptr.npy": (about["statements"] + 1, len(arrays["edge_ptr"])),
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
        return cls(folder, about, questions, splits, statement_ptr, arrays.pop("node_ptr"), arrays.pop("edge_ptr"), arrays)

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

    def used_concepts(self) -> Ints:
        """Every concept that occurs, sorted."""
        return np.unique(np.asarray(self.columns["concepts"]))

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
    dataset: str | Path | None = None  # a shipped declaration's name or a YAML file, to read the questions by


def ground(question: Question, grounder: Grounder, statement: str) -> list[Mentions]:
    """The concepts of each of a question's statements."""
    build = BUILDERS[statement]
    return [grounder.mentions(build(question.stem, choice), choice) for choice in question.choices]


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
    """Ground the questions of ``source`` (a declaration, a folder with its splits, or a file) in ``graph`` and write ``folder``."""
    folder = Path(folder)
    check_replaceable(folder, MARKER)
    if graph.folder is None:
        raise UserError("save the graph first: a prepared data set names the graph it came from.")
    declared = Dataset.find(source, options.dataset)
    splits = find_splits(declared)
    questions = [q for split in splits.values() for q in split]
    if not questions:
        raise UserError(f"{source} holds no question.")
    statement = statement_builder(declared.statement if options.statement == "auto" else options.statement, questions)
    grounder = Grounder(graph)
    mentions = [m for q in track(questions, "grounding questions") for m in ground(q, grounder, statement)]
    limits = Limits(options.max_nodes, options.max_degree)
    settings = {"statement": statement, **limits._asdict()}
    rows = [{k: v for k, v in asdict(q).items() if k != "concept" or v is not None} for q in questions]
    with new_folder(folder, MARKER) as partial:
        write_text(partial / "questions.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        sizes = _write_subgraphs(partial, extract_all(graph, mentions, limits, options.workers), len(mentions))
        about = {
            "format": FORMAT,
            "dataset": declared.name,
            "splits": {split: len(found) for split, found in splits.items()},
            "statements": len(mentions),
            "graph": str(graph.folder.absolute()),
            "graph_fingerprint": graph.fingerprint,
            "settings": settings,
            "fingerprint": fingerprint(rows, list(splits), settings, graph.fingerprint),
            "report": _report(mentions, sizes),
        }
        write_json(partial / MARKER, about)
    return PreparedData.load(folder)


def _write_subgraphs(folder: Path, subgraphs: Iterable[Subgraphs], total: int) -> dict[str, Ints]:
    sizes: dict[str, list[Ints]] = {"nodes": [], "facts": [], "cut": []}
    writers = {name: ArrayWriter(folder / f"{name}.npy", dtype) for name, dtype in COLUMNS.items()}
    try:
        with bar("extracting subgraphs", total) as advance:
            done = 0
            for chunk in subgraphs:
                if (most := int(chunk.nodes.max(initial=0))) > np.iinfo(COLUMNS["head"]).max:
                    raise UserError(f"a subgraph has {most:,} nodes, more than 65,535; cap it with --max-nodes or --max-degree.")
                for name, writer in writers.items():
                    writer.append(getattr(chunk, name))
                for name, parts in sizes.items():
                    parts.append(getattr(chunk, name))
                done += len(chunk.nodes)
                advance(done)
    finally:
        for writer in writers.values():
            writer.close()
    found = {name: np.concatenate(parts) for name, parts in sizes.items()}
    save_array(folder / "node_ptr.npy", np.cumsum([0, *found["nodes"]]))
    save_array(folder / "edge_ptr.npy", np.cumsum([0, *found["facts"]]))
    return {"nodes": found["nodes"], "facts": found["facts"], "nodes cut": found["cut"]}


def _report(mentions: list[Mentions], sizes: dict[str, Ints]) -> dict[str, Any]:
    columns = {
        "question concepts": np.array([len(m.question) for m in mentions]),
        "answer concepts": np.array([len(m.answer) for m in mentions]),
        **sizes,
    }
    return {
        "without question concepts": int((columns["question concepts"] == 0).sum()),
        "without answer concepts": int((columns["answer concepts"] == 0).sum()),
        **{
            f"{name} a statement": {
                "mean": round(float(values.mean()), 2),
                "median": float(np.median(values)),
                "max": int(values.max()),
            }
            for name, values in columns.items()
        },
    }


def edges_between(subgraph: Subgraph) -> int:
    """The number of facts that join a question concept with an answer concept."""
    ends = subgraph.types[subgraph.head], subgraph.types[subgraph.tail]
    return int(((ends[0] == QUESTION) & (ends[1] == ANSWER)).sum() + ((ends[0] == ANSWER) & (ends[1] == QUESTION)).sum())
