"""Retrieved facts are the most similar ones, and independent of the gold fact."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import lemmatize
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.reading import read_splits
from mhgrn_reproduction.retrieval import Book, read_book, retrieve_into

texts = st.lists(st.sampled_from("bee honey sun star bird fly water ice rock".split()), min_size=1, max_size=5).map(" ".join)


@given(st.lists(texts, min_size=1, max_size=8), texts)
def test_the_nearest_facts_have_the_largest_cosine(facts: list[str], text: str) -> None:
    occurs = Counter(word for fact in facts for word in set(lemmatize(fact)))

    def vector(of: str) -> dict[str, float]:
        counts = Counter(word for word in lemmatize(of) if word in occurs)
        return {word: n * (math.log((1 + len(facts)) / (1 + occurs[word])) + 1) for word, n in counts.items()}

    def cosine(a: dict[str, float], b: dict[str, float]) -> float:
        length = math.sqrt(sum(x * x for x in a.values()) * sum(x * x for x in b.values()))
        return sum(x * b.get(word, 0) for word, x in a.items()) / length if length else 0.0

    similar = {fact: cosine(vector(text), vector(fact)) for fact in facts}
    found = Book(facts).nearest(text, 3)
    assert len(found) == min(3, sum(similar[fact] > 0 for fact in facts))
    assert all(
        math.isclose(similar[f], best) for f, best in zip(found, sorted(map(similar.get, facts), reverse=True), strict=False)
    )


def test_facts_precede_the_stem_and_nothing_else_changes(tmp_path: Path) -> None:
    row = {
        "id": "1",
        "question": {"stem": "Who makes honey", "choices": [{"text": "a bee", "label": "A"}, {"text": "ice", "label": "B"}]},
    }
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row | {"answerKey": "A", "fact1": "gold"}) + "\n", encoding="utf-8")
    (tmp_path / "openbook.txt").write_text('"the sun is a star"\n"a bee makes honey"\n', encoding="utf-8")
    declared = Dataset.find(tmp_path)
    retrieve_into(tmp_path / "out", declared, tmp_path / "openbook.txt", 1)
    (question,) = read_splits(tmp_path / "out")["dev"]
    assert (question.stem, question.choices, question.answer) == ("a bee makes honey. Who makes honey", ("a bee", "ice"), 0)


def test_an_empty_book_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text('\n""\n', encoding="utf-8")
    with pytest.raises(UserError, match="holds no fact"):
        read_book(tmp_path / "book.txt")


def test_gold_facts_of_the_real_book_are_found(shared_data: Path) -> None:
    book = Book(read_book(shared_data / "obqa" / "openbook.txt"))
    lines = (shared_data / "obqa" / "dev_complete.jsonl").read_text(encoding="utf-8").splitlines()[:60]
    hits = 0
    for row in map(json.loads, lines):
        text = " ".join([row["question"]["stem"], *(choice["text"] for choice in row["question"]["choices"])])
        hits += row["fact1"].strip().lower() in [fact.lower() for fact in book.nearest(text, 3)]
    assert hits > 10
