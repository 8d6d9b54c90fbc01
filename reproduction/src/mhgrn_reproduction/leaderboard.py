"""Ensembles of seeds, and prediction files in the format of CommonsenseQA's leaderboard."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mhgrn.io.atomic import write_text
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn_reproduction.cells import read_result
from mhgrn_reproduction.formats import DIGITS
from mhgrn_reproduction.papers import Experiment


def majority(chosen: Sequence[str]) -> str:
    """The majority choice for each question, one character each; ties go to the first choice, as published.

    >>> majority(["0120", "0210", "1230"])
    '0210'
    """
    votes = [[run[i] for run in chosen] for i in range(len(chosen[0]))]
    return "".join(max(sorted(set(of)), key=of.count) for of in votes)


def write_predictions(summary: dict[str, Any], experiment: Experiment, data: PreparedData, folder: Path) -> None:
    """Add ensembles to a summary, and write the predictions of the best run and of the ensemble, ``id,letter`` in each line."""
    ensembles: dict[str, Any] = {}
    for system in experiment.systems:
        if system not in summary["systems"]:
            continue
        results = [read_result(folder / "cells" / f"{system}.{seed}.json") for seed in summary["systems"][system]["seeds"]]
        if system in experiment.ensembles and len(results) > 1:
            ensembles[system] = {"runs": len(results), "vote": "majority, of tied choices the first"}
            for split in experiment.splits:
                together = majority([result["splits"][split]["chosen"] for result in results])
                answers = [data.questions[q].answer for q in data.split(split)]
                right = sum(DIGITS.index(c) == answer for c, answer in zip(together, answers, strict=True))
                ensembles[system][split] = round(right / len(answers), 6)
        if experiment.predict is not None:
            best = max(results, key=lambda result: (result["splits"]["dev"]["accuracy"], -result["seed"]))
            predicted = {"": best["splits"][experiment.predict]["chosen"]}
            if system in ensembles:
                predicted["-ensemble"] = majority([result["splits"][experiment.predict]["chosen"] for result in results])
            for ending, chosen in predicted.items():
                write_text(folder / f"predictions-{system}{ending}.csv", _rows(chosen, data, experiment.predict))
    if ensembles:
        summary["ensembles"] = ensembles


def _rows(chosen: str, data: PreparedData, split: str) -> str:
    questions = [data.questions[q] for q in data.split(split)]
    return "".join(f"{q.id},{q.label(DIGITS.index(c))}\n" for q, c in zip(questions, chosen, strict=True))
