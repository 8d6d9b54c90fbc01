"""Three nodes on this machine: a node is killed in the middle, the driver is killed and started again."""

import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

import engine_functions
from mhgrn.engines import Work
from mhgrn.engines.ray_engine import RayEngine
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs import prepared
from mhgrn.subgraphs.prepared import PrepareOptions, prepare
from ray_cluster import NODE, cluster_of, content

pytest.importorskip("ray")
pytestmark = pytest.mark.long
OPTIONS = PrepareOptions(statement="fill-in-the-blank", workers=1)
DRIVER = """
import sys
from mhgrn.engines import engine_named
from mhgrn.subgraphs import prepared
prepared.PART = 1
prepared.prepare(sys.argv[1], sys.argv[2], sys.argv[3], statement="fill-in-the-blank", engine=engine_named("ray", sys.argv[4]))
"""


def wait_for_parts(folder: Path, count: int) -> None:
    for _ in range(3000):
        if folder.is_dir() and len(list(folder.glob("*.part"))) >= count:
            return
        time.sleep(0.1)
    raise TimeoutError(folder)


def test_the_parts_of_a_killed_node_are_computed_elsewhere(
    starter_graph: KnowledgeGraph, small_questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "PART", 1)
    local = prepare(small_questions, starter_graph, tmp_path / "a" / "data", OPTIONS)
    with cluster_of(2) as cluster:
        node = cluster.add_node(**NODE)

        def kill() -> None:
            wait_for_parts(tmp_path / "b" / ".data.parts", 5)
            cluster.remove_node(node, allow_graceful=False)

        killer = Thread(target=kill)
        killer.start()
        on_ray = prepare(small_questions, starter_graph, tmp_path / "b" / "data", OPTIONS, engine=RayEngine())
        killer.join()
        assert content(on_ray.folder) == content(local.folder)

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


def test_a_killed_driver_resumes(starter_graph: KnowledgeGraph, small_questions: Path, tmp_path: Path) -> None:
    local = prepare(small_questions, starter_graph, tmp_path / "a" / "data", OPTIONS)
    with cluster_of(3) as cluster:
        output = tmp_path / "b" / "data"
        command = [sys.executable, "-c", DRIVER, str(small_questions), str(starter_graph.folder), str(output), cluster.address]
        driver = subprocess.Popen(command, env=dict(os.environ))
        wait_for_parts(tmp_path / "b" / ".data.parts", 3)
        driver.kill()
        driver.wait()
        assert not output.exists()
        again = subprocess.run(command, env=dict(os.environ), stderr=subprocess.PIPE, text=True, check=True)
    assert "of them finished before" in again.stderr
    assert content(output) == content(local.folder)
    assert os.listdir(tmp_path / "b") == ["data"]
