"""Running the command line in this process, and one small trained run that all its tests share."""

import fcntl
import os
import sys
from pathlib import Path

import pytest
from harness import Command, Outcome, Project, Refused, contents, make_project

from mhgrn.cli import main


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process: no start-up to wait for. What would be a traceback fails the test."""

    def run(*args: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["mhgrn", *map(str, args)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(here: Command, tmp_path: Path) -> Refused:
    """Check that a command is refused with one message that says all of ``says``, and that it alters nothing."""

    def check(args: list[str], says: list[str], lines: int | None = 1) -> str:
        before = contents(tmp_path)
        outcome = here(*args)
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        assert outcome.err.startswith("mhgrn: "), outcome.err
        assert "Traceback" not in outcome.err
        if lines is not None:
            assert outcome.err.count("\n") == lines, outcome.err
        for part in says:
            assert part in outcome.err
        assert contents(tmp_path) == before
        return outcome.err

    return check


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Made once by real processes, also where tests run side by side. Not to be altered: copy it."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return make_project(tmp_path_factory.mktemp("project") / "made")
    shared = tmp_path_factory.getbasetemp().parent / "cli-project"
    with (shared.parent / "cli-project.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            make_project(shared.with_name("cli-project-making"))
            # its folders name each other by where they are, so they are copied, not renamed
            Project(shared.with_name("cli-project-making")).copy(shared)
    return Project(shared)


@pytest.fixture
def own(project: Project, tmp_path: Path) -> Project:
    """A copy of the project that a test may spoil."""
    return project.copy(tmp_path / "own")
