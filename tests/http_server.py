"""A service that listens at a real socket, in a thread of the test, and a model that does what a test tells it."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from mhgrn.inference import Asked
from mhgrn.kg import KnowledgeGraph
from mhgrn.serve.address import listen
from mhgrn.serve.computing import Computer, Here
from mhgrn.serve.server import Server
from mhgrn.serve.service import Service
from mhgrn.serve.settings import ServeSettings


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Sends requests to a service, each over a connection of its own."""

    port: int
    token: str | None = None

    def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}, timeout: float = 120) -> Reply:
        sent = {"content-type": "application/json", **({"authorization": f"Bearer {self.token}"} if self.token else {}), **headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Reply:
        return self.send("GET", path, **options)

    def ask(self, question: str = "Where?", choices: tuple[str, ...] = ("sea", "tree"), **fields: Any) -> Reply:
        return self.send("POST", "/v1/ask", {"question": question, "choices": list(choices), **fields})


def assert_close(one: Any, other: Any) -> None:
    """Equal up to the last digits of numbers, which depend on the batch."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_close(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_close(mine, theirs)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-4, rel=1e-4)
    else:
        assert one == other


@contextmanager
def running(
    load: Callable[[], Mapping[str, Any]], settings: ServeSettings = ServeSettings(log=False), computer: Computer = Here()
) -> Iterator[tuple[Client, Service]]:
    """Start a service, wait until it is ready, and stop it in the end."""
    listening = listen("127.0.0.1", 0)
    service = Service(load, settings, computer)
    server = Server(service)
    loaded = threading.Event()
    service.start(loaded.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        assert loaded.wait(300)
        if service.failure is not None:
            raise service.failure
        yield Client(listening.getsockname()[1], settings.token), service
    finally:
        server.stop()
        thread.join(60)
        listening.close()
        assert not thread.is_alive()


@dataclass
class Said:
    asked: Asked

    def to_dict(self) -> dict[str, Any]:
        return {"question": self.asked.question.stem, "choice": self.asked.question.choices[0]}


@dataclass
class Scripted:
    """In place of a model: records what is computed together, waits until ``go`` is set, and fails for some questions."""

    name: str = "scripted"
    batches: list[list[str]] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)
    poison: Callable[[str], None] = lambda text: None
    memory: None = None
    is_open: bool = False
    graph: KnowledgeGraph = field(default_factory=lambda: KnowledgeGraph.from_facts([("fish", "AtLocation", "sea")]))

    @property
    def qa(self) -> "Scripted":
        return self

    def answer_all(self, asked: list[Asked]) -> list[Said]:
        self.batches.append([one.question.stem for one in asked])
        self.started.set()
        assert self.go.wait(60)
        for one in asked:
            self.poison(one.question.stem)
        return [Said(one) for one in asked]
