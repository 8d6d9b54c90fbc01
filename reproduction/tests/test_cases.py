"""Cases follow their sampling rule, and comparisons find the questions that two runs answer differently."""

from pathlib import Path

import pytest

from mhgrn.comparison import compare
from mhgrn.errors import UserError
from mhgrn.runs import find_data
from mhgrn.starter import load
from mhgrn_reproduction.cases import cases
from mhgrn_reproduction.cells import read_result
from mhgrn_reproduction.experiment_setup import Request
from mhgrn_reproduction.papers import TextSettings


def run_of(request: Request, cell: str) -> Path:
    return request.sources.work / "runs" / str(read_result(request.folder / "cells" / f"{cell}.json")["run"])


def test_cases_are_as_many_right_as_wrong_ones_and_their_paths(finished: Request) -> None:
    run = run_of(finished, "mhgrn.0")
    found = cases(run, count=2)
    data = find_data(run)
    dev = {data.questions[q].id for q in data.split("dev")}
    result = read_result(finished.folder / "cells" / "mhgrn.0.json")["splits"]["dev"]
    right, wrong = result["right"].count("1"), result["right"].count("0")
    is_right = [case["answer"] == case["right"] for case in found["cases"]]
    assert is_right == [True] * min(2, right) + [False] * min(2, wrong)
    assert {case["id"] for case in found["cases"]} <= dev
    assert all(case["paths"] for case in found["cases"])
    assert cases(run, count=2)["rows"] == found["rows"]
    assert cases(run, count=2, seed=1)["rows"] != found["rows"]


def test_flips_are_all_questions_with_different_answers(finished: Request) -> None:
    names = "mhgrn.0", "none.1"
    chosen = [read_result(finished.folder / "cells" / f"{name}.json")["splits"]["test"] for name in names]
    runs = [run_of(finished, name) for name in names]
    found = compare(*runs, split="test", most=100)
    different = [i for i, (a, b) in enumerate(zip(chosen[0]["chosen"], chosen[1]["chosen"], strict=True)) if a != b]
    data = find_data(runs[0])
    asked = [data.questions[q] for q in data.split("test")]
    assert [flip["id"] for flip in found.flips] == [asked[i].id for i in different]
    assert (found.questions, found.flipped) == (16, len(different))
    assert found.right is not None
    assert list(found.right) == [c["right"].count("1") for c in chosen]
    first, question = found.flips[0], asked[different[0]]
    for run, explained, label in zip(runs, first["explanations"], first["chosen"], strict=True):
        answer = load(run).answer(question)
        assert explained["text"] == str(answer)
        assert question.choices[question.labels.index(label)] == answer.choice
    assert compare(*runs, split="test", most=0).flipped == len(different)
    assert compare(runs[0], runs[0]).flips == []


def test_where_answers_are_not_known_nothing_is_called_wrong(finished: Request) -> None:
    data = finished.sources.prepared("commonsenseqa", TextSettings.named("minilm"))
    graph = next((finished.sources.work / "graphs").iterdir())
    found = compare(run_of(finished, "mhgrn.0"), run_of(finished, "none.1"), "test", data=data.folder, kg=graph)
    assert found.right is None
    assert {flip["right"] for flip in found.flips} <= {None}
    assert found.flipped > 0


def test_runs_that_answer_other_questions_are_not_compared(finished: Request, tmp_path: Path) -> None:
    run = run_of(finished, "mhgrn.0")
    with pytest.raises(UserError, match="no split 'validation'"):
        compare(run, run, split="validation")
    with pytest.raises(UserError, match="does not exist"):
        compare(run, tmp_path / "no")
    with pytest.raises(UserError, match="does not exist"):
        cases(tmp_path / "no")
