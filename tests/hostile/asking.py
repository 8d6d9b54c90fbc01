"""Many different questions about the small graph, and the answers of many threads to them."""

import gc
import itertools
import random
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from forking import hush_compiler
from hostile.folders import Folders, comparable
from mhgrn.grounding import grounder
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import Run

Asked = tuple[str, list[str], dict[str, Any]]


def questions(graph: KnowledgeGraph, count: int) -> list[Asked]:
    """Different questions: with and without effects, attention, added facts and misspelt words."""
    dice = random.Random(0)
    names = [name.replace("_", " ") for name in graph.names]
    asked: list[Asked] = []
    for number in range(count):
        about = dice.sample(names, dice.randint(1, 3))
        words = [word[0] + word if dice.random() < 0.2 else word for word in about]
        options: dict[str, Any] = {"effects": number % 2 == 0, "paths": dice.randint(1, 4), "attention": number % 5 == 0}
        if number % 3 == 0:
            options["facts"] = [(f"thing {number % 7}", "IsA", dice.choice(names)), (dice.choice(names), "AtLocation", "moon")]
            words.append(f"thing {number % 7}")
        choices = dice.sample([*names, "moon", "nowhere to be found"], dice.randint(2, 5))
        asked.append((f"Question {number}: where would a {' and a '.join(words)} be?", choices, options))
    return asked


def answer(answerer: QuestionAnswerer, asked: Asked) -> Any:
    question, choices, options = asked
    return comparable(answerer.ask(question, choices, **options).to_dict())


def threads_agree(root: Path, count: int, threads: int = 16) -> Iterator[str]:
    """Compare the answers of many threads with those of one; yields a line for every difference.

    Threads ask an answerer that has answered before, then a new one. A last serial pass shows whether they left damage behind.
    """
    torch.set_num_threads(1)
    hush_compiler()
    root.mkdir(exist_ok=True)
    folders = Folders.make(root)
    answerer = QuestionAnswerer(Run.load(folders.run))
    asked = questions(answerer.run.graph, count)
    expected = [answer(answerer, one) for one in asked]
    sys.setswitchinterval(1e-5)
    for label, of_threads in (("warm", answerer), ("cold", QuestionAnswerer(Run.load(folders.run)))):

        def work(thread: int, of_threads: QuestionAnswerer = of_threads) -> list[tuple[int, Any]]:
            order = random.Random(thread).sample(range(count), count)
            return [(number, answer(of_threads, asked[number])) for number in order]

        with ThreadPoolExecutor(threads) as pool:
            results = list(itertools.chain(*pool.map(work, range(threads))))
        assert len(results) == threads * count
        yield from (f"{label}: {asked[number]}" for number, found in results if found != expected[number])
        afterwards = [answer(of_threads, one) for one in asked]
        yield from (f"{label}, afterwards: {asked[n]}" for n in range(count) if afterwards[n] != expected[n])


def memory_of_asks(root: Path, count: int, size: int, cached: int = grounder.CACHED) -> tuple[int, int]:
    """The memory of this process, in bytes, after the first half of ``count`` random long questions and after all of them.

    Args:
        root: a folder to work in.
        count: number of questions.
        size: characters of a choice, at most; a question has ten times as many.
        cached: bytes that the grounder may cache. With few, a short test sees what is kept elsewhere.
    """
    grounder.CACHED = cached
    torch.set_num_threads(1)
    hush_compiler()
    root.mkdir(exist_ok=True)
    answerer = QuestionAnswerer(Run.load(Folders.make(root).run))
    dice = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz '-?é"
    memory = []
    for number in range(count):
        pieces = ("".join(dice.choices(letters, k=100)) for _ in range(4))
        texts = [piece * (dice.randint(1, size if i else 10 * size) // 100) for i, piece in enumerate(pieces)]
        question, *choices = (f"{text} {number} {i}" for i, text in enumerate(texts))
        facts = [(f"{texts[0][:20]} {number}", "IsA", "animal")] if number % 4 == 0 else ()
        answerer.ask(question, choices, facts, effects=number % 8 == 0)
        if number == count // 2 or number == count - 1:
            gc.collect()
            memory.append(int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize())
    return memory[0], memory[1]
