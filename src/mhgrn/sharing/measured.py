"""What was measured of a run, stored in its folder for the model card.

A measurement belongs to weights and a temperature. If either changes, it is not used any more.
"""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.locks import locked
from mhgrn.io.remote import refuse_fetched
from mhgrn.runs import WEIGHTS, Run

MEASURED = "measured.json"
FORMAT = 1


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Share(_Part):
    """A share with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


class Evaluation(_Part):
    """Numbers of `mhgrn eval`."""

    questions: int
    accuracy: float
    expected_calibration_error: float
    brier_score: float
    negative_log_likelihood: float
    date: str


class FaithfulnessShares(_Part):
    """Numbers of `mhgrn faithfulness`; the facts are those of the method ``smallest``, which answers show."""

    split: str
    questions: int
    explained: int
    depends: Share
    accuracy: dict[str, Share]
    sufficient: Share | None
    necessary: Share | None
    date: str


class Measured(_Part):
    """``measured.json``"""

    format: int = FORMAT
    of: str  # the weights and the temperature
    evaluation: dict[str, Evaluation] = Field(default_factory=dict)  # by split
    faithfulness: FaithfulnessShares | None = None


def store_evaluation(run: Run, found: Mapping[str, Any]) -> None:
    """Store the result of :func:`mhgrn.evaluate` with a run."""
    measures = {name: found["calibration"][name] for name in Evaluation.model_fields if name in found["calibration"]}
    entry = Evaluation(questions=found["questions"], accuracy=found["accuracy"], date=date.today().isoformat(), **measures)
    _change(run, lambda measured: measured.evaluation.update({found["split"]: entry}))


def store_faithfulness(run: Run, found: Mapping[str, Any]) -> None:
    """Store the result of :meth:`mhgrn.faithfulness.Faithfulness.to_dict` with a run."""
    shown = found["methods"].get("smallest", {}).get("shown", {})
    shares = {name: value for name in ("sufficient", "necessary") if (value := shown.get(name, {})).get("value") is not None}
    accuracy = {name: value for name, value in found["accuracy"].items() if name in ("with the graph", "without the graph")}
    entry = FaithfulnessShares(
        **{name: found[name] for name in ("split", "questions", "explained")},
        depends=found["dependence"]["depends"],
        accuracy=accuracy,
        sufficient=shares.get("sufficient"),
        necessary=shares.get("necessary"),
        date=date.today().isoformat(),
    )
    _change(run, lambda measured: setattr(measured, "faithfulness", entry))


def read_measured(run: Run) -> Measured:
    """What is stored of a run as it is now; empty if there is nothing."""
    path, of = run.folder / MEASURED, _identity(run)
    if not path.is_file():
        return Measured(of=of)
    try:
        found = Measured.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, ValidationError):
        raise UserError(f"{path} is damaged; delete it, and measure again with --store.") from None
    return found if found.of == of and found.format == FORMAT else Measured(of=of)


def _change(run: Run, change: Any) -> None:
    refuse_fetched(run.folder, "measurements")
    busy = f"another process is using {run.folder}; wait for it."
    with locked(run.folder.with_name(f".{run.folder.name}.lock"), busy=busy):
        measured = read_measured(run)
        change(measured)
        write_text(run.folder / MEASURED, json.dumps(measured.model_dump(), indent=1) + "\n")


def _identity(run: Run) -> str:
    weights = run.folder / WEIGHTS
    temperature = None if run.calibration is None else run.calibration.temperature
    return fingerprint(file_fingerprint(weights) if weights.is_file() else "", temperature)
