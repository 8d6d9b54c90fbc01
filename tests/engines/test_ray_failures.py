"""Three nodes on this machine: a node is killed in the middle, the driver is killed or interrupted and started again."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from harness import Command

import engine_functions
from mhgrn.engines import Work
from mhgrn.engines.ray_engine import RayEngine
from mhgrn.inference import batch
from mhgrn.kg import KnowledgeGraph
from mhgrn.starter import HERE
from mhgrn.subgraphs import prepared
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from ray_cluster import NODE, cluster_of, content, free_port

pytest.importorskip("ray")
pytestmark = pytest.mark.long
OPTIONS = PrepareOptions(statement="fill-in-the-blank", workers=1)
DRIVER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest in the background ignores it
from mhgrn.faithfulness import study
from mhgrn.features import encoded
from mhgrn.inference import batch
from mhgrn.subgraphs import prepared
batch.TOGETHER, encoded.STEP, prepared.PART, study.MOST_QUESTIONS = 1, 16, 1, 1
from mhgrn.cli import main
main()
"""
CONTROLLED = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C in this terminal is for this process
"""


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def cluster(port: int) -> Iterator[Any]:
    with cluster_of(3, ray_client_server_port=port) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = (HERE / "test.jsonl").read_text(encoding="utf-8").splitlines()[:60]
    path = tmp_path_factory.mktemp("asked") / "questions.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def commands(questions: Path, small_data: PreparedData) -> dict[str, list[str]]:
    """Commands, up to the place that they write to."""
    graph, data = small_data.about["graph"], small_data.folder
    found: dict[str, list[Any]] = {
        "prepare": ["prepare", questions, "--kg", graph],
        "predict": ["predict", "starter", questions, "--batch-size", "1"],
        "features": ["features", "build", graph, "--only", data, "--max-triples-per-concept", "1"],
        "faithfulness": ["faithfulness", "starter", "--data", data, "--limit", "6", "--limits", "2", "--perturb", "6"],
    }
    return {name: [*map(str, words), "-o"] for name, words in found.items()}


def driver(*args: object) -> list[str]:
    return [sys.executable, "-c", DRIVER, *map(str, args)]


def done(*args: object) -> str:
    """Run a command in a process of its own; what it says."""
    found = subprocess.run(driver(*args), env=dict(os.environ), capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stderr


def written(place: Path) -> dict[str, bytes]:
    return content(place) if place.is_dir() else {"": place.read_bytes()}


def finished_parts(output: Path) -> int:
    stored = [
        *output.parent.glob(f".{output.name}.parts/*.part"),
        *output.parent.glob(f".{output.name}.unfinished/step.safetensors"),
    ]
    return len(stored)


def wait_for_parts(output: Path, count: int = 1) -> None:
    for _ in range(60_000):
        if finished_parts(output) >= count:
            return
        time.sleep(0.005)
    raise TimeoutError(output)


@pytest.mark.parametrize("name", ["prepare", "predict", "features", "faithfulness"])
def test_a_killed_driver_resumes_and_writes_the_bytes_of_one_machine(
    name: str, cluster: Any, commands: dict[str, list[str]], tmp_path: Path
) -> None:
    args, local, on_ray = commands[name], tmp_path / "a" / "out", tmp_path / "b" / "out"
    done(*args, local)
    on_cluster = [*args, on_ray, "--engine", "ray", "--address", cluster.address]
    killed = subprocess.Popen(driver(*on_cluster), env=dict(os.environ))
    wait_for_parts(on_ray)
    killed.kill()
    killed.wait()
    assert not on_ray.exists()
    said = done(*on_cluster)
    assert "finished before" in said or "resuming" in said
    assert written(on_ray) == written(local)
    assert os.listdir(tmp_path / "b") == ["out"]


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, args: Sequence[str]) -> None:
        self._own, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"{CONTROLLED}{DRIVER}", *args],
            env=dict(os.environ),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = b""
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while select.select([self._own], [], [])[0]:
            try:
                self.shown += os.read(self._own, 1 << 16)
            except OSError:  # the other end is closed
                return

    def type(self, keys: bytes) -> None:
        os.write(self._own, keys)

    def wait(self) -> int:
        code = self.process.wait(timeout=120)
        self._reader.join(timeout=10)
        return code


@pytest.mark.parametrize("name", ["prepare", "predict"])
def test_ctrl_c_in_a_terminal_ends_the_tasks_and_the_command_resumes(
    name: str, cluster: Any, commands: dict[str, list[str]], tmp_path: Path
) -> None:
    import ray

    args, local, on_ray = commands[name], tmp_path / "a" / "out", tmp_path / "b" / "out"
    done(*args, local)
    on_cluster = [*args, on_ray, "--engine", "ray", "--address", cluster.address]
    terminal = Terminal([str(word) for word in on_cluster])
    wait_for_parts(on_ray)
    terminal.type(b"\x03")
    assert terminal.wait() == 130, terminal.shown
    assert b"Traceback" not in terminal.shown, terminal.shown
    assert not on_ray.exists()
    assert finished_parts(on_ray)
    for _ in range(300):  # processors are free when no task runs
        if ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"]:
            break
        time.sleep(0.1)
    else:
        raise AssertionError(ray.available_resources())
    stored = finished_parts(on_ray)
    time.sleep(2)
    assert finished_parts(on_ray) == stored
    assert "finished before" in done(*on_cluster)
    assert written(on_ray) == written(local)


@pytest.mark.parametrize("name", ["prepare", "predict"])
def test_a_client_outside_the_cluster_gets_the_same_bytes(
    name: str, cluster: Any, port: int, commands: dict[str, list[str]], tmp_path: Path
) -> None:
    args = commands[name]
    done(*args, tmp_path / "local")
    host = cluster.address.partition(":")[0]
    done(*args, tmp_path / "client", "--engine", "ray", "--address", f"ray://{host}:{port}")
    assert written(tmp_path / "client") == written(tmp_path / "local")


def test_the_parts_of_a_killed_node_are_computed_elsewhere(
    cluster: Any,
    here: Command,
    commands: dict[str, list[str]],
    starter_graph: KnowledgeGraph,
    small_questions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepared, "PART", 1)
    monkeypatch.setattr(batch, "TOGETHER", 1)

    def killing(node: Any, output: Path) -> Thread:
        def kill() -> None:
            wait_for_parts(output, 5)
            cluster.remove_node(node, allow_graceful=False)

        killer = Thread(target=kill)
        killer.start()
        return killer

    local = prepare(small_questions, starter_graph, tmp_path / "a" / "data", OPTIONS)
    killer = killing(cluster.add_node(**NODE), tmp_path / "b" / "data")
    on_ray = prepare(small_questions, starter_graph, tmp_path / "b" / "data", OPTIONS, engine=RayEngine())
    killer.join()
    assert content(on_ray.folder) == content(local.folder)

    args = commands["predict"]
    assert here(*args, tmp_path / "a" / "out").code == 0
    killer = killing(cluster.add_node(**NODE), tmp_path / "b" / "out")
    assert here(*args, tmp_path / "b" / "out", "--engine", "ray").code == 0
    killer.join()
    assert written(tmp_path / "b" / "out") == written(tmp_path / "a" / "out")

    (tmp_path / "log").mkdir()
    node = cluster.add_node(**NODE)
    parts = [[{"id": str(number), "seconds": 1}] for number in range(24)]
    with RayEngine().session(tmp_path / "output") as session:
        found = []
        for result in session.map(Work(engine_functions.logged, {"log": str(tmp_path / "log")}, parts)):
            found.append(result)
            if len(found) == 6:
                cluster.remove_node(node, allow_graceful=False)
    assert found == [str(number).encode() for number in range(24)]
