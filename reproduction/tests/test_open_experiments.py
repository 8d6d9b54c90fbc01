"""Experiments with open questions: they run, resume and are summarized."""

from pathlib import Path

import numpy as np
import pytest

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn_reproduction import open_experiments, printed
from mhgrn_reproduction.open_experiments import OpenExperiment, Place, open_table, read_cell, run_experiment
from mhgrn_reproduction.sources import Sources
from mhgrn_reproduction.titles import OPEN

RESULTS = Path(__file__).parents[1] / "results"
QUICK = ["training.epochs=2", "open.hidden=8"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MetaQA's files with other contents."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    facts = [(f"film {i}", "directed_by", f"person {rng.integers(8)}") for i in range(30)]
    facts += [(f"film {i}", "starred_actors", f"person {rng.integers(8)}") for i in range(30)]
    (folder / "metaqa").mkdir()
    (folder / "metaqa" / "kb.txt").write_text("".join("|".join(fact) + "\n" for fact in facts))
    for hop in ("1-hop", "2-hop", "3-hop"):
        (folder / "metaqa" / hop).mkdir()
        rows = "".join(f"who directed [{film}]\t{who}\n" for film, relation, who in facts if relation == "directed_by")
        for split in ("dev", "test"):
            (folder / "metaqa" / hop / f"qa_{split}.txt").write_text(rows)
    return folder


def test_cells_are_run_once_and_make_the_table(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(Sources(files, tmp_path / "work"), tmp_path / "metaqa")
    found = run_experiment("metaqa", place, 2, ["all", "each-half"], QUICK)
    cells = {path.name: read_cell(path) for path in (tmp_path / "metaqa" / "cells").iterdir()}
    assert sorted(cells) == ["all.0.json", "all.1.json", "each-half.0.json", "each-half.1.json"]
    hits = [cells[f"all.{seed}.json"]["tests"]["2-hop"]["hits_at_1"] for seed in (0, 1)]
    rows = {row[0]: row[1:] for row in found["rows"]}
    assert rows["one model for all"][1] == f"{100 * np.mean(hits):.1f} ± {100 * np.std(hits, ddof=1):.1f}"
    assert rows["one model for all"][-1] == "2"
    assert rows["TransferNet (Shi et al. 2021)"][:3] == ["97.5", "100.0", "100.0"]
    reached = [cells[name]["tests"]["1-hop"]["reached"] for name in ("all.0.json", "each-half.0.json")]
    assert reached[0] == 1 > reached[1]  # without half of the facts, some answers cannot be reached
    monkeypatch.setattr(open_experiments, "_trained", lambda *_: pytest.fail("a finished cell is run again"))
    assert run_experiment("metaqa", place, 2, ["all"], QUICK)["rows"] == found["rows"]


def test_missing_files_and_unknown_systems_are_named(files: Path, tmp_path: Path) -> None:
    place = Place(Sources(tmp_path, tmp_path / "work"), tmp_path / "metaqa")
    with pytest.raises(UserError, match=r"kb\.txt is missing; put MetaQA"):
        run_experiment("metaqa", place)
    with pytest.raises(UserError, match=r"metaqa has no system 'al'. Did you mean all\?"):
        run_experiment("metaqa", place, systems=["al"])


@pytest.mark.parametrize("name", [name for name in OPEN if (RESULTS / name).is_dir()])
def test_published_tables_match_their_cells(name: str) -> None:
    stored, made = printed.read(RESULTS / name), open_table(OpenExperiment.named(name), RESULTS / name)
    assert {key: stored[key] for key in ("columns", "rows", "notes")} == {key: made[key] for key in ("columns", "rows", "notes")}


@pytest.mark.parametrize("name", [name for name in OPEN if (RESULTS / name).is_dir()])
def test_published_cells_have_the_current_settings(name: str) -> None:
    experiment = OpenExperiment.named(name)
    for path in (RESULTS / name / "cells").iterdir():
        cell = read_cell(path)
        for of, settings in experiment.systems[cell["system"]].runs.items():
            now, then = experiment.config(settings, cell["seed"]), Config.restore(cell["config"][of])
            assert now.identity() == then.identity()
