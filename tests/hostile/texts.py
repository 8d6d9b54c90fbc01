"""Texts of a million characters wherever a user's text is read: each is answered, or refused by a limit that the message states.

    python tests/hostile/texts.py

To attack with another text or at another place, add it to ``TEXTS`` or ``PLACES``.
"""

import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from forking import hush_compiler
from hostile.folders import Folders, comparable
from hostile.judging import judge
from mhgrn.grounding.grounder import Grounder
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.kg.paths import find_paths
from mhgrn.questions.reading import questions_from, read_questions
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PrepareOptions, prepare

SIZE = 1_000_000  # characters

TEXTS: dict[str, Callable[[int], str]] = {
    "one word": lambda n: "a" * n,
    "one word of the alphabet": lambda n: ("abcdefghijklmnopqrstuvwxyz" * (n // 26 + 1))[:n],
    "words": lambda n: "desk child sea " * (n // 15),
    "one concept": lambda n: "furniture store " * (n // 16),
    "different words": lambda n: " ".join(f"w{number}" for number in range(n // 8)),
    "misspelt words": lambda n: "chiild deesk shcool " * (n // 20),
    "spaces": lambda n: "a" + " " * n,
    "underscores": lambda n: "_" * n,
    "hyphens": lambda n: "a-" * (n // 2),
    "apostrophes": lambda n: "a'" * (n // 2),
    "digits": lambda n: "7" * n,
    "question marks": lambda n: "?" * n,
    "blanks to fill": lambda n: "_ ___ " * (n // 6),
    "accents on one letter": lambda n: "e" + "\u0301" * n,
    "capital dotted I": lambda n: "İ" * n,
    "Chinese": lambda n: "學校" * (n // 2),
    "emoji": lambda n: "👩‍👩‍👧 " * (n // 6),
    "controls": lambda n: "\x1b[2J\x07\x00\u202e" * (n // 7),
    "lines": lambda n: "where?\n" * (n // 7),
    "brackets": lambda n: "(" * n,
    "quotes": lambda n: '"' * n,
    "lone surrogates": lambda n: "\ud800 " * (n // 2),
}


class World(NamedTuple):
    """What the places use."""

    folders: Folders
    graph: KnowledgeGraph
    answerer: QuestionAnswerer
    place: Path


def _ask(world: World, question: str, choices: list[str], **options: Any) -> Any:
    answer = world.answerer.ask(question, choices, **options)
    return comparable(answer.probabilities and list(answer.probabilities.values()))


def _write(world: World, name: str, text: str) -> Path:
    path = world.place / name
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return path


def _prepare(world: World, text: str) -> Any:
    rows = [{"question": text, "choices": ["sea", "school"]}, {"question": "Where is a child?", "choices": ["school", text]}]
    path = _write(world, "questions.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return len(prepare(path, world.graph, world.place / "prepared", PrepareOptions(workers=1)).questions)


def _build(world: World, name: str, text: str) -> Any:
    graph, report = build([_write(world, name, text)])
    return [graph.fact_count, report.rows]


PLACES: dict[str, Callable[[World, str], Any]] = {
    "question": lambda world, text: _ask(world, text, ["sea", "school"]),
    "question after a good one": lambda world, text: _ask(world, "Where is a child? " + text, ["sea", "school"]),
    "choice": lambda world, text: _ask(world, "Where is a child?", ["school", text]),
    "all choices": lambda world, text: _ask(world, "Where is a child?", [f"{text}{i}" for i in range(4)], effects=False),
    "added fact": lambda world, text: _ask(world, "Where?", ["sea", "school"], facts=[(text, "IsA", "sea")]),
    "relation of an added fact": lambda world, text: _ask(world, "Where?", ["sea", "school"], facts=[("sea", text, "sea")]),
    "grounding": lambda world, text: len(Grounder(world.graph).mentioned([text], [text], [1]).mentions()),
    "unknown concept": lambda world, text: world.graph.id(text),
    "path": lambda world, text: find_paths(world.graph, "sea", text).to_dict(),
    "prepare": _prepare,
    "questions in memory": lambda world, text: len(list(questions_from([{"question": text, "choices": [text, "b"]}]))),
    "one line of questions": lambda world, text: len(list(read_questions(_write(world, "questions.jsonl", text)))),
    "facts in memory": lambda world, text: KnowledgeGraph.from_facts([(text, text, "b"), ("a", "b", text)]).fact_count,
    "a table": lambda world, text: _build(world, "facts.tsv", f"a\tr\tb\n{text}\tr\tb\na\t{text}\tb\na\tr\t{text}\n"),
    "a whole table": lambda world, text: _build(world, "facts.tsv", text),
    "a whole table of CSV": lambda world, text: _build(world, "facts.csv", text),
}


class Outcome(NamedTuple):
    place: str
    text: str
    verdict: str
    detail: str

    @property
    def is_right(self) -> bool:
        return self.verdict in ("done", "refused")


def attack_all(root: Path, every: int = 1) -> Iterator[Outcome]:
    """Put every text at every place; or only each ``every``-th of these pairs."""
    torch.set_num_threads(1)
    hush_compiler()
    root.mkdir(exist_ok=True)
    folders = Folders.make(root)
    world = World(folders, KnowledgeGraph.load(folders.graph), QuestionAnswerer(Run.load(folders.run)), root / "files")
    world.place.mkdir()
    for use in PLACES.values():  # loads modules and kernels, which forked processes inherit
        with suppress(ValueError):
            use(world, "sea")
    for place, label in list(itertools.product(PLACES, TEXTS))[::every]:
        text = TEXTS[label](SIZE)
        judged = judge(lambda place=place, text=text: PLACES[place](world, text))  # type: ignore[misc]
        yield Outcome(place, label, judged.verdict, judged.detail)
        shutil.rmtree(world.place)
        world.place.mkdir()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcomes = []
        for outcome in attack_all(Path(folder) / "attacks"):
            outcomes.append(outcome)
            print(f"{outcome.place}, {outcome.text}: {outcome.verdict}: {outcome.detail[:150]}", flush=True)
    wrong = sum(not outcome.is_right for outcome in outcomes)
    print(f"{len(outcomes)} attacks, {wrong} failures")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
