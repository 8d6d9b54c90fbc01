"""mhgrn faithfulness as a user runs it."""

import json
from pathlib import Path

import pytest
from harness import Command, Project, Refused


def test_tables_json_and_picture(here: Command, project: Project, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result, picture = tmp_path / "result.json", tmp_path / "curves.png"
    shown = here(
        "faithfulness", project.run, "--limit", "4", "--limits", "1", "-o", result, "--plot", picture, "--beside", project.run
    ).out
    for words in ("fidelity+", "Shown facts (at most 6)", "smallest", "random-facts", "edges deleted", f"accuracy {project.run}"):
        assert words in shown
    assert picture.read_bytes()[:4] == b"\x89PNG"
    found = json.loads(result.read_text(encoding="utf-8"))
    assert found["explained"] == 4
    assert found["limited"] <= 1
    assert len(found["split_rows"]) == found["questions"]
    deleted, off = found["robustness"]["edges deleted"]["100%"], found["robustness"]["without the graph"]["100%"]
    assert off["accuracy"]["value"] == found["accuracy"]["without the graph"]["value"]
    assert deleted["accuracy"]["low"] <= 1
    assert found["robustness"]["edges rewired"]["50%"]["accuracy"]["low"] <= 1
    assert not list(tmp_path.glob("*.partial"))
    few = here("faithfulness", project.run, "--methods", "gradient, attention", "--limit", "2", "--perturb", "0", "--json").out
    assert list(json.loads(few)["methods"]) == ["gradient", "attention"]


def test_wrong_options_are_refused(refused: Refused, project: Project, tmp_path: Path) -> None:
    (tmp_path / "there.json").write_text("{}")
    run = str(project.run)
    for args, says in (
        (["--methods", "attenton"], ["attenton", "Did you mean attention"]),
        (["--split", "exam"], ["exam"]),
        (["-o", str(tmp_path / "there.json")], ["exists", "--force"]),
        (["-o", "-", "--json"], ["standard output"]),
        (["--plot", str(tmp_path / "curves.xyz"), "--limit", "1", "--limits", "0", "--perturb", "0"], ["curves.xyz", ".png"]),
    ):
        refused(["faithfulness", run, *args], says)
