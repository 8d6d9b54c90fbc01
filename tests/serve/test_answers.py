"""Answers over HTTP equal those of the library."""

import json
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from http_server import Client, assert_close
from mhgrn.inference import QuestionAnswerer
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_questions
from mhgrn.serve.examples import EXAMPLES, RIGHT
from mhgrn.starter import HERE

DESK = "Where would a child sit at a desk?", ("schoolroom", "patio", "furniture store", "library", "bus")


def check_equal(client: Client, qa: QuestionAnswerer, questions: list[Question]) -> None:
    """One at a time, many at the same time, and together in one request."""
    expected = [json.loads(json.dumps(qa.answer(question).to_dict())) for question in questions]
    bodies = [{"question": question.stem, "choices": list(question.choices)} for question in questions]
    for body, answer in zip(bodies[:20], expected, strict=False):
        assert_close(client.send("POST", "/v1/ask", body).json(), answer)
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda body: client.send("POST", "/v1/ask", body), bodies))
    assert {reply.status for reply in replies} == {200}
    for reply, answer in zip(replies, expected, strict=True):
        assert_close(reply.json(), answer)
    for start in range(0, len(bodies), 40):
        together = client.send("POST", "/v1/ask_many", {"questions": bodies[start : start + 40]}).json()["answers"]
        assert_close(together, expected[start : start + 40])


def real_questions(count: int) -> list[Question]:
    return [question for name in ("test", "everyday") for question in list(read_questions(HERE / f"{name}.jsonl"))[: count // 2]]


def test_answers_equal_those_of_the_library(client: Client, served_qa: QuestionAnswerer) -> None:
    check_equal(client, served_qa, real_questions(16))


@pytest.mark.long
def test_answers_to_two_hundred_real_questions_equal_those_of_the_library(client: Client, served_qa: QuestionAnswerer) -> None:
    check_equal(client, served_qa, real_questions(200))


def test_every_option_reaches_the_model(client: Client, served_qa: QuestionAnswerer) -> None:
    plain = served_qa.ask(*DESK, by="attention")
    fact = list(plain.paths[0].facts[0])
    options: list[dict[str, Any]] = [
        {"facts": [["child", "AtLocation", "patio"], ["desk", "AtLocation", "patio"]]},
        {"without": [fact], "paths": 5},
        {"by": "attention", "paths": 2},
        {"graph": False, "effects": False},
        {"subgraph": True, "contrast": "library", "paths": 1},
    ]
    for option in options:
        got = client.ask(*DESK, **option).json()
        given = {name: [tuple(f) for f in value] if name in ("facts", "without") else value for name, value in option.items()}
        assert_close(got, json.loads(json.dumps(served_qa.ask(*DESK, **given).to_dict())))
    assert client.ask(*DESK, without=[fact]).json()["probabilities"][plain.choice] == pytest.approx(
        plain.paths[0].without[0] if plain.paths[0].without else None, abs=1e-5
    )
    assert client.ask(*DESK, graph=False).json()["probabilities"][plain.choice] == pytest.approx(plain.without_graph, abs=1e-5)


def test_the_examples_are_answered(client: Client) -> None:
    examples = client.get("/v1/examples").json()["examples"]
    assert [(one["question"], tuple(one["choices"])) for one in examples] == list(EXAMPLES)
    for example, right in zip(examples, RIGHT, strict=True):
        answer = client.ask(example["question"], example["choices"]).json()
        assert answer["choice"] == example["choices"][right]
        assert answer["paths"][0]["sentences"]


def test_concepts_are_completed(client: Client, served_qa: QuestionAnswerer) -> None:
    graph = served_qa.run.graph
    found = client.get("/v1/concepts?prefix=Furniture%20st&limit=5").json()["concepts"]
    assert found[0] == {"name": "furniture_store", "label": "furniture store", "facts": len(graph.facts_of("furniture_store"))}
    found = client.get("/v1/concepts?prefix=ch&limit=1000").json()["concepts"]
    assert {one["name"] for one in found} == {name for name in graph if name.startswith("ch")}
    assert [one["facts"] for one in found] == sorted((one["facts"] for one in found), reverse=True)
    assert client.get("/v1/concepts?prefix=%F0%9F%98%80").json() == {"concepts": []}
    assert len(client.get("/v1/concepts").json()["concepts"]) == 20


def test_a_concept_has_its_facts(client: Client, served_qa: QuestionAnswerer) -> None:
    found = client.get("/v1/concept/child?limit=3").json()
    facts = served_qa.run.graph.facts_of("child")
    assert found["total"] == len(facts)
    assert [tuple(one["fact"]) for one in found["facts"]] == facts[:3]
    assert "A child is found at a school." in [one["sentence"] for one in client.get("/v1/concept/child").json()["facts"]]
    assert client.get("/v1/concept/" + urllib.parse.quote("../../etc/passwd", safe="")).status == 404


def test_the_relations_and_the_model_are_described(client: Client, served_qa: QuestionAnswerer) -> None:
    relations = {one["name"]: one["sentence"] for one in client.get("/v1/relations").json()["relations"]}
    assert relations["AtLocation"] == "{head} is found in {tail}"
    assert list(relations) == [relation.name for relation in served_qa.run.graph.schema.relations]
    about = client.get("/v1/model").json()
    (model,) = about["models"]
    assert model["name"] == "starter"
    assert model["graph"]["facts"] == served_qa.run.graph.fact_count
    assert 0 < model["accuracy"]["dev_accuracy"] < 1
    assert about["limits"]["choices"] == 100
    assert str(served_qa.run.folder.parent) not in json.dumps(about)


def test_questions_without_choices_are_ranked(client: Client, served_qa: QuestionAnswerer) -> None:
    question = "Where would a child sit at a desk?"
    reply = client.send("POST", "/v1/ask", {"question": question, "n": 4})
    assert reply.status == 200
    found, expected = reply.json()["ranking"], served_qa.rank(question, n=4).to_dict()["ranking"]
    assert [one["concept"] for one in found["answers"]] == [one["concept"] for one in expected["answers"]]
    assert found["candidates"] == expected["candidates"]
    several = {"questions": [{"question": question, "n": 2}, {"question": "zzqx?"}]}
    many = client.send("POST", "/v1/ask_many", several).json()["answers"]
    assert len(many[0]["ranking"]["answers"]) == 2
    assert many[1]["error"]["field"] == "question"


@pytest.mark.parametrize(
    ("field", "value"),
    [("facts", [["a", "IsA", "b"]]), ("graph", False), ("subgraph", True), ("contrast", "sea"), ("coverage", 0.9)],
)
def test_options_of_choices_are_refused_without_choices(client: Client, field: str, value: object) -> None:
    reply = client.send("POST", "/v1/ask", {"question": "Where would a child sit at a desk?", field: value})
    assert reply.status == 422
    assert reply.json()["error"]["field"] == field
