"""The questions that the starter model is trained on.

The hand-written questions have wrong choices that were picked to mislead. A model that sees only those learns to distrust what is
similar and what is connected. So it also sees the same questions with ordinary wrong choices, the same without the graph's facts
about the answer, as for an answer that the graph does not know, questions that are made from the facts of the graph, some of
which ask for what does not fit, and written everyday questions with ordinary wrong choices, with and without the graph's
facts about the answer.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.questions.question import MOST_HIDDEN
from mhgrn.synthesis import SynthesisOptions, synthesize

Row = dict[str, Any]
LETTERS = "ABCDE"
EVERYDAY = "everyday-train.tsv"  # a question, its right answer and three wrong ones on each line
SYNTHESIZED = SynthesisOptions(count=8_000, distractors="random", hide=0.5, split=(1.0, 0.0, 0.0))
NEGATED = SynthesisOptions(count=7_000, choices=4, hops=(1,), distractors="random", hide=0.3, negated=1.0, split=(1.0, 0.0, 0.0))
ISOLATED = 3  # copies of the questions whose answer the graph does not know


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def answer_of(row: Row) -> str:
    """The text of the right choice."""
    return next(str(choice["text"]) for choice in row["question"]["choices"] if choice["label"] == row["answerKey"])


def with_ordinary_choices(rows: Sequence[Row], names: Sequence[str], seed: int, suffix: str) -> list[Row]:
    """The questions with wrong choices drawn at random.

    Args:
        rows: The questions.
        names: What the wrong choices are drawn from. A question's own choices and what its stem names are passed over.
        seed: Of the draw.
        suffix: Added to the ids of the questions.
    """
    random = Random(seed)
    made = []
    for row in rows:
        stem, right = row["question"]["stem"], answer_of(row)
        taken = {choice["text"] for choice in row["question"]["choices"]}
        choices = [right]
        while len(choices) < len(LETTERS):
            name = random.choice(names)
            if name not in taken and name not in stem.lower():
                taken.add(name)
                choices.append(name)
        random.shuffle(choices)
        made.append(_row(row["id"] + suffix, stem, right, choices))
    return made


def mixture(source: Path, graph: KnowledgeGraph, folder: Path) -> None:
    """Write the training and dev questions of the starter model.

    Args:
        source: The folder of the hand-written questions.
        graph: The starter graph.
        folder: The folder to write train.jsonl, dev.jsonl and test.jsonl to.
    """
    train, dev, test = (read_rows(source / f"{split}.jsonl") for split in ("train", "dev", "test"))
    names = sorted(set(map(answer_of, train)))
    rows = [*train, *with_ordinary_choices(train, names, 0, "-ordinary")]
    for copy in range(ISOLATED):
        unknown = with_ordinary_choices(train, names, 200 + copy, f"-unknown-{copy + 1}")
        rows += [row | {"hide": _facts_about(graph, answer_of(row))} for row in unknown]
    asked = {tuple(fact) for row in [*dev, *test] for fact in row["support"]}
    made = [*_synthesized(graph, folder, SYNTHESIZED), *_negated(graph, folder)]
    rows += [row for row in made if not any(_spaced(fact) in asked for fact in row["made_from"]["facts"])]
    everyday = everyday_questions(source, "model")
    rows += [*everyday, *(row | {"id": f"{row['id']}-unknown", "hide": _facts_about(graph, answer_of(row))} for row in everyday)]
    write_rows(folder / "train.jsonl", rows)
    write_rows(folder / "dev.jsonl", [*dev, *ordinary(dev, train, "dev")])
    write_rows(folder / "test.jsonl", test)


def ordinary(rows: Sequence[Row], train: Sequence[Row], split: str) -> list[Row]:
    """The questions of a split with ordinary wrong choices, drawn from all answers of it and of the training questions."""
    return with_ordinary_choices(rows, sorted(set(map(answer_of, [*rows, *train]))), {"dev": 99, "test": 98}[split], "-ordinary")


def everyday_questions(source: Path, use: Literal["text", "model"]) -> list[Row]:
    """A part of the everyday training questions, their choices shuffled: the text encoder and the model do not share questions.

    Args:
        source: The folder of the hand-written questions.
        use: What the questions train: three quarters the text encoder, which learns most from them, the others the model.
    """
    rows = []
    for number, line in enumerate((source / EVERYDAY).read_text(encoding="utf-8").splitlines()[1:], 1):
        if (number % 4 == 0) == (use == "model"):
            stem, right, *wrong = line.split("\t")
            choices = Random(number).sample([right, *wrong], 1 + len(wrong))
            rows.append(_row(f"everyday-train-{number}", stem, right, choices))
    return rows


def _row(name: str, stem: str, right: str, choices: Sequence[str]) -> Row:
    labeled = [{"label": letter, "text": text} for letter, text in zip(LETTERS, choices, strict=False)]
    return {"id": name, "answerKey": LETTERS[choices.index(right)], "question": {"stem": stem, "choices": labeled}}


def _facts_about(graph: KnowledgeGraph, name: str) -> list[list[str]]:
    concept = concept_name(name)
    return [list(fact) for fact in graph.facts_of(concept)[:MOST_HIDDEN]] if concept in graph else []


def _synthesized(graph: KnowledgeGraph, folder: Path, options: SynthesisOptions) -> list[Row]:
    synthesize(graph, folder / "synthesized", options)
    return read_rows(folder / "synthesized" / "train.jsonl")


def _negated(graph: KnowledgeGraph, folder: Path) -> list[Row]:
    rows = _synthesized(graph, folder, NEGATED)
    return [row | {"id": f"{row['id']}-negated"} for row in rows if row["made_from"]["kind"] == "negated"]


def _spaced(fact: Sequence[str]) -> tuple[str, str, str]:
    head, relation, tail = fact
    return head.replace("_", " "), relation, tail.replace("_", " ")
