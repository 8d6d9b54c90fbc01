"""Retrieve facts of a book for each question, by tf-idf."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import lemmatize
from mhgrn.io.atomic import write_text
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_json
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_splits

FACTS = 3


class Book:
    """Facts that are looked up by text: cosine similarity of tf-idf vectors of lemmas.

    >>> Book(["bees make honey", "the sun is a star", "bees fly"]).nearest("who makes honey?", 1)
    ['bees make honey']
    """

    def __init__(self, facts: Sequence[str]) -> None:
        self.facts = list(facts)
        self._tfidf = TfidfVectorizer(analyzer=lemmatize, norm=None)
        self._vectors = _unit_rows(self._tfidf.fit_transform(self.facts)).T  # [words, facts]

    def nearest(self, text: str, count: int) -> list[str]:
        """Return the ``count`` facts most similar to ``text``, best first, ties in the book's order; all share a word with it."""
        similarity = (_unit_rows(self._tfidf.transform([text])) @ self._vectors).toarray()[0]  # [facts]
        best = np.argsort(-similarity, kind="stable")[:count]
        return [self.facts[number] for number in best if similarity[number] > 0]


def _unit_rows(matrix: Any) -> Any:
    """Divide each row by its length. Exact sums keep the order of near ties, which the published results rely on."""
    for start, end in pairwise(matrix.indptr):
        matrix.data[start:end] /= math.sqrt(math.fsum(weight * weight for weight in matrix.data[start:end].tolist())) or 1.0
    return matrix


def read_book(path: Path) -> list[str]:
    """Read the facts of a file, one per line. OpenBookQA puts them in quotation marks."""
    facts = [line.strip().strip('"').strip() for line in path.read_text(encoding="utf-8").splitlines()]
    facts = [fact for fact in facts if fact]
    if not facts:
        raise UserError(f"{path} holds no fact.")
    return facts


def retrieve_into(folder: Path, dataset: Dataset, book: Path, count: int = FACTS) -> None:
    """Copy a dataset's questions into ``folder``, each with the most similar facts before its stem. Gold facts are not used.

    Args:
        folder: the folder to write.
        dataset: the questions.
        book: a file of facts, one per line.
        count: the number of facts before each question.
    """
    facts = Book(read_book(book))
    with new_folder(folder, "retrieved.json") as partial:
        for split, questions in read_splits(dataset).items():
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
