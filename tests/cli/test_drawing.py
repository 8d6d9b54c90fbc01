"""`kg draw`, `data draw` and `data report` as a user types them."""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from harness import Command, Project, Refused, edit_json

from damage import unseal
from mhgrn.subgraphs.prepared import PreparedData


def first_id(project: Project) -> str:
    return PreparedData.load(project.data).questions[0].id


def test_kg_draw_writes_a_picture_and_says_what_it_left_out(project: Project, here: Command, tmp_path: Path) -> None:
    outcome = here(
        "kg", "draw", project.graph, "milk", "refrigerator", "--hops", 2, "--max-nodes", 12, "-o", tmp_path / "new" / "p.svg"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"{tmp_path}/new/p.svg: showing 12 of ")
    text = " ".join("".join(ET.parse(tmp_path / "new" / "p.svg").getroot().itertext()).split())
    assert outcome.out.split(": ")[1].strip() in text
    for name in ("milk", "refrigerator"):
        assert name in text


def test_data_draw_writes_the_choice_asked_for(project: Project, here: Command, tmp_path: Path) -> None:
    question = PreparedData.load(project.data).questions[0]
    assert question.answer is not None
    wrong = (question.answer + 1) % len(question.choices)
    for options, choice in ([], question.answer), (["--choice", question.label(wrong)], wrong):
        outcome = here("data", "draw", project.data, question.id, *options, "-o", tmp_path / "p.svg", "--json", "--force")
        counts = json.loads(outcome.out)
        assert counts.pop("file") == str(tmp_path / "p.svg")
        subgraph = PreparedData.load(project.data).subgraphs(0)[choice]
        assert (counts["nodes"]["of"], counts["facts"]["of"]) == (len(subgraph.concepts), len(subgraph.head))
        text = " ".join("".join(ET.parse(tmp_path / "p.svg").getroot().itertext()).split())
        assert f"{question.label(choice)}: {question.choices[choice]}" in text


def test_data_report_prints_and_writes_the_same_numbers(project: Project, here: Command, tmp_path: Path) -> None:
    options = ["--hops", 3]
    printed = here("data", "report", project.data, *options)
    assert printed.code == 0
    assert printed.out.splitlines()[0] == "questions: 28"
    assert printed.out.splitlines()[-1].startswith("paths of 3 hops from question to answer: without ")
    written = here("data", "report", project.data, *options, "--json", "-o", tmp_path / "report")
    assert json.loads(written.out) == json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert (tmp_path / "report" / "paths.png").read_bytes().startswith(b"\x89PNG")
    again = here("data", "report", project.data, "-o", tmp_path / "report", "--force")
    assert again.code == 0  # its own folder is replaced


def test_wrong_input_is_one_line(own: Project, refused: Refused) -> None:
    image, known = own.root / "p.svg", first_id(own)
    draw = ["data", "draw", str(own.data), known, "-o", str(image)]
    refused(["kg", "draw", str(own.graph), "milc", "-o", str(image)], ["'milc' is not a concept", str(own.graph)])
    refused(["kg", "draw", str(own.graph), "milk", "-o", str(own.root / "p.gif")], ["p.gif does not end in .svg or .png"])
    refused(["kg", "draw", str(own.graph), "milk", "-o", str(own.graph) + ".svg/p"], ["does not end in"])
    refused(["kg", "draw", str(own.root / "no"), "milk", "-o", str(image)], [f"{own.root}/no does not exist"])
    refused(["kg", "draw", str(own.graph), "-o", str(image)], ["CONCEPT"])
    refused(["kg", "draw", str(own.graph), "milk", "-o", str(image), "--hops", "0"], ["--hops"])
    refused(["kg", "draw", str(own.graph), "milk", "oven", "-o", str(image), "--max-nodes", "1"], ["raise --max-nodes"])
    refused([*draw, "--choice", "Z"], [f"{known} has no choice 'Z'. Known: A, B, C, D, E"])
    refused([*draw[:3], known + "x", *draw[4:]], [f"{own.data} has no question '{known}x'. Did you mean "])
    refused([*draw[:2], str(own.graph), *draw[3:]], [f"{own.graph} is not a prepared dataset"])
    refused(["data", "report", str(own.data), "-o", str(own.graph)], [f"{own.graph}", "name another folder"])
    (own.root / "file").write_text("mine")
    refused([*draw[:-1], str(own.root / "file" / "p.svg")], [f"{own.root}/file"])


def test_a_question_without_answer_needs_a_choice(own: Project, here: Command, refused: Refused) -> None:
    path = own.data / "questions.jsonl"
    first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(json.dumps(json.loads(first) | {"answer": None}) + "\n" + "".join(rest), encoding="utf-8")
    unseal(own.data)
    draw = ["data", "draw", str(own.data), first_id(own), "-o", str(own.root / "p.svg")]
    refused(draw, ["is unknown; name a choice with --choice (A, B, C, D, E)"])
    assert here(*draw, "--choice", "B").code == 0


def test_a_graph_that_moved_can_be_named(own: Project, here: Command, refused: Refused) -> None:
    own.graph.rename(own.root / "moved")
    draw = ["data", "draw", str(own.data), first_id(own), "--force", "-o", str(own.root / "p.png")]
    refused(draw, [f"was at {own.graph}, which does not exist", "--kg"])
    assert here(*draw, "--kg", own.root / "moved").code == 0


def test_a_report_needs_no_graph_and_says_if_the_data_is_damaged(own: Project, here: Command, refused: Refused) -> None:
    own.graph.rename(own.root / "moved")
    assert here("data", "report", own.data).code == 0
    edit_json(own.data / "prepared.json", lambda about: about.update(format=99))
    refused(["data", "report", str(own.data)], ["format 99"])


def test_without_matplotlib_work_is_refused_before_it_begins(
    own: Project, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for args in (
        ["kg", "draw", str(own.graph), "milk", "-o", str(own.root / "p.svg")],
        ["data", "draw", str(own.data), first_id(own), "-o", str(own.root / "p.svg")],
        ["data", "report", str(own.data), "-o", str(own.root / "report")],
    ):
        refused(args, ["pip install 'mhgrn[plots]'"])


def test_a_report_without_figure_needs_no_matplotlib(own: Project, here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert here("data", "report", own.data, "--json").code == 0
