"""The breakdown, compared with counting question by question, and the curves, compared with the run."""

import json
from pathlib import Path

import numpy as np
import pytest

from mhgrn.errors import UserError
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn_reproduction.analysis import breakdown, curves, kinds
from mhgrn_reproduction.cells import read_result
from mhgrn_reproduction.experiment_setup import Request
from mhgrn_reproduction.papers import Experiment, TextSettings
from mhgrn_reproduction.summary import right_answers


@pytest.fixture
def data(finished: Request) -> PreparedData:
    return finished.sources.prepared(Experiment.named(finished.name).data, TextSettings.named("minilm"))


def test_shares_are_those_of_the_cells(finished: Request, data: PreparedData) -> None:
    found = breakdown(finished.folder, data, "dev")
    right = {
        name: np.array([right_answers(read_result(finished.folder / "cells" / f"{name}.{seed}.json"), "dev") for seed in (0, 1)])
        for name in ("none", "edge-types", "mhgrn")
    }
    groups = kinds(data, list(data.split("dev")))
    assert found["columns"][1:-3] == ["all", *groups]
    for row, (name, mine) in zip(found["rows"], right.items(), strict=True):
        for shown, group in zip(row[1:-3], [np.ones(mine.shape[1], bool), *groups.values()], strict=True):
            assert shown == (f"{100 * mine[:, group].mean():.1f}" if group.any() else "–")
        pairs = [(a, b) for a in mine for b in right["none"]]
        assert row[-3] == f"{100 * np.mean([a & ~b for a, b in pairs]):.1f}"
        assert row[-2] == f"{100 * np.mean([~a & b for a, b in pairs]):.1f}"
        others = [theirs for other, theirs in right.items() if other != name]
        assert row[-1] == str(int((mine.all(0) & ~np.any([theirs.all(0) for theirs in others], axis=0)).sum()))


def test_kinds_of_questions_by_hand(data: PreparedData) -> None:
    numbers = list(data.split("dev"))
    found = kinds(data, numbers)
    for row, number in enumerate(numbers):
        graphs = [data.subgraph(s) for s in range(data.statement_ptr[number], data.statement_ptr[number + 1])]
        links = []
        for graph in graphs:
            ends = zip(graph.types[graph.head].tolist(), graph.types[graph.tail].tolist(), strict=True)
            links.append(sum(sorted(pair) == [QUESTION, ANSWER] for pair in ends))
        right = links.pop(data.questions[number].answer)
        assert [bool(found[k][row]) for k in ("most links", "as many links", "fewer links")] == [
            right > max(links),
            right == max(links),
            right < max(links),
        ]
        assert found["≤ 200 nodes"][row] == (sum(len(g.concepts) for g in graphs) / len(graphs) <= 200)
    thirds = [found[k] for k in ("few facts", "some facts", "many facts")]
    assert (np.sum(thirds, axis=0) == 1).all()


def test_results_of_other_questions_are_refused(finished: Request, data: PreparedData) -> None:
    with pytest.raises(UserError, match="no results of gcn; run it, or name another system: none, edge-types, mhgrn"):
        breakdown(finished.folder, data, "dev", "gcn")
    with pytest.raises(UserError, match="belong to other train questions"):
        breakdown(finished.folder, data, "train")


def test_curves_are_those_of_the_runs(finished: Request, tmp_path: Path) -> None:
    found, draw = curves(finished.folder)
    runs = [json.loads((finished.folder / "cells" / f"mhgrn.{seed}.json").read_text("utf-8"))["run"] for seed in (0, 1)]
    logs = [(finished.sources.work / "runs" / run / "metrics.jsonl").read_text("utf-8").splitlines() for run in runs]
    epochs = [[row for row in map(json.loads, log) if "dev_accuracy" in row] for log in logs]
    assert len(epochs[0]) == len(epochs[1]) == 2
    mean = [[np.mean([run[i][key] for run in epochs]) for i in range(2)] for key in ("loss", "dev_accuracy")]
    row = next(row for row in found["rows"] if row[0] == "MHGRN")
    np.testing.assert_allclose([float(x) for x in row[1].split(", ")], mean[0], atol=0.006)
    np.testing.assert_allclose([float(x) for x in row[2].split(", ")], 100 * np.array(mean[1]), atol=0.06)
    draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
