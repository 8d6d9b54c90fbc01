"""`reproduce`, `compare` and `report` as a user types them."""

import json
import shutil
from pathlib import Path

import pytest
from harness import Command, Project, Refused

from mhgrn.starter import FACTS

OWN = """
data: questions
settings: {training.epochs: 1}
systems:
  edge-types: {label: edge types, settings: {graph_encoder: edge-types}}
  most-edges: {label: most edges, settings: {graph_encoder: most-edges}, paper: {bert-base: {dev: 57.31}}}
"""


@pytest.fixture
def where(project: Project, tmp_path: Path) -> list[str]:
    """A folder of data, and options that name it."""
    shutil.copytree(project.questions, tmp_path / "files" / "questions")
    (tmp_path / "files" / "conceptnet").mkdir()
    shutil.copy(FACTS, tmp_path / "files" / "conceptnet")
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    return ["--data", f"{tmp_path}/files", "--work", f"{tmp_path}/work", "--results", f"{tmp_path}/results"]


def test_the_list_names_everything(here: Command) -> None:
    found = json.loads(here("reproduce", "list", "--json").out)
    names = [row["name"] for row in found["experiments"]]
    shown = here("reproduce", "list")
    assert (shown.code, shown.err) == (0, "")
    assert all(name in shown.out for name in [*names, *found["encoders"]])
    assert len(names) == 20
    help_text = here("reproduce", "--help").out
    assert all(name in help_text for name in names)


def test_an_experiment_is_run_shown_verified_and_put_on_a_page(here: Command, where: list[str], tmp_path: Path) -> None:
    outcome = here("reproduce", "run", tmp_path / "own.yaml", *where, "--seeds", "2")
    assert outcome.code == 0, outcome
    assert "| edge types |" in outcome.out
    again = here("reproduce", "run", tmp_path / "own.yaml", *where, "--seeds", "2", "--json")
    summary = json.loads(again.out)
    assert summary["systems"]["edge-types"]["seeds"] == [0, 1]
    assert {"mean", "std", "runs"} == summary["systems"]["edge-types"]["dev"].keys()
    results = ["--results", f"{tmp_path}/results"]
    assert here("reproduce", "table", "own", *results).out == outcome.out
    assert json.loads(here("reproduce", "table", "own", *results, "--json").out) == [summary]
    checked = here("reproduce", "verify", tmp_path / "own.yaml", "--cell", "most-edges:1", *where)
    assert (checked.code, checked.out.count("8 of 8 answers are the same")) == (0, 2)
    path = tmp_path / "results" / "own" / "minilm" / "cells" / "most-edges.1.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    result["splits"]["dev"]["chosen"] = "4" * 7 + "0"
    path.write_text(json.dumps(result), encoding="utf-8")
    assert here("reproduce", "verify", tmp_path / "own.yaml", "--cell", "most-edges:1", *where).code == 1
    assert here("report", tmp_path / "results").out == f"{tmp_path}/results/report.html\n"
    assert "edge types" in (tmp_path / "results" / "report.html").read_text(encoding="utf-8")


def test_tables_that_need_no_training(here: Command, where: list[str], tmp_path: Path) -> None:
    results = ["--results", f"{tmp_path}/results"]
    outcome = here("reproduce", "parameters", *results)
    assert "| mhgrn | 543,571 | 543,571 | 544K | yes |" in outcome.out
    assert here("reproduce", "table", "parameters", *results).out == outcome.out
    counted = json.loads(here("reproduce", "path-counts", "--dataset", "questions", "--hops", "2", *where, "--json").out)
    assert [row[0] for row in counted["rows"]] == ["1", "2"]
    assert (tmp_path / "results" / "path-counts" / "figure.png").is_file()


def test_cases_and_comparisons_of_runs(here: Command, project: Project, tmp_path: Path) -> None:
    outcome = here("reproduce", "cases", "--run", project.run, "--count", "1", "--results", tmp_path / "results")
    assert outcome.code == 0
    assert outcome.out.count("random sample") in (1, 2)
    same = here("compare", project.run, project.run)
    assert same.out.startswith("dev: 0 of 8 questions are answered differently;")
    assert json.loads(here("compare", project.run, project.run, "--split", "test", "--json").out)["flipped"] == 0


def test_wrong_input_is_one_line(refused: Refused, where: list[str], project: Project, tmp_path: Path) -> None:
    results = ["--results", f"{tmp_path}/results"]
    refused(["reproduce", "csqa-inhose"], ["No such command"], None)
    refused(["reproduce", "hops"], ["has no folder commonsenseqa or csqa", "--data"])
    (tmp_path / "file").write_text("", encoding="utf-8")
    refused(["reproduce", "properties", "--results", tmp_path / "file" / "deep"], ["file is not a folder", "--results"])
    refused(["reproduce", "hops", *where, "--budget", "soon"], ["write a time such as"])
    refused(["reproduce", "hops", *where, "--encoder", "bert"], ["Did you mean bert-"])
    refused(["reproduce", "hops", *where, "--systems", "gcn"], ["hops has no system 'gcn'"])
    refused(["reproduce", "hops", *where], ["has no folder commonsenseqa or csqa", "mhgrn fetch commonsenseqa"])
    refused(["reproduce", "run", f"{tmp_path}/no.yaml", *where], ["does not exist"])
    refused(["reproduce", "table", "hops", *results], ["has no results"])
    refused(["reproduce", "table", "splits", *results], ["splits does not exist; name the folder of a result"])
    refused(["report", f"{tmp_path}/no"], ["is not a folder"])
    refused(["compare", str(project.run), f"{tmp_path}/no"], ["does not exist"])
    refused(["compare", str(project.run), str(project.run), "--split", "dve"], ["Did you mean dev"])
    refused(["reproduce", "cases", "--run", f"{tmp_path}/no", *results], ["does not exist"])
    refused(["reproduce", "breakdown", *where, "--split", "dve"], ["csqa-inhouse has no results"])
    refused(["reproduce", "curves", "--of", "hop", *results], ["no experiment hop. Did you mean hops?"])


def test_a_cell_that_was_not_run_cannot_be_verified(here: Command, where: list[str], tmp_path: Path) -> None:
    for cell, says in (("edge-types:0", "has no result of edge-types:0"), ("edge-types", "write SYSTEM:SEED")):
        outcome = here("reproduce", "verify", tmp_path / "own.yaml", "--cell", cell, *where)
        assert (outcome.code, says in outcome.err) == (2, True), outcome
