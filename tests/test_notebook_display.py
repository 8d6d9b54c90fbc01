"""Answers, progress and curves in notebooks, and the notebooks of the documentation from a clean kernel."""

import json
import pickle
import re
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mhgrn
from mhgrn.drawing.curves import draw_curves, read_metrics
from mhgrn.errors import UserError
from mhgrn.explain import ReasoningPath
from mhgrn.inference import Answer
from mhgrn.inference.html import picture
from mhgrn.kg import Fact
from mhgrn.progress import track

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
TEXTS = st.text(max_size=40) | st.sampled_from(["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "\u202ex"])


def answer_of(question: str, choices: list[str], concepts: list[str], relation: str) -> Answer:
    facts = [Fact(head, relation, tail) for head, tail in pairwise(concepts)]
    path = ReasoningPath(concepts[-1], facts, concepts, 0.0, 1, 0.5, sentences=[f"{fact.head} {fact.tail}." for fact in facts])
    odds = dict.fromkeys(choices, 1 / len(set(choices)))
    return Answer(question, choices[0], odds, [path], {"question": [], "choices": {}}, ["a <note>"], without_graph=0.25)


class Tags(HTMLParser):
    """Collects the tags, attributes and text of a piece of HTML, and that each tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@given(TEXTS, st.lists(TEXTS, min_size=2, max_size=5, unique=True), st.lists(TEXTS, min_size=2, max_size=4, unique=True), TEXTS)
def test_no_text_of_an_answer_becomes_markup(question: str, choices: list[str], concepts: list[str], relation: str) -> None:
    tags = Tags()
    tags.feed(answer_of(question, choices, concepts, relation)._repr_html_())
    assert not tags.open
    known = {
        "div",
        "p",
        "b",
        "table",
        "tr",
        "td",
        "ul",
        "li",
        "small",
        "svg",
        "defs",
        "marker",
        "path",
        "rect",
        "text",
        "title",
        "br",
    }
    assert tags.seen <= known
    assert not [name for name in tags.attributes if name.startswith("on") or name in ("src", "href")]


def test_an_answer_shows_its_choices_sentences_and_concepts() -> None:
    html = answer_of("Where & why?", ["sea", "tree"], ["whale", "big_water", "sea"], "AtLocation")._repr_html_()
    for part in (
        "Where &amp; why?",
        "sea",
        "tree",
        "50.0%",
        "whale big_water.",
        "big water",
        "AtLocation",
        "25.0%",
        "a &lt;note&gt;",
    ):
        assert part in html
    assert html.count("<rect") == 3
    assert html.count("marker-end") == 2
    assert html.count("bold-tip") == 3  # both facts, and the arrowhead itself


def test_an_answer_in_a_notebook_has_a_picture_of_its_part_of_the_graph() -> None:
    qa, choices = mhgrn.load(), ["puddle", "umbrella", "desert", "cloud", "car"]
    question = "After hours of heavy rain, what do you find on the street?"
    answer = qa.ask(question, choices)
    view = qa.ask(question, choices, subgraph=True).subgraph
    html = answer._repr_html_()
    assert view is not None
    assert html == qa.ask(question, choices, subgraph=True)._repr_html_()
    labels = [node["label"] for node in view["nodes"]]
    assert 10 < sum(f">{label}</text>" in html for label in labels) <= html.count("<text")  # a large graph is shown in part
    assert 0 < html.count("marker-end") <= len(view["edges"])
    assert answer.evidence is not None
    assert html.count('stroke-width="2.2"') == len(answer.evidence.facts) > 0
    for line in ("A puddle is found on a street.", "Without the graph:"):
        assert line in html
    assert "_view" not in answer.to_dict()
    copied = pickle.loads(pickle.dumps(answer))
    assert copied == answer
    assert copied._view is None
    assert "<svg" in copied._repr_html_()  # of the paths
    assert all(one._view is None for one in qa.ask_many([{"question": question, "choices": choices}] * 2))


def test_a_large_part_of_the_graph_is_cut_and_says_so() -> None:
    nodes = [{"name": f"c{i}", "label": f"c{i}", "role": ("question", "between", "choice")[i % 3]} for i in range(90)]
    edges = [{"head": i, "relation": "IsA", "tail": (i * 7 + 1) % 90, "sentence": "s"} for i in range(90)]
    svg = picture({"nodes": nodes, "edges": edges, "left_out": {"nodes": 10, "edges": 910}}, {("c0", "IsA", "c1")})
    assert svg.count("<rect") == 27
    shown = svg.count("marker-end")
    assert f"27 of 100 concepts, {shown} of 1,000 facts" in svg
    assert svg.count('stroke-width="2.2"') == 1


def test_progress_is_shown_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data["text/plain"])

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
        shown.append(data["text/plain"])
        return Handle()

    ipython = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    assert list(track(range(7), "steps")) == list(range(7))
    assert shown[0] == f"steps {'░' * 20} 0/7"
    assert shown[-1] == f"steps {'█' * 20} 7/7"


def test_the_curves_have_the_rows_of_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows: list[dict[str, Any]] = [{"step": step, "loss": 1 / step} for step in range(1, 6)]
    rows.append({"step": 5, "epoch": 0, "loss": 0.5, "dev_accuracy": 0.75})
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("\n".join(map(json.dumps, rows)) + '\n{"step": 6, "lo', encoding="utf-8")
    assert read_metrics(metrics) == rows
    curves = draw_curves(metrics, "a $run$", tmp_path / "curves.svg")
    left, right = curves.figure.axes
    assert left.lines[0].get_ydata().tolist() == [1 / step for step in range(1, 6)]  # type: ignore[union-attr]
    assert right.lines[0].get_ydata().tolist() == [0.75]  # type: ignore[union-attr]
    assert "<svg" in curves._repr_svg_()
    assert (tmp_path / "curves.svg").is_file()
    metrics.write_text("[]\n{}\n", encoding="utf-8")
    with pytest.raises(UserError, match="line 1: not a row"):
        draw_curves(metrics, "")
    with pytest.raises(UserError, match="cannot be read"):
        draw_curves(tmp_path / "none", "")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebooks_run_from_a_clean_kernel(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("ipykernel")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are stored without outputs"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any(re.search("<div.*<table", data.get("text/html", "")) for data in shown)
    if path.stem == "training":
        assert any("<svg" in data.get("image/svg+xml", "") for data in shown)
        assert any("█" in data.get("text/plain", "") for data in shown)
