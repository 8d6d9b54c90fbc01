"""Questions without choices from files to answers, by the commands that users type."""

import json

import pytest
from typer.testing import CliRunner

import mhgrn
from mhgrn.cli import build_app
from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.data import OpenData, prepare_open
from mhgrn.open.topics import TopicFinder
from mhgrn.questions.open import OpenQuestion, has_no_choices


@pytest.fixture(scope="module")
def place(films):
    return films


def run(*words):
    arguments = [str(word) for word in words]
    found = CliRunner().invoke(build_app(print), arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture(scope="module")
def trained(place):
    made = run("prepare", place / "data.yaml", "--kg", place / "graph", "-o", place / "prepared")
    assert "48 train" in made or "train" in made
    options = [
        "task=open",
        "open.hops=2",
        "training.epochs=40",
        "training.patience=40",
        "training.learning_rate=0.01",
        "open.dropout=0",
    ]
    run("train", "--data", place / "prepared", "-o", place / "run", *(word for option in options for word in ("--set", option)))
    return place / "run"


def test_a_model_learns_the_relation_path_of_each_pattern(trained):
    found = json.loads(run("eval", trained, "--json"))
    assert found["hits_at_1"] == 1.0
    assert found["mrr"] == 1.0
    assert found["set_f1"] > 0.95


def test_ask_shows_answers_with_facts(trained, place):
    graph = KnowledgeGraph.load(place / "graph")
    text = run("ask", trained, "who directed the films of [Actor 3]", "-n", "3")
    assert "because actor 3 ←stars— film" in text
    answer = json.loads(run("ask", trained, "who directed the films of [Actor 3]", "--json"))
    right = {
        f.tail for film in [x.head for x in graph.facts_of("actor 3")] for f in graph.facts_of(film) if f.relation == "directed_by"
    }
    assert answer["choice"] in right
    assert set(answer["ranking"]["set"]) == right
    assert answer["ranking"]["shared_path"].startswith("stars (backwards), then directed by")


def test_a_topic_is_found_without_brackets(trained):
    qa = mhgrn.load(trained)
    one, other = qa.ask("who directed [Film 3]", n=2), qa.ask("who directed Film 3?", n=2)
    assert one.choice == other.choice
    assert next(name for name, _, _ in one.ranking) == one.choice
    assert one.probabilities[one.choice] > 0.9


def test_an_unknown_topic_is_an_error_that_names_it(trained):
    qa = mhgrn.load(trained)
    with pytest.raises(UserError, match="'Flim 3' is not a concept"):
        qa.ask("who directed [Flim 3]")
    with pytest.raises(UserError, match="names no concept"):
        qa.ask("who is it")
    with pytest.raises(UserError, match="without choices"):
        qa.ask("who directed [Film 3]", ["a", "b"])
    answers = list(qa.ask_many([{"question": "who directed [Flim 3]"}]))
    assert answers[0].ranking == []


def test_predict_writes_rankings(trained, place):
    run("predict", trained, place / "train.txt", "--dataset", "metaqa", "-o", place / "out.jsonl")
    rows = [json.loads(line) for line in (place / "out.jsonl").read_text().splitlines()]
    assert all(row["right"] for row in rows)
    assert rows[0]["ranking"]["answers"][0]["paths"]


def test_a_run_trained_on_choices_proposes_candidates():
    answer = mhgrn.load().ask("Where would a child sit at a desk?")
    assert len(answer.ranking) == 10
    assert "trained on choices" in answer.notes[0]
    assert any(name == "classroom" for name, _, _ in answer.ranking)


def test_choices_are_dropped_and_unknown_answers_are_counted(tmp_path):
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school")])
    graph.save(tmp_path / "graph")
    rows = [{"question": "Where is a child?", "choices": ["school", "moon"], "answer": "school"}]
    assert not has_no_choices(rows)
    data = prepare_open(rows, graph, tmp_path / "one")
    assert [graph.name(c) for c in data.topics[0]] == ["child"]
    assert [graph.name(c) for c in data.answers[0]] == ["school"]
    other = prepare_open([OpenQuestion("1", "Where is a child?", ("mars",))], graph, tmp_path / "two")
    assert other.about["report"]["without answer in the graph"] == 1
    assert len(OpenData.load(tmp_path / "two")) == 1


def test_the_longest_name_is_the_topic():
    graph = KnowledgeGraph.from_facts([("some_mother's_son", "r", "son"), ("film", "r", "director")])
    found = TopicFinder(graph, marks=True).find("who acted in the film Some Mother's Son?")
    assert [graph.name(c) for c in found.concepts] == ["some_mother's_son"]
    assert found.text == "who acted in the film it?"
