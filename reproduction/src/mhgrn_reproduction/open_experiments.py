"""Experiments with open questions: several systems with several seeds, one result file each, and their table."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, Field

from mhgrn.config import Config
from mhgrn.engines import Engine, Work
from mhgrn.engines.engine import Context, Item, place_on_nodes
from mhgrn.engines.worker import check_same
from mhgrn.errors import UserError, did_you_mean
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_json
from mhgrn.progress import say
from mhgrn.settings import as_yaml
from mhgrn_reproduction.cells import made
from mhgrn_reproduction.formats import OpenCellResult, check
from mhgrn_reproduction.open_baselines import Baseline, measured
from mhgrn_reproduction.open_sources import OpenTask, open_tasks
from mhgrn_reproduction.papers import Part, Settings, read_settings
from mhgrn_reproduction.printed import result
from mhgrn_reproduction.sources import Sources

if TYPE_CHECKING:
    from mhgrn.open.run import OpenRun

FORMAT = 1
PER_CENT = ("hits_at_1", "hits_at_10", "set_f1", "set_exact", "reached")


class Shown(NamedTuple):
    """A number of a table."""

    test: str
    measure: str


def _as_shown(value: object) -> object:
    """``test measure, test measure`` as a list."""
    if not isinstance(value, str):
        return value
    return [Shown(*part.rsplit(" ", 1)) for part in value.split(", ")]


class OpenSystem(Part):
    """One row of a table."""

    label: str
    graph: Literal["whole", "half"] = "whole"
    runs: dict[str, Settings] = Field({}, description="the runs: their training questions, with their settings")
    measure: Baseline | None = Field(None, description="instead of runs: a ranking without training")
    optional: bool = Field(False, description="run only if it is named")


class Published(Part):
    """A row of published numbers."""

    label: str
    values: list[float]


class OpenExperiment(Part):
    """Several systems on open questions.

    >>> OpenExperiment.named("metaqa").systems["all"].runs
    {'all': {'open.hops': 3}}
    """

    name: str = ""
    data: Literal["metaqa", "commonsenseqa", "generated"]
    columns: dict[str, Annotated[list[Shown], BeforeValidator(_as_shown)]]
    settings: Settings = Field({}, description="of all runs")
    systems: dict[str, OpenSystem]
    published: list[Published] = Field([], description="numbers of other systems")
    notes: list[str] = Field([], description="sentences below the table")

    @classmethod
    def named(cls, name: str) -> Self:
        """A shipped experiment."""
        found = read_settings(cls, name, "open", "an experiment with open questions")
        return found.model_copy(update={"name": Path(name).stem})

    def pick(self, names: Sequence[str] | None) -> list[str]:
        """The systems with these names. None: all that are not optional."""
        if names is None:
            return [name for name, system in self.systems.items() if not system.optional]
        for name in names:
            if name not in self.systems:
                raise UserError(f"{self.name} has no system {name!r}.{did_you_mean(name, self.systems)}")
        return list(names)

    def config(self, settings: Mapping[str, Any], seed: int, changes: Sequence[str] = ()) -> Config:
        """The settings of a run."""
        given = {"seed": seed, **self.settings, **settings}
        return Config.load(overrides=[*(f"{key}={as_yaml(value)}" for key, value in given.items()), *changes])


class Place(NamedTuple):
    """Where an experiment reads and writes."""

    sources: Sources
    results: Path  # of this experiment


class OpenCell(NamedTuple):
    """A system of an experiment with a seed, on given questions."""

    experiment: OpenExperiment
    name: str  # of the system
    seed: int
    tasks: Mapping[str, OpenTask]
    changes: Sequence[str]

    @property
    def title(self) -> str:
        return f"{self.name}:{self.seed}"

    @property
    def configs(self) -> dict[str, Config]:
        """The settings of its runs."""
        runs = self.experiment.systems[self.name].runs
        return {of: self.experiment.config(settings, self.seed, self.changes) for of, settings in runs.items()}

    @property
    def key(self) -> str:
        """The same for cells of the same settings and data."""
        identities = {of: config.identity() for of, config in self.configs.items()}
        data = {of: task.fingerprint for of, task in self.tasks.items()}
        return fingerprint(identities, self.experiment.systems[self.name].measure, data)

    def file(self, results: Path) -> Path:
        return results / "cells" / f"{self.name}.{self.seed}.json"


def run_experiment(
    name: str,
    place: Place,
    seeds: int = 4,
    systems: Sequence[str] | None = None,
    changes: Sequence[str] = (),
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Run the cells of an experiment that have no result yet, and make its table from all results.

    Args:
        name: The experiment.
        place: Where it reads and writes.
        seeds: The number of seeds of each system.
        systems: The systems to run. None: all that are not optional.
        changes: Settings for all runs, as ``--set`` takes them.
        engine: Where the runs are trained, of :func:`mhgrn.engines.engine_named`. None: in this process.
    """
    experiment = OpenExperiment.named(name)
    tasks: dict[str, dict[str, OpenTask]] = {}
    cells: list[OpenCell] = []
    for system_name in experiment.pick(systems):
        system = experiment.systems[system_name]
        if system.graph not in tasks:
            tasks[system.graph] = open_tasks(experiment.data, place.sources, system.graph)
        for seed in range(seeds if system.measure is None else 1):
            cell = OpenCell(experiment, system_name, seed, tasks[system.graph], changes)
            path = cell.file(place.results)
            if not path.is_file() or read_cell(path)["key"] != cell.key:
                cells.append(cell)
    if engine is None:
        for cell in cells:
            _start(cell)
            _save(cell, place.results, _result(cell, place.sources.work))
    elif cells:
        _run_on(engine, name, cells, place)
    return open_table(experiment, place.results, changes)


def _start(cell: OpenCell) -> None:
    say(f"{cell.experiment.name}, {cell.name}, seed {cell.seed} …")


def _save(cell: OpenCell, results: Path, result: dict[str, Any]) -> None:
    cell.file(results).parent.mkdir(parents=True, exist_ok=True)
    write_json(cell.file(results), result)


def _run_on(engine: Engine, name: str, cells: Sequence[OpenCell], place: Place) -> None:
    """Run cells on the nodes of a cluster. Runs are in the work folder, which all nodes share."""
    import torch

    sources = place.sources
    sources.work.mkdir(parents=True, exist_ok=True)
    context = {
        "experiment": name,
        "sources": [None if path is None else place_on_nodes(path) for path in (sources.data, sources.work, sources.kg)],
        "changes": list(cells[0].changes),
    }
    parts = [[{"id": cell.title, "system": cell.name, "seed": cell.seed, "key": cell.key}] for cell in cells]
    threads = max(config.training.threads or torch.get_num_threads() for cell in cells for config in cell.configs.values())
    failed: dict[str, str] = {}
    with engine.session(place.results / "cells") as session:
        work = Work(result_of_cell, context, parts, threads, "runs", is_kept=False)
        for number, outcome in session.as_finished(work, lambda number: _start(cells[number])):
            failed |= outcome.failed
            result = {} if outcome.result is None else json.loads(outcome.result)
            if "error" in result:
                failed[cells[number].title] = result["error"]
            elif result:
                _save(cells[number], place.results, result)
    for failing, reason in failed.items():
        raise UserError(f"{failing}: {reason} Finished runs are stored; the same command tries the rest again.")


def result_of_cell(context: Context, items: list[Item]) -> bytes:
    """The result of a cell in a worker of an engine, as JSON, or its error."""
    (item,) = items
    experiment = OpenExperiment.named(context["experiment"])
    sources = Sources(*(None if path is None else Path(path) for path in context["sources"]))  # type: ignore[arg-type]
    if not sources.work.is_dir():
        raise UserError(f"{sources.work} does not exist; name a folder that all nodes share with --work.")
    tasks = open_tasks(experiment.data, sources, experiment.systems[item["system"]].graph)
    cell = OpenCell(experiment, item["system"], item["seed"], tasks, context["changes"])
    check_same(f"the data in {sources.work}", {"questions": cell.key}, {"questions": item["key"]})
    try:
        result = _result(cell, sources.work)
    except UserError as error:  # other cells continue
        result = {"error": str(error)}
    return json.dumps(result).encode()


def _result(cell: OpenCell, work: Path) -> dict[str, Any]:
    """Train and test the runs of a system with one seed."""
    began, system, used = time.perf_counter(), cell.experiment.systems[cell.name], cell.configs
    tests: dict[str, dict[str, float]] = {}
    epochs: dict[str, int] = {}
    if system.measure is not None:
        (task,) = cell.tasks.values()
        tests = {label: measured(system.measure, data, split) for label, (data, split) in task.tests.items()}
    for of, config in used.items():
        run = _trained(cell.tasks[of], config, work / "open" / "runs")
        epochs[of] = run.about["metrics"]["epoch"]
        tests |= {label: _tested(run, *test) for label, test in cell.tasks[of].tests.items()}
    return {
        "format": FORMAT,
        "system": cell.name,
        "seed": cell.seed,
        "key": cell.key,
        "tests": tests,
        "best_epoch": epochs,
        "seconds": round(time.perf_counter() - began, 1),
        "config": {of: config.used() for of, config in used.items()},
        **made(),
    }


def _trained(task: OpenTask, config: Config, runs: Path) -> "OpenRun":
    """The run of a task: trained or resumed now, or from the work folder."""
    from mhgrn.open.run import OpenRun
    from mhgrn.runs import MARKER, read_about
    from mhgrn.training.open import train_open

    folder = runs / fingerprint(config.identity(), task.data.fingerprint)[:16]
    graph = task.data.load_graph()
    with locked(runs / f".{folder.name}.cell.lock", wait=True):  # several systems share runs
        if (folder / MARKER).is_file() and read_about(folder).get("finished"):
            return OpenRun.load(folder, graph.folder)
        return train_open(task.data, config, folder, graph)


def _tested(run: "OpenRun", data: Any, split: str) -> dict[str, float]:
    from mhgrn.open.evaluation import evaluate_open

    found = evaluate_open(run, data, split, f"testing on {split}")
    return {name: value for name, value in found.items() if name != "split"}


def read_cell(path: Path) -> dict[str, Any]:
    """Read and check the result of a cell."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it and run its experiment again.") from None
    check(found, OpenCellResult, path)
    return found


def open_table(experiment: OpenExperiment, results: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The table of an experiment from the results of all its cells."""
    rows, every = [], list[dict[str, Any]]()
    for name, system in experiment.systems.items():
        paths = sorted((results / "cells").glob(f"{name}.*.json"), key=lambda path: int(path.name.split(".")[-2]))
        cells = [read_cell(path) for path in paths]
        if not cells:
            continue
        every += cells
        shown = [_spread(cells, column) for column in experiment.columns.values()]
        rows.append([system.label, *shown, str(len(cells)) if system.measure is None else "–"])
    for published in experiment.published:
        values = [f"{value:.1f}" for value in published.values]
        rows.append([published.label, *values, *["–"] * (len(experiment.columns) + 1 - len(values))])
    notes = [*experiment.notes, *(f"Setting changed: {change}." for change in changes)]
    found = result(experiment.name, ["system", *experiment.columns, "seeds"], rows, notes)
    if every:
        last = max(every, key=lambda cell: str(cell["date"]))
        commits = ", ".join(sorted({cell["commit"] for cell in every if cell["commit"]}))
        found |= {"date": last["date"], "commit": commits or None, "versions": last["versions"]}
    return found


def _spread(cells: Sequence[Mapping[str, Any]], column: Sequence[Shown]) -> str:
    """Mean and standard deviation of each number of a column."""
    texts = []
    for test, measure in column:
        values = [cell["tests"][test][measure] for cell in cells if test in cell["tests"]]
        if not values:
            return "–"
        scale, digits = (100, 1) if measure in PER_CENT else (1, 3)
        deviation = f" ± {scale * np.std(values, ddof=1):.{digits}f}" if len(values) > 1 and len(column) == 1 else ""
        texts.append(f"{scale * np.mean(values):.{digits}f}{deviation}")
    return " / ".join(texts)
