"""The formats of result files, checked when they are read."""

from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mhgrn.errors import UserError

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # a choice's number as one character


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class Answers(_Part):
    """A cell's answers to one split, with the accuracy if the answers are known."""

    questions: int
    ids: str
    chosen: str = Field(pattern=f"^[{DIGITS}]*$")
    accuracy: float | None = None
    right: str | None = Field(None, pattern="^[01]*$")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if {len(part) for part in (self.chosen, self.right) if part is not None} != {self.questions}:
            raise ValueError(f"should have answers to {self.questions} questions")
        if (self.accuracy is None) != (self.right is None):
            raise ValueError("should have both accuracy and right, or neither")
        return self


class Point(_Part):
    loss: float
    dev: float


class Source(_Part):
    fingerprint: str


class CellResult(_Part):
    """``cells/SYSTEM.SEED.json``"""

    seed: int
    key: str
    splits: dict[str, Answers]
    parameters: int
    epochs: int
    curve: list[Point] = []
    warnings: list[str] = []
    seconds: float
    config: dict[str, Any]
    data: Source
    date: str
    commit: str | None
    versions: dict[str, str]


class Spread(_Part):
    mean: float
    std: float | None
    runs: list[float]


class Difference(_Part):
    mean: float
    low: float
    high: float


class Entry(_Part):
    """A system in a summary; it also has a :class:`Spread` for each split."""

    model_config = ConfigDict(extra="allow")
    seeds: list[int]
    difference: dict[str, Difference] = {}
    warnings: list[str] = []


class Varied(_Part):
    system: str
    value: float | int
    what: str


Reported = dict[str, dict[str, list[float | None]]]  # by text encoder and split: mean and deviation


class Quoted(_Part):
    label: str | None = None
    system: str | None = None
    paper: Reported = {}


class Summary(_Part):
    """``summary.json``"""

    experiment: str
    encoder: str
    encoder_label: str
    date: str
    commit: str | None
    splits: list[str] = Field(min_length=1)
    reference: str | None
    shrunk: list[str]
    changes: list[str]
    notes: list[str]
    data: dict[str, Any]
    labels: dict[str, str]
    paper: dict[str, Reported]
    quoted: list[Quoted]
    vary: dict[str, Varied]
    settings: dict[str, Any]
    systems: dict[str, Entry]
    ensembles: dict[str, dict[str, Any]] = {}
    budget: float | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for name, entry in self.systems.items():
            if name not in self.labels:
                raise ValueError(f"labels should name {name}")
            for split in self.splits:
                Spread.model_validate((entry.model_extra or {}).get(split))
        return self


class Share(_Part):
    """The part of an experiment that is run."""

    seeds: int = Field(ge=1)
    epochs: int | None
    share: float = Field(gt=0, le=1)


class Planned(_Part):
    """``plan.json``"""

    asked: dict[str, Any]
    plan: Share
    estimated_seconds: float


class Case(_Part):
    id: str
    why: str
    text: str
    answer: str
    right: str


class Printed(_Part):
    """``result.json``"""

    experiment: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]
    date: str
    commit: str | None
    cases: list[Case] | None = None
    of: dict[str, Any] | None = None


class OpenCellResult(_Part):
    """``cells/SYSTEM.SEED.json`` of an experiment with open questions"""

    system: str
    seed: int
    key: str
    tests: dict[str, dict[str, float]]
    best_epoch: dict[str, int]
    seconds: float
    config: dict[str, Any]
    date: str
    commit: str | None
    versions: dict[str, str]


class Comparison(_Part):
    """What a benchmark printed."""

    step: str
    than: str
    speed_up: float = Field(gt=0, strict=False)
    command: str
    date: str


class Comparisons(_Part):
    """``speed/comparisons.json``"""

    machine: str
    comparisons: list[Comparison] = Field(min_length=1)


def check(found: object, kind: type[BaseModel], path: Path) -> None:
    """Raise a :class:`~mhgrn.errors.UserError` if the contents do not have this format."""
    try:
        kind.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = first["msg"].removeprefix("Value error, ").lower()
        raise UserError(
            f"{path} is damaged ({where + ': ' if where else ''}{what}); delete it and run its experiment again."
        ) from None
