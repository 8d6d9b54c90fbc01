"""`mhgrn synthesize` as a user types it."""

import json
from pathlib import Path

import pytest
from harness import Command, Project, Refused


def test_synthesize_writes_questions_that_prepare_reads(project: Project, here: Command, tmp_path: Path) -> None:
    options = ["--count", 40, "--choices", 3, "--distractors", "random", "--hide", 1, "--split", "0.5,0.25,0.25"]
    outcome = here("synthesize", project.graph, "-o", tmp_path / "made", *options)
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == f"{tmp_path / 'made'}: 20 train, 10 dev, 10 test questions"
    again = here("synthesize", project.graph, "-o", tmp_path / "made", *options, "--force", "--json")
    assert json.loads(again.out)["splits"] == {"train": 20, "dev": 10, "test": 10}
    assert json.loads(again.out)["hidden"] == 40
    assert here("prepare", tmp_path / "made", "--kg", project.graph, "-o", tmp_path / "data").code == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--hops", "1,x"], "--hops '1,x': give numbers"),
        (["--hops", "3"], "give 1, 2 or both"),
        (["--split", "a,b,c"], "--split 'a,b,c': give numbers"),
        (["--hide", "2"], "hide is 2"),
        (["--distractors", "near"], "distractors is 'near'"),
        (["--count", "1000000", "--distractors", "random", "--hops", "1"], "questions can be made"),
    ],
)
def test_wrong_options_are_refused(project: Project, refused: Refused, tmp_path: Path, options: list[str], says: str) -> None:
    refused(["synthesize", str(project.graph), "-o", str(tmp_path / "made"), *options], [says])
    assert not (tmp_path / "made").exists()
