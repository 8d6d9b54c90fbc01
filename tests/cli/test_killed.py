"""After a kill, an interruption or a full disk, every folder is complete, or recognized as incomplete."""

import glob
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import COMMAND, TINY, Command, Project, contents, in_a_process, start

from forking import Forked
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.starter import HERE
from mhgrn.subgraphs.prepared import PreparedData

QUICK = pytest.param(2, id="2 kills")
STARTUP = 0.5  # seconds, about
LONG = pytest.param(30, id="30 kills", marks=pytest.mark.long)


def wait_for(condition: Callable[[], object], child: Forked, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition() and child.poll() is None and time.monotonic() < until:
        time.sleep(0.002)


def open_files(pid: int) -> list[str]:
    """Return the files that a process has open, on Linux."""
    try:
        return [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:  # one was closed in between
        return []


def kill_repeatedly(args: list[object], partial: str, check: Callable[[], object], kills: int, lasts: float) -> None:
    """Kill a command several times, each time in a new process, and ``check`` the files that it leaves.

    Even kills happen while a file that matches ``partial`` is being written, odd ones at a random time of the command's duration
    ``lasts``, in seconds.
    """
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
        for _ in range(60_000):
            file.write(f"thing {dice.randrange(40_000)}\tIsA\tthing {dice.randrange(40_000)}\n")
    return path


@pytest.fixture(scope="module")
def many_facts(many_triples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many") / "graph"
    assert in_a_process("kg", "build", many_triples, "-o", folder).code == 0
    return folder


def graph_files(files: dict[str, str]) -> dict[str, str]:
    """Leave out the concept index: it is written into the finished graph, and rebuilt if it is missing."""
    return {name: digest for name, digest in files.items() if not name.startswith(("index", ".index"))}


FOLDERS: dict[str, tuple[list[str], type[KnowledgeGraph] | type[PreparedData]]] = {
    "build": (["kg", "build", "{triples}", "--weights", "--force"], KnowledgeGraph),
    "merge": (["kg", "merge", "{project}/graph", "{facts}", "--force"], KnowledgeGraph),
    "prepare": (["prepare", "{questions}", "--kg", "{project}/graph", "--force"], PreparedData),
}


@pytest.mark.parametrize("kills", [QUICK, LONG])
@pytest.mark.parametrize(("command", "kind"), FOLDERS.values(), ids=FOLDERS)
def test_a_command_that_was_killed_repeatedly_ends_with_the_same_bytes(
    command: list[str],
    kind: type[KnowledgeGraph] | type[PreparedData],
    kills: int,
    here: Command,
    project: Project,
    many_triples: Path,
    many_facts: Path,
    tmp_path: Path,
) -> None:
    target = tmp_path / "out" / "made"
    places = {"triples": many_triples, "facts": many_facts, "project": project.root}
    places["questions"] = HERE / ("dev.jsonl" if kills < 10 else "train.jsonl")
    args: list[object] = [*(part.format(**places) for part in command), "-o", target, "--force"]
    began = time.monotonic()
    assert here(*args).code == 0
    lasts = STARTUP + time.monotonic() - began
    whole = contents(target)
    shutil.rmtree(target)
    dice = random.Random(kills)

    def check() -> None:
        if target.exists():
            kind.load(target)
            assert graph_files(contents(target)) == graph_files(whole)
            if dice.random() < 0.5:  # otherwise the next command replaces it
                shutil.rmtree(target)
        for left in target.parent.iterdir():
            if left != target:
                with pytest.raises(UserError, match="half-written"):
                    kind.load(left)

    kill_repeatedly(args, f"{target.parent}/.{target.name}.partial-*", check, kills, lasts)
    assert here(*args).code == 0
    assert contents(target) == whole
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("kills", [QUICK, LONG])
def test_a_fetch_that_was_killed_repeatedly_ends_with_the_same_bytes(kills: int, here: Command, tmp_path: Path) -> None:
    name = "conceptnet-assertions-5.7.0.csv.gz"
    mirror, target = tmp_path / "mirror", tmp_path / "out" / "conceptnet"
    mirror.mkdir()
    (mirror / name).write_bytes(gzip.compress(random.Random(0).randbytes(1 << 20), mtime=0) * 30)
    args: list[object] = ["fetch", "conceptnet", "--release", "5.7.0", "--mirror", mirror, "--to", target]
    began = time.monotonic()
    assert here(*args).code == 0
    lasts = STARTUP + time.monotonic() - began
    whole = contents(target)
    shutil.rmtree(target)

    def check() -> None:
        if (target / name).exists():
            assert contents(target)[name] == whole[name]
            shutil.rmtree(target)

    kill_repeatedly(args, f"{target}/.*.partial-*", check, kills, lasts)
    assert here(*args).code == 0
    assert contents(target) == whole
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_the_number_of_workers_changes_no_byte(here: Command, project: Project, tmp_path: Path) -> None:
    for workers in ("1", "5"):
        args = ["prepare", project.questions, "--kg", project.graph, "-o", tmp_path / workers, "--max-nodes", "50"]
        assert here(*args, "--workers", workers).code == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "5")


DYING = """
import os, signal, sys
from mhgrn.cli import main
from mhgrn.kg import KnowledgeGraph

def dies_at(n, function):
    def rename(*args, **options):
        global left
        left -= 1
        if not left: os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return rename

for n in range(1, 30):
    if not (child := os.fork()):
        left = n
        os.rename, os.replace = dies_at(n, os.rename), dies_at(n, os.replace)
        main()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, len(KnowledgeGraph.load(sys.argv[-1])), flush=True)
    if code != -signal.SIGKILL: break
"""


def test_a_build_killed_at_any_rename_leaves_the_old_or_the_new_graph(project: Project, tmp_path: Path) -> None:
    target = tmp_path / "graph"
    shutil.copytree(project.graph, target)
    ended = Forked(DYING, "kg", "shuffle-relations", str(project.graph), "--force", "-o", str(target))
    out, err = ended.communicate()
    assert ended.returncode == 0, err
    codes, sizes = zip(*(line.split() for line in out.splitlines() if line.startswith(("0 ", "-9 "))), strict=True)
    assert set(codes[:-1]) == {"-9"}
    assert codes[-1] == "0", out
    assert len(set(sizes)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_ctrl_c_during_a_build_leaves_nothing(many_triples: Path, tmp_path: Path) -> None:
    child = start("kg", "build", many_triples, "-o", tmp_path / "graph")
    wait_for(lambda: str(many_triples) in open_files(child.pid), child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert (child.returncode, out, err) == (130, "", "mhgrn: interrupted.\n")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_during_training_keeps_the_best_model(own: Project, here: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    child = start("train", "--data", own.data, "-o", run, "--set", "training.epochs=100000", "--set", "training.patience=100000")
    wait_for((run / "run.json").is_file, child)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate()
    assert "Traceback" not in err
    assert f"{run} contains the best model so far" in err
    assert not [path.name for path in run.iterdir() if "partial" in path.name]
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert "finished" not in about
    kept = about["metrics"]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert kept["dev_accuracy"] == max(row["dev_accuracy"] for row in rows if "dev_accuracy" in row)
    evaluated = json.loads(here("eval", run, "--split", "dev", "--json").out)
    assert evaluated["accuracy"] == kept["dev_accuracy"]


def test_training_replaces_the_partial_folder_of_a_killed_process(own: Project, here: Command) -> None:
    """A process that is killed before its first model leaves a partial folder."""
    left = own.run.with_name(f".{own.run.name}.partial-0123456789abcdef")
    own.run.rename(left)
    trained = here("train", "--data", own.data, "-o", own.run, *TINY)
    assert trained.code == 0, trained
    assert not left.exists()
    assert {path.name for path in own.run.iterdir()} == {
        "calibration.json",
        "checksums.json",
        "config.yaml",
        "metrics.jsonl",
        "model.safetensors",
        "run.json",
    }


FULL: dict[str, Callable[[Project], list[object]]] = {
    "build": lambda p: ["kg", "build", HERE / "facts.tsv", "-o", p.graph, "--force"],
    "shuffle": lambda p: ["kg", "shuffle-relations", p.graph, "-o", p.graph, "--force"],
    "prepare": lambda p: ["prepare", p.questions, "--kg", p.graph, "-o", p.data, "--force"],
    "predict": lambda p: ["predict", p.run, p.questions / "test.jsonl", "-o", p.root / "answers.jsonl", "--force"],
    "train": lambda p: ["train", "--data", p.data, "-o", p.run, "--force", *TINY],
    "train, writing caches": lambda p: (
        shutil.rmtree(p.graph / "features"),
        ["train", "--data", p.data, "-o", p.root / "new", *TINY],
    )[1],
}


@pytest.mark.parametrize("command", FULL.values(), ids=FULL)
def test_a_full_disk_is_one_message_and_keeps_the_old_files(command: Callable[[Project], list[object]], own: Project) -> None:
    """A limit on the size of files stands for a full disk: a write fails half-way."""
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
    assert after.keys() - before.keys() <= {"graph/features"}  # the empty folder of the cache


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
    (error,) = (line for line in ended.stderr.splitlines() if not line.startswith("compiling "))
    assert error.startswith("mhgrn: No space left on device")
