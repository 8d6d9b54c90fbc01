"""Training in workers of a Ray cluster on this machine: the numbers of torchrun, dying nodes, Ctrl-C, nodes that are refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import COMMAND, ENVIRONMENT, Refused

import mhgrn
from mhgrn.config import Config
from mhgrn.engines.worker import software
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import read_about
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.on_ray import same_as_driver, train_on_ray
from ray_cluster import NODE, cluster_of
from tiny_encoder import letter_encoder

ray = pytest.importorskip("ray")
STEPS, EPOCHS = 4, 30  # of an epoch with two processes; of a training
STOP_AT = 20


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Dropout everywhere: each process has its own random numbers."""
    text = {"encoder": str(letter_encoder(tmp_path_factory.mktemp("encoder"))), "pooling": "cls", "frozen_epochs": 1}
    training = {"epochs": EPOCHS, "patience": EPOCHS, "batch_size": 6, "log_every": 1, "checkpoint_every": 1}
    return Config.of({"features": "random", "mhgrn": {"hidden_dim": 8}, "text": text, "training": training})


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl that are whole, without what the clock says."""
    file = folder / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines if line.endswith("}")]


def arguments(data: PreparedData, config: Config, run: Path) -> list[str]:
    file = run.with_suffix(".yaml")
    file.write_text(config.to_yaml(), encoding="utf-8")
    return [COMMAND, "train", "--data", str(data.folder), "-o", str(run), "--config", str(file)]


def on_cluster(cluster: Any, data: PreparedData, config: Config, run: Path, *options: str) -> "subprocess.Popen[str]":
    command = [*arguments(data, config, run), "--engine", "ray", "--address", cluster.address, *options]
    return subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_step(step: int, run: Path, training: "subprocess.Popen[str]") -> None:
    while training.poll() is None and not any(row["step"] >= step for row in rows(run)):
        time.sleep(0.02)


@pytest.fixture(scope="module")
def by_torchrun(small_data: PreparedData, config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of two processes of torchrun."""
    run = tmp_path_factory.mktemp("torchrun") / "run"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    done = subprocess.run(
        [*launcher, *arguments(small_data, config, run)], env=ENVIRONMENT, capture_output=True, text=True, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stderr
    assert rows(run)[-1]["step"] == STEPS * EPOCHS
    return run


def check_equal(run: Path, expected: Path) -> None:
    assert rows(run) == rows(expected)
    for file in ("model.safetensors", "calibration.json"):
        assert (run / file).read_bytes() == (expected / file).read_bytes()
    about, other = read_about(run), read_about(expected)
    assert {key for key in other if about[key] != other[key]} <= {"data"}  # its place relative to the run
    assert (about["processes"], about["finished"]) == (2, True)
    assert {path.name for path in run.parent.iterdir()} <= {run.name, f"{run.name}.yaml"}


@pytest.fixture(scope="class")
def cluster() -> Iterator[Any]:
    """Three nodes. The first one has no processors: the workers are on the two others."""
    with cluster_of(3, num_cpus=0) as cluster:
        yield cluster


@pytest.mark.long
class TestThreeNodes:
    def test_losses_and_weights_are_those_of_torchrun(
        self,
        cluster: Any,
        by_torchrun: Path,
        small_data: PreparedData,
        starter_graph: KnowledgeGraph,
        config: Config,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        run = train_on_ray(small_data, config, tmp_path / "run", starter_graph, workers=2)
        assert capsys.readouterr().err.count("epoch   2 ") == 1
        check_equal(run.folder, by_torchrun)
        with pytest.raises(UserError, match="contains a trained run"):
            train_on_ray(small_data, config, tmp_path / "run", starter_graph)

    def test_a_node_that_dies_is_replaced(
        self, cluster: Any, by_torchrun: Path, small_data: PreparedData, config: Config, tmp_path: Path
    ) -> None:
        run = tmp_path / "run"
        training = on_cluster(cluster, small_data, config, run, "--workers", "2")
        wait_for_step(STOP_AT, run, training)
        here = ray.get_runtime_context().get_node_id()
        cluster.remove_node(next(node for node in cluster.worker_nodes if node.node_id != here), allow_graceful=False)
        assert STOP_AT <= rows(run)[-1]["step"] < STEPS * EPOCHS
        cluster.add_node(**NODE)
        out, err = training.communicate(timeout=1500)
        assert training.returncode == 0, err
        assert out.count("\n") == 1, out
        assert "a worker died" in err
        assert f"resuming {run}" in err
        check_equal(run, by_torchrun)

    def test_ctrl_c_saves_a_checkpoint_and_the_same_command_resumes(
        self, cluster: Any, by_torchrun: Path, small_data: PreparedData, config: Config, tmp_path: Path
    ) -> None:
        run = tmp_path / "run"
        training = on_cluster(cluster, small_data, config, run, "--workers", "2")
        wait_for_step(STOP_AT, run, training)
        training.send_signal(signal.SIGINT)
        out, err = training.communicate(timeout=600)
        assert (training.returncode, out) == (130, ""), err
        assert "run the same command without --force to resume" in err
        assert "Traceback" not in err
        assert (run / "checkpoint.safetensors").is_file()
        assert STOP_AT <= rows(run)[-1]["step"] < STEPS * EPOCHS
        again = on_cluster(cluster, small_data, config, run)
        _, err = again.communicate(timeout=1500)
        assert again.returncode == 0, err
        assert f"resuming {run}" in err
        assert "2 processes train together" in err  # as before, though the cluster has three nodes
        check_equal(run, by_torchrun)

    def test_a_node_with_another_version_is_refused(
        self, cluster: Any, small_data: PreparedData, starter_graph: KnowledgeGraph, config: Config, tmp_path: Path
    ) -> None:
        package = tmp_path / "other" / "mhgrn"
        shutil.copytree(Path(mhgrn.__file__).parent, package)
        (package / "extra.py").write_text("# another version\n")
        path = os.pathsep.join([str(package.parent), os.environ["PYTHONPATH"]])
        node = cluster.add_node(**NODE, env_vars={"PYTHONPATH": path})
        try:
            with pytest.raises(UserError, match=r"^node .*: it has mhgrn .*, not mhgrn .*; install the same version on all nodes"):
                train_on_ray(small_data, config, tmp_path / "run", starter_graph, workers=3)
        finally:
            cluster.remove_node(node)
        assert not (tmp_path / "run").exists()


class TestWithoutCluster:
    def test_a_node_with_other_files_is_refused(
        self, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "seen").write_text("token")
        task = {
            "software": software(),
            "here": str(tmp_path),
            "seen": str(tmp_path / "seen"),
            "token": "token",
            "folder": str(tmp_path / "run"),
            "data": [str(small_data.folder), small_data.fingerprint],
            "graph": [str(starter_graph.folder), starter_graph.fingerprint],
        }
        data, graph = same_as_driver(task)
        assert (data.fingerprint, graph.fingerprint) == (small_data.fingerprint, starter_graph.fingerprint)
        gone = str(tmp_path / "gone")
        for change, says in (
            ({"software": "mhgrn 0"}, "not mhgrn 0 as this machine; install the same version on all nodes"),
            (
                {"seen": gone},
                f"it does not see the folder {tmp_path} of this machine. Run folder, data and graph must be on a path",
            ),
            ({"token": "other"}, "it does not see the folder"),
            ({"data": [gone, ""]}, f"it has no folder {gone}"),
            ({"data": [str(small_data.folder), "other"]}, "holds other data than on this machine"),
            ({"graph": [gone, ""]}, f"it has no folder {gone}"),
            ({"graph": [str(starter_graph.folder), "other"]}, "holds another graph than on this machine"),
        ):
            with pytest.raises(UserError) as error:
                same_as_driver(task | change)
            assert says in str(error.value)

    def test_wrong_options_are_refused(self, refused: Refused, small_data: PreparedData, tmp_path: Path) -> None:
        command = ["train", "--data", str(small_data.folder), "-o", str(tmp_path / "run")]
        refused([*command, "--workers", "2"], ["--engine ray", "torchrun"])
        refused([*command, "--address", "auto"], ["--engine ray"])
        refused([*command, "--engine", "ray", "--address", "ray://127.0.0.1:1"], ["a machine of the cluster"])
        refused([*command, "--engine", "ray", "--address", "127.0.0.1:1"], ["no Ray cluster at 127.0.0.1:1"])
