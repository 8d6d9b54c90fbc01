"""Facts of a book for each question, by the words they share."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import lemmatize
from mhgrn.io.atomic import write_text
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_json
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.question import Question, find_splits

FACTS = 3


class Book:
    """Facts that can be looked up by text: cosine similarity of lemmas, each weighted by how rare it is among the facts.

    >>> Book(["bees make honey", "the sun is a star", "bees fly"]).nearest("who makes honey?", 1)
    ['bees make honey']
    """

    def __init__(self, facts: Sequence[str]) -> None:
        self.facts = list(facts)
        words = [Counter(lemmatize(fact)) for fact in self.facts]
        occurs = Counter(word for counts in words for word in counts)
        self._rarity = {word: math.log((1 + len(self.facts)) / (1 + n)) + 1 for word, n in occurs.items()}
        self._facts_with: dict[str, list[tuple[int, float]]] = {}
        for number, counts in enumerate(words):
            for word, weight in self._vector(counts).items():
                self._facts_with.setdefault(word, []).append((number, weight))

    def nearest(self, text: str, count: int) -> list[str]:
        """The facts most similar to a text, best first, of equals the first; those without a common word are left out."""
        similarity: dict[int, float] = {}
        for word, weight in self._vector(Counter(lemmatize(text))).items():
            for number, other in self._facts_with[word]:
                similarity[number] = similarity.get(number, 0.0) + weight * other
        best = sorted(similarity, key=lambda number: (-similarity[number], number))
        return [self.facts[number] for number in best[:count]]

    def _vector(self, counts: Counter[str]) -> dict[str, float]:
        weights = {word: n * self._rarity[word] for word, n in sorted(counts.items()) if word in self._rarity}
        length = math.sqrt(math.fsum(w * w for w in weights.values()))
        return {word: weight / length for word, weight in weights.items()}


def read_book(path: Path) -> list[str]:
    """The facts of a file, one a line; OpenBookQA's are in quotation marks."""
    facts = [line.strip().strip('"').strip() for line in path.read_text(encoding="utf-8").splitlines()]
    facts = [fact for fact in facts if fact]
    if not facts:
        raise UserError(f"{path} holds no fact.")
    return facts


def retrieve_into(folder: Path, dataset: Dataset, book: Path, count: int = FACTS) -> None:
    """Write a data set's questions anew, each with the nearest facts before its stem; the gold facts are not looked at."""
    facts = Book(read_book(book))
    with new_folder(folder, "retrieved.json") as partial:
        for split, questions in find_splits(dataset).items():
            rows = [json.dumps(_row(question, facts, count), ensure_ascii=False) for question in questions]
            write_text(partial / f"{split}.jsonl", "".join(row + "\n" for row in rows))
        write_json(
            partial / "retrieved.json", {"format": 1, "facts": count, "by": "cosine similarity of lemmas, weighted by rarity"}
        )


def _row(question: Question, facts: Book, count: int) -> dict[str, object]:
    found = facts.nearest(" ".join([question.stem, *question.choices]), count)
    stem = " ".join([*(_sentence(fact) for fact in found), question.stem])
    labels = [question.label(choice) for choice in range(len(question.choices))]
    choices = [{"label": label, "text": text} for label, text in zip(labels, question.choices, strict=True)]
    row: dict[str, object] = {"id": question.id, "question": {"stem": stem, "choices": choices}}
    return row if question.answer is None else row | {"answerKey": labels[question.answer]}


def _sentence(fact: str) -> str:
    return fact if fact.endswith((".", "!", "?")) else fact + "."
