"""The command line as its tests see it: outcomes, and a small project to run it on."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from forking import Forked
from mhgrn.io.checksums import CHECKSUMS, seal
from mhgrn.starter import FACTS, HERE

COMMAND = str(Path(sys.executable).with_name("mhgrn"))
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}  # tests run side by side
TINY = ("--set", "training.epochs=2", "--set", "seed=3")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


class Refused(Protocol):
    def __call__(self, args: list[str], says: list[str], lines: int | None = 1) -> str: ...


def in_a_process(*args: str | Path, cwd: Path | None = None) -> Outcome:
    """Run the command in a process of its own."""
    child = start(*args, cwd=cwd)
    out, err = child.communicate()
    assert child.returncode is not None
    return Outcome(child.returncode, out, err)


def contents(folder: Path) -> dict[str, str]:
    """Every path below a folder, with the digest of its bytes."""

    def digest(path: Path) -> str:
        is_regular = path.is_file() and not path.is_symlink()
        return hashlib.sha256(path.read_bytes()).hexdigest() if is_regular else str(path.lstat().st_mode)

    return {str(path.relative_to(folder)): digest(path) for path in sorted(folder.rglob("*"))}


def edit_json(path: Path, change: Callable[[Any], object]) -> None:
    """Alter a JSON object in its file, and the checksums of its folder."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    if (path.parent / CHECKSUMS).exists():
        seal(path.parent)


@dataclass(frozen=True)
class Project:
    """A user's folders after `kg build`, `prepare` and `train`."""

    root: Path

    @property
    def questions(self) -> Path:
        return self.root / "questions"

    @property
    def graph(self) -> Path:
        return self.root / "graph"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def run(self) -> Path:
        return self.root / "run"

    def copy(self, root: Path) -> "Project":
        """A copy of the project in another folder, with updated paths."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        other = Project(root)
        edit_json(other.data / "prepared.json", lambda about: about.update(graph=str(other.graph)))
        edit_json(other.run / "run.json", lambda about: about.update(graph=str(other.graph)))
        edit_json(other.run / "run.json", lambda about: about["data"].update(folder=str(other.data)))
        return other


def make_project(root: Path) -> Project:
    project = Project(root)
    project.questions.mkdir()
    for split, count in (("train", 12), ("dev", 8), ("test", 8)):
        lines = (HERE / f"{split}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:count]
        (project.questions / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    for step, args in {
        "build": ["kg", "build", FACTS, "--schema", "conceptnet", "-o", project.graph, "--json"],
        "prepare": ["prepare", project.questions, "--kg", project.graph, "-o", project.data, "--json"],
        "train": ["train", "--data", project.data, "-o", project.run, *TINY, "--json"],
    }.items():
        outcome = in_a_process(*args)
        assert outcome.code == 0, outcome
        (root / f"{step}.json").write_text(outcome.out, encoding="utf-8")
    return project


# pytest in the background ignores SIGINT, and its children inherit that
LAUNCH = """
import os, resource, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
if limit := int(sys.argv.pop(1)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from mhgrn.cli import main
main()
"""


def start(*args: object, largest_file: int = 0, cwd: Path | None = None, environment: Mapping[str, object] | None = None) -> Forked:
    """Start the command in a process of its own, to be killed or interrupted.

    Args:
        args: of the command.
        largest_file: the process may write no larger file, in bytes; 0 is no limit.
        cwd: its working directory.
        environment: additional environment variables.
    """
    return Forked(LAUNCH, str(largest_file), *map(str, args), cwd=cwd, environment=environment)
