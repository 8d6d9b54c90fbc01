"""A run of open questions over HTTP: rankings equal those of the library, and options that do not fit are refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from http_server import Client, running
from mhgrn.inference.open import OpenAnswerer
from mhgrn.serve.models import ServedModel, load_models
from serve.test_answers import assert_close

ASKED = "who directed the films of [Actor 3]"


@pytest.fixture(scope="module")
def model(film_run: Path) -> ServedModel:
    return load_models([film_run])["film-run"]


@pytest.fixture(scope="module")
def open_client(model: ServedModel) -> Iterator[Client]:
    with running(lambda: {"films": model}) as (found, _):
        yield found


def post(client: Client, **body: Any) -> Any:
    return client.send("POST", "/v1/ask", {"question": ASKED} | body)


def test_rankings_equal_those_of_the_library(open_client: Client, model: ServedModel) -> None:
    qa = model.qa
    assert isinstance(qa, OpenAnswerer)
    fact = list(qa.ask(ASKED).ranking[0].paths[0].facts[0])  # type: ignore[index]
    for options in (
        {"n": 3, "paths": 2},
        {"subgraph": True, "paths": 1},
        {"without": [fact], "effects": False},
        {"facts": [["New Film", "stars", "Actor 3"], ["New Film", "directed_by", "Somebody"]]},
        {"abstain_below": 0.5},
    ):
        reply = post(open_client, **options)
        assert reply.status == 200
        given = {name: [tuple(f) for f in value] if name in ("facts", "without") else value for name, value in options.items()}
        expected = qa.ask(ASKED, **({"paths": 3} | given))  # type: ignore[arg-type]
        assert_close(reply.json(), json.loads(json.dumps(expected.to_dict())))
    assert post(open_client, n=2).json()["evidence"]["necessary"]


def test_several_questions_at_once(open_client: Client) -> None:
    body = {"questions": [{"question": ASKED, "n": 1}, {"question": "who directed [Flim 1]"}, {"question": "who is it?"}]}
    answers = open_client.send("POST", "/v1/ask_many", body).json()["answers"]
    assert len(answers[0]["ranking"]["answers"]) == 1
    assert "'Flim 1' is not a concept" in answers[1]["error"]["message"]
    assert "names no concept" in answers[2]["error"]["message"]
    assert all(one["error"]["field"] == "question" for one in answers[1:])


@pytest.mark.parametrize(
    ("option", "value"),
    [("choices", ["a", "b"]), ("graph", False), ("contrast", "a"), ("coverage", 0.9), ("without", [["a", "stars", "b"]])],
)
def test_what_does_not_fit_is_refused_at_its_field(open_client: Client, film_run: Path, option: str, value: Any) -> None:
    reply = post(open_client, **{option: value})
    assert reply.status == 422
    assert reply.json()["error"]["field"] == option
    assert str(film_run.parent) not in reply.json()["error"]["message"]


def test_errors_name_no_folder(open_client: Client, film_run: Path) -> None:
    message = open_client.send("POST", "/v1/ask", {"question": "who directed [Nobody]"}).json()["error"]["message"]
    assert str(film_run.parent) not in message


def test_the_model_its_graph_and_examples_are_described(open_client: Client, film_run: Path) -> None:
    (about,) = open_client.get("/v1/model").json()["models"]
    assert about["task"] == "open"
    assert about["accuracy"]["dev_accuracy"] == 1.0
    assert str(film_run.parent) not in json.dumps(about)
    examples = open_client.get("/v1/examples").json()["examples"]
    assert examples
    assert all(one["choices"] == [] and "[" in one["question"] for one in examples)
    assert post(open_client, question=examples[0]["question"]).status == 200
    assert {one["name"] for one in open_client.get("/v1/relations").json()["relations"]} == {"directed_by", "stars"}
    facts = open_client.get("/v1/concept/film%203").json()
    assert facts["total"] == 3
    assert not [one for one in facts["facts"] if " a " in f" {one['sentence']} ".lower()]  # names have no article
    assert open_client.get("/v1/concepts?prefix=film%203").json()["concepts"][0]["name"] == "film_3"
