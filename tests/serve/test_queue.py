"""Questions wait, are computed together, are refused or dropped. A scripted model decides when it is done."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from http_server import Client, Reply, Scripted, running
from mhgrn.errors import UserError
from mhgrn.inference import Asked
from mhgrn.serve.computing import AskedOpenly, Here, Outcome, Unavailable
from mhgrn.serve.models import ServedModel
from mhgrn.serve.service import Service
from mhgrn.serve.settings import ServeSettings


@contextmanager
def scripted(**settings: object) -> Iterator[tuple[Client, Service, Scripted, ThreadPoolExecutor]]:
    model = Scripted()
    with ThreadPoolExecutor(32) as pool:
        try:
            with running(lambda: {"one": model}, ServeSettings(log=False, **settings)) as (client, service):  # type: ignore[arg-type]
                try:
                    yield client, service, model, pool
                finally:
                    model.go.set()
        finally:
            model.go.set()


def wait_until(is_so: object, seconds: float = 30) -> None:
    assert callable(is_so)
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def ask_in_order(client: Client, service: Service, pool: ThreadPoolExecutor, texts: list[str]) -> list["Future[Reply]"]:
    """Ask while the model is busy, one after the other."""
    found = []
    for number, text in enumerate(texts, start=len(service.worker) + 1):
        found.append(pool.submit(client.ask, text))
        wait_until(lambda number=number: len(service.worker) >= number)
    return found


def test_a_lone_question_does_not_wait_and_waiting_ones_are_computed_together() -> None:
    with scripted(batch=3) as (client, service, model, pool):
        first = pool.submit(client.ask, "alone")
        assert model.started.wait(30)
        rest = ask_in_order(client, service, pool, ["a", "b", "c", "d"])
        model.go.set()
        assert [future.result().status for future in (first, *rest)] == [200] * 5
        assert [future.result().json()["question"] for future in rest] == ["a", "b", "c", "d"]
        assert model.batches == [["alone"], ["a", "b", "c"], ["d"]]
        metrics = client.get("/metrics").body.decode()
        assert "mhgrn_batch_size_count 3.0" in metrics
        assert "mhgrn_batch_size_sum 5.0" in metrics


def test_a_full_queue_refuses_and_says_when_to_try_again() -> None:
    with scripted(queue=2) as (client, service, model, pool):
        first = pool.submit(client.ask, "first")
        assert model.started.wait(30)
        waiting = ask_in_order(client, service, pool, ["a", "b"])
        refused = client.ask("c")
        many = client.send("POST", "/v1/ask_many", {"questions": [{"question": "d", "choices": ["x", "y"]}]})
        for reply in (refused, many):
            assert reply.status == 503
            assert int(reply.headers["retry-after"]) >= 1
            assert reply.json()["error"]["limit"] == 2
        assert client.get("/livez").status == 200
        model.go.set()
        assert [future.result().status for future in (first, *waiting)] == [200] * 3
        assert not any("c" in batch or "d" in batch for batch in model.batches)
        assert 'mhgrn_rejected_total{reason="queue full"} 2.0' in client.get("/metrics").body.decode()
        assert client.ask("again").status == 200


def test_a_deadline_is_kept_and_its_question_is_not_computed() -> None:
    with scripted(deadline=0.3) as (client, _, model, pool):
        first = pool.submit(client.ask, "first")
        assert model.started.wait(30)
        late = client.ask("late")
        assert (late.status, first.result().status) == (503, 503)
        assert "in time" in late.json()["error"]["message"]
        model.go.set()
        assert client.ask("next").status == 200
        assert model.batches == [["first"], ["next"]]


def test_the_question_of_a_client_that_hung_up_is_dropped() -> None:
    with scripted() as (client, service, model, pool):
        first = pool.submit(client.ask, "first")
        assert model.started.wait(30)
        body = b'{"question": "gone", "choices": ["a", "b"]}'
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            head = f"POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            wait_until(lambda: len(service.worker) == 1)
        wait_until(lambda: all(job.is_dropped for job in service.worker._waiting))
        (kept,) = ask_in_order(client, service, pool, ["kept"])
        model.go.set()
        assert first.result().status == kept.result().status == 200
        assert model.batches == [["first"], ["kept"]]
        assert 'mhgrn_dropped_total{reason="gone"} 1.0' in client.get("/metrics").body.decode()


def test_a_poisoned_question_fails_alone() -> None:
    with scripted() as (client, service, model, pool):

        def poison(text: str) -> None:
            if text == "bad":
                raise UserError("this one is wrong.")
            if text == "broken":
                raise ZeroDivisionError("secret detail")

        model.poison = poison
        first = pool.submit(client.ask, "first")
        assert model.started.wait(30)
        asked = ask_in_order(client, service, pool, ["a", "bad", "broken", "b"])
        model.go.set()
        assert [future.result().status for future in (first, *asked)] == [200, 200, 422, 500, 200]
        assert asked[1].result().json()["error"]["message"] == "this one is wrong."
        broken = asked[2].result().body.decode()
        assert "secret" not in broken
        assert "Traceback" not in broken
        questions = [{"question": text, "choices": ["x", "y"]} for text in ("a", "bad", "broken")]
        answers = client.send("POST", "/v1/ask_many", {"questions": questions}).json()["answers"]
        assert [sorted(answer) for answer in answers] == [["choice", "question"], ["error"], ["error"]]


class Elsewhere(Here):
    """In place of replicas: computes two batches at the same time, as long as some are running."""

    at_once = 2

    def __init__(self) -> None:
        self.running = 2

    def compute(self, model: ServedModel, asked: Sequence[Asked | AskedOpenly]) -> Iterator[tuple[int, Outcome]]:
        found = super().compute(model, asked)
        yield from found if self.running else ((number, Outcome(Unavailable())) for number in range(len(asked)))


def test_several_batches_are_computed_at_the_same_time() -> None:
    model, replicas = Scripted(), Elsewhere()
    with (
        ThreadPoolExecutor(8) as pool,
        running(lambda: {"one": model}, ServeSettings(log=False), replicas) as (client, service),
    ):
        try:
            first = [pool.submit(client.ask, text) for text in ("first", "second")]
            wait_until(lambda: len(model.batches) == 2)
            rest = ask_in_order(client, service, pool, ["a", "b", "c", "d"])
            model.go.set()
            assert [future.result().status for future in (*first, *rest)] == [200] * 6
            assert sorted(map(len, model.batches)) == [1, 1, 1, 1, 2]  # half of those that wait, so that no replica is idle
        finally:
            model.go.set()


def test_without_replicas_it_is_not_ready_and_accepted_questions_are_refused() -> None:
    model, replicas = Scripted(), Elsewhere()
    model.go.set()
    with running(lambda: {"one": model}, ServeSettings(log=False), replicas) as (client, _):
        assert client.get("/readyz").status == 200
        assert "mhgrn_replicas 2.0" in client.get("/metrics").body.decode()
        replicas.running = 0
        ask = client.ask("early")
        assert (ask.status, client.get("/readyz").status) == (503, 503)
        assert "no replica is running" in ask.json()["error"]["message"]
        metrics = client.get("/metrics").body.decode()
        assert "mhgrn_replicas 0.0" in metrics
        assert "mhgrn_ready 0.0" in metrics
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Service, "is_ready", True)  # accepted just before the last replica died
            late = client.ask("late")
        assert late.status == 503
        assert late.headers["retry-after"] == "1"
        assert "mhgrn_failed_total 0.0" in client.get("/metrics").body.decode()
        replicas.running = 1
        assert client.ask("again").status == 200


def test_a_fact_that_is_not_in_the_graph_does_not_disturb_the_batch() -> None:
    with scripted() as (client, service, model, pool):
        first = pool.submit(client.ask, "first")
        assert model.started.wait(30)
        (good,) = ask_in_order(client, service, pool, ["good"])
        wrong = pool.submit(client.ask, "wrong", without=[["fish", "AtLocation", "tree"]])
        wait_until(lambda: len(service.worker) == 2)
        model.go.set()
        assert first.result().status == good.result().status == 200
        assert wrong.result().status == 422
        assert "fish, AtLocation, tree" in wrong.result().json()["error"]["message"]
        assert model.batches == [["first"], ["good"]]


def test_stopping_refuses_new_questions_and_answers_the_accepted_ones() -> None:
    with scripted() as (client, service, model, pool):
        first = pool.submit(client.ask, "first")
        assert model.started.wait(30)
        (waiting,) = ask_in_order(client, service, pool, ["waiting"])
        service.close()
        refused = client.ask("new")
        assert refused.status == 503
        assert "shutting down" in refused.json()["error"]["message"]
        assert client.get("/readyz").status == 503
        model.go.set()
        assert first.result().status == waiting.result().status == 200


def test_it_is_not_ready_before_its_models_are() -> None:
    go = threading.Event()
    service = Service(lambda: {"one": Scripted()} if go.wait(60) else {}, ServeSettings(log=False))  # type: ignore[dict-item]
    done = threading.Event()
    service.start(done.set)
    assert not service.is_ready
    go.set()
    assert done.wait(60)
    assert service.is_ready
    service.close()


def test_a_failure_to_load_is_reported() -> None:
    def load() -> dict[str, Scripted]:
        raise UserError("there is no run.")

    with pytest.raises(UserError, match="there is no run"), running(load):
        pass
