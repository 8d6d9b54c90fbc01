"""Open questions made from relation paths: their answers are the enumeration of the path, and a model learns it."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from mhgrn.cli import build_app
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.data import prepare_open
from mhgrn.open.evaluation import evaluate_open
from mhgrn.open.synthesis import synthesize_open, wordings
from mhgrn.open.topics import marked_names
from mhgrn.training.open import train_open


def small_graph(seed=0, things=40):
    rng = np.random.default_rng(seed)
    facts = {(f"t{rng.integers(things)}", name, f"t{rng.integers(things)}") for name in ("owns", "eats", "sees") for _ in range(60)}
    return KnowledgeGraph.from_facts(sorted(facts))


def rows_of(folder: Path):
    return {file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in sorted(folder.glob("*.jsonl"))}


def enumerated(facts, topic, path):
    """All ends of walks along a relation path that do not come back to the topic."""
    here = {topic}
    for step in path:
        name, backwards = step.removesuffix(" (backwards)"), step.endswith(" (backwards)")
        pairs = [(tail, head) if backwards else (head, tail) for head, relation, tail in facts if relation == name]
        here = {end for start, end in pairs if start in here and end != topic}
    return here


def test_answers_are_the_enumeration_of_the_relation_path(tmp_path):
    graph = small_graph()
    about = synthesize_open(graph, tmp_path / "made", count=300, paths=20, split=(0.8, 0.1, 0.1)).about
    rows, facts = rows_of(tmp_path / "made"), list(graph.facts())
    assert (
        about["splits"]
        == {"train": 240, "dev": 30, "test": 30}
        == {name: len(of) for name, of in rows.items() if name in about["splits"]}
    )
    assert about["hops"] == {1: 100, 2: 100, 3: 100}
    every = [row for of in rows.values() for row in of]
    for row in every:
        (topic,) = marked_names(row["question"])
        assert set(row["answers"]) == enumerated(facts, topic, row["made_from"]["path"]) != set()
        assert len(row["answers"]) <= 50
    assert len({(marked_names(row["question"])[0], *row["made_from"]["path"]) for row in every}) == 300  # none is asked twice
    paths = {tuple(row["made_from"]["path"]) for row in rows["train"]}
    assert {tuple(row["made_from"]["path"]) for row in rows["test"]} <= paths


def test_a_seed_gives_the_same_questions(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        synthesize_open(small_graph(), tmp_path / name, count=60, seed=seed)
    a, b, c = (rows_of(tmp_path / name) for name in "abc")
    assert a == b != c


def test_a_wording_names_one_relation_and_direction(starter_graph):
    found = wordings(starter_graph)
    texts = {}
    for label, word in enumerate(found):
        for pick in word.asks:
            texts.setdefault(word.relation.question("it", word.side, pick), set()).add(label)
    count = len(starter_graph.schema)
    assert len(texts) > 2 * count
    assert all(len({label % count for label in labels}) == 1 for labels in texts.values())


def test_a_trained_model_equals_the_enumeration(tmp_path):
    graph = small_graph()
    graph.save(tmp_path / "graph")
    synthesize_open(graph, tmp_path / "made", count=480, paths=6, split=(0.8, 0.1, 0.1))
    data = prepare_open(tmp_path / "made", tmp_path / "graph", tmp_path / "prepared")
    training = {"epochs": 40, "patience": 15, "learning_rate": 0.01, "threads": 1}
    config = Config.of({"task": "open", "open": {"hops": 3, "dropout": 0.0}, "training": training})
    found = evaluate_open(train_open(data, config, tmp_path / "run"), data, "test", "")
    assert found["hits_at_1"] >= 0.99
    assert found["set_exact"] >= 0.9


def test_impossible_wishes_are_refused(tmp_path):
    graph = KnowledgeGraph.from_facts([("a", "owns", "b")])
    with pytest.raises(UserError, match=r"no relation path of 2 facts"):
        synthesize_open(graph, tmp_path / "made", count=1, hops=[2])
    with pytest.raises(UserError, match=r"only 2 questions of 1 facts were found"):
        synthesize_open(graph, tmp_path / "made", count=9, hops=[1])
    for change in ({"hops": [4]}, {"hops": []}, {"split": (1, 1, 1)}, {"count": 0}):
        with pytest.raises(UserError, match=f"{next(iter(change))} is"):
            synthesize_open(graph, tmp_path / "made", **change)
    assert not (tmp_path / "made").exists()


def test_the_command_says_what_it_made(tmp_path):
    small_graph().save(tmp_path / "graph")
    words = ["synthesize-open", str(tmp_path / "graph"), "-o", str(tmp_path / "made"), "--count", "100", "--hops", "1,2", "--json"]
    found = CliRunner().invoke(build_app(print), words)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["hops"] == {"1": 50, "2": 50}
