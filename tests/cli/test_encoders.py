"""mhgrn encoders, train with any of them, ensemble."""

import json
from pathlib import Path

import pytest
from harness import Command, Project, Refused

from mhgrn.encoders import graph_encoders


def test_encoders_are_listed(here: Command) -> None:
    text = here("encoders")
    assert text.code == 0, text
    listed = json.loads(here("encoders", "--json").out)
    assert [entry["name"] for entry in listed] == graph_encoders.names()
    for entry in listed:
        assert entry["summary"] in text.out
        assert entry["equation"] in text.out
        assert f"{entry['default']['parameters']:,} parameters" in text.out
        for key in entry["default"]["settings"]:
            assert f"{key}=" in text.out


def test_published_parameter_counts(here: Command) -> None:
    counts = {entry["name"]: entry["as_published"]["parameters"] for entry in json.loads(here("encoders", "--json").out)}
    assert (counts["rgcn"], counts["gconattn"], counts["mhgrn"]) == (364_665, 452_825, 543_571)
    narrow = json.loads(here("encoders", "--json", "--sentence-dim", "768").out)
    assert {entry["name"]: entry["as_published"]["parameters"] for entry in narrow}["mhgrn"] == 453_715


def test_runs_of_several_encoders_answer_together(own: Project, here: Command, tmp_path: Path) -> None:
    for name in ("most-edges", "gsc"):
        options = ["--set", f"graph_encoder={name}", "--set", "training.epochs=1", "--json"]
        trained = here("train", "--data", own.data, "-o", tmp_path / name, *options)
        assert trained.code == 0, trained
        evaluated = json.loads(here("eval", tmp_path / name, "--split", "dev", "--json").out)
        assert evaluated["accuracy"] == json.loads(trained.out)["dev_accuracy"]
        asked = here("ask", tmp_path / name, "Where do you keep milk?", "-c", "refrigerator", "-c", "oven")
        assert f"the graph encoder {name} does not use individual paths" in asked.out
    runs = [own.run, tmp_path / "most-edges", tmp_path / "gsc"]
    for vote in ("mean", "majority"):
        text = here("ensemble", *runs, "--vote", vote, "-o", tmp_path / f"{vote}.jsonl")
        assert text.code == 0, text
        found = json.loads(here("ensemble", *runs, "--vote", vote, "--json").out)
        rows = [json.loads(line) for line in (tmp_path / f"{vote}.jsonl").read_text(encoding="utf-8").splitlines()]
        gold = [json.loads(line)["answerKey"] for line in (own.questions / "test.jsonl").read_text(encoding="utf-8").splitlines()]
        assert found["accuracy"] == sum(row["prediction"] == key for row, key in zip(rows, gold, strict=True)) / len(gold)
        assert [member["graph_encoder"] for member in found["members"]] == ["mhgrn", "most-edges", "gsc"]
        assert f"{found['accuracy']:.1%}" in text.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["{run}"], ["two or more runs"]),
        (["{run}", "{run}"], ["named twice"]),
        (["{run}", "{data}"], ["data", "run"]),
        (["{run}", "nowhere"], ["nowhere"]),
        (["{run}", "{other}", "--split", "tests"], ["no split 'tests'", "Did you mean test?"]),
        (["{run}", "{other}", "-o", "{data}"], ["is a folder"]),
        (["{run}", "{other}", "--vote", "all"], ["--vote", "majority"]),
        (["{run}", "{other}", "--data", "{graph}"], ["graph"]),
    ],
)
def test_wrong_ensembles_are_refused(args: list[str], says: list[str], own: Project, refused: Refused) -> None:
    other = Project(own.root).copy(own.root.with_name("other"))
    places = {"run": own.run, "data": own.data, "graph": own.graph, "other": other.run}
    refused(["ensemble", *(arg.format(**places) for arg in args)], says)


def test_wrong_encoders_are_refused(own: Project, refused: Refused, tmp_path: Path) -> None:
    train = ["train", "--data", str(own.data), "-o", str(tmp_path / "new"), "--set"]
    refused([*train, "graph_encoder=rgnc"], ["unknown graph encoder 'rgnc'", "Did you mean"])
    refused([*train, "rgcn.layer=2"], ["unknown setting rgcn.layer", "Did you mean layers?"])
    refused([*train, "rgcn.layers=0"], ["setting rgcn.layers"])
    refused([*train, "graph_encoder=rgcn", "--set", "rgcn.heads=3"], ["3 heads", "100"], lines=None)
    refused(["encoders", "--relations", "0"], ["--relations"])
