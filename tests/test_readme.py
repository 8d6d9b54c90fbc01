"""The examples, commands and links of the README and the documentation work."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import mhgrn
from mhgrn.cli import COMMANDS, build_app
from mhgrn.config import Config
from mhgrn.features.loading import FEATURE_SOURCES
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.readers import READERS as GRAPH_READERS
from mhgrn.plugins import Plugins
from mhgrn.questions.reader import READERS as QUESTION_READERS
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import TEXT_ENCODERS
from mhgrn.training.loop import train
from plugin_package import install

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_the_python_examples_run(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(small_data, Config.of({"training": {"epochs": 1}, "features": "random"}), tmp_path / "run", starter_graph)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for page in ("README.md", "docs/tutorials/first-answer.md", "docs/answer-questions.md"):
        for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL):
            exec(block.replace("mhgrn.load()", 'mhgrn.load("run/")'), names)  # with a model that trains in seconds
    assert names["answer"].choice in ("schoolroom", "patio", "furniture store")
    assert [len(answer.probabilities) for answer in names["answers"]] == [2, 3]


def test_the_example_with_pytorch_geometric_runs_and_shows_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch_geometric")
    page = (ROOT / "docs" / "pytorch-geometric.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)  # the page's own text
    results = names["results"]
    assert results["MHGRNConv, two hops"] >= 0.95
    assert max(results["RGCNConv"], results["MHGRNConv, one hop"]) <= 0.55
    printed = [line.split()[:-1] for line in capsys.readouterr().out.splitlines()]
    shown = "".join(re.findall(r"It prints\n\n```\n(.*?)```", page, re.DOTALL))
    assert printed == [line.split()[:-1] for line in shown.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_that_pages_name_exist(page: Path) -> None:
    commands = get_command(build_app(pytest.fail)).commands  # type: ignore[attr-defined]
    for line in re.findall(r"^\$? ?(mhgrn [a-z].*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        words = line.partition("#")[0].split()[1:]
        command = commands[words.pop(0)]
        if hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-") and len(word) > 1} <= known, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_benchmarks_and_their_options_exist(page: Path) -> None:
    for script, options in re.findall(r"python (benchmarks/\w+\.py)([^`#\n]*)", page.read_text(encoding="utf-8")):
        source = (ROOT / script).read_text(encoding="utf-8") + (ROOT / "benchmarks" / "measuring.py").read_text(encoding="utf-8")
        for option in re.findall(r"--[a-z-]+", options):
            assert f'"{option}"' in source or option == "--help", f"{script} {option}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts name them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if not link.startswith("https:"):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


PLUGINS: dict[str, Plugins[Any]] = {
    plugins.group: plugins for plugins in (COMMANDS, GRAPH_READERS, QUESTION_READERS, TEXT_ENCODERS, FEATURE_SOURCES)
}


@pytest.mark.parametrize("group", PLUGINS)
def test_the_plug_in_examples_can_be_installed(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    examples = re.findall(r'```python\n(.*?)```\n\n```toml\n\[project.entry-points."([\w.]+)"\]\n(\S+) = "(.*?)"', page, re.DOTALL)
    ((code, _, name, value),) = [example for example in examples if example[1] == group]
    install(tmp_path, code, group, f"{name} = {value}")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("my_package", "my_package.plugin"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert PLUGINS[group].load(name).__module__ == "my_package.plugin"
    for module in ("my_package", "my_package.plugin"):
        sys.modules.pop(module, None)


def test_the_two_commands_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().endswith("make test")
    assert shutil.which("make")


def test_the_picture_of_an_answer_is_that_of_the_built_in_model() -> None:
    choices = ["puddle", "umbrella", "desert", "cloud", "car"]
    answer = mhgrn.load().ask("After hours of heavy rain, what do you find on the street?", choices, by="attention")
    picture = (ROOT / "docs" / "answer.svg").read_text(encoding="utf-8")
    shown = [*answer.probabilities.values(), answer.without_graph]
    assert all(f"{probability:.1%}" in picture for probability in shown), "draw it again: make plots"


def test_the_code_next_to_equations_is_the_code_of_the_package() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 8
    for file, code in blocks:
        lines = {line.strip() for line in (ROOT / "src" / "mhgrn" / file).read_text(encoding="utf-8").splitlines()}
        for line in code.splitlines():
            assert line in lines, f"{file}: {line}"
