"""Killed, interrupted, out of space: what is on disk afterwards is whole, or is not taken for whole."""

import glob
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import COMMAND, ENVIRONMENT, TINY, Command, Project, contents, in_a_process, start

from mhgrn.errors import UserError
from mhgrn.io.atomic import partial_suffix
from mhgrn.kg import KnowledgeGraph
from mhgrn.starter import HERE
from mhgrn.subgraphs.prepared import PreparedData

QUICK = pytest.param(3, id="3 kills")
LONG = pytest.param(30, id="30 kills", marks=pytest.mark.long)


def wait_for(condition: Callable[[], object], child: subprocess.Popen[str], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition() and child.poll() is None and time.monotonic() < until:
        time.sleep(0.002)


def open_files(pid: int) -> list[str]:
    """What a process has open, on Linux."""
    try:
        return [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:  # one was closed while we looked
        return []


def kill_again_and_again(args: list[object], partial: str, check: Callable[[], object], kills: int, lasts: float) -> None:
    """SIGKILL at random moments, every other time while ``partial`` (a pattern) is being written; then ``check`` what is there."""
    dice = random.Random(kills)
    for number in range(kills):
        child = start(*args)
        if number % 2:
            time.sleep(dice.uniform(0.2, 1.1) * lasts)
        else:
            wait_for(lambda: glob.glob(partial, include_hidden=True), child)
            time.sleep(dice.choice([0, 0.002, 0.01, 0.05]))
        child.kill()
        child.communicate()
        check()


@pytest.fixture(scope="module")
def many_triples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dice = random.Random(0)
    path = tmp_path_factory.mktemp("triples") / "many.tsv"
    with path.open("w", encoding="utf-8") as file:
        for _ in range(100_000):
            file.write(f"thing {dice.randrange(40_000)}\tIsA\tthing {dice.randrange(40_000)}\n")
    return path


@pytest.fixture(scope="module")
def many_facts(many_triples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many") / "graph"
    assert in_a_process("kg", "build", many_triples, "-o", folder).code == 0
    return folder


FOLDERS: dict[str, tuple[list[str], type[KnowledgeGraph] | type[PreparedData]]] = {
    "build": (["kg", "build", "{triples}", "--weights"], KnowledgeGraph),
    "merge": (["kg", "merge", "{project}/graph", "{facts}"], KnowledgeGraph),
    "prepare": (["prepare", "{questions}", "--kg", "{project}/graph"], PreparedData),
}


@pytest.mark.parametrize("kills", [QUICK, LONG])
@pytest.mark.parametrize(("command", "kind"), FOLDERS.values(), ids=FOLDERS)
def test_a_command_killed_again_and_again_ends_in_the_same_bytes(
    command: list[str],
    kind: type[KnowledgeGraph] | type[PreparedData],
    kills: int,
    project: Project,
    many_triples: Path,
    many_facts: Path,
    tmp_path: Path,
) -> None:
    target = tmp_path / "out" / "made"
    places = {"triples": many_triples, "facts": many_facts, "project": project.root}
    places["questions"] = HERE / ("dev.jsonl" if kills < 10 else "train.jsonl")
    args: list[object] = [*(part.format(**places) for part in command), "-o", target]
    began = time.monotonic()
    assert in_a_process(*args).code == 0
    lasts = time.monotonic() - began
    whole = contents(target)
    shutil.rmtree(target)
    dice = random.Random(kills)

    def check() -> None:
        if target.exists():
            kind.load(target)
            assert contents(target) == whole
            if dice.random() < 0.5:  # else the next one replaces it
                shutil.rmtree(target)
        for left in target.parent.iterdir():
            if left != target:
                with pytest.raises(UserError, match="half-written"):
                    kind.load(left)

    kill_again_and_again(args, f"{target.parent}/.{target.name}.partial-*", check, kills, lasts)
    assert in_a_process(*args).code == 0
    assert contents(target) == whole
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("kills", [QUICK, LONG])
def test_a_fetch_killed_again_and_again_ends_in_the_same_bytes(kills: int, tmp_path: Path) -> None:
    name = "conceptnet-assertions-5.7.0.csv.gz"
    mirror, target = tmp_path / "mirror", tmp_path / "out" / "conceptnet"
    mirror.mkdir()
    (mirror / name).write_bytes(gzip.compress(random.Random(0).randbytes(1 << 20), mtime=0) * 30)
    args: list[object] = ["fetch", "conceptnet", "--release", "5.7.0", "--mirror", mirror, "--to", target]
    began = time.monotonic()
    assert in_a_process(*args).code == 0
    lasts = time.monotonic() - began
    whole = contents(target)
    shutil.rmtree(target)

    def check() -> None:
        if (target / name).exists():
            assert contents(target)[name] == whole[name]
            shutil.rmtree(target)

    kill_again_and_again(args, f"{target}/.*.partial-*", check, kills, lasts)
    assert in_a_process(*args).code == 0
    assert contents(target) == whole
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_the_number_of_workers_does_not_show(project: Project, tmp_path: Path) -> None:
    made = []
    for workers in ("1", "2", "5"):
        target = tmp_path / workers
        args = ["prepare", HERE / "dev.jsonl", "--kg", project.graph, "-o", target, "--max-nodes", "50", "--workers", workers]
        assert in_a_process(*args).code == 0
        made.append(contents(target))
    assert made[0] == made[1] == made[2]


def test_a_build_killed_between_two_steps_of_replacing_keeps_old_or_new(project: Project, tmp_path: Path) -> None:
    """The process dies at its n-th rename, for every n it gets to."""
    dies = (
        "import os, pathlib, signal, sys\n"
        "from mhgrn.cli import main\n"
        "left = int(sys.argv.pop(1))\n"
        "def dying(true):\n"
        "    def rename(*args, **options):\n"
        "        global left\n"
        "        left -= 1\n"
        "        if not left: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return true(*args, **options)\n"
        "    return rename\n"
        "os.rename, os.replace = dying(os.rename), dying(os.replace)\n"
        "main()\n"
    )
    target = tmp_path / "graph"
    shutil.copytree(project.graph, target)
    args = ["kg", "shuffle-relations", str(project.graph), "-o", str(target)]
    for n in range(1, 10):
        ended = subprocess.run([sys.executable, "-c", dies, str(n), *args], env=ENVIRONMENT, capture_output=True, check=False)
        assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()
        assert in_a_process("kg", "stats", target).code == 0, f"died at rename {n}"
        if ended.returncode == 0:
            break
    assert n > 1
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_ctrl_c_during_a_build_leaves_nothing(many_triples: Path, tmp_path: Path) -> None:
    child = start("kg", "build", many_triples, "-o", tmp_path / "graph")
    wait_for(lambda: str(many_triples) in open_files(child.pid), child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert (child.returncode, out, err) == (130, "", "mhgrn: interrupted.\n")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_during_training_keeps_the_best_so_far(own: Project, here: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = start("train", "--data", own.data, "-o", run, "--set", "training.epochs=100000", "--set", "training.patience=100000")
    wait_for((run / "run.json").is_file, child)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert "Traceback" not in err
    assert f"{run} keeps the best model so far" in err
    assert not [path.name for path in run.iterdir() if "partial" in path.name]
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert "finished" not in about
    kept = about["metrics"]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert kept["dev_accuracy"] == max(row["dev_accuracy"] for row in rows if "dev_accuracy" in row)
    evaluated = json.loads(here("eval", run, "--split", "dev", "--json").out)
    assert evaluated["accuracy"] == kept["dev_accuracy"]


def test_training_goes_on_where_a_killed_one_left_files(own: Project, here: Command) -> None:
    """A process killed before its first model leaves a partial folder beside the run's place."""
    left = own.run.with_name(f".{own.run.name}.partial-{partial_suffix(4194304)}")
    own.run.rename(left)
    trained = here("train", "--data", own.data, "-o", own.run, *TINY)
    assert trained.code == 0, trained
    assert not left.exists()
    assert {path.name for path in own.run.iterdir()} == {"config.yaml", "metrics.jsonl", "model.safetensors", "run.json"}


FULL: dict[str, Callable[[Project], list[object]]] = {
    "build": lambda p: ["kg", "build", HERE / "facts.tsv", "-o", p.graph],
    "shuffle": lambda p: ["kg", "shuffle-relations", p.graph, "-o", p.graph],
    "prepare": lambda p: ["prepare", p.questions, "--kg", p.graph, "-o", p.data],
    "predict": lambda p: ["predict", p.run, p.questions / "test.jsonl", "-o", p.root / "answers.jsonl"],
    "train": lambda p: ["train", "--data", p.data, "-o", p.run, "--force", *TINY],
    "train, writing caches": lambda p: (
        shutil.rmtree(p.graph / "features"),
        ["train", "--data", p.data, "-o", p.root / "new", *TINY],
    )[1],
}


@pytest.mark.parametrize("command", FULL.values(), ids=FULL)
def test_no_room_for_a_file_is_one_message_and_the_old_is_whole(command: Callable[[Project], list[object]], own: Project) -> None:
    """A cap on a file's size stands for a full disk: a write fails half-way."""
    (own.root / "answers.jsonl").write_text("mine", encoding="utf-8")
    args = command(own)
    before = contents(own.root)
    child = start(*args, largest_file=2048)
    out, err = child.communicate()
    assert (child.returncode, out) == (2, ""), err
    errors = [line for line in err.splitlines() if not line.startswith("epoch ")]
    assert len(errors) == 1, err
    assert errors[0].startswith("mhgrn: ")
    assert "File too large" in errors[0]
    assert str(own.root) in errors[0]
    after = contents(own.root)
    assert {path: after.get(path) for path in before} == before
    assert not [path for path in after if "partial" in path]
    assert after.keys() - before.keys() <= {"graph/features"}  # the cache's folder, empty


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
def test_a_result_that_cannot_be_printed_is_an_error(project: Project) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [COMMAND, "kg", "stats", str(project.graph)],
            env=os.environ,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith("mhgrn: No space left on device")
    assert ended.stderr.count("\n") == 1
