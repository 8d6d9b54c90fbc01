"""A service whose questions are computed by replicas on a Ray cluster on this machine."""

import os
import pickle
import re
import shutil
import signal
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
from harness import Refused

from http_server import Client, Reply, assert_close
from mhgrn.engines.worker import software
from mhgrn.errors import UserError
from mhgrn.inference import WrongOption
from mhgrn.serve.examples import EXAMPLES
from mhgrn.serve.models import ServedModel
from mhgrn.serve.on_ray import identity, problem_of_node, received, sent
from ray_cluster import cluster_of

ray = pytest.importorskip("ray")
START = "import sys; sys.argv[0] = 'mhgrn'; from mhgrn.cli import run; run()"


@contextmanager
def served(address: str, *options: str) -> Iterator[tuple["subprocess.Popen[str]", Client]]:
    """The command `mhgrn serve` on a cluster."""
    command = [sys.executable, "-c", START, "serve", "--port", "0", "--no-log", "--engine", "ray", "--address", address, *options]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert started.stdout is not None
        line = started.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\n", line)
        assert found, (line, started.communicate())
        yield started, Client(int(found[1]))
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


def requests(client: Client) -> list[Reply]:
    """Questions of every kind, wrong ones, and what is looked up."""
    (first, choices), (second, others) = EXAMPLES[:2]
    many = [{"question": question, "choices": list(choices)} for question, choices in EXAMPLES]
    fact = ["child", "IsA", "zork"]
    return [
        client.ask(first, choices),
        client.ask(first, choices, facts=[fact], subgraph=True, contrast=choices[-1]),
        client.ask(second, others, effects=False, graph=False, coverage=0.9),
        client.ask(second, others, without=[["no", "IsA", "fact"]]),
        client.ask(second, others, contrast="none of them"),
        client.ask(second, others, model="unknown"),
        client.send("POST", "/v1/ask", {"question": first}),
        client.send("POST", "/v1/ask_many", {"questions": [*many, {"question": "Where?", "choices": ["a", "a"]}]}),
        client.send("POST", "/v1/ask", b"{"),
        client.get("/v1/concepts?prefix=chi"),
        client.get("/v1/concept/child"),
        client.get("/v1/model"),
        client.get("/readyz"),
        client.get("/"),
    ]


def metric(client: Client, name: str) -> float:
    text = client.get("/metrics").body.decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))


@pytest.fixture(scope="class")
def two_nodes() -> Iterator[Any]:
    with cluster_of(2) as cluster:
        yield cluster


@pytest.mark.long
class TestTwoNodes:
    def test_answers_are_those_of_the_local_service_and_ctrl_c_removes_the_replicas(self, two_nodes: Any, client: Client) -> None:
        with served(two_nodes.address, "--replicas", "2") as (started, on_ray):
            for expected, found in zip(requests(client), requests(on_ray), strict=True):
                assert found.status == expected.status
                if b'"answers"' in expected.body:  # last digits depend on how questions are divided into batches
                    assert_close(found.json(), expected.json())
                else:
                    assert found.body == expected.body
            assert (metric(on_ray, "mhgrn_ready"), metric(on_ray, "mhgrn_replicas")) == (1, 2)
            assert metric(on_ray, "mhgrn_failed_total") == 0
            assert actors_of_serve()
            started.send_signal(signal.SIGINT)
            out, err = started.communicate(timeout=600)
            assert (started.returncode, out, err) == (0, "", "mhgrn: loading the model…\n")
        assert not actors_of_serve()
        wait_until(lambda: ray.available_resources().get("CPU") == 2)

    def test_questions_of_a_killed_replica_are_answered_by_others(self, two_nodes: Any) -> None:
        with served(two_nodes.address, "--replicas", "2") as (_, client):
            over = threading.Event()
            replies: list[Reply] = []

            def ask(number: int) -> None:
                while not over.is_set():
                    number += 100
                    question, choices = EXAMPLES[number % len(EXAMPLES)]
                    replies.append(client.ask(f"{question} {number}", choices))

            with ThreadPoolExecutor(4) as pool:
                asking = [pool.submit(ask, number) for number in range(4)]
                kill_replicas(1)
                wait_until(lambda: metric(client, "mhgrn_replicas") == 1)
                assert client.get("/readyz").status == 200
                wait_until(lambda: metric(client, "mhgrn_replicas") == 2)  # Ray Serve starts another one
                over.set()
                for one in asking:
                    one.result()
            assert {reply.status for reply in replies} == {200}
            assert metric(client, "mhgrn_failed_total") == 0

            kill_replicas(2)
            wait_until(lambda: metric(client, "mhgrn_replicas") == 0)
            refused = client.ask("Where is a child?", ("school", "moon"))
            assert refused.status == 503
            assert "Retry-After".lower() in refused.headers
            assert client.get("/readyz").status == 503
            assert metric(client, "mhgrn_ready") == 0
            wait_until(lambda: client.get("/readyz").status == 200)
            assert client.ask("Where is a child?", ("school", "moon")).status == 200


def actors_of_serve() -> list[str]:
    """The replicas and the controller of Ray Serve in the cluster."""
    return [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True) if actor["namespace"] == "serve"]


def kill_replicas(count: int) -> None:
    """Kill processes of replicas, as the kernel does when the memory is used up."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and (place / "cmdline").is_file() and b"ServeReplica:mhgrn" in (place / "cmdline").read_bytes():
            found.append(int(place.name))
    assert len(found) >= count
    for process in found[:count]:
        os.kill(process, signal.SIGKILL)


def wait_until(is_so: Any, seconds: float = 600) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.1)


class TestWithoutCluster:
    def test_a_node_with_other_runs_is_refused(self, served_model: ServedModel, tmp_path: Path) -> None:
        runs = {"starter": str(served_model.folder)}
        task = {"software": software(), "runs": runs, "identity": identity(runs)}
        assert problem_of_node(task) is None
        assert "install the same version" in (problem_of_node(task | {"software": "mhgrn 0"}) or "")
        copy = shutil.copytree(served_model.folder, tmp_path / "copy")
        assert problem_of_node(task | {"runs": {"starter": str(copy)}}) is None
        weights = bytearray((copy / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (copy / "model.safetensors").write_bytes(weights)
        assert "has other runs" in (problem_of_node(task | {"runs": {"starter": str(copy)}}) or "")
        assert "has no folder" in (problem_of_node(task | {"runs": {"starter": str(tmp_path / "gone")}}) or "")

    def test_outcomes_survive_the_way_from_a_replica(self) -> None:
        assert received(sent(b"{}")) == b"{}"
        for error in (UserError("wrong."), WrongOption("choices", "too many.")):
            arrived = received(pickle.loads(pickle.dumps(sent(error))))
            assert (type(arrived), str(arrived), vars(arrived)) == (type(error), str(error), vars(error))
        broken = received(sent(ZeroDivisionError("secret")))
        assert not isinstance(broken, UserError | bytes)
        assert "ZeroDivisionError: secret" in str(broken)

    def test_wrong_options_are_refused(self, refused: Refused) -> None:
        refused(["serve", "--port", "0", "--replicas", "2"], ["--engine ray"])
        refused(["serve", "--port", "0", "--address", "auto"], ["--engine ray"])
        refused(["serve", "--port", "0", "--engine", "ray", "--address", "ray://127.0.0.1:1"], ["a machine of the cluster"])
        refused(["serve", "--port", "0", "--engine", "ray", "--address", "127.0.0.1:1"], ["no Ray cluster at 127.0.0.1:1"])
