"""The published results: summaries match their cells, and cells have the current settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from mhgrn.features.encoded import feature_encoder
from mhgrn_reproduction.cells import Added, Cell, Column, read_result
from mhgrn_reproduction.papers import TUNED, Experiment, TextSettings
from mhgrn_reproduction.summary import SUMMARY, read_summary, summarize

RESULTS = Path(__file__).parents[1] / "results"
FOLDERS = sorted(path.parent for path in RESULTS.glob(f"*/*/{SUMMARY}"))


def cells(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The cells by system, in the order of seeds."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((folder / "cells").iterdir(), key=lambda path: int(path.name.split(".")[-2])):
        result = read_result(path)
        assert path.name == f"{result['system']}.{result['seed']}.json"
        found.setdefault(result["system"], []).append(result)
    return found


def named(folders: list[Path]) -> Any:
    return pytest.mark.parametrize("folder", folders, ids=lambda folder: f"{folder.parent.name}-{folder.name}")


@named(FOLDERS)
def test_summaries_match_their_cells(folder: Path) -> None:
    summary = read_summary(folder)
    again = summarize(cells(folder), summary["splits"], summary["reference"])
    assert {name: json.loads(json.dumps(entry)) for name, entry in again.items()} == summary["systems"]


def added(experiment: Experiment, system: str, encoder: str, text: TextSettings) -> Added | None:
    """The scores that are added to those of a system, here always of a text encoder that is not tuned on the graph."""
    other = experiment.systems[system].plus
    measure = None if other is None else experiment.systems[other].measure
    return None if other is None or measure is None else Added(measure, experiment.config(other, encoder, text), None)


@named(FOLDERS)
def test_cells_have_the_current_settings(folder: Path) -> None:
    """The same command reuses these results instead of refusing them as results of other settings."""
    summary = read_summary(folder)
    experiment, text = Experiment.named(summary["experiment"]), TextSettings.named(summary["encoder"])
    for system, results in cells(folder).items():
        for result in results:
            changes = [*summary["changes"], f"features={result['config']['features']}"]  # named after the data
            config = experiment.config(system, summary["encoder"], text, result["seed"], changes)
            if config.text.encoder == TUNED:  # named after the graph and the questions
                changes.append(f"text.encoder={result['config']['text']['encoder']}")
                config = experiment.config(system, summary["encoder"], text, result["seed"], changes)
            columns = tuple(
                Column(label, folder, result["splits"][label]["data"], target.split)
                for label, target in experiment.evaluate.items()
            )
            measure, plus = experiment.systems[system].measure, added(experiment, system, summary["encoder"], text)
            data = result["data"]["fingerprint"]
            cell = Cell(system, result["seed"], config, folder, None, data, (), None, columns, measure, plus)
            run = cell.folder if measure is None else None
            assert (cell.key, run) == (result["key"], result["run"]), f"{system}:{result['seed']}"


def test_the_built_in_text_encoder_keeps_its_fingerprint() -> None:
    """Names of node features and cells depend on it: if it changes, all names in results/ change."""
    assert feature_encoder("minilm").identity()["weights"] == "bce8a40cf8c7beca138a"
