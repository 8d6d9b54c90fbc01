"""The pages of the repository as pages of the site: the places of files, their links, and the lists that both render alike.

On a code host, a page links to any file of the repository. The site has only some of them: links to other pages are kept, images
become part of the site, and links to code lead to the repository.
"""

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT_PAGES = {  # files beside docs/ that are pages of the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "SECURITY.md": "security.md",
}
IMAGES = (".svg", ".png", ".gif", ".jpg")
LINK = re.compile(r"(?P<bang>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
LIST_ITEM = re.compile(r"( *)([-*]|\d+\.) ")
HEADING = re.compile(r"^\*\*(.+)\*\*$", re.MULTILINE)


class Entry(NamedTuple):
    """A link of the documentation list."""

    part: str
    title: str
    path: str
    """The file, relative to the root of the repository."""


def place_of(path: str) -> str | None:
    """The place in the site of a file of the repository; None if the site has no such file.

    >>> place_of("docs/tutorials/first-answer.md"), place_of("README.md"), place_of("src/mhgrn/model.py")
    ('tutorials/first-answer.md', 'index.md', None)
    >>> place_of("reproduction/results/curves/figure.png")
    'files/reproduction/results/curves/figure.png'
    """
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/").replace(".ipynb", ".md")  # notebooks become pages
    return f"files/{path}" if path.endswith(IMAGES) else None


def adapted(markdown: str, path: str, repository: str | None, is_folder: Callable[[str], bool]) -> tuple[str, set[str]]:
    """A page of the repository as a page of the site, and the files outside ``docs/`` that it shows.

    Args:
        markdown: The page.
        path: Its file, relative to the root of the repository.
        repository: The address of the repository. None: links to code become the name of the file.
        is_folder: Says of a path of the repository whether it is a folder.

    >>> text, images = adapted("[a](../README.md#b), [c](../src/c.py)", "docs/d.md", "https://host/repo", lambda path: False)
    >>> text
    '[a](index.md#b), [c](https://host/repo/blob/main/src/c.py)'
    """
    here = place_of(path) or path
    shown: set[str] = set()

    def replaced(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        place = place_of(file)
        if place is None:
            if repository is None:
                return f"{match['text']} (`{file}`)"
            kind = "tree" if is_folder(file) else "blob"
            return f"[{match['text']}]({repository}/{kind}/main/{file})"
        if place.startswith("files/"):
            shown.add(file)
        link = posixpath.relpath(place, posixpath.dirname(here) or ".")
        return f"{match['bang']}[{match['text']}]({link}{'#' + anchor if anchor else ''})"

    lines = [line if is_code else LINK.sub(replaced, line) for line, is_code in _lines(markdown)]
    return with_clear_lists("\n".join(lines)), shown


def with_clear_lists(markdown: str) -> str:
    """The page with a blank line before each list and four spaces before nested items, which this site's renderer needs.

    >>> with_clear_lists("Learn\\n- one\\n  - two")
    'Learn\\n\\n- one\\n    - two'
    """
    done: list[str] = []
    in_list = False
    for line, is_code in _lines(markdown):
        item = None if is_code else LIST_ITEM.match(line)
        if item and not in_list and done and done[-1].strip():
            done.append("")
        done.append(f"    {line.lstrip()}" if item and in_list and 1 < len(item[1]) < 4 else line)
        in_list = bool(item) or (in_list and (line.startswith(" ") or not line.strip()))
    return "\n".join(done)


def documentation_list(readme: str) -> Iterator[Entry]:
    """The links of the section "Documentation" of the README, each with the heading above it."""
    section = readme.partition("\n## Documentation\n")[2].partition("\n## ")[0]
    part = ""
    for line in section.splitlines():
        if heading := HEADING.match(line):
            part = heading[1]
        for link in LINK.finditer(line):
            path, title = link["target"].partition("#")[0], link["text"]
            if "://" not in path:
                yield Entry(part, title[:1].upper() + title[1:], path)


def notebook_page(notebook: str) -> str:
    """A notebook as a page: its texts and its code.

    >>> notebook_page('{"cells": [{"cell_type": "markdown", "source": ["# Title"]}, {"cell_type": "code", "source": ["1 + 1"]}]}')
    '# Title\\n\\n```python\\n1 + 1\\n```\\n'
    """
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook)["cells"]]
    return "\n\n".join(f"```python\n{text}\n```" if kind == "code" else text for kind, text in cells) + "\n"


def repository_pages(root: Path) -> list[str]:
    """The files of the repository that are pages of the site, relative to ``root``."""
    pages = [path.relative_to(root).as_posix() for path in sorted((root / "docs").rglob("*.md"))]
    return [name for name in ROOT_PAGES if (root / name).exists()] + pages


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a block of code."""
    fence = ""
    for line in markdown.split("\n"):
        mark = re.match(r" *(```+|~~~+)", line)
        yield line, bool(fence or mark)
        if mark:
            fence = "" if fence and line.strip().startswith(fence) else fence or mark[1]
