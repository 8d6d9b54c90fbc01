"""Open questions made from relation paths of a graph, with all right answers."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import write_json
from mhgrn.io.remote import place_of
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.schema import Relation, Side
from mhgrn.open.evidence import follow
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import WalkOptions
from mhgrn.printing import shortened
from mhgrn.progress import bar
from mhgrn.questions.reading import SPLITS
from mhgrn.synthesis.synthesizing import HOLDS, MARKER, Synthesis
from mhgrn.synthesis.wording import LEADS

FORMAT = 1
NEXT = ("Then think of {}.", "Then take {}.", "Now consider {}.")  # after a lead
MOST_BETWEEN = 300  # concepts on the way of a relation path
TRIES = 200  # for each question or relation path that is asked for
LONGEST_PATH = 3
Path_ = tuple[int, ...]  # a relation path: the labels of its moves


@dataclass(frozen=True)
class OpenSynthesisOptions:
    """How open questions are made from a graph.

    Args:
        count: Number of questions.
        hops: Facts of a relation path: any of 1, 2 and 3, in equal parts.
        paths: Most relation paths of each number of facts. They are drawn by random walks; all splits have questions of each.
        max_answers: Most answers of a question.
        split: Shares of train, dev and test. Their sum is 1; a split with a share of 0 is not written.
        seed: The same graph, options and seed give the same questions.
    """

    count: int = 20_000
    hops: Sequence[int] = (1, 2, 3)
    paths: int = 100
    max_answers: int = 50
    split: Sequence[float] = (0.9, 0.05, 0.05)
    seed: int = 0

    def __post_init__(self) -> None:
        for name, high in (("count", 10**8), ("paths", 10**6), ("max_answers", 10**5)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
                raise UserError(f"{name} is {shortened(value)}; it should be an integer from 1 to {high:,}.")
        if not self.hops or not set(self.hops) <= set(range(1, LONGEST_PATH + 1)):
            raise UserError(f"hops is {shortened(self.hops)}; give any of 1, 2 and 3.")
        shares = list(self.split)
        if len(shares) != len(SPLITS) or not all(0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
            raise UserError(f"split is {shortened(self.split)}; give the shares of train, dev and test; their sum is 1.")


class Wording(NamedTuple):
    """The templates of a label: a relation and the side of a fact that its moves lead to."""

    relation: Relation
    side: Side
    asks: list[int]  # the numbers of its questions that no other label has
    describes: list[int]  # the same of its noun phrases


def synthesize_open(
    graph: KnowledgeGraph | str | Path,
    folder: str | Path,
    options: OpenSynthesisOptions = OpenSynthesisOptions(),
    **changes: Any,
) -> Synthesis:
    """Make questions without choices from relation paths of a graph, and write them to ``folder`` for :func:`mhgrn.prepare`.

    The answers of a question are all concepts that its relation path leads to from the topic, which is in brackets. A path does not
    come back to the topic.

    Args:
        graph: A graph, or its folder.
        folder: The folder to write: ``train.jsonl``, ``dev.jsonl``, ``test.jsonl`` and ``synthesis.json``.
        options: See :class:`OpenSynthesisOptions`.
        changes: Fields of ``options`` with other values, for example ``count=1_000``.
    """
    options, target = replace(options, **changes), Path(folder)
    check_replaceable(target, MARKER, HOLDS)
    graph = graph if isinstance(graph, KnowledgeGraph) else KnowledgeGraph.load(graph)
    rows = _Maker(graph, options).rows()
    ends = np.round(np.cumsum([0.0, *options.split]) * len(rows)).astype(int).tolist()
    sizes = {split: ends[i + 1] - ends[i] for i, split in enumerate(SPLITS) if ends[i + 1] > ends[i]}
    with new_folder(target, MARKER, HOLDS) as partial:
        start = 0
        for split, size in sizes.items():
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows[start : start + size])
            write_text(partial / f"{split}.jsonl", text)
            start += size
        about = {
            "format": FORMAT,
            "kind": "open",
            "graph": None if graph.folder is None else place_of(graph.folder),
            "graph_fingerprint": graph.fingerprint,
            "options": asdict(options),
            "splits": sizes,
            "hops": dict(sorted(Counter(len(row["made_from"]["path"]) for row in rows).items())),
            "paths": len({tuple(row["made_from"]["path"]) for row in rows}),
            "answers": round(float(np.mean([len(row["answers"]) for row in rows])), 2),
        }
        write_json(partial / MARKER, about)
    return Synthesis(target, about)


def wordings(graph: KnowledgeGraph) -> list[Wording]:
    """The wording of each label. A text that several labels have does not tell which is meant, and is left out."""
    relations, count = graph.schema.relations, len(graph.schema)
    sides: list[tuple[Relation, Side]] = [(r, "tail") for r in relations] + [(r, "head") for r in relations]
    is_pruned = [number % count in graph.schema.pruned_ids for number in range(2 * count)]
    asks = [[r.question("it", side, pick) for pick in range(len(_templates(r, side)[0]))] for r, side in sides]
    tells = [[r.description("it", side, pick) or "" for pick in range(len(_templates(r, side)[1]))] for r, side in sides]
    found = []
    for label, (relation, side) in enumerate(sides):
        same = {label, (label + count) % (2 * count)} if relation.symmetric else {label}  # both lead to the same concepts
        unique = []
        for texts in (asks, tells):
            others = {text for other, of in enumerate(texts) if other not in same for text in of}
            unique.append([pick for pick, text in enumerate(texts[label]) if text not in others and not is_pruned[label]])
        found.append(Wording(relation, side, unique[0], unique[1]))
    return found


def _templates(relation: Relation, side: Side) -> tuple[Sequence[str], Sequence[str]]:
    """The questions for one side of a fact, and the noun phrases that describe it."""
    if side == "tail":
        return relation.ask_tail, relation.describe_tail or ()
    return relation.ask_head, relation.describe_head or ()


class _Maker:
    """Draws relation paths and topics, and words them."""

    def __init__(self, graph: KnowledgeGraph, options: OpenSynthesisOptions) -> None:
        self.graph, self.options = graph, options
        self.moves, self.wordings = Moves.of(graph), wordings(graph)
        self.rng = Random(options.seed)
        self.source = np.repeat(np.arange(len(graph)), np.diff(self.moves.ptr))
        self.is_nameable = np.array([not set("[]") & set(name) for name in graph.names], dtype=bool)

    def rows(self) -> list[dict[str, Any]]:
        paths = {hops: self._paths(hops) for hops in sorted(set(self.options.hops))}
        for hops, found in paths.items():
            if not found:
                raise UserError(f"the graph has no relation path of {hops} facts to ask about; leave {hops} out of --hops.")
        topics = {label: np.unique(self.source[self.moves.label == label]) for of in paths.values() for label in {p[0] for p in of}}
        made: dict[tuple[Path_, int], dict[str, Any]] = {}
        ends = [self.options.count * part // len(paths) for part in range(1, len(paths) + 1)]
        with bar("making questions", self.options.count) as advance:
            for (hops, of), end in zip(paths.items(), ends, strict=True):
                for _ in range(TRIES * max(1, end - len(made))):
                    if len(made) == end:
                        break
                    path = self.rng.choice(of)
                    topic = int(self.rng.choice(topics[path[0]]))
                    if (path, topic) in made or not self.is_nameable[topic]:
                        continue
                    answers = self._answers(path, topic)
                    if 1 <= len(answers) <= self.options.max_answers:
                        made[path, topic] = self._row(len(made) + 1, path, topic, answers)
                        advance(len(made))
                if len(made) < end:
                    number = sum(len(path) == hops for path, _ in made)
                    raise UserError(f"only {number:,} questions of {hops} facts were found; ask for fewer (--count).")
        rows = list(made.values())
        self.rng.shuffle(rows)
        return rows

    def _paths(self, hops: int) -> list[Path_]:
        """Relation paths of random walks from the ends of random facts."""
        found: dict[Path_, None] = {}
        for _ in range(TRIES * self.options.paths):
            here, labels = int(self.source[self.rng.randrange(len(self.source))]), []
            topic = here
            for hop in range(hops):
                move = self.rng.randrange(int(self.moves.ptr[here]), int(self.moves.ptr[here + 1]))
                label, here = int(self.moves.label[move]), int(self.moves.target[move])
                words = self.wordings[label].asks if hop == hops - 1 else self.wordings[label].describes
                if here == topic or not words:
                    break
                labels.append(label)
            if len(labels) == hops:
                found[tuple(labels)] = None
                if len(found) == self.options.paths:
                    break
        return list(found)

    def _answers(self, path: Path_, topic: int) -> list[int]:
        """All concepts that the path leads to; none if it passes through too many."""
        here = np.array([topic])
        for label in path:
            if not 1 <= len(here) <= MOST_BETWEEN:
                return []
            here = np.setdiff1d(follow(self.moves, WalkOptions(returns=True), here, [label]), [topic])
        return [int(concept) for concept in here]

    def _row(self, number: int, path: Path_, topic: int, answers: list[int]) -> dict[str, Any]:
        shown = [(self.wordings[label].relation.name, self.wordings[label].side) for label in path]
        return {
            "id": f"o{number}",
            "question": self._text(path, f"[{self.graph.name(topic)}]"),
            "answers": [self.graph.name(answer) for answer in answers],
            "made_from": {"path": [name if side == "tail" else f"{name} (backwards)" for name, side in shown]},
        }

    def _text(self, path: Path_, topic: str) -> str:
        *between, last = (self.wordings[label] for label in path)
        sentences, name = [], topic
        for number, word in enumerate(between):
            phrase = word.relation.description(name, word.side, self.rng.choice(word.describes))
            sentences.append(self.rng.choice(LEADS if number == 0 else NEXT).format(phrase))
            name = "it"
        sentences.append(last.relation.question(name, last.side, self.rng.choice(last.asks)))
        return " ".join(sentences).replace('"it"', "it")
