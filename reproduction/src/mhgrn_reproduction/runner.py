"""Run an experiment: all its systems with all its seeds, resuming where it stopped."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.markers import read_marker, write_json
from mhgrn.progress import say
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn_reproduction.board import Board
from mhgrn_reproduction.budget import Plan, Speed, cost_of, shrink, speed_of
from mhgrn_reproduction.cells import Cell, read_result, run_cell, save_cell, shared_result
from mhgrn_reproduction.experiment_setup import Request, Setup, build_inputs, check_others, set_up
from mhgrn_reproduction.formats import Planned, check
from mhgrn_reproduction.leaderboard import write_predictions
from mhgrn_reproduction.papers import Experiment
from mhgrn_reproduction.summary import FORMAT, SUMMARY, build_summary
from mhgrn_reproduction.tables import FIGURE, TABLE, draw, markdown, try_to_draw
from mhgrn_reproduction.workers import run_all

PLAN = "plan.json"


def reproduce(request: Request) -> dict[str, Any]:
    """Run the missing runs of an experiment, and write its summary, table and figure to ``request.folder``."""
    setup = set_up(request)
    experiment = setup.experiment
    request.folder.mkdir(parents=True, exist_ok=True)  # fail before the runs, not after them
    plan, estimate = setup.whole, None
    planned = _planned(setup, request.budget) if request.budget is not None else None
    if planned is not None:
        plan, estimate = Plan(**planned["plan"]), planned["estimated_seconds"]
    check_others(setup, plan)
    if planned is not None:
        write_json(request.folder / PLAN, planned)
    cells = [
        setup.cell(system, seed, plan)
        for seed in range(plan.seeds)
        for system in setup.configs
        if seed in setup.seeds(system, plan.seeds)
    ]
    _take_over(cells, request)
    build_inputs(setup, {cell.system for cell in cells if cell.result(request.folder) is None})
    board = Board(f"{experiment.name} with {setup.text.label}", cells, experiment.splits)
    try:
        with board:
            run_all(cells, request, board)
    except KeyboardInterrupt:
        if board.done:
            _conclude(setup, plan, estimate)
        say(f"{len(board.done)} of {len(cells)} runs are done and stored; the same command resumes the rest.")
        raise
    summary = _conclude(setup, plan, estimate)
    if board.failed:
        name, message = next(iter(board.failed.items()))
        more = f" And {len(board.failed) - 1} more runs failed." if len(board.failed) > 1 else ""
        raise UserError(f"{name}: {message}{more} Finished runs are stored; the same command tries the rest again.")
    return summary


def _take_over(cells: list[Cell], request: Request) -> None:
    """Copy the results of the same runs in other experiments."""
    for cell in cells:
        if cell.result(request.folder) is None and (result := shared_result(cell, request.results)) is not None:
            save_cell(cell, request.folder, result)


def _conclude(setup: Setup, plan: Plan, estimate: float | None) -> dict[str, Any]:
    """Write the summary of all finished runs with its table and predictions, and its figure if matplotlib is installed."""
    folder, experiment = setup.request.folder, setup.experiment
    summary = build_summary(setup, plan, estimate)
    if summary["systems"] and (experiment.predict or experiment.ensembles):
        write_predictions(summary, experiment, setup.load(experiment.data), folder)
    write_json(folder / SUMMARY, summary)
    write_text(folder / TABLE, markdown(summary))
    try_to_draw(lambda path: draw(summary, path), folder / FIGURE)
    return summary


def verify(request: Request, cell: str) -> dict[str, Any]:
    """Run one finished cell again, in a temporary folder, and compare all answers."""
    system, colon, seed = cell.rpartition(":")
    known = list(Experiment.named(request.name).systems)
    if not colon or not seed.isdigit() or system not in known:
        raise UserError(f"--cell {cell}: write SYSTEM:SEED, for example {known[0]}:0. Systems: {', '.join(known)}.")
    place = request.folder / "cells" / f"{system}.{seed}.json"
    if not place.is_file():
        raise UserError(f"{request.folder} has no result of {cell}; run `mhgrn reproduce {request.name}` first.")
    before = read_result(place)
    setup = set_up(replace(request, systems=[system]))
    build_inputs(setup, {system})
    again = setup.cell(system, int(seed), setup.whole)
    if again.fingerprint != before["data"]["fingerprint"]:
        raise UserError(f"{place} was measured on other questions or another graph than those in --data; use the same data.")
    config = Config.restore(before["config"])
    # the number of threads decides the last digits
    training = config.training.model_copy(update={"threads": before.get("threads", config.training.threads)})
    config = config.model_copy(update={"training": training})
    # files of questions that were evaluated in addition may be gone
    splits = tuple(before["splits"]) if not again.columns else again.splits
    again = replace(again, config=config, splits=splits)
    with tempfile.TemporaryDirectory() as folder:
        now = run_cell(again, Path(folder))
    compared = {}
    for split, new in now["splits"].items():
        old = before["splits"][split]
        same = sum(a == b for a, b in zip(old["chosen"], new["chosen"], strict=True))
        compared[split] = {"questions": old["questions"], "same": same, "before": old.get("accuracy"), "now": new.get("accuracy")}
    return {
        "cell": cell,
        "same": all(found["same"] == found["questions"] for found in compared.values()),
        "splits": compared,
        "other_versions": {k: [v, now["versions"].get(k)] for k, v in before["versions"].items() if now["versions"].get(k) != v},
        "commits": [before["commit"], now["commit"]],
    }


def _planned(setup: Setup, budget: float) -> dict[str, Any]:
    """The part of the experiment that fits into a budget, with the estimated seconds.

    A plan that was made before for the same request is used again, so that the same command resumes.
    """
    request = setup.request
    asked = {"budget": budget, "seeds": request.seeds, "systems": list(setup.configs), "changes": request.changes}
    found: dict[str, Any] = {}
    if (request.folder / PLAN).is_file() and not request.force:
        found = read_marker(request.folder, PLAN, "plan", FORMAT)
        check(found, Planned, request.folder / PLAN)
    if found.get("asked") != asked:
        build_inputs(setup, setup.configs)
        plan, estimate = _fitting(setup, budget)
        found = {"format": FORMAT, "asked": asked, "plan": vars(plan), "estimated_seconds": estimate}
    if (estimate := found["estimated_seconds"]) > budget:
        setup.notes.append(f"Even the smallest plan is estimated to take {estimate:,g} s, longer than the budget of {budget:,g} s.")
        say(setup.notes[-1])
    return found


def _fitting(setup: Setup, budget: float) -> tuple[Plan, float]:
    """The largest plan that fits into a budget, with its seconds, estimated from a few steps of each system."""
    request, speeds = setup.request, dict[str, Speed]()
    trained = [name for name in setup.configs if setup.experiment.systems[name].measure is None]
    for name in trained:
        say(f"measuring the speed of {name} …")
        cell = setup.cell(name, 0, setup.whole)
        speeds[name] = speed_of(cell, request.sources.work / "runs" / cell.folder, request.threads)

    def cost(plan: Plan) -> float:
        total = 0.0
        for name in trained:
            data = setup.data[setup.experiment.systems[name].data or setup.experiment.data]
            own = () if setup.columns else setup.experiment.splits
            counts = {split: len(data.split(split)) for split in dict.fromkeys(("train", "dev", *own))}
            for column in setup.columns:
                counts[column.label] = len(PreparedData.load(column.prepared).split(column.split))
            total += plan.seeds * cost_of(setup.configs[name], counts, speeds[name], plan.epochs, plan.share)
        return total / request.jobs

    plan = shrink(budget, setup.whole, cost)
    return plan, float(f"{cost(plan):.3g}")
