"""The paper's experiments as YAML: systems, settings, and the numbers that the paper reports."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from mhgrn.config import Config
from mhgrn.errors import UserError, did_you_mean
from mhgrn.questions.fields import as_list
from mhgrn.settings import as_yaml, read_yaml, validation_message
from mhgrn_reproduction.titles import TRAINED, About

TUNED = "tuned"  # the value of text.encoder: the text encoder that `tuning` describes
SYNTHESIZED = "synthesized"  # the name of data that is made from the graph


class Part(BaseModel):
    """A part of an experiment's file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _checked_settings(value: object) -> object:
    """Settings by their dotted names, as ``--set`` takes them."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError("should be `section.setting: value` lines")
    if nested := [key for key, inner in value.items() if isinstance(inner, dict)]:
        raise ValueError(f"write {nested[0]}.SETTING: VALUE on one line")
    return value


def _as_reported(value: object) -> object:
    """A number, or a list of mean and standard deviation."""
    return [value, None] if isinstance(value, int | float) and not isinstance(value, bool) else value


Settings = Annotated[dict[str, Any], BeforeValidator(_checked_settings)]
Reported = Annotated[tuple[float, float | None], BeforeValidator(_as_reported)]
"""Percentages: the mean, and the standard deviation if it is reported."""
Numbers = dict[str, dict[str, Reported]]
"""By text encoder, then by split."""


class Vary(Part):
    """One or several settings that vary together over a list of values."""

    setting: Annotated[tuple[str, ...], BeforeValidator(as_list)]
    values: list[float | int] = Field(min_length=1)
    label: str
    paper: dict[str, Numbers] = Field({}, description="by the value as it is written here")


Measure = Literal["cosine", "pmi"]
"""Scores of choices without training: the cosine of question and choice, or their pointwise mutual information under a language
model."""


class System(Part):
    """One row of a table."""

    label: str
    settings: Settings = {}
    by_encoder: dict[str, Settings] = Field({}, description="settings with one text encoder only")
    data: str | None = Field(None, description="overrides the experiment's")
    paper: Numbers = {}
    quoted: bool = Field(False, description="the paper quotes its number from another publication")
    optional: bool = Field(False, description="run only if it is named")
    upper_bound: bool = Field(False, description="uses information that a new question does not have")
    needs_trained_text: bool = Field(False, description="requires a text encoder that is not frozen")
    measure: Measure | None = Field(None, description="scores without training: cosine or pmi")
    plus: str | None = Field(
        None, description="system with a measure whose scores are added, both standardized over the choices of a question"
    )
    vary: Vary | None = Field(None, description="overrides the experiment's")
    base: str | None = Field(None, description="the system that it is a variant of")
    value: float | int | None = Field(None, description="value of the setting that varies")
    varies: str | None = Field(None, description="name of the setting that varies")


class Quoted(Part):
    """A row that is not run: a number that the paper quotes, or a system that is not available."""

    label: str
    paper: Numbers


class Tuning(Part):
    """How a text encoder is tuned on the graph before the runs; ``text.encoder: tuned`` is the result."""

    encoder: str = Field("minilm", description="text encoder to tune")
    steps: int = Field(ge=1)
    batch_size: int = Field(192, ge=2, description="questions about facts in each step")
    keep: float = Field(ge=0, le=1, description="share of the untuned weights in the result")
    seed: int = Field(0, ge=0)
    without: list[str] = Field([], description="splits; facts between a question and a choice of them are left out")


class Synthesis(Part):
    """Questions that are made from the graph to train on."""

    count: int = Field(ge=1, description="number of questions")
    hops: tuple[int, ...] = Field((1, 2), description="facts of a question")
    combined: float = Field(0.0, ge=0, le=1, description="share of the questions about one fact that say a second one")
    distractors: str = Field("mixed", description="how wrong choices are found")
    hide: float = Field(0.5, ge=0, le=1, description="share of the questions whose facts are hidden from their subgraphs")
    seed: int = Field(0, ge=0)
    split: tuple[float, float, float] = Field((0.96, 0.04, 0.0), description="shares of train, dev and test")


class Target(Part):
    """A split of a dataset that runs are evaluated on."""

    data: str
    split: str


class TextSettings(Part):
    """A text encoder and the settings that belong to it."""

    label: str
    settings: Settings
    like: str | None = Field(None, description="another text encoder, whose `by_encoder` settings of systems also apply")
    tuning: Tuning | None = Field(None, description="what `text.encoder: tuned` means")
    text_alone: Settings = Field({}, description="for graph_encoder: none")
    max_nodes: int | None = Field(None, ge=1, description="cap on a subgraph's nodes")
    published_names: bool = Field(False, description="name concepts by the last part of their URI")
    max_triples_per_concept: int | None = Field(None, ge=1, description="triples for features: triples; null: all")

    @classmethod
    def named(cls, name: str) -> Self:
        """Settings from a YAML file, or shipped ones by name."""
        return read_settings(cls, name, "encoders", "a text encoder")

    @staticmethod
    def shipped() -> list[str]:
        return _shipped("encoders")

    @model_validator(mode="after")
    def _has_tuning(self) -> Self:
        if self.settings.get("text.encoder") == TUNED and self.tuning is None:
            raise ValueError("describe the tuning that text.encoder: tuned needs")
        return self


class Experiment(Part):
    """Several systems on one dataset, or trained on questions of the graph and evaluated on several datasets.

    >>> Experiment.named("hops").systems["mhgrn@2"].settings["mhgrn.hops"]
    2
    >>> Experiment.named("hop")
    Traceback (most recent call last):
    mhgrn.errors.UserError: 'hop' is neither a YAML file nor an experiment with settings. Did you mean hops?
    """

    name: str = ""
    data: str = Field("", description="a declared dataset, or a folder in --data; empty with `synthesis`")
    synthesis: Synthesis | None = Field(None, description="train on questions made from the graph")
    evaluate: dict[str, Target] = Field({}, description="by column: splits of datasets, instead of the splits of `data`")
    splits: list[str] = Field(["dev", "test"], min_length=1, description="splits to evaluate")
    predict: str | None = Field(None, description="split to predict for a leaderboard")
    ensembles: list[str] = Field([], description="systems whose seeds are also combined into an ensemble")
    reference: str | None = Field(None, description="the system that others are compared to")
    settings: Settings = {}
    by_encoder: dict[str, Settings] = {}
    vary: Vary | None = None
    systems: dict[str, System] = Field(min_length=1)
    quoted: list[Quoted] = []
    notes: list[str] = []

    @model_validator(mode="after")
    def _has_data(self) -> Self:
        if bool(self.data) == (self.synthesis is not None):
            raise ValueError("give either data or synthesis")
        if (self.synthesis is not None) != bool(self.evaluate):
            raise ValueError("give evaluate with synthesis, and only then")
        if not self.evaluate and any(system.measure for system in self.systems.values()):
            raise ValueError("measure needs evaluate")
        for name, system in self.systems.items():
            other = None if system.plus is None else self.systems.get(system.plus)
            if system.plus is not None and (other is None or other.measure is None or other.plus is not None):
                raise ValueError(f"plus of {name} should name a system with a measure and without plus")
        if self.evaluate and (self.predict or self.ensembles or any(system.data for system in self.systems.values())):
            raise ValueError("evaluate does not go with predict, ensembles or data of a system")
        return self

    @classmethod
    def named(cls, name: str) -> Self:
        """An experiment from a YAML file, or a shipped one by name."""
        found = read_settings(cls, name, "", "an experiment with settings")
        update: dict[str, Any] = {"name": Path(name).stem, "systems": _varied(found)}
        if found.synthesis is not None:
            update |= {"data": SYNTHESIZED, "splits": list(found.evaluate)}
        return found.model_copy(update=update)

    @property
    def about(self) -> About:
        return TRAINED.get(self.name, About("", self.name))

    def pick(self, names: list[str] | None) -> dict[str, System]:
        """The systems with these names; the name of a varied system selects all its values. None: all that are not optional."""
        if names == []:
            raise UserError("--systems is empty; name a system, or omit the option to run all.")
        if names is None:
            return {name: system for name, system in self.systems.items() if not system.optional}
        known = [*self.systems, *(s.base for s in self.systems.values() if s.base)]
        for name in names:
            if name not in known:
                raise UserError(f"{self.name} has no system {name!r}.{did_you_mean(name, known)}")
        return {name: system for name, system in self.systems.items() if name in names or system.base in names}

    def overrides(self, system: str, encoder: str, text: TextSettings) -> list[str]:
        """A system's settings with a text encoder, as ``--set`` takes them."""
        mine = self.systems[system]
        given = {**text.settings, **self.settings}
        for name in (text.like, encoder):
            given |= self.by_encoder.get(name or "", {})
        if mine.settings.get("graph_encoder") == "none":
            given |= text.text_alone
        given |= mine.settings
        for name in (text.like, encoder):
            given |= mine.by_encoder.get(name or "", {})
        return [f"{key}={as_yaml(value)}" for key, value in given.items()]

    def config(self, system: str, encoder: str, text: TextSettings, seed: int = 0, changes: Sequence[str] = ()) -> Config:
        """The settings of one run."""
        return Config.load(overrides=[*self.overrides(system, encoder, text), *changes, f"seed={seed}"])


def _varied(experiment: Experiment) -> dict[str, System]:
    """All systems, with one for each value of those that vary."""
    systems: dict[str, System] = {}
    for name, system in experiment.systems.items():
        vary = system.vary or experiment.vary
        if vary is None:
            systems[name] = system
            continue
        for value in vary.values:
            update = {
                "label": f"{system.label}, {vary.label} {value:g}",
                "varies": vary.label,
                "settings": system.settings | dict.fromkeys(vary.setting, value),
                "paper": vary.paper.get(f"{value:g}", {}) or system.paper,
                "base": name,
                "value": value,
            }
            systems[f"{name}@{value:g}"] = system.model_copy(update=update)
    return systems


def _shipped(folder: str) -> list[str]:
    files = resources.files("mhgrn_reproduction").joinpath("settings", folder).iterdir()
    return sorted(Path(file.name).stem for file in files if file.name.endswith(".yaml"))


Kind = TypeVar("Kind", bound=Part)


def read_settings(kind: type[Kind], name: str, folder: str, what: str) -> Kind:
    """Read a YAML file, or a shipped one of a folder of settings by its name."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        given = read_yaml(path, "settings")
    elif name in _shipped(folder):
        text = resources.files("mhgrn_reproduction").joinpath("settings", folder, f"{name}.yaml").read_text(encoding="utf-8")
        given = yaml.safe_load(text)
    else:
        raise UserError(f"{name!r} is neither a YAML file nor {what}.{did_you_mean(name, _shipped(folder))}")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise UserError(f"{name}: {validation_message(error, kind, 'key')}") from None
