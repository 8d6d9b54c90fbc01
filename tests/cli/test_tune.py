"""mhgrn text tune: what it prints, and what it refuses."""

import json
from pathlib import Path

import pytest
from harness import Command, Project, Refused

from tiny_encoder import letter_encoder

FEW = ("--steps", "2", "--batch-size", "8")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return letter_encoder(tmp_path_factory.mktemp("base"))


def test_it_says_what_was_measured(here: Command, project: Project, base: Path, tmp_path: Path) -> None:
    dev = project.questions / "dev.jsonl"
    common = ("text", "tune", project.graph, *FEW, "--encoder", base)
    separate = here(*common, "-o", tmp_path / "one", "--encoding", "separate", "--measure", dev, "--without-questions", dev)
    assert separate.code == 0, separate.err
    first, second, third = separate.out.splitlines()
    assert "2 steps; answers to held-out facts" in first
    assert "before" in first
    assert second.startswith(f"cosine on {dev}: ")
    assert third == f"Use it with --set text.encoder={tmp_path / 'one'}"
    pair = here(*common, "-o", tmp_path / "two", "--encoding", "pair")
    assert pair.code == 0, pair.err
    assert "of held-out facts answered right among five names" in pair.out
    assert "before" not in pair.out
    found = json.loads(here(*common, "-o", tmp_path / "three", "--encoding", "pair", "--json").out)
    assert found["held_out"][0] is None
    assert found["steps"] == 2
    assert here("verify", tmp_path / "one", tmp_path / "two").code == 0


def test_it_refuses_in_one_line(refused: Refused, project: Project, base: Path, tmp_path: Path) -> None:
    common = ["text", "tune", str(project.graph), "-o", str(tmp_path / "new"), "--encoder", str(base), *FEW]
    refused([*common, "--budget", "soon"], ["--budget", "soon"])
    refused([*common, "--encoding", "pair", "--distill", "1"], ["--distill", "separate"])
    refused([*common, "--encoding", "pair", "--measure", str(project.questions / "dev.jsonl")], ["--measure", "separate"])
    refused([*common[:3], "-o", str(base), *common[5:]], ["contains other files"])
