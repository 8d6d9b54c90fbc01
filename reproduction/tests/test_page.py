"""The page of results is complete, self-contained, and escapes all text."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn_reproduction import encoder_tables, printed
from mhgrn_reproduction.experiment_setup import Request
from mhgrn_reproduction.page import page, write_page
from mhgrn_reproduction.summary import read_summary
from mhgrn_reproduction.tables import table

VOID = {"meta", "img", "br", "link", "input"}


class Reader(HTMLParser):
    """Checks that tags are closed in order, and gathers cells, tags and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.cells: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self.ids |= {value or "" for name, value in attrs if name == "id"}
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_holds_every_cell_of_every_table(own_copy: Request) -> None:
    found = encoder_tables.parameters()
    printed.save(found, own_copy.results / "parameters")
    reader = read(write_page(own_copy.results).read_text(encoding="utf-8"))
    columns, rows = table(read_summary(own_copy.folder))
    for cell in [*columns, *(c for row in rows for c in row), *found["columns"], *(c for row in found["rows"] for c in row)]:
        assert cell in reader.cells
    assert "text <b>alone</b>" in reader.cells  # as text
    assert "b" not in reader.tags
    assert "own" in reader.ids


def test_the_page_needs_nothing_else(own_copy: Request) -> None:
    reader = read(page(own_copy.results))
    assert "img" in reader.tags
    assert not reader.tags & {"script", "link", "iframe", "object"}
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in reader.links)
    assert {link[1:] for link in reader.links if link.startswith("#")} <= reader.ids


def test_a_page_of_one_experiment_or_one_text_encoder(own_copy: Request) -> None:
    printed.save(encoder_tables.parameters(), own_copy.results / "parameters")
    for folder in (own_copy.folder, own_copy.folder.parent):
        html = page(folder)
        assert '<h2 id="own">own</h2>' in html
        assert "parameters" not in read(html).ids
    assert read(page(own_copy.results / "parameters")).ids == {"parameters"}


def test_what_people_wrote_stays_text(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>\"&"
    case = {"why": evil, "id": evil, "text": evil, "right": evil, "answer": "b"}
    found = printed.result("cases", [evil], [[evil]], [evil], cases=[case])
    printed.save(found, tmp_path / "cases")
    printed.save(printed.result("splits", [evil], [[evil]], [evil]), tmp_path / "splits")
    reader = read(page(tmp_path))
    assert "script" not in reader.tags
    assert evil in reader.cells


def test_what_the_paper_does_not_have_is_not_called_the_papers(tmp_path: Path) -> None:
    for name in ("curves", "splits"):
        printed.save(printed.result(name, ["a"], [["b"]]), tmp_path / name)
    shown = page(tmp_path)
    assert "<p>Not in the paper: training loss" in shown
    assert "<p>The paper's table 8: numbers of questions.</p>" in shown


def test_folders_without_results_are_refused(tmp_path: Path) -> None:
    for folder, says in ((tmp_path / "no", "is not a folder"), (tmp_path, "has no results")):
        with pytest.raises(UserError, match=says):
            write_page(folder)
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "result.json").write_text(json.dumps({"format": 1}), encoding="utf-8")
    with pytest.raises(UserError, match="is damaged"):
        write_page(tmp_path)
    with pytest.raises(UserError, match="is a folder"):
        write_page(tmp_path, tmp_path)
