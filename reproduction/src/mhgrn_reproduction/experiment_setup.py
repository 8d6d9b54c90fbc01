"""What to run of an experiment: the request, checked, with its data."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mhgrn.config import Config, changed_settings
from mhgrn.encoders import graph_encoders
from mhgrn.errors import UserError
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn_reproduction.budget import Plan
from mhgrn_reproduction.cells import Cell, read_result, seeds_of
from mhgrn_reproduction.papers import Experiment, System, TextSettings
from mhgrn_reproduction.sources import Sources

if TYPE_CHECKING:
    from mhgrn.features.encoded import ResumableBuild

PAPER_SEEDS = 4
TRIPLES = "triples"  # the value of the setting `features` in experiments: features computed from triples


@dataclass(frozen=True)
class Request:
    """Which part of an experiment to run, and where.

    Args:
        name: A shipped experiment, or a YAML file.
        encoder: The settings of a text encoder: shipped ones, or a YAML file.
        sources: The files of the data, and the work folder.
        results: The folder for results.
        seeds: The number of seeds, from 0.
        systems: The systems to run. None: all that are not optional.
        budget: The time to fit into, in seconds. None: no limit.
        jobs: The number of runs at the same time.
        changes: Overrides of settings, for all systems.
        force: Replace results of other settings.
    """

    name: str
    encoder: str
    sources: Sources
    results: Path
    seeds: int = PAPER_SEEDS
    systems: list[str] | None = None
    budget: float | None = None
    jobs: int = 1
    changes: list[str] = field(default_factory=list)
    force: bool = False

    @property
    def threads(self) -> int:
        """The threads of each process, if the settings do not say how many."""
        return max(1, (os.cpu_count() or 1) // self.jobs)

    @property
    def folder(self) -> Path:
        """The folder of its results."""
        return self.results / Path(self.name).stem / Path(self.encoder).stem


@dataclass(frozen=True)
class Setup:
    """An experiment with its data."""

    request: Request
    experiment: Experiment
    text: TextSettings
    configs: dict[str, Config]  # of the systems to run
    graph: Path | None
    notes: list[str]
    data: dict[str, PreparedData] = field(default_factory=dict)  # by name
    works: dict[tuple[str, str], "ResumableBuild"] = field(default_factory=dict)  # by dataset and text encoder

    @property
    def encoder(self) -> str:
        return Path(self.request.encoder).stem

    @property
    def whole(self) -> Plan:
        """The plan that runs everything."""
        return Plan(self.request.seeds, max(config.training.epochs for config in self.configs.values()))

    def load(self, name: str) -> PreparedData:
        """A dataset; its questions are prepared first if necessary."""
        if name not in self.data:
            self.data[name] = self.request.sources.prepared(name, self.text)
        return self.data[name]

    def features(self, data: str, encoder: str) -> "ResumableBuild":
        """The node features that ``features: triples`` means for a dataset, built or not."""
        key = data, encoder
        if key not in self.works:
            self.works[key] = self.request.sources.features(self.text, encoder, self.load(data))
        return self.works[key]

    def cell(self, system: str, seed: int, plan: Plan) -> Cell:
        """One run of a system under a plan."""
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
        """The cells of all systems that have a result file, with that file. Its settings may differ from the cell's."""
        for system in self.experiment.systems:
            for seed in seeds_of(self.request.folder, system):
                cell = self.cell(system, seed, plan)
                yield cell, cell.file(self.request.folder)


def set_up(request: Request) -> Setup:
    """Check a request and prepare its data."""
    experiment, text = Experiment.named(request.name), TextSettings.named(request.encoder)
    if request.folder.exists() and not request.folder.is_dir():
        raise UserError(f"{request.folder} is not a folder; name another one with --results.")
    if experiment.predict is not None and "dev" not in experiment.splits:
        raise UserError(f"{request.name}: to predict {experiment.predict}, add dev to its splits: the best run on dev is used.")
    if request.seeds < 1 or request.jobs < 1:
        raise UserError("--seeds and --jobs must be 1 or more.")
    for change in request.changes:
        if change.partition("=")[0].strip() in ("seed", "graph_encoder"):
            raise UserError(f"--set {change}: choose seeds and systems with --seeds and --systems.")
    encoder, notes = Path(request.encoder).stem, list(experiment.notes)
    # all settings are checked before anything is built
    systems, configs = dict[str, System](), dict[str, Config]()
    for name, system in experiment.pick(request.systems).items():
        config = experiment.config(name, encoder, text, 0, request.changes)
        if system.needs_trained_text and config.text.frozen_epochs is None:
            notes.append(f"{system.label}: not run, because the text encoder is frozen.")
        else:
            systems[name], configs[name] = system, config
    if not systems:
        raise UserError(" ".join(["no system to run.", *notes[len(experiment.notes) :]]))
    for text_config in {config.text.encoder: config.text for config in configs.values()}.values():
        load_text_encoder(text_config)
    names = {name: system.data or experiment.data for name, system in systems.items()}
    for data in names.values():
        request.sources.questions(data)
    setup = Setup(request, experiment, text, configs, request.sources.graph(text).folder, notes)
    for prepared in map(setup.load, dict.fromkeys(names.values())):
        for split in ("train", *experiment.splits):
            prepared.answered_split(split)
        if experiment.predict is not None:
            prepared.split(experiment.predict)
    if any(config.features == TRIPLES for config in configs.values()):
        most = text.max_triples_per_concept
        notes.append(f"Node features are computed from {'all' if most is None else f'at most {most}'} triples of each concept.")
    return setup


def build_features(setup: Setup, systems: Iterable[str]) -> None:
    """Build the node features of these systems if they do not exist."""
    needed = dict[tuple[str, str], None]()
    for name, config in setup.configs.items():
        if name in systems and config.features == TRIPLES and graph_encoders.load(config.graph_encoder).uses_features:
            needed[setup.experiment.systems[name].data or setup.experiment.data, config.text.encoder] = None
    for data, encoder in needed:
        setup.features(data, encoder).build(None)


def check_others(setup: Setup, plan: Plan) -> None:
    """Refuse to replace results of other settings, or to omit them from the summary, without ``--force``."""
    if setup.request.force:
        return
    others = []
    for cell, path in setup.found(plan):
        before = read_result(path)
        if before["key"] != cell.key:
            changed = changed_settings(Config.restore(before["config"]), cell.config) or ["the questions or the graph differ"]
            others.append(f"{cell.name} ({changed[0]})")
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise UserError(
            f"{setup.request.folder} has results of other settings: {others[0]}{more}. Write to another folder with --results, or"
            " replace or omit these results with --force."
        )
