"""`-o`: standard output, devices, FIFOs, symbolic links, existing files and folders, and an empty name."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from harness import Command, Project, contents

from mhgrn.starter import FACTS

# every command that writes, with the place to write last
FOLDERS = {
    "kg build": ["kg", "build", FACTS, "--schema", "conceptnet"],
    "kg merge": ["kg", "merge", "GRAPH", "GRAPH"],
    "kg export": ["kg", "export", "GRAPH"],
    "kg shuffle-relations": ["kg", "shuffle-relations", "GRAPH"],
    "prepare": ["prepare", "QUESTIONS", "--kg", "GRAPH"],
    "data report": ["data", "report", "DATA", "--hops", "1"],
}
FILES = {
    "predict": ["predict", "RUN", "QUESTIONS/dev.jsonl"],
    "ensemble": ["ensemble", "RUN", "RUN", "--split", "dev"],
    "kg draw": ["kg", "draw", "GRAPH", "child"],
    "data draw": ["data", "draw", "DATA", "ID"],
}


def arguments(project: Project, words: list[str | Path]) -> list[str | Path]:
    first = json.loads((project.questions / "dev.jsonl").read_text(encoding="utf-8").splitlines()[0])["id"]
    places = {"GRAPH": project.graph, "QUESTIONS": project.questions, "DATA": project.data, "RUN": project.run, "ID": first}
    places["QUESTIONS/dev.jsonl"] = project.questions / "dev.jsonl"
    return [places.get(str(word), word) for word in words]


@pytest.mark.parametrize("name", FILES)
def test_a_file(here: Command, project: Project, tmp_path: Path, name: str) -> None:
    ending = ".svg" if "draw" in name else ".jsonl"
    file, link, fifo = (tmp_path / f"{what}{ending}" for what in ("file", "link", "fifo"))
    command = arguments(project, FILES[name])
    if name == "ensemble":
        command[2] = shutil.copytree(project.run, tmp_path / "second")
    # an existing file is replaced only with --force, and the file behind a link, not the link
    file.write_text("precious", encoding="utf-8")
    link.symlink_to(file)
    for place in (file, link):
        outcome = here(*command, "-o", place)
        assert outcome.code == 2
        assert "exists" in outcome.err
        assert "--force" in outcome.err
        assert file.read_text(encoding="utf-8") == "precious"
    outcome = here(*command, "-o", link, "--force")
    assert outcome.code == 0, outcome
    assert link.is_symlink()
    text = file.read_text(encoding="utf-8")
    assert text != "precious"
    # - is standard output; the summary goes to standard error
    written = here(*command, "-o", "-")
    assert (written.code, written.out) == (0, text)
    assert written.err
    # devices and FIFOs are written to
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text(encoding="utf-8")))
    reader.start()
    outcome = here(*command, "-o", fifo)
    reader.join(timeout=60)
    assert outcome.code == 0, outcome
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert read == [text]
    assert here(*command, "-o", "/dev/null").code == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder(here: Command, project: Project, tmp_path: Path, name: str) -> None:
    command, folder, link = arguments(project, FOLDERS[name]), tmp_path / "made", tmp_path / "link"
    folder.mkdir()  # an empty one is no loss
    link.symlink_to(folder)
    outcome = here(*command, "-o", link)
    assert outcome.code == 0, outcome
    assert link.is_symlink()
    before, identity = contents(folder), folder.stat().st_ino
    assert before
    outcome = here(*command, "-o", folder)
    assert outcome.code == 2, outcome
    assert "exists" in outcome.err
    assert "--force" in outcome.err
    assert contents(folder) == before
    assert here(*command, "-o", folder, "--force").code == 0
    assert folder.stat().st_ino != identity


@pytest.mark.parametrize("name", [*FOLDERS, *FILES, "train", "features build", "demo"])
def test_an_empty_name_is_refused(
    here: Command, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    others: dict[str, list[str | Path]] = {
        "train": ["train", "--data", "DATA"],
        "features build": ["features", "build", "GRAPH", "--from", "random"],
        "demo": ["demo"],
    }
    command = arguments(project, {**FOLDERS, **FILES, **others}[name])
    monkeypatch.chdir(tmp_path)
    outcome = here(*command, "-o", "")
    assert outcome.code == 2
    assert outcome.err.startswith("mhgrn: Invalid value for '--output' / '-o': it is empty; name a ")
    if name not in FILES:
        assert "standard output cannot hold a folder" in here(*command, "-o", "-").err
    assert not list(tmp_path.iterdir())


def test_two_results_on_standard_output_are_refused(here: Command, project: Project) -> None:
    for name in ("ensemble", "kg draw", "data draw"):
        outcome = here(*arguments(project, FILES[name]), "-o", "-", "--json")
        assert (outcome.code, outcome.out) == (2, "")
        assert "both write to standard output" in outcome.err


def test_standard_output_that_the_shell_appends_to_is_not_truncated(project: Project, tmp_path: Path) -> None:
    code = "import sys; from mhgrn.cli import main; sys.argv = ['mhgrn', *sys.argv[1:]]; main()"
    for number, place in enumerate(("-", "/dev/stdout")):
        log = tmp_path / f"{number}.svg"
        log.write_text("before\n", encoding="utf-8")
        with log.open("a", encoding="utf-8") as appended:
            command = [sys.executable, "-c", code, *map(str, arguments(project, FILES["kg draw"])), "-o", place]
            subprocess.run(command, stdout=appended, check=True, stderr=subprocess.DEVNULL)
        assert log.read_text(encoding="utf-8").startswith("before\n<?xml")


def test_features_are_reused_and_replaced_only_with_force(here: Command, project: Project, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("child 1 2\ndesk 3 4\n", encoding="utf-8")
    build = ["features", "build", project.graph, "--from", "vectors", tmp_path / "words.txt", "-o", tmp_path / "made"]
    assert here(*build).code == 0
    assert "is up to date" in here(*build).err
    before = contents(tmp_path / "made")
    refused = here(*build, "--exact-names")
    assert refused.code == 2
    assert "exists; name another folder, or replace it with --force" in refused.err
    assert contents(tmp_path / "made") == before
    assert here(*build, "--exact-names", "--force").code == 0
    assert contents(tmp_path / "made") != before
