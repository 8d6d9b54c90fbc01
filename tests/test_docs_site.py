"""The documentation site: it builds without a warning or a foreign host, and its reference has every name, command and setting."""

import html
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocstrings", reason="needs the packages of mhgrn[docs]")

import mhgrn
from links import ROOT_PAGES, adapted, documentation_list, place_of, repository_pages, with_clear_lists
from reference import commands, integrations, settings_classes

ROOT = Path(__file__).parents[1]
PARTS = {"Tutorials", "How-to guides", "Explanations", "Reference"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "REPOSITORY_URL": "https://example.org/owner/mhgrn"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(http[^"]+|//[^"]+)"', text)
        loaded += re.findall(r'<link[^>]* rel="(?:stylesheet|preconnect|preload)"[^>]* href="(http[^"]+|//[^"]+)"', text)
        assert not loaded, page.name


def test_every_page_can_be_searched_and_images_from_outside_are_there(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    for path in repository_pages(ROOT):
        assert str(place_of(path)).replace(".md", ".html") in found, path
    assert (site / "files" / "reproduction" / "results" / "curves" / "figure.png").is_file()
    assert "https://example.org/owner/mhgrn/tree/main/reproduction/results" in (site / "results.html").read_text(encoding="utf-8")


def test_the_reference_has_every_public_name(site: Path) -> None:
    text = text_of(site / "reference" / "api.html")
    for name in mhgrn.__all__:
        assert re.search(rf"^\s*mhgrn\.{name}\b", text, re.MULTILINE), name


def test_the_reference_has_every_name_for_other_libraries(site: Path) -> None:
    text = text_of(site / "reference" / "api.html")
    names = list(integrations())
    assert {name.rpartition(".")[2] for name in names} >= {
        "MultipleChoiceClassifier",
        "to_dataset",
        "WalkExplainer",
        "MLflowLogger",
    }
    for name in names:
        assert re.search(rf"^\s*{re.escape(name)}\b", text, re.MULTILINE), name


@pytest.mark.parametrize("name", mhgrn.__all__)
def test_public_names_and_their_members_have_docstrings(name: str) -> None:
    found = getattr(mhgrn, name)
    members = vars(found).items() if inspect.isclass(found) else ()
    functions = {key: getattr(member, "__func__", member) for key, member in members if not key.startswith("_")}
    documented = {key: member for key, member in functions.items() if inspect.isfunction(member) or isinstance(member, property)}
    missing = [key for key, member in documented.items() if not inspect.getdoc(member) and key != "extra_repr"]  # torch's
    assert inspect.getdoc(found)
    assert not missing


def test_the_reference_has_every_command_and_option(site: Path) -> None:
    text = text_of(site / "reference" / "commands.html")
    for path, command in commands():
        assert re.search(rf"^\s*{path}\b", text, re.MULTILINE), path
        for parameter in command.params:
            names = parameter.opts if parameter.param_type_name == "option" and not parameter.hidden else []
            assert all(name in text for name in names if name not in ("--help", "-h")), (path, names)


def test_the_reference_has_every_setting_with_its_meaning(site: Path) -> None:
    text = " ".join(text_of(site / "reference" / "settings.html").split())
    for title, prefix, kind in settings_classes():
        assert title in text
        for name, field in kind.model_fields.items():
            if name not in kind.sections():
                assert prefix + name in text, prefix + name
                assert field.description, f"{prefix}{name} has no description"
                assert " ".join(field.description.replace("`", "").split())[:20] in text, prefix + name


def test_every_page_is_in_one_part_of_the_documentation_list() -> None:
    entries = list(documentation_list((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {entry.part for entry in entries} == PARTS
    listed = [entry.path for entry in entries]
    assert len(listed) == len(set(listed))
    assert set(repository_pages(ROOT)) - set(listed) <= {"README.md"}


def test_links_lead_to_the_site_or_to_the_repository() -> None:
    page = "[a](other.md#x) [c](../../src/c.py) [d](../../README.md) [e](https://e.org)"
    text, _ = adapted(page, "docs/deep/page.md", "https://h/r", lambda path: False)
    assert text == "[a](other.md#x) [c](https://h/r/blob/main/src/c.py) [d](../index.md) [e](https://e.org)"
    text, images = adapted("![b](../results/b.png) [c](../src) [f](../f.py)", "docs/page.md", None, lambda path: False)
    assert text == "![b](files/results/b.png) c (`src`) f (`f.py`)"
    assert images == {"results/b.png"}
    assert adapted("```\n[f](../f.py)\n```", "docs/page.md", None, lambda path: False)[0] == "```\n[f](../f.py)\n```"


def test_lists_render_as_on_code_hosts() -> None:
    markdown = pytest.importorskip("markdown")
    source = "**Learn**\n- one\n  goes on\n- two\n   - inner\n\nend"
    rendered = markdown.markdown(with_clear_lists(source))
    assert rendered.count("<li>") == 3
    assert rendered.count("<ul>") == 2
    assert ROOT_PAGES["README.md"] == "index.md"
