"""The pictures of the documentation show the stored results."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from mhgrn.errors import UserError
from mhgrn_reproduction.plots import ACCURACIES, COMPARISONS, ENCODER, SHOWN, SPEED, accuracy_text, draw_plots, speed_text
from mhgrn_reproduction.summary import read_summary

ROOT = Path(__file__).parents[2]
RESULTS, IMAGES = ROOT / "reproduction" / "results", ROOT / "docs" / "images"


def comparisons() -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((RESULTS / SPEED / COMPARISONS).read_text(encoding="utf-8"))["comparisons"]
    return found


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    drawn = [[path.read_bytes() for path in draw_plots(RESULTS, tmp_path / name)] for name in ("one", "two")]
    assert drawn[0] == drawn[1]


def test_the_pictures_of_the_documentation_show_the_stored_numbers() -> None:
    accuracy, speed = ((IMAGES / f"{name}.svg").read_text(encoding="utf-8") for name in ("accuracy", "speed"))
    for name in ACCURACIES:
        for system, entry in read_summary(RESULTS / name / ENCODER)["systems"].items():
            if system in SHOWN:
                assert f">{accuracy_text(entry['test']['mean'])}<" in accuracy, "draw them again: make plots"
    for row in comparisons():
        assert f">{speed_text(float(row['speed_up']))} faster than" in speed, "draw them again: make plots"


def test_the_page_quotes_the_same_speed_ups_and_commands() -> None:
    page = (ROOT / "docs" / "speed-and-accuracy.md").read_text(encoding="utf-8")
    for row in comparisons():
        assert speed_text(float(row["speed_up"])) in page
        assert f"`{row['command']}` ({row['date']})" in page


def test_damaged_results_are_explained(tmp_path: Path) -> None:
    for name in ACCURACIES:
        shutil.copytree(RESULTS / name / ENCODER, tmp_path / name / ENCODER, ignore=lambda *_: ["cells"])
    with pytest.raises(UserError):
        draw_plots(tmp_path, tmp_path)
    (tmp_path / SPEED).mkdir()
    (tmp_path / SPEED / COMPARISONS).write_text('{"format": 1, "machine": "m", "comparisons": []}', encoding="utf-8")
    with pytest.raises(UserError, match="comparisons"):
        draw_plots(tmp_path, tmp_path)
