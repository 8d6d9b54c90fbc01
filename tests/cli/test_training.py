"""mhgrn train in real processes: killed, interrupted, launched in pairs, out of memory or space."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from harness import COMMAND, ENVIRONMENT, Command, Outcome, Project, in_a_process, start

from forking import Forked
from mhgrn.io.tensors import load_metadata
from mhgrn.training.metrics import Record
from tiny_encoder import letter_encoder

QUICK = pytest.param(3, id="3 kills")
LONG = pytest.param(20, id="20 kills", marks=pytest.mark.long)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letter_encoder(tmp_path_factory.mktemp("encoder"))


def command(project: Project, run: Path, encoder: Path, **settings: object) -> list[object]:
    """Four epochs of six steps, the text encoder trained from the second on, dropout everywhere."""
    chosen = {
        "text.encoder": encoder,
        "text.pooling": "cls",
        "text.frozen_epochs": 1,
        "text.learning_rate": 1e-3,
        "features": "random",
        "mhgrn.hidden_dim": 8,
        "training.epochs": 4,
        "training.patience": 4,
        "training.batch_size": 2,
        "training.micro_batch": 1,
        "training.schedule": "warmup_linear",
        "training.warmup_steps": 5,
        "training.checkpoint_every": 1,
        "training.log_every": 1,
    } | {key.replace("__", "."): value for key, value in settings.items()}
    options = [part for key, value in chosen.items() for part in ("--set", f"{key}={value}")]
    return ["train", "--data", project.data, "-o", run, *options]


def rows(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl that are whole, without what the clock says."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines() if (run / "metrics.jsonl").is_file() else []
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines if line.endswith("}")]


def wait_for_step(run: Path, step: int, child: Forked | subprocess.Popen[str]) -> None:
    until = time.monotonic() + 200
    while child.poll() is None and time.monotonic() < until and not any(row["step"] >= step for row in rows(run)):
        time.sleep(0.005)


@pytest.mark.parametrize("kills", [QUICK, LONG])
def test_a_training_killed_at_random_steps_ends_in_the_same_weights(
    kills: int, project: Project, encoder: Path, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    longer = {"training__epochs": 8, "training__patience": 8}  # a kill at step 23 comes long before the end
    done = in_a_process(*command(project, whole, encoder, **longer))
    assert done.code == 0, done
    assert rows(whole)[-1]["step"] == 48
    dice = random.Random(kills)
    steps = sorted(dice.sample(range(1, 24), kills))
    for step in steps:
        child = start(*command(project, broken, encoder, **longer))
        wait_for_step(broken, step, child)
        time.sleep(dice.choice([0, 0.002, 0.01]))
        child.kill()
        child.communicate()
    assert "finished" not in json.loads((broken / "run.json").read_text(encoding="utf-8"))
    done = in_a_process(*command(project, broken, encoder, **longer))
    assert done.code == 0, done
    assert f"resuming {broken}" in done.err
    assert rows(broken) == rows(whole)
    assert (broken / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert {path.name for path in broken.iterdir()} == {path.name for path in whole.iterdir()}


def test_ctrl_c_saves_and_the_same_command_resumes(project: Project, encoder: Path, tmp_path: Path, here: Command) -> None:
    """Also where no checkpoint was due yet, and no epoch has ended; another configuration is refused with what differs."""
    run = tmp_path / "run"
    args = command(project, run, encoder, training__checkpoint_every="60 minutes", training__epochs=500, training__patience=500)
    child = start(*args)
    place = tmp_path.glob(".run.partial-*")
    while child.poll() is None and not (rows(next(place, run)) or rows(run)):
        place = tmp_path.glob(".run.partial-*")
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert child.returncode == 130, err
    assert "to resume" in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob(".run.partial-*"))
    saved = load_metadata(run / "checkpoint.safetensors")["place"]
    assert rows(run)[-1]["step"] == saved["step"] >= 1
    other = here(*command(project, run, encoder, seed=4, training__epochs=500, training__patience=500))
    assert other.code == 2
    assert "unfinished run" in other.err
    assert "seed was 0 and is 4" in other.err
    assert other.err.count("\n") == 1
    shutil.copytree(run, tmp_path / "copy")
    forced = here(*command(project, run, encoder, training__epochs=1), "--force")
    assert forced.code == 0, forced
    assert [row["epoch"] for row in rows(run) if "dev_accuracy" in row] == [1]
    child = start(*[tmp_path / "copy" if arg == run else arg for arg in args])
    wait_for_step(tmp_path / "copy", saved["step"] + 1, child)
    child.send_signal(signal.SIGTERM)  # as a queue does that wants its machine back
    _, err = child.communicate()
    assert f"resuming {tmp_path / 'copy'}" in err
    assert "to resume" in err
    assert load_metadata(tmp_path / "copy" / "checkpoint.safetensors")["place"]["step"] > saved["step"]


def test_a_run_without_a_model_yet_says_so(
    project: Project, encoder: Path, tmp_path: Path, here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes with the first row of the log, long before the first epoch ends."""
    run, add, pressed = tmp_path / "run", Record.add, []

    def press(record: Record, row: dict[str, Any], *rest: Any) -> None:
        add(record, row, *rest)
        if not pressed:
            pressed.append(row["step"])
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Record, "add", press)
    stopped = here(*command(project, run, encoder, training__batch_size=1))
    assert stopped.code == 130, stopped
    assert pressed == [1]
    assert (run / "checkpoint.safetensors").is_file()
    assert not (run / "model.safetensors").exists()
    asked = here("ask", run, "Where do you keep milk?", "-c", "oven", "-c", "refrigerator")
    assert asked.code == 2
    assert "has not finished an epoch yet" in asked.err


def test_no_room_for_a_checkpoint_leaves_the_one_before(project: Project, encoder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    args = command(project, run, encoder, training__log_every=1000, training__epochs=50, training__patience=50)
    child = start(*args)
    while child.poll() is None and not (run / "checkpoint.safetensors").is_file():
        time.sleep(0.005)
    child.kill()
    child.communicate()
    before = (run / "checkpoint.safetensors").read_bytes()
    child = start(*args, largest_file=8192)
    out, err = child.communicate()
    assert (child.returncode, out) == (2, ""), err
    errors = [line for line in err.splitlines() if line.startswith("mhgrn: ")]
    assert len(errors) == 1
    assert "File too large" in errors[0]
    assert str(run) in errors[0]
    assert "Traceback" not in err
    assert (run / "checkpoint.safetensors").read_bytes() == before
    assert not list(run.glob(".*"))


def in_a_pair(*args: object) -> list[Outcome]:
    """Two processes with the environment that a launcher gives them. The long test below starts the launcher itself."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    children = [start(*args, environment=common | {"RANK": rank, "LOCAL_RANK": rank}) for rank in range(2)]
    outcomes = []
    for child in children:
        out, err = child.communicate()
        outcomes.append(Outcome(child.wait(), out, err))
    return outcomes


def launched(*args: object) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python", COMMAND]
    return subprocess.run([*launcher, *map(str, args)], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)


def test_two_processes_learn_what_one_does_from_batches_twice_as_large(project: Project, encoder: Path, tmp_path: Path) -> None:
    """Twenty steps of two sizes in turn; nothing is printed or written twice."""
    quiet = {
        "mhgrn__dropout": 0,
        "mhgrn__initial_scale": 0.3,
        "score_dropout": 0,
        "text__encoder": letter_encoder(tmp_path / "encoder", dropout=0.0),
        "training__epochs": 10,
        "training__patience": 10,
    }
    one = in_a_process(*command(project, tmp_path / "one", encoder, **quiet, training__batch_size=8))
    two = in_a_pair(*command(project, tmp_path / "two", encoder, **quiet, training__batch_size=4, training__micro_batch=3))
    assert one.code == 0, one
    assert [outcome.code for outcome in two] == [0, 0], two
    assert sum(outcome.out.count("dev accuracy") for outcome in two) == 1
    assert sum(outcome.err.count("epoch   1 ") for outcome in two) == 1
    first, second = ([row for row in rows(tmp_path / name) if "gradient_norm" in row] for name in ("one", "two"))
    assert [row["step"] for row in first] == [row["step"] for row in second] == list(range(1, 21))
    for a, b in zip(first, second, strict=True):
        assert b["loss"] == pytest.approx(a["loss"], abs=1e-5)
        assert b["learning_rate"] == a["learning_rate"]
    losses = [row["loss"] for row in first]
    assert max(losses) - min(losses) > 0.03  # or there would be little to agree on
    alone = in_a_process("train", "--data", project.data, "-o", tmp_path / "two")
    assert "contains a trained run" in alone.err


@pytest.mark.long
def test_two_processes_killed_go_on_to_the_same_end(project: Project, encoder: Path, tmp_path: Path) -> None:
    """Dropout on: each process has its own random numbers, and gets them back."""
    done = launched(*command(project, tmp_path / "whole", encoder))
    assert done.returncode == 0, done.stderr
    broken = tmp_path / "broken"
    for step in (2, 7):
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python", COMMAND]
        child = subprocess.Popen(
            [*launcher, *map(str, command(project, broken, encoder))],
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        wait_for_step(broken, step, child)
        workers = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True, check=False).stdout.split()
        for pid in (child.pid, *map(int, workers)):
            os.kill(pid, signal.SIGKILL)
        child.wait()
    alone = in_a_process(*command(project, broken, encoder))
    assert "number of processes was 2 and is 1" in alone.err
    done = launched(*command(project, broken, encoder))
    assert done.returncode == 0, done.stderr
    assert rows(broken) == rows(tmp_path / "whole")
    assert (broken / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


SHORT_OF_MEMORY = """
import resource, sys
from mhgrn.cli import main
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20), used + (600 << 20)))
main()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited the Linux way")
def test_running_out_of_memory_names_the_setting(project: Project, encoder: Path, tmp_path: Path) -> None:
    args = command(
        project, tmp_path / "run", encoder, mhgrn__hidden_dim=4000, training__batch_size=12, training__micro_batch="null"
    )
    child = Forked(SHORT_OF_MEMORY, *map(str, args))
    _, err = child.communicate()
    assert child.returncode == 2, err[-2000:]
    assert "out of memory with 12 questions at once: set training.micro_batch" in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_two_runs_at_once_share_the_vectors_of_texts(own: Project, encoder: Path, tmp_path: Path) -> None:
    shutil.rmtree(own.data / "cache", ignore_errors=True)
    children = [start(*command(own, tmp_path / name, encoder, text__frozen_epochs="null")) for name in ("a", "b")]
    for child in children:
        _, err = child.communicate()
        assert child.returncode == 0, err
    (cache,) = (own.data / "cache").iterdir()
    written = cache.stat().st_mtime_ns
    done = in_a_process(*command(own, tmp_path / "c", encoder, text__frozen_epochs="null", seed=5))
    assert done.code == 0, done
    assert cache.stat().st_mtime_ns == written
    assert rows(tmp_path / "a") == rows(tmp_path / "b") != rows(tmp_path / "c")
