"""mhgrn evidence as a user runs it."""

import json
from pathlib import Path

from harness import Command, Refused

QUESTION = "Where would a child sit at a desk?"


def test_one_question_in_every_form(here: Command) -> None:
    shown = here("evidence", "starter", QUESTION, "--budget", "60").out
    assert "A desk is found in a schoolroom." in shown
    assert "of 60 tokens" in shown
    found = json.loads(here("evidence", "starter", QUESTION, "-c", "schoolroom", "-c", "patio", "--json").out)
    assert found["choices"] == ["schoolroom", "patio"]
    assert found["tokens"] <= 300
    assert found["items"][0]["facts"][0]["id"]
    context = here("evidence", "starter", QUESTION, "--budget", "60", "--context").out.splitlines()
    assert context[1].startswith("[1] ")


def test_files_of_questions(here: Command, tmp_path: Path) -> None:
    rows = [{"id": "a", "question": QUESTION, "choices": ["schoolroom", "patio"]}]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "open.txt").write_text(f"{QUESTION}\n\nWhat is rain?\n")
    for file, ids in (("questions.jsonl", ["a"]), ("open.txt", ["1", "2"])):
        done = here(
            "evidence", "starter", "--questions", tmp_path / file, "-o", tmp_path / "out.jsonl", "--force", "--budget", "50"
        )
        assert f"evidence for {len(ids)} questions" in done.out
        found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [row["id"] for row in found] == ids
        assert all(row["context"].endswith(row["items"][-1]["text"]) for row in found)


def test_wrong_options_are_refused(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    for args, says in (
        (["evidence", "starter"], ["--questions"]),
        (["evidence", "starter", "a", "--questions", "b", "-o", "c"], ["--questions"]),
        (["evidence", "starter", "a", "--json", "--context"], ["leave one out"]),
        (["evidence", "starter", "a", "-o", "x"], ["-o is for --questions"]),
        (["evidence", "starter", "--questions", "b"], ["needs -o"]),
        (["evidence", "starter", "--questions", str(tmp_path / "no.txt"), "-o", str(tmp_path / "x")], ["does not exist"]),
        (["evidence", "starter", "--questions", str(tmp_path / "empty.txt"), "-o", str(tmp_path / "x")], ["no questions"]),
        (["evidence", "starter", QUESTION, "-c", "one"], ["at least two choices"]),
    ):
        refused(args, says)


def test_the_report_measures_recall(here: Command, refused: Refused, tmp_path: Path) -> None:
    chosen = ["--limit", "3", "--method", "evidence", "--method", "random facts"]
    shown = here("evidence-report", "starter", "starter", "--budget", "80", *chosen, "-o", tmp_path / "report.json").out
    assert "recall of supporting facts" in shown
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("report")] == ["report.json"]
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert found["recall"]["facts"]["evidence"]["questions"] == 3
    assert found["recall"]["facts"]["evidence"]["mean"] > found["recall"]["facts"]["random facts"]["mean"]
    refused(["evidence-report", "starter", "starter", "--method", "evidense"], ["Did you mean evidence?"])
    refused(["evidence-report", "starter", "no.jsonl"], ["no.jsonl is not a file"])
