"""Running an experiment: all its systems with all its seeds, cell by cell, going on where it was."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing import active_children, get_context
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from mhgrn.config import Config, changed_settings
from mhgrn.encoders import graph_encoders
from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.markers import read_marker, write_json
from mhgrn.progress import say
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn_reproduction.board import Board
from mhgrn_reproduction.budget import Plan, Speed, cost_of, fresh_examples, shrink, speed_of
from mhgrn_reproduction.cells import Cell, made, read_result, run_cell, save_cell, seeds_of
from mhgrn_reproduction.formats import Planned, check
from mhgrn_reproduction.leaderboard import write_predictions
from mhgrn_reproduction.papers import Experiment, System, TextSettings
from mhgrn_reproduction.sources import Sources
from mhgrn_reproduction.summary import FORMAT, SUMMARY, summarise
from mhgrn_reproduction.tables import FIGURE, TABLE, draw, markdown, try_to_draw

if TYPE_CHECKING:
    from mhgrn.features.encoded import ResumableBuild

PAPER_SEEDS = 4
PLAN = "plan.json"
TRIPLES = "triples"  # as a setting in files of experiments: features that are made for them


@dataclass(frozen=True)
class Request:
    """What is to be run of an experiment, and where."""

    name: str
    encoder: str
    sources: Sources
    results: Path
    seeds: int = PAPER_SEEDS
    systems: list[str] | None = None
    budget: float | None = None  # seconds
    jobs: int = 1
    changes: list[str] = field(default_factory=list)  # settings, for all systems
    force: bool = False  # results of other settings may be replaced

    @property
    def threads(self) -> int:
        """Of each process, where settings do not say how many."""
        return max(1, (os.cpu_count() or 1) // self.jobs)

    @property
    def folder(self) -> Path:
        """Where its results are kept."""
        return self.results / Path(self.name).stem / Path(self.encoder).stem


@dataclass(frozen=True)
class _Setup:
    """An experiment with its data."""

    request: Request
    experiment: Experiment
    text: TextSettings
    configs: dict[str, Config]  # of the systems to be run
    graph: Path | None
    notes: list[str]
    data: dict[str, PreparedData] = field(default_factory=dict)  # by name
    works: dict[tuple[str, str], "ResumableBuild"] = field(default_factory=dict)  # by data set and text encoder

    @property
    def encoder(self) -> str:
        return Path(self.request.encoder).stem

    @property
    def whole(self) -> Plan:
        """All of what was asked for."""
        return Plan(self.request.seeds, max(config.training.epochs for config in self.configs.values()))

    def load(self, name: str) -> PreparedData:
        """A data set, prepared if it was not."""
        if name not in self.data:
            self.data[name] = self.request.sources.prepared(name, self.text)
        return self.data[name]

    def features(self, data: str, encoder: str) -> "ResumableBuild":
        """What ``features: triples`` are for a data set; built or not."""
        key = data, encoder
        if key not in self.works:
            self.works[key] = self.request.sources.features(self.text, encoder, self.load(data))
        return self.works[key]

    def cell(self, system: str, seed: int, plan: Plan) -> Cell:
        changes = list(self.request.changes)
        config = self.experiment.config(system, self.encoder, self.text, seed, changes)
        name = self.experiment.systems[system].data or self.experiment.data
        if config.features == TRIPLES:
            changes.append(f"features={self.features(name, config.text.encoder).request.place(None).name}")
        if plan.epochs is not None and plan.epochs < config.training.epochs:
            changes.append(f"training.epochs={plan.epochs}")
        if plan.share < 1:
            changes.append(f"training.train_fraction={config.training.train_fraction * plan.share}")
        config = self.experiment.config(system, self.encoder, self.text, seed, changes)
        data = self.load(name)
        splits = tuple(self.experiment.splits) + ((self.experiment.predict,) if self.experiment.predict else ())
        return Cell(system, seed, config, data.folder.absolute(), self.graph, data.fingerprint, splits)

    def found(self, plan: Plan) -> Iterator[tuple[Cell, Path]]:
        """The cells of this experiment, whatever system, that have a result, be it of other settings; and where that is."""
        for system in self.experiment.systems:
            for seed in seeds_of(self.request.folder, system):
                cell = self.cell(system, seed, plan)
                yield cell, cell.file(self.request.folder)


def reproduce(request: Request) -> dict[str, Any]:
    """Run an experiment, or what is left of it, and leave its summary, table and figure in ``request.folder``."""
    setup = _set_up(request)
    experiment = setup.experiment
    request.folder.mkdir(parents=True, exist_ok=True)  # better now than after an hour
    plan, estimate = setup.whole, None
    planned = _planned(setup, request.budget) if request.budget is not None else None
    if planned is not None:
        plan, estimate = Plan(**planned["plan"]), planned["estimated_seconds"]
    _check_others(setup, plan)
    if planned is not None:
        write_json(request.folder / PLAN, planned)
    cells = [setup.cell(system, seed, plan) for seed in range(plan.seeds) for system in setup.configs]
    _build_features(setup, {cell.system for cell in cells if cell.result(request.folder) is None})
    board = Board(f"{experiment.name} with {setup.text.label}", cells, experiment.splits)
    try:
        with board:
            _run_all(cells, request, board)
    except KeyboardInterrupt:
        if board.done:
            _conclude(setup, plan, estimate)
        say(f"{len(board.done)} of {len(cells)} runs are done and kept; the same command goes on with the rest.")
        raise
    summary = _conclude(setup, plan, estimate)
    if board.failed:
        name, message = next(iter(board.failed.items()))
        more = f" And {len(board.failed) - 1} more runs failed." if len(board.failed) > 1 else ""
        raise UserError(f"{name}: {message}{more} What was done is kept; the same command tries the rest again.")
    return summary


def _conclude(setup: _Setup, plan: Plan, estimate: float | None) -> dict[str, Any]:
    """Write the summary of what is done, its table, its predictions, and where matplotlib is installed its figure."""
    folder, experiment = setup.request.folder, setup.experiment
    summary = _summary(setup, plan, estimate)
    if summary["systems"] and (experiment.predict or experiment.ensembles):
        write_predictions(summary, experiment, setup.load(experiment.data), folder)
    write_json(folder / SUMMARY, summary)
    write_text(folder / TABLE, markdown(summary))
    try_to_draw(lambda path: draw(summary, path), folder / FIGURE)
    return summary


def verify(request: Request, cell: str) -> dict[str, Any]:
    """Run one finished cell again, in a folder of its own, and say what is different."""
    import tempfile

    system, colon, seed = cell.rpartition(":")
    known = list(Experiment.named(request.name).systems)
    if not colon or not seed.isdigit() or system not in known:
        raise UserError(f"--cell {cell}: write SYSTEM:SEED, for example {known[0]}:0. Systems: {', '.join(known)}.")
    place = request.folder / "cells" / f"{system}.{seed}.json"
    if not place.is_file():
        raise UserError(f"{request.folder} has no result of {cell}; run `mhgrn reproduce {request.name}` first.")
    before = read_result(place)
    setup = _set_up(replace(request, systems=[system]))
    _build_features(setup, {system})
    data = setup.load(setup.experiment.systems[system].data or setup.experiment.data)
    if data.fingerprint != before["data"]["fingerprint"]:
        raise UserError(f"{place} was measured on other questions or another graph than those at hand; nothing to compare.")
    config = Config.restore(before["config"])
    # the number of threads decides the last digits
    training = config.training.model_copy(update={"threads": before.get("threads", config.training.threads)})
    config = config.model_copy(update={"training": training})
    splits = tuple(before["splits"])
    again = Cell(system, int(seed), config, data.folder.absolute(), setup.graph, data.fingerprint, splits)
    with tempfile.TemporaryDirectory() as folder:
        now = run_cell(again, Path(folder))
    compared = {}
    for split, old in before["splits"].items():
        new = now["splits"][split]
        same = sum(a == b for a, b in zip(old["chosen"], new["chosen"], strict=True))
        compared[split] = {"questions": old["questions"], "same": same, "before": old.get("accuracy"), "now": new.get("accuracy")}
    return {
        "cell": cell,
        "same": all(found["same"] == found["questions"] for found in compared.values()),
        "splits": compared,
        "other_versions": {k: [v, now["versions"].get(k)] for k, v in before["versions"].items() if now["versions"].get(k) != v},
        "commits": [before["commit"], now["commit"]],
    }


def _set_up(request: Request) -> _Setup:
    experiment, text = Experiment.named(request.name), TextSettings.named(request.encoder)
    if request.folder.exists() and not request.folder.is_dir():
        raise UserError(f"{request.folder} is not a folder; name another by --results.")
    if experiment.predict is not None and "dev" not in experiment.splits:
        raise UserError(f"{request.name}: to predict {experiment.predict}, name dev among its splits: it says which run is best.")
    if request.seeds < 1 or request.jobs < 1:
        raise UserError("--seeds and --jobs are 1 or more.")
    for change in request.changes:
        if change.partition("=")[0].strip() in ("seed", "graph_encoder"):
            raise UserError(f"--set {change}: seeds and systems are chosen by --seeds and --systems.")
    encoder, notes = Path(request.encoder).stem, list(experiment.notes)
    # before anything is built
    systems, configs = dict[str, System](), dict[str, Config]()
    for name, system in experiment.pick(request.systems).items():
        config = experiment.config(name, encoder, text, 0, request.changes)
        if system.needs_trained_text and config.text.frozen_epochs is None:
            notes.append(f"{system.label}: left out, the text encoder is frozen.")
        else:
            systems[name], configs[name] = system, config
    if not systems:
        raise UserError(" ".join(["no system to run.", *notes[len(experiment.notes) :]]))
    for text_config in {config.text.encoder: config.text for config in configs.values()}.values():
        load_text_encoder(text_config)
    names = {name: system.data or experiment.data for name, system in systems.items()}
    for data in names.values():
        request.sources.questions(data)
    setup = _Setup(request, experiment, text, configs, request.sources.graph(text).folder, notes)
    for prepared in map(setup.load, dict.fromkeys(names.values())):
        for split in ("train", *experiment.splits):
            prepared.answered_split(split)
        if experiment.predict is not None:
            prepared.split(experiment.predict)
    if any(config.features == TRIPLES for config in configs.values()):
        most = text.max_triples_per_concept
        notes.append(f"Node features are made from {'all' if most is None else f'at most {most}'} triples of each concept.")
    return setup


def _build_features(setup: _Setup, systems: Iterable[str]) -> None:
    """Make the node features that these systems read, if they are not there."""
    needed = dict[tuple[str, str], None]()
    for name, config in setup.configs.items():
        if name in systems and config.features == TRIPLES and graph_encoders.load(config.graph_encoder).uses_features:
            needed[setup.experiment.systems[name].data or setup.experiment.data, config.text.encoder] = None
    for data, encoder in needed:
        setup.features(data, encoder).build(None)


def _check_others(setup: _Setup, plan: Plan) -> None:
    """Results of other settings are not replaced, nor left out of the summary, unless that is asked for."""
    if setup.request.force:
        return
    others = []
    for cell, path in setup.found(plan):
        before = read_result(path)
        if before["key"] != cell.key:
            changed = changed_settings(Config.restore(before["config"]), cell.config) or ["the questions or the graph are others"]
            others.append(f"{cell.name} ({changed[0]})")
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise UserError(
            f"{setup.request.folder} has results of other settings: {others[0]}{more}. Keep these apart with --results FOLDER, or"
            " have them replaced, or left out, with --force."
        )


def _planned(setup: _Setup, budget: float) -> dict[str, Any]:
    """How much is run of the whole, and how many seconds that was estimated to take: as it was decided before, so that the same
    command goes on with it."""
    request = setup.request
    asked = {"budget": budget, "seeds": request.seeds, "systems": list(setup.configs), "changes": request.changes}
    found: dict[str, Any] = {}
    if (request.folder / PLAN).is_file() and not request.force:
        found = read_marker(request.folder, PLAN, "plan", FORMAT)
        check(found, Planned, request.folder / PLAN)
    if found.get("asked") != asked:
        _build_features(setup, setup.configs)
        plan, estimate = _fitting(setup, budget)
        found = {"format": FORMAT, "asked": asked, "plan": vars(plan), "estimated_seconds": estimate}
    if (estimate := found["estimated_seconds"]) > budget:
        setup.notes.append(f"Even the least was estimated to take {estimate:,g} s, longer than the budget of {budget:,g} s.")
        say(setup.notes[-1])
    return found


def _fitting(setup: _Setup, budget: float) -> tuple[Plan, float]:
    """What fits into a budget by the time that a few steps of each system take; and how long it takes."""
    request, speeds = setup.request, dict[str, Speed]()
    for name in setup.configs:
        say(f"measuring how long {name} takes …")
        cell = setup.cell(name, 0, setup.whole)
        speeds[name] = speed_of(cell, request.sources.work / "runs" / cell.folder, request.threads)

    def cost(plan: Plan) -> float:
        total = 0.0
        for name, config in setup.configs.items():
            data = setup.data[setup.experiment.systems[name].data or setup.experiment.data]
            counts = {split: len(data.split(split)) for split in dict.fromkeys(("train", "dev", *setup.experiment.splits))}
            total += plan.seeds * cost_of(config, counts, speeds[name], plan.epochs, plan.share)
        return total / request.jobs

    plan = shrink(budget, setup.whole, cost)
    return plan, float(f"{cost(plan):.3g}")


def _run_all(cells: Sequence[Cell], request: Request, board: Board) -> None:
    """Run what has no result yet, ``request.jobs`` at a time."""
    left = []
    for cell in cells:
        result = cell.result(request.folder)
        if result is None:
            left.append(cell)
        else:
            board.finish(cell, result)
    if not left:
        return
    runs, logs = request.sources.work / "runs", request.sources.work / "logs"
    for folder in (runs, logs):
        folder.mkdir(parents=True, exist_ok=True)
    if request.jobs == 1:
        for cell in left:
            board.start(cell)
            _note(cell, lambda cell=cell: _logged(cell, runs, logs), request, board)
        return
    _encode_texts(left, runs)
    waiting, running = list(reversed(left)), dict[Future[dict[str, Any]], Cell]()
    with ProcessPoolExecutor(request.jobs, get_context("spawn"), initializer=_begin, initargs=(request.threads,)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < request.jobs:
                    cell = waiting.pop()
                    board.start(cell)
                    running[pool.submit(_in_worker, cell, runs, logs)] = cell
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    _note(running.pop(future), future.result, request, board)
        except KeyboardInterrupt:
            for process in active_children():
                if process.pid is not None:
                    os.kill(process.pid, signal.SIGINT)  # each saves what it has
            raise


def _note(cell: Cell, outcome: Any, request: Request, board: Board) -> None:
    """Keep a cell's result, or what went wrong with it."""
    try:
        result = outcome()
    except UserError as error:
        board.fail(cell, str(error))
    except BrokenProcessPool:
        raise UserError(f"the process of {cell.name} ended on its own; was there too little memory? Try fewer --jobs.") from None
    else:
        save_cell(cell, request.folder, result)
        board.finish(cell, result)


def _begin(threads: int) -> None:
    """In a new process: out of reach of the terminal's Ctrl-C, which comes from the parent once, and of that while there is no
    cell to save; its share of the threads."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    import torch

    torch.set_num_threads(threads)


def _end_with(parent: int) -> None:
    """End when the parent is gone: what was killed should not go on unseen. The run goes on from its checkpoint next time."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _in_worker(cell: Cell, runs: Path, logs: Path) -> dict[str, Any]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _logged(cell, runs, logs)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _logged(cell: Cell, runs: Path, logs: Path) -> dict[str, Any]:
    """Run a cell; what it has to say goes to a file."""
    with (logs / f"{cell.folder}.log").open("a", encoding="utf-8") as log, contextlib.redirect_stderr(log):
        return run_cell(cell, runs)


def _encode_texts(cells: Sequence[Cell], runs: Path) -> None:
    """Have a frozen encoder's vectors computed once, not by every process at the same time."""
    seen = set()
    for cell in cells:
        config = cell.config
        what = (cell.prepared, config.text.model_dump_json(), config.graph_encoder == "kvmem")
        if config.text.frozen_epochs != 0 and what not in seen and config.graph_encoder not in ("most-edges", "edge-types"):
            seen.add(what)
            fresh_examples(cell, runs / cell.folder)


def _summary(setup: _Setup, plan: Plan, estimate: float | None) -> dict[str, Any]:
    """Everything of the experiment that was run with the same settings, in this call or an earlier one."""
    request, experiment = setup.request, setup.experiment
    found: dict[str, list[dict[str, Any]]] = {}
    for cell, _ in setup.found(plan):
        if (result := cell.result(request.folder)) is not None:
            found.setdefault(cell.system, []).append(result)
    data = {name: _about(prepared) for name, prepared in setup.data.items()}
    return {
        "format": FORMAT,
        "experiment": experiment.name,
        "encoder": setup.encoder,
        "encoder_label": setup.text.label,
        **_made(found),
        "splits": experiment.splits,
        "reference": experiment.reference,
        "shrunk": _shrunk(setup, plan, found),
        **({"budget": request.budget, "estimated_seconds": estimate} if request.budget is not None else {}),
        "changes": request.changes,
        "notes": setup.notes,
        "data": data,
        "labels": {name: _label(system) for name, system in experiment.systems.items()},
        "paper": {name: system.paper for name, system in experiment.systems.items() if system.paper},
        "quoted": [{"label": row.label, "paper": row.paper} for row in experiment.quoted]
        + [{"system": name} for name, system in experiment.systems.items() if system.quoted],
        "vary": {
            name: {"system": s.base, "value": s.value, "what": s.varies}
            for name, s in experiment.systems.items()
            if s.base is not None
        },
        "settings": {name: experiment.overrides(name, setup.encoder, setup.text) for name in found},
        "systems": summarise(found, experiment.splits, experiment.reference),
    }


def _made(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """When the last cell was run, and by which code: several commits if there were several."""
    results = [result for of_system in found.values() for result in of_system]
    if not results:
        return made()
    last = max(results, key=lambda result: str(result["date"]))
    commits = sorted({result["commit"] for result in results if result["commit"]})
    return {"date": last["date"], "commit": ", ".join(commits) or None, "versions": last["versions"]}


def _label(system: System) -> str:
    return f"{system.label} (upper bound)" if system.upper_bound else system.label


def _about(data: PreparedData) -> dict[str, Any]:
    return {key: data.about[key] for key in ("splits", "statements", "settings", "fingerprint", "graph_fingerprint")}


def _shrunk(setup: _Setup, plan: Plan, found: dict[str, Any]) -> list[str]:
    """In what respects this is less than the whole experiment."""
    request, experiment = setup.request, setup.experiment
    lines = []
    few = {name: len(results) for name, results in found.items() if len(results) < PAPER_SEEDS}
    if few and len(few) == len(found) and len(set(few.values())) == 1:
        lines.append(f"seeds: {min(few.values())} instead of {PAPER_SEEDS}")
    elif few:
        lines.append(f"seeds: {', '.join(f'{count} of {name}' for name, count in few.items())} instead of {PAPER_SEEDS}")
    if plan.seeds < request.seeds and request.seeds > PAPER_SEEDS:
        lines.append(f"seeds: {plan.seeds} of the {request.seeds} that were asked for")
    configs = [experiment.config(name, setup.encoder, setup.text, 0, request.changes) for name in experiment.systems]
    epochs = max(config.training.epochs for config in configs)
    if plan.epochs is not None and plan.epochs < epochs:
        lines.append(f"epochs: at most {plan.epochs} instead of {epochs}")
    if plan.share < 1:
        lines.append(f"training questions: {plan.share:.0%} of them")
    lines += [f"setting changed: {change}" for change in request.changes]
    wanted = [name for name, system in experiment.systems.items() if not system.optional]
    if missing := [name for name in wanted if name not in found]:
        lines.append(f"systems not run: {', '.join(missing)}")
    return lines
