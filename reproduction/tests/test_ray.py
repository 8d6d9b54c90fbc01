"""Experiments on a Ray cluster of three nodes on this machine: the results of one machine, failures, resumption."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mhgrn.engines import engine_named
from mhgrn.errors import UserError
from mhgrn_reproduction.cells import Cell, cell_from, cell_row, read_result
from mhgrn_reproduction.experiment_setup import Request, set_up
from mhgrn_reproduction.open_experiments import Place, read_cell, run_experiment
from mhgrn_reproduction.open_sources import HOPS
from mhgrn_reproduction.runner import reproduce
from mhgrn_reproduction.sources import Sources
from ray_cluster import cluster_of

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    with cluster_of(3) as cluster:
        yield cluster


@pytest.fixture
def fresh(finished: Request, tmp_path: Path) -> Request:
    """The request of the finished experiment with a work folder without runs and without results."""
    for name in ("graphs", "prepared"):
        shutil.copytree(finished.sources.work / name, tmp_path / "work" / name)
    sources = replace(finished.sources, work=tmp_path / "work")
    return replace(finished, sources=sources, results=tmp_path / "results", engine=engine_named("ray"))


def cells(request: Request) -> dict[str, dict[str, Any]]:
    """All results without the time that they took."""
    return {path.name: read_result(path) | {"seconds": 0} for path in sorted((request.folder / "cells").iterdir())}


def test_a_cell_survives_its_way_to_a_node(finished: Request) -> None:
    setup = set_up(finished)
    for system in setup.configs:
        cell: Cell = setup.cell(system, 1, setup.whole)
        assert cell_from(json.loads(json.dumps(cell_row(cell)))) == replace(cell, graph=cell.graph and cell.graph.absolute())


@pytest.mark.usefixtures("cluster")
def test_results_are_those_of_one_machine(finished: Request, fresh: Request) -> None:
    reproduce(fresh)
    assert cells(fresh) == cells(finished)
    assert not list(fresh.folder.glob(".*"))


@pytest.mark.usefixtures("cluster")
def test_a_run_that_fails_leaves_the_others_alone(finished: Request, fresh: Request) -> None:
    damaged = set_up(fresh).cell("mhgrn", 0, set_up(fresh).whole)
    folder = fresh.sources.work / "runs" / damaged.folder
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"^mhgrn:0: .*run.json"):
        reproduce(fresh)
    assert cells(fresh) == {name: result for name, result in cells(finished).items() if name != "mhgrn.0.json"}
    shutil.rmtree(folder)
    reproduce(fresh)
    assert cells(fresh) == cells(finished)


def test_an_interrupted_experiment_resumes(cluster: Any, finished: Request, fresh: Request) -> None:
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from mhgrn.cli import main; main()"
    places = ("--data", fresh.sources.data, "--work", fresh.sources.work, "--results", fresh.results)
    words = ("reproduce", "run", fresh.name, "--seeds", "2", *places, "--engine", "ray", "--address", cluster.address)
    child = subprocess.Popen([sys.executable, "-c", start, *map(str, words)], stderr=subprocess.PIPE, text=True)
    while child.poll() is None and not list((fresh.folder / "cells").glob("*.json")):
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    said = child.communicate()[1]
    assert child.returncode == 130, said
    assert "of 6 runs are done and stored; the same command resumes the rest." in said
    before = cells(fresh)
    assert 0 < len(before) < 6
    reproduce(fresh)
    assert cells(fresh) == cells(finished)


@pytest.mark.usefixtures("cluster")
def test_open_experiments_have_the_results_of_one_machine(tmp_path: Path) -> None:
    films = tmp_path / "data" / "metaqa"
    facts = [(f"film {i}", "directed_by", f"person {i % 7}") for i in range(20)]
    questions = "".join(f"who directed [{film}]\t{who}\n" for film, _, who in facts)
    for hop in HOPS:
        (films / hop).mkdir(parents=True)
        for split in ("dev", "test"):
            (films / hop / f"qa_{split}.txt").write_text(questions)
    (films / "kb.txt").write_text("".join("|".join(fact) + "\n" for fact in facts))
    found = {}
    for engine in ("local", "ray"):
        place = Place(Sources(tmp_path / "data", tmp_path / f"work-{engine}"), tmp_path / f"results-{engine}")
        run_experiment("metaqa", place, 2, ["all", "each"], ["training.epochs=2", "open.hidden=8"], engine_named(engine))
        found[engine] = {path.name: read_cell(path) | {"seconds": 0} for path in sorted((place.results / "cells").iterdir())}
    assert len(found["ray"]) == 4
    assert found["ray"] == found["local"]


def test_options_of_one_machine_are_refused(fresh: Request) -> None:
    with pytest.raises(UserError, match=r"--jobs .* --engine"):
        reproduce(replace(fresh, jobs=2))
    with pytest.raises(UserError, match=r"--budget .* --engine"):
        reproduce(replace(fresh, budget=60))
