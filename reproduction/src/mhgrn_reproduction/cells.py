"""Cells: one system with one seed, trained and evaluated. The result is a small JSON file."""

import json
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_json
from mhgrn_reproduction.formats import DIGITS, CellResult, check

if TYPE_CHECKING:
    from mhgrn.subgraphs.prepared import PreparedData

FORMAT = 2
TINY = 1e-30  # a probability whose logarithm is finite


class Column(NamedTuple):
    """A split of another dataset than the one a run is trained on."""

    label: str
    prepared: Path
    fingerprint: str  # of the prepared data
    split: str
    declared: bool = True  # by the experiment; False: a file that a user added


class Added(NamedTuple):
    """Scores without training that are added to those of a cell, each standardized over the choices of a question."""

    measure: str
    config: Config
    encoder: Path | None  # the place of a tuned text encoder

    @property
    def identity(self) -> tuple[dict[str, Any], str]:
        """What determines the scores."""
        used = {name: value for name, value in self.config.identity().items() if name.startswith(("text.", "likelihood."))}
        return used, self.measure


@dataclass(frozen=True)
class Cell:
    """A run to do; it can be sent to another process."""

    system: str
    seed: int
    config: Config
    prepared: Path
    graph: Path | None  # the graph's present folder
    fingerprint: str  # of the prepared data
    splits: tuple[str, ...]
    encoder: Path | None = None  # the place of a tuned text encoder
    columns: tuple[Column, ...] = ()  # what is evaluated instead of splits of the prepared data
    measure: str | None = None  # instead of training: see Measure
    plus: Added | None = None

    @property
    def key(self) -> str:
        """The same for cells with the same answers."""
        return self.run_key if self.plus is None else fingerprint(self.run_key, self.plus.identity)

    @property
    def run_key(self) -> str:
        """The same for runs that end with the same weights."""
        data = [column.fingerprint for column in self.columns if column.declared]
        if self.measure is not None:
            return fingerprint(*Added(self.measure, self.config, self.encoder).identity, data)
        return fingerprint(self.config.identity(), self.fingerprint, *([data] if data else []))

    @property
    def name(self) -> str:
        return f"{self.system}:{self.seed}"

    @property
    def folder(self) -> str:
        """The name of the run folder, the same in all experiments with this run."""
        return f"{self.config.graph_encoder}-{self.seed}-{self.run_key[:12]}"

    def file(self, results: Path) -> Path:
        """The file of its result."""
        return results / "cells" / f"{self.system}.{self.seed}.json"

    def result(self, results: Path) -> dict[str, Any] | None:
        """The stored result, if it has the same settings and data and all splits."""
        path = self.file(results)
        if not path.is_file():
            return None
        found = read_result(path)
        return found if found["key"] == self.key and self.is_answered(found) else None

    def is_answered(self, result: dict[str, Any]) -> bool:
        """Whether a result has all splits, of the same questions."""
        data = {column.label: column.fingerprint for column in self.columns}
        splits = result["splits"]
        return all(split in splits and splits[split].get("data") == data.get(split) for split in self.splits)


def cell_row(cell: Cell) -> dict[str, Any]:
    """A cell as JSON values, for a worker of an engine; places are absolute."""
    return {
        "id": cell.name,
        "key": cell.key,
        "system": cell.system,
        "seed": cell.seed,
        "config": cell.config.used(),
        "prepared": str(cell.prepared),
        "graph": _place(cell.graph),
        "fingerprint": cell.fingerprint,
        "splits": list(cell.splits),
        "encoder": _place(cell.encoder),
        "columns": [column._replace(prepared=str(column.prepared)) for column in cell.columns],  # type: ignore[arg-type]
        "measure": cell.measure,
        "plus": None if cell.plus is None else [cell.plus.measure, cell.plus.config.used(), _place(cell.plus.encoder)],
    }


def cell_from(row: dict[str, Any]) -> Cell:
    """The cell of :func:`cell_row`."""
    columns = tuple(Column(label, Path(place), *rest) for label, place, *rest in row["columns"])
    cell = Cell(
        row["system"],
        row["seed"],
        Config.restore(row["config"]),
        Path(row["prepared"]),
        _path(row["graph"]),
        row["fingerprint"],
        tuple(row["splits"]),
        _path(row["encoder"]),
        columns,
        row["measure"],
        _added(row["plus"]),
    )
    assert cell.key == row["key"]
    return cell


def _added(row: list[Any] | None) -> Added | None:
    return None if row is None else Added(row[0], Config.restore(row[1]), _path(row[2]))


def _place(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _path(place: str | None) -> Path | None:
    return None if place is None else Path(place)


def shared_result(cell: Cell, results: Path) -> dict[str, Any] | None:
    """The result of the same run in another experiment, from the folder of all results."""
    for path in sorted(results.glob(f"*/*/cells/*.{cell.seed}.json")):
        try:
            found = read_result(path)
        except UserError:  # reported by its own experiment
            continue
        if found["key"] == cell.key and cell.is_answered(found):
            return found | {"system": cell.system}
    return None


def seeds_of(results: Path, system: str) -> list[int]:
    """The seeds of a system that have results, with any settings."""
    ends = [path.name[len(system) + 1 : -len(".json")] for path in (results / "cells").glob(f"{system}.*.json")]
    return sorted(int(end) for end in ends if end.isdecimal())


def read_result(path: Path) -> dict[str, Any]:
    """Read and check a cell's result."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}); delete it and run its experiment again.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(
            f"{path} is not a result of format {FORMAT}; convert it with reproduction/migrate_results.py of mhgrn's repository, or"
            " delete it and run its experiment again."
        )
    check(found, CellResult, path)
    return found


def run_cell(cell: Cell, runs: Path) -> dict[str, Any]:
    """Train or resume a cell's run in the folder ``runs``, and evaluate it on the splits.

    Experiments share runs. If another process trains the same run, wait for it.
    """
    if cell.measure is not None:
        return _measure_cell(cell)
    with locked(runs / f".{cell.folder}.cell.lock", wait=True):
        return _run_cell(cell, runs)


def _measure_cell(cell: Cell) -> dict[str, Any]:
    """Score the choices of all questions without training."""
    import torch

    from mhgrn.subgraphs.prepared import PreparedData
    from mhgrn_reproduction.scores import chosen, measured, summed

    assert cell.measure is not None
    began = time.perf_counter()
    splits = {}
    for column in cell.columns:
        data = PreparedData.load(column.prepared)
        asked = [data.questions[q] for q in data.split(column.split)]
        scores = measured(Added(cell.measure, cell.config, cell.encoder), data, column.split)
        if cell.plus is not None:
            scores = summed(scores, measured(cell.plus, data, column.split), asked)
        splits[column.label] = _answered(chosen(scores, asked), data, column.split) | {"data": column.fingerprint}
    return {
        "format": FORMAT,
        "system": cell.system,
        "seed": cell.seed,
        "key": cell.key,
        "run": None,
        "measure": cell.measure,
        "splits": splits,
        "parameters": 0,
        "epochs": 0,
        "warnings": [],
        "seconds": round(time.perf_counter() - began, 1),
        "threads": torch.get_num_threads(),
        "config": cell.config.used(),
        "data": {"name": None, "fingerprint": cell.fingerprint, "graph": data.about["graph_fingerprint"]},
        **made(),
    }


def _run_cell(cell: Cell, runs: Path) -> dict[str, Any]:
    import torch

    from mhgrn.model import parameter_count
    from mhgrn.runs import MARKER, Run, read_about
    from mhgrn.subgraphs.prepared import PreparedData
    from mhgrn.training.loop import train

    data = PreparedData.load(cell.prepared)
    graph = data.load_graph(cell.graph)
    folder = runs / cell.folder
    if (folder / MARKER).is_file() and read_about(folder).get("finished"):
        run = Run.load(folder, graph.folder, None, cell.encoder)
    else:
        run = train(data, cell.config, folder, graph, encoder=cell.encoder)
    epochs = [row for row in _rows(folder / "metrics.jsonl") if "dev_accuracy" in row]
    return {
        "format": FORMAT,
        "system": cell.system,
        "seed": cell.seed,
        "key": cell.key,
        "run": cell.folder,
        "splits": _evaluated(cell, run, data),
        "parameters": parameter_count(run.model),
        "epochs": len(epochs),
        "best_epoch": run.about["metrics"]["epoch"],
        "warnings": [row["warning"] for row in epochs[-1:] if "warning" in row],  # only those of the last epoch
        "curve": [{"loss": round(row["loss"], 4), "dev": round(row["dev_accuracy"], 6)} for row in epochs if "loss" in row],
        "seconds": round(sum(row.get("seconds", 0.0) for row in epochs), 1),
        "threads": run.config.training.threads or torch.get_num_threads(),
        "config": cell.config.used(),
        **({} if cell.encoder is None else {"text_checksum": run.encoder.checksum()}),
        "data": {"name": data.about["dataset"], "fingerprint": data.fingerprint, "graph": graph.fingerprint},
        **made(),
    }


def _evaluated(cell: Cell, run: Any, data: "PreparedData") -> dict[str, Any]:
    """The run's answers to each split, or to each column."""
    from mhgrn.subgraphs.prepared import PreparedData

    if not cell.columns:
        return {split: _measured(run, data, split) for split in cell.splits}
    return {
        column.label: _measured(run, PreparedData.load(column.prepared), column.split, cell.plus) | {"data": column.fingerprint}
        for column in cell.columns
    }


def save_cell(cell: Cell, results: Path, result: dict[str, Any]) -> None:
    cell.file(results).parent.mkdir(parents=True, exist_ok=True)
    write_json(cell.file(results), result)


def made() -> dict[str, Any]:
    """The date, commit and versions of a result."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "versions": {name: version(name) for name in ("mhgrn", "torch", "transformers", "numpy")},
    }


def commit() -> str | None:
    """The commit of the running code if it runs from a clone; with ``+`` if the code has uncommitted changes."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=20, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "-C", str(here), "status", "--porcelain", "--", str(here.parent)],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return found + ("+" if changed else "")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _measured(run: Any, data: Any, split: str, plus: Added | None = None) -> dict[str, Any]:
    """The run's choice for each question of a split, and its accuracy if the answers are known."""
    import torch

    from mhgrn.scoring import best_choice
    from mhgrn.training.evaluation import split_probabilities
    from mhgrn.training.examples import Examples

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for module in (run.model, run.encoder):
        module.to(device)
    shares = split_probabilities(Examples(data, run, device), split)
    if plus is None:
        return _answered([best_choice(p) for p in shares], data, split)
    from mhgrn_reproduction.scores import chosen, measured, summed

    asked = [data.questions[q] for q in data.split(split)]
    logits = torch.tensor([p for of_question in shares for p in of_question]).clamp_min(TINY).log()
    return _answered(chosen(summed(logits, measured(plus, data, split), asked), asked), data, split)


def _answered(chosen: list[int], data: "PreparedData", split: str) -> dict[str, Any]:
    """The chosen answers to a split, and their accuracy if the answers are known."""
    asked = [data.questions[q] for q in data.split(split)]
    answers = [question.answer for question in asked]
    ids = fingerprint([question.id for question in asked])
    found = {"questions": len(chosen), "ids": ids, "chosen": "".join(DIGITS[c] for c in chosen)}
    if None in answers:
        return found
    right = [c == answer for c, answer in zip(chosen, answers, strict=True)]
    return {"accuracy": sum(right) / len(right), **found, "right": "".join(str(int(r)) for r in right)}
