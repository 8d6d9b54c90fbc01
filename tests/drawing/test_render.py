"""Image files: every name and relation as text, colors by node type, identical bytes."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from mhgrn.drawing import Picture, PictureLimits, draw, picture_of_concepts, picture_of_question, picture_of_subgraph
from mhgrn.drawing.picture import Arrow, Node
from mhgrn.drawing.render import COLORS
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.printing import printable
from mhgrn.starter import HERE
from mhgrn.subgraphs.extract import Subgraph
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def picture(small_data: PreparedData, starter_graph: KnowledgeGraph) -> Picture:
    return picture_of_question(small_data, starter_graph, small_data.questions[2].id, limits=PictureLimits(40, 80))


def texts(path: Path) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ET.parse(path).getroot().iter(f"{SVG}text")]


def test_an_svg_holds_every_name_relation_title_and_count_as_text(picture: Picture, tmp_path: Path) -> None:
    draw(picture, tmp_path / "p.svg")
    found = texts(tmp_path / "p.svg")
    assert picture.nodes
    assert picture.arrows
    for node in picture.nodes:
        assert node.name in found
    everything = " ".join(found)
    for line in (*picture.title, *(", ".join(arrow.relations) for arrow in picture.arrows), picture.shown):
        assert line in everything
    assert {*picture.legend.values()} >= {text for text in found if text.startswith("in the ")}


def test_colors_follow_types_and_arrows_are_drawn_once(picture: Picture, tmp_path: Path) -> None:
    draw(picture, tmp_path / "p.svg")
    groups = {group.get("id"): group for group in ET.parse(tmp_path / "p.svg").getroot().iter(f"{SVG}g")}
    for number, node in enumerate(picture.nodes):
        (path,) = groups[f"node-{number}"].iter(f"{SVG}path")
        assert f"fill: {COLORS[node.type]}" in path.attrib["style"]
    assert {name for name in groups if name and name.startswith("arrow-")} == {f"arrow-{n}" for n in range(len(picture.arrows))}
    blue, pink, grey = (tuple(int(COLORS[kind][i : i + 2], 16) for i in (1, 3, 5)) for kind in range(3))
    assert blue[2] == max(blue)
    assert pink[0] == max(pink)
    assert len(set(grey)) == 1


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_same_picture_is_the_same_bytes(picture: Picture, ending: str, tmp_path: Path) -> None:
    draw(picture, tmp_path / f"one.{ending}")
    with plt.rc_context({"font.size": 30, "svg.fonttype": "path", "figure.dpi": 30, "lines.linewidth": 9}):
        draw(picture, tmp_path / f"two.{ending}")  # a user's own settings do not matter
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert b"<dc:date>" not in one


def test_another_process_draws_the_same_bytes(tmp_path: Path) -> None:
    script = (
        "import sys; from mhgrn.drawing import draw, picture_of_concepts; from mhgrn.kg import KnowledgeGraph;"
        "draw(picture_of_concepts(KnowledgeGraph.from_facts([('a', 'IsA', 'b'), ('c', 'UsedFor', 'a')]), ['a']), sys.argv[1])"
    )
    for seed in ("1", "2"):
        path = tmp_path / f"{seed}.svg"
        subprocess.run(
            [sys.executable, "-c", script, path], check=True, env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        )
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


def test_a_png_is_an_image_of_readable_size(picture: Picture, tmp_path: Path) -> None:
    draw(picture, tmp_path / "p.PNG")
    image = plt.imread(tmp_path / "p.PNG", format="png")
    assert min(image.shape[:2]) > 300
    assert len(np.unique(image.reshape(-1, image.shape[2]), axis=0)) > 10


def test_an_empty_subgraph_is_drawn_as_one(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    none = np.zeros(0, dtype=np.int64)
    picture = picture_of_subgraph(Subgraph(none, none, none, none, none), starter_graph, ("Why?", "A: because"))
    draw(picture, tmp_path / "p.svg")
    assert texts(tmp_path / "p.svg") == ["Why?", "A: because", "showing all 0 nodes and 0 facts"]


def test_odd_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    odd = ["$x^2", "a<b>&c", "日本", "%s\\frac{"]
    graph = KnowledgeGraph.from_facts([(name, "is$a$", odd[0]) for name in odd[1:]])
    for ending in ("svg", "png"):
        draw(picture_of_concepts(graph, [odd[0]]), tmp_path / f"p.{ending}")
    assert {*odd, "is$a$"} <= set(texts(tmp_path / "p.svg"))


def test_missing_glyphs_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = KnowledgeGraph.from_facts([("日本", "IsA", "country")])
    draw(picture_of_concepts(graph, ["country"]), tmp_path / "p.png")
    assert "lacks some characters" in capsys.readouterr().err


def test_a_long_title_is_broken_into_lines(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    none = np.zeros(0, dtype=np.int64)
    stem = " ".join(["word"] * 60)
    draw(picture_of_subgraph(Subgraph(none, none, none, none, none), starter_graph, (stem, "A: b")), tmp_path / "p.svg")
    *lines, _, _ = texts(tmp_path / "p.svg")
    assert len(lines) > 2
    assert " ".join(lines) == stem


def test_the_drawing_in_the_documentation_is_current(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    lines = (HERE / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "q.jsonl").write_text(next(line for line in lines if "school-train-113" in line), encoding="utf-8")
    data = prepare(tmp_path / "q.jsonl", starter_graph, tmp_path / "data", PrepareOptions(workers=1))
    draw(picture_of_question(data, starter_graph, "school-train-113"), tmp_path / "p.svg")
    assert texts(Path(__file__).parents[2] / "docs" / "subgraph.svg") == texts(tmp_path / "p.svg")


@pytest.mark.parametrize("name", ["p.pdf", "p", "p.svg.gz"])
def test_other_endings_are_refused(picture: Picture, name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(f"{tmp_path / name} does not end in .svg or .png")):
        draw(picture, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_is_refused(picture: Picture, tmp_path: Path) -> None:
    (tmp_path / "p.svg").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        draw(picture, tmp_path / "p.svg")


def test_without_matplotlib_the_error_says_how_to_install_it(
    picture: Picture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=re.escape("pip install 'mhgrn[plots]'")):
        draw(picture, tmp_path / "p.svg")
    assert not list(tmp_path.iterdir())


CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x61C, *range(0x200E, 0x2010), *range(0x2028, 0x202F))]
CONTROLS += [*map(chr, range(0x2066, 0x206A)), "\ufffe", "\uffff", "\ud800", "\udfff"]


def test_control_characters_and_markup_in_texts_are_escaped(tmp_path: Path) -> None:
    names = [f"a{control}b{control}" for control in CONTROLS] + ["<b>&amp;</b>", "]]>", '"x" onload="y"', "$x^2$", "\x1f", ""]
    for start in range(0, len(names), 35):
        some = names[start : start + 35]
        nodes = [Node(name, number % 3, number % 3) for number, name in enumerate(some)]
        arrows = [Arrow(0, tuple(some), 1)]
        drawn = Picture(("".join(some), some[0]), {0: some[0], 1: some[-1]}, nodes, arrows, len(some), len(some))
        draw(drawn, tmp_path / "p.svg")
        everything = "".join(texts(tmp_path / "p.svg"))
        assert not set(everything) & set(CONTROLS)
        for name in some:
            shown = name if name.isprintable() else printable(" ".join(name.split()))
            assert shown in everything
    draw(drawn, tmp_path / "p.png")


def test_long_texts_are_cut(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    draw(Picture((long,), {0: long}, [Node(long, 0, 0), Node("b", 1, 1)], [Arrow(0, (long,), 1)], 2, 1), tmp_path / "p.svg")
    assert len((tmp_path / "p.svg").read_bytes()) < 50_000
    assert all(len(text) <= 500 for text in texts(tmp_path / "p.svg"))
