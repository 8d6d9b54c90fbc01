"""The steps of `mkdocs build` that belong to this project: navigation, pages from outside ``docs/``, the generated reference."""

import os
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from links import ROOT_PAGES, adapted, documentation_list, notebook_page, place_of
from reference import reference_pages

ROOT = Path(__file__).parents[2]
REPOSITORY = os.environ.get("REPOSITORY_URL", "").rstrip("/") or None  # links to code lead there
PARTS = ("Tutorials", "How-to guides", "Explanations", "Reference")  # after Diátaxis


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation from the documentation list of the README, and the generated pages the first of the reference."""
    config.repo_url = REPOSITORY
    parts: dict[str, list[Any]] = {part: [] for part in PARTS}
    for entry in documentation_list((ROOT / "README.md").read_text(encoding="utf-8")):
        place = place_of(entry.path)
        parts[entry.part].append({entry.title: place})
    generated = [{title: place} for place, (title, _) in reference_pages().items()]
    parts["Reference"] = generated + parts["Reference"]
    config.nav = [{"Home": "index.md"}, *({part: pages} for part, pages in parts.items())]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages at the root of the repository, images from outside ``docs/``, and the reference."""
    for name, place in ROOT_PAGES.items():
        if (ROOT / name).exists():
            files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    for place, (_, text) in reference_pages().items():
        files.append(File.generated(config, place, content=text))
    for notebook in sorted((ROOT / "docs").rglob("*.ipynb")):
        place = str(place_of(notebook.relative_to(ROOT).as_posix()))
        files.append(File.generated(config, place, content=notebook_page(notebook.read_text(encoding="utf-8"))))
    images: set[str] = set()
    for file in files.documentation_pages():
        images |= _adapted(file.content_string, file.src_uri)[1]
    for image in sorted(images):
        files.append(File.generated(config, f"files/{image}", abs_src_path=str(ROOT / image)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the links and lists of a page."""
    return _adapted(markdown, page.file.src_uri)[0]


def _adapted(markdown: str, place: str) -> tuple[str, set[str]]:
    path = next((name for name, root_place in ROOT_PAGES.items() if root_place == place), f"docs/{place}")
    return adapted(markdown, path, REPOSITORY, lambda target: (ROOT / target).is_dir())
