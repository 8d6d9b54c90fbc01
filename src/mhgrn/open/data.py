"""Prepared open questions: their texts, topics and answers, stored as a folder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError, did_you_mean
from mhgrn.io.arrays import save_array
from mhgrn.io.atomic import write_text
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import write_marker
from mhgrn.io.places import places, relative_place, whereabouts
from mhgrn.io.remote import local_folder, place_of
from mhgrn.io.stored import StoredFolder, parse_json, read_folder
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.topics import TopicFinder, marked_names
from mhgrn.printing import shortened, shown
from mhgrn.progress import track
from mhgrn.questions.open import OpenQuestion, open_splits
from mhgrn.questions.reading import divide

Ints = NDArray[Any]

MARKER = "open.json"
QUESTIONS = "questions.jsonl"
FORMAT = 1
HOLDS = ("*.npy", QUESTIONS)
KEYS = {
    "splits": dict,
    "concepts": int,
    "graph": str,
    "graph_fingerprint": str,
    "marks": bool,
    "fingerprint": str,
    "report": dict,
}


@dataclass(frozen=True, repr=False, eq=False)
class OpenData:
    """Open questions of all splits.

    Args:
        folder: The folder.
        about: Its description.
        questions: The questions.
        texts: The text of each question as the text encoder reads it.
        topics: The topics of each question; there may be none.
        answers: The right answers of each question that are concepts of the graph, ascending.
        splits: The numbers of the questions of each split.
    """

    folder: Path
    about: dict[str, Any]
    questions: list[OpenQuestion]
    texts: list[str]
    topics: list[Ints]
    answers: list[Ints]
    splits: dict[str, range]

    @classmethod
    def is_at(cls, folder: str | Path) -> bool:
        """Whether a folder holds prepared open questions."""
        return (local_folder(folder) / MARKER).is_file()

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load a folder that :func:`prepare_open` has written, or its URL."""
        return read_folder(local_folder(folder), MARKER, "prepared dataset of open questions", FORMAT, cls._read, KEYS)

    @classmethod
    def _read(cls, stored: StoredFolder) -> Self:
        about, path = stored.about, stored.path / QUESTIONS
        questions, texts = [], []
        for number, line in enumerate(stored.text(QUESTIONS).split("\n")[:-1], start=1):
            row = parse_json(line.encode(), Path(f"{path}:{number}"), "prepared dataset")
            if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("id", "question", "text")):
                raise UserError(f"{path}:{number} is damaged (not a question); prepare the questions again.")
            names = row.get("answers", [])
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise UserError(f"{path}:{number} is damaged (its answers); prepare the questions again.")
            questions.append(OpenQuestion(row["id"], row["question"], tuple(names)))
            texts.append(row["text"])
        sizes = list(about["splits"].values())
        if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) != len(questions):
            raise UserError(f"{path} has {len(questions):,} questions, not {sum(sizes):,}; prepare the questions again.")
        ends = np.cumsum([0, *sizes]).tolist()
        splits = {name: range(ends[i], ends[i + 1]) for i, name in enumerate(about["splits"])}
        columns = []
        for name in ("topic", "answer"):
            ptr = stored.array(f"{name}_ptr", "int64", len(questions) + 1, is_pointer=True)
            values = stored.array(name, "int64", int(ptr.whole[-1]), high=about["concepts"] - 1)
            columns.append([np.array(part) for part in np.split(values.whole, ptr.whole[1:-1])] if questions else [])
        return cls(stored.path, about, questions, texts, columns[0], columns[1], splits)

    def __repr__(self) -> str:
        counts = ", ".join(f"{split}={len(numbers)}" for split, numbers in self.splits.items())
        return f"OpenData({counts}, folder={str(self.folder)!r})"

    def __len__(self) -> int:
        """The number of questions."""
        return len(self.questions)

    @property
    def fingerprint(self) -> str:
        return str(self.about["fingerprint"])

    @property
    def marks(self) -> bool:
        """Whether questions mark their topics with brackets."""
        return bool(self.about["marks"])

    def answered_split(self, name: str) -> range:
        """The numbers of the questions of a split, all of which must have an answer."""
        if name not in self.splits:
            raise UserError(f"{self.folder} has no split {shortened(name)}.{did_you_mean(shown(name), self.splits)}")
        if not self.splits[name]:
            raise UserError(f"the split {name} of {self.folder} is empty.")
        for number in self.splits[name]:
            if not self.questions[number].answers:
                raise UserError(
                    f"the split {name} of {self.folder} has questions without an answer, e.g. {self.questions[number].id}."
                )
        return self.splits[name]

    def load_graph(self, folder: str | Path | None = None) -> KnowledgeGraph:
        """Load the graph that the questions were prepared with. Another graph is refused."""
        stored = self.about["graph"]
        found = (
            [local_folder(folder)] if folder is not None else list(places(self.folder, self.about.get("graph_relative"), stored))
        )
        for place in found:
            graph = KnowledgeGraph.load(place)
            if graph.fingerprint == self.about["graph_fingerprint"]:
                return graph
        if found:
            raise UserError(f"{self.folder} was prepared from another graph than {found[-1]}; prepare the questions again.")
        raise UserError(f"the graph of {self.folder} was at {whereabouts(stored)}; name its folder with --kg.")


def prepare_open(
    questions: Any,
    graph: KnowledgeGraph | str | Path,
    folder: str | Path,
    dataset: str | Path | None = None,
    split: Sequence[float] | None = None,
    seed: int = 0,
) -> OpenData:
    """Find the topics and answers of open questions in a graph, and write both to ``folder``.

    Args:
        questions: A path or rows, see :func:`mhgrn.questions.open.open_splits`. The choices of multiple-choice questions are
            dropped; the right one is the answer.
        graph: A graph that is saved in a folder, or the folder.
        folder: The folder to write. Prepared open questions that are already there are replaced.
        dataset: A built-in dataset declaration or a YAML file.
        split: Divide the questions of one file at random into these shares of train, dev and test.
        seed: Seed of ``split``.
    """
    folder = check_replaceable(Path(folder), MARKER, HOLDS)
    graph = graph if isinstance(graph, KnowledgeGraph) else KnowledgeGraph.load(graph)
    if graph.folder is None:
        raise UserError("save the graph first; prepared data stores the folder of its graph.")
    declared, splits = open_splits(questions, dataset)
    if not any(splits.values()):
        raise UserError(f"{questions} contains no questions." if isinstance(questions, str | Path) else "there are no questions.")
    if split is not None:
        splits = divide(splits, split, seed, lambda question: question.answers)
    asked = [question for found in splits.values() for question in found]
    marks = sum(bool(marked_names(question.stem)) for question in asked) > len(asked) / 2
    finder = TopicFinder(graph, marks)
    found = [finder.find_known(question.stem) for question in track(asked, "finding topics")]
    topics = [np.array(one.concepts, dtype=np.int64) for one in found]
    answers = [answer_concepts(question.answers, graph, finder) for question in asked]
    rows = [
        {"id": question.id, "question": question.stem, "text": one.text, "answers": list(question.answers)}
        for question, one in zip(asked, found, strict=True)
    ]
    counts = {name: len(of_split) for name, of_split in splits.items()}
    columns = {"topic": topics, "answer": answers}
    with new_folder(folder, MARKER, HOLDS) as partial:
        write_text(partial / QUESTIONS, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        for name, parts in columns.items():
            save_array(partial / f"{name}_ptr.npy", np.cumsum([0, *map(len, parts)], dtype=np.int64))
            save_array(partial / f"{name}.npy", np.concatenate([np.empty(0, dtype=np.int64), *parts]))
        about = {
            "format": FORMAT,
            "dataset": declared.name,
            "splits": counts,
            "concepts": len(graph),
            "graph": place_of(graph.folder),
            "graph_relative": relative_place(graph.folder, folder),
            "graph_fingerprint": graph.fingerprint,
            "marks": marks,
            "fingerprint": fingerprint(rows, counts, graph.fingerprint),
            "report": {
                "without topic": sum(not len(one) for one in topics),
                "without answer in the graph": sum(not len(one) for one in answers),
                "answer is a topic": sum(len(np.intersect1d(t, a)) > 0 for t, a in zip(topics, answers, strict=True)),
                "answers a question": round(float(np.mean([len(one) for one in answers])), 2),
            },
        }
        write_marker(partial / MARKER, about)
    return OpenData.load(folder)


def answer_concepts(names: Sequence[str], graph: KnowledgeGraph, finder: TopicFinder) -> Ints:
    """The concepts with these names. A name that is not one stands for the only concept that grounding finds in it, if any."""
    found = set[int]()
    for name in names:
        concepts = graph.find_all(name)
        if not concepts and not finder.marks:
            grounded = finder.grounder.concepts(name)
            concepts = graph.find_all(grounded[0]) if len(grounded) == 1 else []
        found.update(concepts)
    return np.array(sorted(found), dtype=np.int64)
