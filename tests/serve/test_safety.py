"""Token, headers, log lines, metrics, and the documentation without a network."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from http_server import Client, running
from mhgrn.serve.models import ServedModel
from mhgrn.serve.settings import ServeSettings

PATHS = ["/", "/docs", "/livez", "/metrics", "/v1/examples", "/openapi.json", "/nothing", "/static/icon.svg"]


@pytest.fixture(scope="module")
def guarded(served_model: ServedModel) -> Iterator[Client]:
    with running(lambda: {"starter": served_model}, ServeSettings(token="secret", log=False)) as (client, _):
        yield client


def test_a_token_guards_everything_of_v1(guarded: Client) -> None:
    stranger = Client(guarded.port)
    assert guarded.ask(effects=False).status == 200
    for token in (None, "", "Secret", "secretly", "sécret"):
        sent = {} if token is None else {"authorization": f"Bearer {token}".encode().decode("latin-1")}
        for method, path in (("POST", "/v1/ask"), ("POST", "/v1/ask_many"), ("GET", "/v1/model"), ("GET", "/v1/nothing")):
            reply = stranger.send(method, path, {} if method == "POST" else None, sent)
            assert reply.status == 401
            assert reply.headers["www-authenticate"] == "Bearer"
    for path in ("/", "/livez", "/readyz", "/docs"):
        assert stranger.get(path).status == 200


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_safe_headers_and_no_cookie(client: Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in headers
    assert "access-control-allow-origin" not in headers


def test_the_documentation_needs_no_other_server(client: Client) -> None:
    page = client.get("/docs").body.decode()
    assert "<script>" not in page
    assert "://" not in page
    for place in re.findall(r'(?:src|href)="([^"]+)"', page):
        reply = client.get(f"/{place}")
        assert reply.status == 200
        assert reply.headers["content-type"].split(";")[0] in ("text/css", "text/javascript", "application/javascript")
    assert client.get("/openapi.json").json()["openapi"].startswith("3.")


def test_log_lines_are_json_without_the_texts_of_questions(served_model: ServedModel, capfd: pytest.CaptureFixture[str]) -> None:
    for asks in (False, True):
        with running(lambda: {"starter": served_model}, ServeSettings(log_questions=asks)) as (client, _):
            client.ask("Where is the secret garden?", ("private place", "sea"), effects=False)
            client.get("/v1/concept/private_name")
        text = capfd.readouterr().err
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        asked = next(line for line in lines if line["route"] == "/v1/ask")
        assert asked["status"] == 200
        assert asked["ms"] > 0
        assert asked["batch"] == 1
        assert ("secret garden" in text) == ("private place" in text) == asks
        assert "private_name" not in text


def samples(client: Client) -> dict[str, float]:
    lines = client.get("/metrics").body.decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line and not line.startswith("#")}


def test_metrics_count_requests(served_model: ServedModel) -> None:
    with running(lambda: {"starter": served_model}) as (client, _):
        for _ in range(3):
            assert client.ask(effects=False).status == 200
        client.ask(choices=("one",))
        for number in range(50):
            client.get(f"/nothing/{number}")
        found: dict[str, Any] = samples(client)
        assert found['mhgrn_requests_total{method="POST",route="/v1/ask",status="200"}'] == 3
        assert found['mhgrn_requests_total{method="POST",route="/v1/ask",status="422"}'] == 1
        assert found['mhgrn_request_seconds_count{route="/v1/ask"}'] == 4
        assert found["mhgrn_batch_size_sum"] == 3
        assert found["mhgrn_queue_depth"] == 0
        assert found["mhgrn_ready"] == 1
        assert found["mhgrn_text_memory_bytes"] > 0
        assert not any("/nothing/" in name for name in found)  # unknown paths do not make new series
