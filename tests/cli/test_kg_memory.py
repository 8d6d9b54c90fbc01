"""`kg build --memory`: the output of a build in memory, wrong sizes, a full disk, a folder that cannot be written."""

from pathlib import Path

import pytest
from harness import Command, contents, start

from mhgrn.starter import FACTS
from read_only import make_read_only, make_writable, run_obeying_permissions

BUILD = ["kg", "build", FACTS, "--schema", "conceptnet", "-o"]


def test_output_and_folder_are_those_of_a_build_in_memory(here: Command, tmp_path: Path) -> None:
    outcomes = [here(*BUILD, tmp_path / "graph", *more, "--json") for more in (["--memory", "1GB"], ["--force"])]
    assert outcomes[0].code == outcomes[1].code == 0, outcomes
    assert outcomes[0].out == outcomes[1].out
    here(*BUILD, tmp_path / "other", "--memory", "1GB")
    assert contents(tmp_path / "other") == contents(tmp_path / "graph")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "other"]


@pytest.mark.parametrize("memory", ["much", "10MB", "4", "1000TB", ""])
def test_an_unsuitable_size_is_one_message(here: Command, tmp_path: Path, memory: str) -> None:
    outcome = here(*BUILD, tmp_path / "graph", "--memory", memory)
    assert (outcome.code, outcome.out) == (2, "")
    [message] = outcome.err.splitlines()
    assert message.startswith(f"mhgrn: --memory {memory}")
    assert not list(tmp_path.iterdir())


def test_an_existing_graph_is_replaced_only_with_force(here: Command, tmp_path: Path) -> None:
    here(*BUILD, tmp_path / "graph")
    before = contents(tmp_path)
    outcome = here(*BUILD, tmp_path / "graph", "--memory", "1GB")
    assert outcome.code == 2
    assert "replace it with --force" in outcome.err
    assert contents(tmp_path) == before
    assert here(*BUILD, tmp_path / "graph", "--memory", "1GB", "--force").code == 0
    assert contents(tmp_path) == before


def test_a_full_disk_is_one_message_and_the_same_command_goes_on(here: Command, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: a write fails half-way."""
    here(*BUILD, tmp_path / "graph")
    before = contents(tmp_path / "graph")
    command = [*BUILD, tmp_path / "graph", "--memory", "1GB", "--force"]
    for limit in (300, 5000):
        child = start(*command, largest_file=limit)
        out, err = child.communicate()
        assert (child.returncode, out) == (2, "")
        [message] = err.splitlines()
        assert message.startswith(f"mhgrn: {tmp_path}/.graph.stages/")
        assert "File too large" in message
        assert "Free some space and run the command again" in message
        assert contents(tmp_path / "graph") == before
    assert here(*command).code == 0
    assert contents(tmp_path / "graph") == before
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_a_folder_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    make_read_only(tmp_path)
    try:
        command = ["-c", "from mhgrn.cli import main; main()", *map(str, BUILD), str(tmp_path / "graph"), "--memory", "1GB"]
        done = run_obeying_permissions(*command, environment={})
    finally:
        make_writable(tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"mhgrn: {tmp_path} is not writable; name another folder.\n"
