"""The tutorials work as written: files, commands and Python, in their order, in an empty folder."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from harness import Command

from mhgrn.encoders import graph_encoders
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.prepared import PreparedData
from plugin_package import install

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"
BLOCK = re.compile(r"^([^\n]*)\n\n```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[tuple[str, str, str]]:
    """The line before each block of code, the block's language and its content."""
    return [match.groups() for match in BLOCK.finditer((TUTORIALS / f"{name}.md").read_text(encoding="utf-8"))]  # type: ignore[misc]


def _words(text: str) -> str:
    """A text without its numbers and spaces: the last digits may differ between machines."""
    return re.sub(r"[\d.%\s]+", " ", text)


@pytest.mark.parametrize("name", ["first-answer", "own-graph", "own-questions", "explain-an-answer"])
def test_tutorials_work_as_written(
    name: str, here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    done = 0
    printed = ""
    for before, language, content in blocks(name):
        if file := re.match(r"Save as `([\w.]+)`", before):
            (tmp_path / file[1]).write_text(content, encoding="utf-8")
        elif language == "python":
            capsys.readouterr()
            exec(content, names)
            printed = capsys.readouterr().out
            done += 1
        elif before == "It prints":
            assert _words(printed) == _words(content)
        for line in content.splitlines():
            if line.startswith("mhgrn "):
                outcome = here(*shlex.split(line)[1:])
                assert outcome.code == 0, outcome.err
                assert outcome.out
                printed = outcome.out
                done += 1
    assert done >= 3


def test_the_graph_encoder_of_the_tutorial_trains(
    small_data: PreparedData, starter_graph: KnowledgeGraph, here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = [content for _, language, content in blocks("graph-encoder") if language == "python"]
    (declaration,) = [content for _, language, content in blocks("graph-encoder") if language == "toml"]
    install(tmp_path, code, "mhgrn.graph_encoders", declaration.splitlines()[1].replace('"', ""))
    monkeypatch.syspath_prepend(tmp_path)
    assert graph_encoders.load("relation-counts").__module__ == "my_package.plugin"
    outcome = here(
        *("train", "--data", small_data.folder, "-o", tmp_path / "run", "--kg", starter_graph.folder),
        *("--set", "graph_encoder=relation-counts", "--set", "training.epochs=1"),
    )
    assert outcome.code == 0, outcome.err
