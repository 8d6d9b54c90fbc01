"""The command `mhgrn serve` as a process: address, readiness, signals, memory and descriptors."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from http_server import Client, Reply
from mhgrn.io.fingerprint import file_fingerprint
from mhgrn.serve.examples import EXAMPLES
from mhgrn.starter import cache_folder

START = "import sys; sys.argv[0] = 'mhgrn'; from mhgrn.cli import run; run()"


@contextmanager
def process(*options: str, environment: dict[str, str] | None = None) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", START, "serve", "--port", "0", *options]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


@contextmanager
def served(*options: str, **others: Any) -> Iterator[tuple["subprocess.Popen[str]", Client]]:
    with process("--no-log", *options, **others) as started:
        assert started.stdout is not None
        line = started.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\n", line)
        assert found, (line, started.communicate())
        yield started, Client(int(found[1]))


def ask_example(client: Client, number: int, **options: Any) -> Reply:
    question, choices = EXAMPLES[number % len(EXAMPLES)]
    return client.ask(f"{question} {number}", choices, **options)


def test_sigterm_answers_the_accepted_questions_and_exits_with_0() -> None:
    with served() as (started, client), ThreadPoolExecutor(12) as pool:
        assert client.get("/readyz").status == 200
        assert client.get("/").status == 200
        asked = [pool.submit(ask_example, client, number) for number in range(12)]
        while "mhgrn_batch_size_count 0.0" in client.get("/metrics").body.decode():
            time.sleep(0.002)  # until some are accepted
        started.send_signal(signal.SIGTERM)
        statuses = []
        for future in asked:
            try:
                statuses.append(future.result().status)
            except OSError:
                statuses.append(0)  # it came too late to be accepted
        assert started.wait(60) == 0
        assert statuses.count(200) >= 1
        assert set(statuses) <= {200, 503, 0}
        with pytest.raises(OSError, match="refused"):
            client.get("/livez")
        _, errors = started.communicate()
        assert "Traceback" not in errors


@pytest.mark.long
def test_kill_9_loses_nothing_on_disk() -> None:
    def on_disk() -> dict[str, str]:
        return {str(path): file_fingerprint(path) for path in sorted(cache_folder().rglob("*")) if path.is_file()}

    with served() as (started, client), ThreadPoolExecutor(8) as pool:
        before = on_disk()
        asked = [pool.submit(ask_example, client, number) for number in range(8)]
        time.sleep(0.2)
        started.kill()
        started.wait(30)
        for future in asked:
            future.exception()
    assert on_disk() == before
    with served() as (_, client):
        assert ask_example(client, 0).status == 200


def test_it_is_not_ready_until_the_model_is_warm() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with process("--no-log", "--port", str(port)) as started:
        client, seen = Client(port), []
        while not seen or seen[-1] != 200:
            assert started.poll() is None
            try:
                seen.append(client.get("/readyz").status)
                assert client.get("/livez").status == 200
                if seen[-1] == 503:
                    reply = ask_example(client, 0, effects=False)
                    assert reply.status in (200, 503)
            except OSError:
                pass  # it does not listen yet
            time.sleep(0.05)
        assert set(seen) == {503, 200}


def test_a_token_comes_from_the_environment() -> None:
    with served(environment={"MHGRN_TOKEN": "secret"}) as (_, client):
        assert client.get("/v1/model").status == 401
        assert Client(client.port, "secret").get("/v1/model").status == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["no-such-run"], "no-such-run"),
        (["--host", "256.0.0.1"], "cannot listen at 256.0.0.1"),
        (["--token", "a\nb"], "token"),
    ],
)
def test_what_cannot_be_served_is_said(options: list[str], message: str) -> None:
    with process(*options) as started:
        out, errors = started.communicate(timeout=120)
        assert started.returncode == 2
        assert message in errors
        assert "Traceback" not in errors
        assert out == ""


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, process("--port", str(taken.getsockname()[1])) as started:
        _, errors = started.communicate(timeout=120)
        assert started.returncode == 2
        assert "Choose another --port" in errors


HIDE = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *others: None if name == "uvicorn" else find(name, *others)
"""


def test_a_missing_package_is_said() -> None:
    command = [sys.executable, "-c", HIDE + START, "serve"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "pip install 'mhgrn[serve]'" in done.stderr


# ---- load


def memory(started: "subprocess.Popen[str]") -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{started.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(started: "subprocess.Popen[str]") -> int:
    return len(os.listdir(f"/proc/{started.pid}/fd"))


LOOK = """
import http.client, sys, time
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
while True:
    began = time.perf_counter()
    connection.request("GET", "/livez")
    response = connection.getresponse()
    response.read()
    assert response.status == 200
    answered = time.perf_counter()
    time.sleep(0.05)
    print(answered - began, time.perf_counter() - answered - 0.05, flush=True)
"""


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * len(values))]


class Load:
    """Clients that ask without a pause until they are stopped, and what came of it.

    A process of its own looks at /livez: many clients in one process of Python wait for each other.
    """

    def __init__(self, client: Client, clients: int, mixed: bool = False) -> None:
        self.client, self.mixed = client, mixed
        self.statuses: dict[int, int] = {}
        self.live: list[float] = []  # seconds of /livez
        self.late: list[float] = []  # seconds that a sleeping process waits for a processor of this machine
        self.broken = 0
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(clients)]

    def __enter__(self) -> "Load":
        self._looking = subprocess.Popen(
            [sys.executable, "-c", LOOK, str(self.client.port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._looking.terminate()
        seen, errors = self._looking.communicate(timeout=60)
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert errors == ""
        for line in seen.splitlines():
            live, late = map(float, line.split())
            self.live.append(live)
            self.late.append(late)

    @property
    def answered(self) -> float:
        """The share of questions that were answered, not refused."""
        return self.statuses[200] / sum(self.statuses.values())

    def _ask(self, client: int) -> None:
        number, chance = client * 1_000_000, random.Random(client)
        while not self._stop.is_set():
            number += 1
            try:
                reply = self._one(number)
            except OSError:
                self.broken += 1
                continue
            with self._lock:
                self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
            if reply.status == 503:
                self._stop.wait(0.2 + 0.2 * chance.random())  # a client that does not listen to Retry-After

    def _one(self, number: int) -> Reply:
        if not self.mixed:  # with everything an answer can contain
            return ask_example(self.client, number, paths=10, subgraph=True, contrast=EXAMPLES[number % len(EXAMPLES)][1][0])
        kind = number % 10
        if kind == 1:
            return self.client.get(f"/v1/concepts?prefix={'abcdefghij'[number // 10 % 10]}")
        if kind == 2:
            return self.client.get("/v1/concept/child")
        if kind == 3:
            return self.client.send("POST", "/v1/ask", b"{")
        if kind == 4:
            return ask_example(self.client, number, facts=[["child", "IsA", f"zork{number}"]], subgraph=True)
        if kind == 5:
            return self.client.get("/")
        return ask_example(self.client, number, effects=kind % 2 == 0)


def overload(seconds: float, clients: int) -> tuple[Load, list[int]]:
    """Ask much more than can be computed; memory is sampled after a tenth of the time."""
    with served("--queue", "8", "--batch-size", "8") as (started, client):
        with Load(client, clients) as load:
            time.sleep(seconds / 10)
            sizes = [memory(started)]
            for _ in range(9):
                time.sleep(seconds / 10)
                sizes.append(memory(started))
        assert load.statuses[200] > 0
        assert load.statuses[503] > 0
        assert set(load.statuses) == {200, 503}
        assert load.broken == 0
        assert ask_example(client, 1).status == 200
        assert client.get("/livez").status == 200
    return load, sizes


def test_overload_is_refused_and_accepted_questions_are_answered() -> None:
    load, _ = overload(4, 40)
    assert load.live
    assert load.answered < 0.9


@pytest.mark.long
def test_two_minutes_of_tenfold_overload_leave_memory_level() -> None:
    load, sizes = overload(120, 60)
    live, late = (percentile(of, 0.99) for of in (load.live, load.late))
    print(f"{load.answered:.1%} answered; p99 of /livez {live:.3f} s, of waiting for a processor {late:.3f} s; memory {sizes}")
    assert load.answered < 0.1
    assert max(sizes) < 1.1 * sizes[0] + (32 << 20)
    assert live < 0.1 + 3 * late  # on a busy machine, client and service wait for a processor, and for each other


@pytest.mark.long
def test_ten_minutes_of_mixed_traffic_leave_memory_and_descriptors_level() -> None:
    """Set MHGRN_TRAFFIC_MINUTES=120 for two hours."""
    minutes = float(os.environ.get("MHGRN_TRAFFIC_MINUTES", "10"))
    with served() as (started, client):
        with Load(client, 6, mixed=True) as load:
            time.sleep(12 * minutes)
            before = memory(started), descriptors(started)
            time.sleep(48 * minutes)
            after = memory(started), descriptors(started)
        assert after[0] < 1.1 * before[0] + (32 << 20)
        assert after[1] <= before[1] + 8
        assert set(load.statuses) <= {200, 400, 422, 503}
        assert load.broken == 0
