"""Wrong requests get 4xx with the field and the limit: never 500, never a traceback."""

import json
import socket
from typing import Any

import pytest

from http_server import Client

GOOD: dict[str, Any] = {"question": "Where does a fish live?", "choices": ["sea", "tree"], "effects": False}


@pytest.mark.parametrize(
    ("change", "field", "limit"),
    [
        ({"question": None}, "question", None),
        ({"question": ""}, "question", 1),
        ({"question": "  "}, "question", None),
        ({"question": "x" * 10_001}, "question", 10_000),
        ({"question": 7}, "question", None),
        ({"question": "half \ud800"}, "question", None),
        ({"choices": "sea"}, "choices", None),
        ({"choices": ["sea"]}, "choices", 2),
        ({"choices": [str(n) for n in range(101)]}, "choices", 100),
        ({"choices": ["sea", "x" * 1_001]}, "choices.1", 1_000),
        ({"choices": ["sea", 1]}, "choices.1", None),
        ({"choices": ["sea", "sea "]}, "choices", None),
        ({"facts": [["a", "IsA"]]}, "facts.0", 3),
        ({"facts": [["a", "IsA", "b"]] * 101}, "facts", 100),
        ({"facts": [["a", "NoSuchRelation", "b"]]}, "facts", None),
        ({"facts": [["a", "IsA", "a"]]}, "facts", None),
        ({"facts": [["a", "IsA", "\ud800"]]}, "facts.0.2", None),
        ({"facts": [["a", "IsA", "x" * 201]]}, "facts.0.2", 200),
        ({"without": [["fish", "AtLocation", "moon"]]}, "without", None),
        ({"without": [["fish", "Nonsense", "sea"]]}, "without", None),
        ({"graph": "no"}, "graph", None),
        ({"paths": 0}, "paths", 1),
        ({"paths": 101}, "paths", 100),
        ({"paths": 1.5}, "paths", None),
        ({"paths": 10**400}, "paths", 100),
        ({"contrast": "moon"}, "contrast", None),
        ({"model": "../../etc/passwd"}, "model", None),
        ({"modle": "starter"}, "modle", None),
    ],
)
def test_a_wrong_field_is_named(client: Client, change: dict[str, Any], field: str, limit: int | None) -> None:
    reply = client.send("POST", "/v1/ask", GOOD | change)
    error = reply.json()["error"]
    assert reply.status == 422
    assert (error["field"], error["limit"]) == (field, limit)
    assert error["message"]
    many = client.send("POST", "/v1/ask_many", {"questions": [GOOD, GOOD | change]})
    if many.status == 200:
        good, wrong = many.json()["answers"]
        assert good["choice"] == "sea"
        assert wrong["error"]["field"] == field
    else:
        assert many.json()["error"]["field"] == f"questions.1.{field}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"question": " "}, "question: the text is empty."),
        ({"question": "x" * 10_001}, "question: at most 10,000 characters are allowed."),
        ({"choices": ["sea"]}, "choices: at least 2 items are needed."),
        ({"choices": [str(n) for n in range(101)]}, "choices: at most 100 items are allowed."),
        ({"choices": ["sea", 1]}, "choices.1: a text is expected."),
        ({"graph": "no"}, "graph: true or false is expected."),
        ({"paths": 101}, "paths: at most 100 is allowed."),
        ({"paths": "many"}, "paths: an integer is expected."),
        ({"modle": "starter"}, "modle: there is no such field. Did you mean model?"),
    ],
)
def test_messages_are_plain_english(client: Client, change: dict[str, Any], message: str) -> None:
    assert client.send("POST", "/v1/ask", GOOD | change).json()["error"]["message"] == message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"question": NaN}',
        b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
        b'{"paths": ' + b"9" * 5_000 + b"}",
        b'{"question": "\\ud800", "choices": ["\\ud800", "b"]}',
        b'{"\\ud800": 1}',
    ],
)
def test_a_body_that_is_not_a_question_is_refused(client: Client, body: bytes) -> None:
    for path in ("/v1/ask", "/v1/ask_many"):
        reply = client.send("POST", path, body)
        assert 400 <= reply.status < 500
        assert reply.json()["error"]["message"]
        assert b"Traceback" not in reply.body


def test_another_content_type_is_refused(client: Client) -> None:
    """A form of another site can send these without asking the browser."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert client.send("POST", "/v1/ask", GOOD, {"content-type": kind}).status == 422


TEXTS = [
    "<script>alert(1)</script>",
    "'; DROP TABLE facts; --",
    "\x00\x1b[2J",
    "\u202egnp.exe",
    "${jndi:ldap://x}",
    "{head} {tail:verb} %s %n",
    "../../../etc/passwd",
    "ﷺ" * 500,
    "e" + "\u0301" * 900,
    "😀" * 900,
    "___",
    "a " * 500,
]


@pytest.mark.parametrize("text", TEXTS)
def test_hostile_texts_are_only_texts(client: Client, text: str) -> None:
    name = text[:50]
    reply = client.send(
        "POST",
        "/v1/ask",
        {**GOOD, "question": f"Where is {text}?", "choices": [text, "sea"], "facts": [["fish", "IsA", name]], "subgraph": True},
    )
    assert reply.status in (200, 422)
    assert reply.headers["content-type"] == "application/json"
    if reply.status == 200:
        assert reply.json()["question"] == f"Where is {text}?".strip()
        assert not any(0x7F <= ord(c) < 0xA0 or ord(c) < 0x20 for c in reply.body.decode())


def test_a_large_body_is_refused_before_it_is_read(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(
            b"POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\n\r\n"
        )
        answer = b""
        while part := connection.recv(65536):  # until the service closes the connection
            answer += part
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'"limit": 262144' in answer
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(b"POST /v1/ask HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(5):  # without a length
            connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("path", ["/v1/nothing", "/nothing", "/static/nothing", "/v1/concept/no%20such%20thing"])
def test_unknown_paths_are_404(client: Client, path: str) -> None:
    assert client.get(path).status == 404


def test_wrong_methods_are_405(client: Client) -> None:
    reply = client.get("/v1/ask")
    assert reply.status == 405
    assert reply.headers["allow"] == "POST"
    assert reply.json()["error"]["message"]


def test_wrong_parameters_are_named(client: Client) -> None:
    for path, field, limit in (
        ("/v1/concepts?limit=0", "limit", 1),
        ("/v1/concepts?limit=1001", "limit", 1000),
        ("/v1/concepts?limit=x", "limit", None),
        (f"/v1/concepts?prefix={'x' * 201}", "prefix", 200),
    ):
        error = client.get(path).json()["error"]
        assert (error["field"], error["limit"]) == (field, limit)
    assert client.get("/v1/relations?model=other").status == 422


def test_no_path_of_a_request_reaches_the_disk(client: Client) -> None:
    for attempt in (
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/docs/%2e%2e/%2e%2e/main.py",
        "/static//etc/passwd",
    ):
        assert client.get(attempt).status == 404


def test_garbage_on_the_line_is_refused(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(b"\x16\x03\x01\x00garbage\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 400")
    assert client.get("/livez").status == 200


def test_errors_are_json_that_every_parser_reads(client: Client) -> None:
    body = client.send("POST", "/v1/ask", GOOD | {"contrast": "\u2028\x9b"}).body.decode()
    assert "\u2028" not in body
    assert json.loads(body)["error"]
