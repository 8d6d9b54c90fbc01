"""Recall and benefit of evidence: BM25 against its formula, recall on planted evidence, and every method within its budget."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mhgrn
from mhgrn.errors import UserError
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import Fact, KnowledgeGraph
from mhgrn.starter import HERE
from mhgrn.usefulness import measure_usefulness, report
from mhgrn.usefulness.bm25 import BM25, K1, B, words
from mhgrn.usefulness.gold import read_gold
from mhgrn.usefulness.report import Interval
from mhgrn.usefulness.retrieval import METHODS, Retrieval
from tiny_decoder import letter_decoder

texts = st.lists(
    st.lists(st.sampled_from("sea fish tree child school the".split()), max_size=6).map(" ".join), min_size=1, max_size=9
)


def plain_bm25(corpus: list[str], query: str) -> list[float]:
    """The formula, word by word."""
    split = [words(text) for text in corpus]
    average = sum(map(len, split)) / len(split)
    scores = [0.0] * len(corpus)
    for word in words(query):
        df = sum(word in text for text in split)
        idf = math.log(1 + (len(split) - df + 0.5) / (df + 0.5))
        for i, text in enumerate(split):
            tf = text.count(word)
            if tf:
                scores[i] += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(text) / max(average, 1e-9)))
    return scores


@settings(max_examples=50, deadline=None)
@given(texts, texts)
def test_bm25_follows_its_formula(corpus: list[str], queries: list[str]) -> None:
    index = BM25(corpus)
    for query in queries:
        expected = plain_bm25(corpus, query)
        assert index.scores(query).tolist() == pytest.approx(expected, abs=1e-5)
        ranked = sorted((i for i in range(len(corpus)) if expected[i] > 1e-9), key=lambda i: (-round(index.scores(query)[i], 6), i))
        assert index.best(query, 3).tolist() == ranked[:3]


def test_an_interval_contains_the_mean_and_shrinks() -> None:
    rng = np.random.default_rng(0)
    few, many = (Interval.of((rng.random(size) < 0.3).astype(float).tolist()) for size in (50, 5000))
    for one in (few, many):
        assert one.low <= one.mean <= one.high
    assert many.high - many.low < (few.high - few.low) / 5
    assert many.low < 0.3 < many.high


@pytest.fixture(scope="module")
def qa() -> QuestionAnswerer:
    return mhgrn.load()


def test_every_method_keeps_the_budget_and_repeats_nothing(qa: QuestionAnswerer) -> None:
    gold = read_gold(HERE / "dev.jsonl", qa.run.graph, 2)
    retrieval = Retrieval(qa, 40)
    for number, one in enumerate(gold):
        for method in METHODS:
            facts = retrieval.facts(method, one.question, number)
            assert facts == retrieval.facts(method, one.question, number)
            assert all(qa.run.graph.holds(*fact) for fact in facts)
            assert len({frozenset((fact.head, fact.tail)) for fact in facts}) == len(facts)
            assert len(qa.run.encoder.tokenizer(retrieval.text(facts), add_special_tokens=False)["input_ids"]) <= 40


def test_supporting_facts_are_recalled_and_random_ones_are_not(qa: QuestionAnswerer) -> None:
    gold = read_gold(HERE / "dev.jsonl", qa.run.graph, 6)
    assert all(one.facts for one in gold)
    found = measure_usefulness(qa, gold, 100, methods=["evidence", "random facts"])
    assert set(found.recall) == {"facts"}
    assert found.recall["facts"]["evidence"].mean > 0.8
    assert found.recall["facts"]["random facts"].mean < 0.2
    assert "recall of supporting facts" in str(found)
    json.dumps(found.to_dict())


def test_gold_concepts_are_those_of_the_supporting_text(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts([("fish", "AtLocation", "sea"), ("sea", "MadeOf", "salt_water"), ("bird", "Likes", "tree")])
    row = {"question": "Where does a fish live?", "choices": ["sea", "tree"], "answer": "sea", "fact1": "Fish live in salt water"}
    (tmp_path / "gold.jsonl").write_text(json.dumps(row) + "\n\n" + json.dumps({**row, "fact1": None}) + "\n")
    one, none = read_gold(tmp_path / "gold.jsonl", graph)
    assert one.concepts == {"fish", "salt_water"}
    assert one.new_concepts == {"salt_water"}
    assert none.concepts == none.facts == frozenset()
    row["support"] = [["Fish", "AtLocation", "Sea"], ["fish", "IsA", "animal"]]
    (tmp_path / "gold.jsonl").write_text(json.dumps(row))
    assert read_gold(tmp_path / "gold.jsonl", graph)[0].facts == {Fact("fish", "AtLocation", "sea")}


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts([("fish", "AtLocation", "sea")])
    path = tmp_path / "gold.jsonl"
    with pytest.raises(UserError, match="not a file"):
        read_gold(path, graph)
    for content, says in (("", "no questions"), ("[]", ":1: not a JSON object"), ("{", ":1: not a JSON object"), ("{}", ":1: ")):
        path.write_text(content)
        with pytest.raises(UserError, match=says):
            read_gold(path, graph)
    path.write_text(json.dumps({"question": "Where?", "choices": ["sea", "tree"], "support": ["x"]}))
    with pytest.raises(UserError, match="list of"):
        read_gold(path, graph)


def test_a_language_model_is_measured_on_the_same_questions(qa: QuestionAnswerer, tmp_path: Path) -> None:
    folder = letter_decoder(tmp_path / "decoder")
    gold = read_gold(HERE / "dev.jsonl", qa.run.graph, 3)
    found = measure_usefulness(qa, gold, 30, str(folder), methods=["evidence"])
    assert list(found.accuracy) == ["nothing", "evidence", "bm25", "random facts"]
    assert all(interval.questions == 3 for interval in found.accuracy.values())
    for name, change in found.change.items():
        assert change.mean == pytest.approx(found.accuracy["evidence"].mean - found.accuracy[name].mean)
    assert "change in points" in str(found)


def test_an_interrupted_measurement_resumes(qa: QuestionAnswerer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the result of one without interruption, and computes nothing twice."""
    folder, file = letter_decoder(tmp_path / "decoder"), tmp_path / "result.json.partial"
    gold = read_gold(HERE / "dev.jsonl", qa.run.graph, 3)
    choose, score = Retrieval.facts, report.choice_likelihoods
    counts = {"facts": 0, "scores": 0}
    stop = {"facts": 4, "scores": 5}

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if counts[name] == stop[name]:
                stop[name] = -1
                raise KeyboardInterrupt
            counts[name] += 1
            return function(*arguments)

        return call

    def measure(progress_file: Path | None) -> dict[str, Any]:
        return measure_usefulness(qa, gold, 30, str(folder), methods=["evidence"], progress_file=progress_file).to_dict()

    expected = measure(None)
    monkeypatch.setattr(Retrieval, "facts", counted("facts", choose))
    monkeypatch.setattr(report, "choice_likelihoods", counted("scores", score))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            measure(file)
        assert file.is_file()
    assert measure(file) == expected
    assert not file.exists()
    assert counts["facts"] <= 3 * 3 + 2  # of three ways to choose; at most those of the interrupted question again
    assert counts["scores"] <= 3 * 4 + 3
