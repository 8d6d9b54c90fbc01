"""`mhgrn experiments`: a real run of one task, help and wrong input."""

import json
from pathlib import Path

import pytest
from harness import Command, Refused

from mhgrn_reproduction.compositional import SYSTEMS
from mhgrn_reproduction.tasks import TASKS

COMMAND = ("experiments", "compositional")


def test_a_task_is_run_written_and_drawn(here: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "found.json"
    outcome = here(*COMMAND, "--only", "type", "--seeds", "1", "--json", file, "--plots", tmp_path / "plots")
    assert outcome.code == 0, outcome
    found = json.loads(file.read_text(encoding="utf-8"))
    assert list(found["tasks"]) == ["type"]
    assert [one["system"] for one in found["outcomes"]] == [system.name for system in SYSTEMS]
    assert all(one["came_out"] for one in found["outcomes"])
    assert (tmp_path / "plots" / "compositional.svg").stat().st_size > 1000
    last = {line[:40].strip(): line.split()[-1] for line in outcome.out.splitlines() if line}
    assert (last["mhgrn, K = 2"], last["gcn"]) == ("100.0", "50.0=")


def test_help_says_what_there_is(here: Command) -> None:
    assert "compositional" in here("experiments", "--help").out
    text = here(*COMMAND, "--help").out
    for option in ("--json", "--plots", "--seeds", "--only"):
        assert option in text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--only", "typ"], ["there is no task 'typ'", "Did you mean type?"]),
        (["--only", "order", "--only", "nothing"], ["'nothing'", ", ".join(sorted(TASKS))]),
        (["--seeds", "0"], ["--seeds"]),
        (["{root}/new.json"], ["add --json"]),
        (["--json", "{root}"], ["is a folder"]),
        (["--plots", "{root}/file"], ["is a file"]),
    ],
)
def test_wrong_input_is_refused(refused: Refused, tmp_path: Path, more: list[str], says: list[str]) -> None:
    (tmp_path / "file").write_text("kept")
    refused([*COMMAND, *(word.format(root=tmp_path) for word in more)], says)
