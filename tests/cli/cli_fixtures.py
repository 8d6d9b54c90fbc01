"""Running the command line in this process, and one small trained run that all its tests share."""

import os
import sys
from pathlib import Path

import pytest
from harness import Command, Outcome, Project, Refused, contents, make_project

from mhgrn.cli import main
from once import made_once

MANY_TESTS = 500


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
    """A project made by real processes, shared by all test processes. Tests that change it use ``own``."""
    return Project(made_once(tmp_path_factory, "cli-project", make_project))


@pytest.fixture(scope="session", autouse=True)
def compiled_once(request: pytest.FixtureRequest) -> None:
    """Keep test processes from compiling the same kernels at the same time: the project's commands compile most of them."""
    if "PYTEST_XDIST_WORKER" in os.environ and request.session.testscollected > MANY_TESTS:
        request.getfixturevalue("project")


@pytest.fixture
def own(project: Project, tmp_path: Path) -> Project:
    """A copy of the project that a test may spoil."""
    return project.copy(tmp_path / "own")
