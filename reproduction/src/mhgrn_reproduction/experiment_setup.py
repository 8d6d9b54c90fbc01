"""What to run of an experiment: the request, checked, with its data."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mhgrn.config import Config, changed_settings
from mhgrn.encoders import graph_encoders
from mhgrn.engines import Engine
from mhgrn.errors import UserError
from mhgrn.io.fingerprint import fingerprint
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn_reproduction.budget import Plan
from mhgrn_reproduction.cells import Added, Cell, Column, read_result, seeds_of
from mhgrn_reproduction.papers import SYNTHESIZED, TUNED, Experiment, System, TextSettings
from mhgrn_reproduction.sources import Sources
from mhgrn_reproduction.tuned_encoders import TunedEncoder

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
        encoder_folder: A text encoder that was tuned before as the settings of ``encoder`` say, to be used instead of tuning.
        questions: Files of questions to evaluate in addition, for experiments that evaluate several datasets.
        engine: Where the runs are trained, of :func:`mhgrn.engines.engine_named`. None: in processes of this machine.
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
    encoder_folder: Path | None = None
    questions: list[Path] = field(default_factory=list)
    engine: Engine | None = None

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
            sources, synthesis = self.request.sources, self.experiment.synthesis
            if synthesis is not None and name == SYNTHESIZED:
                self.data[name] = sources.synthesized(synthesis, self.text)
            else:
                self.data[name] = sources.prepared(name, self.text)
        return self.data[name]

    def load_file(self, path: Path) -> PreparedData:
        """A file of questions that is evaluated in addition."""
        name = str(path)
        if name not in self.data:
            self.data[name] = self.request.sources.prepared_file(path, self.text)
        return self.data[name]

    @cached_property
    def tuned(self) -> TunedEncoder | None:
        """What ``text.encoder: tuned`` means, tuned or not."""
        if self.text.tuning is None:
            return None
        experiment = self.experiment
        names = {system.data or experiment.data for system in experiment.systems.values()}
        if experiment.evaluate:
            names = {target.data for target in experiment.evaluate.values()}
        return self.request.sources.tuned(self.encoder, self.text.tuning, self.text, sorted(names))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The splits of datasets and the files that runs are evaluated on, if these are not splits of the training data."""
        found = []
        for label, target in self.experiment.evaluate.items():
            data = self.load(target.data)
            found.append(Column(label, data.folder.absolute(), data.fingerprint, target.split))
        for path in self.request.questions:
            data = self.load_file(path)
            found.append(Column(path.stem, data.folder.absolute(), data.fingerprint, "test", declared=False))
        return tuple(found)

    def seeds(self, system: str, count: int) -> range:
        """The seeds of a system: only one if nothing is random."""
        return range(count if self.experiment.systems[system].measure is None else 1)

    def features(self, data: str, encoder: str) -> "ResumableBuild":
        """The node features that ``features: triples`` means for a dataset, built or not."""
        key = data, encoder
        if key not in self.works:
            self.works[key] = self.request.sources.features(self.text, encoder, self.load(data))
        return self.works[key]

    def cell(self, system: str, seed: int, plan: Plan) -> Cell:
        """One run of a system under a plan."""
        config, encoder = self._config(system, seed, plan)
        mine = self.experiment.systems[system]
        splits = tuple(self.experiment.splits) + ((self.experiment.predict,) if self.experiment.predict else ())
        measure, plus = mine.measure, None
        if mine.plus is not None and (added := self.experiment.systems[mine.plus].measure) is not None:
            plus = Added(added, *self._config(mine.plus, 0, plan))
        if measure is not None:
            questions = fingerprint([column.fingerprint for column in self.columns if column.declared])
            return Cell(system, seed, config, Path(), self.graph, questions, splits, encoder, self.columns, measure, plus)
        data = self.load(mine.data or self.experiment.data)
        place = data.folder.absolute()
        return Cell(system, seed, config, place, self.graph, data.fingerprint, splits, encoder, self.columns, None, plus)

    def _config(self, system: str, seed: int, plan: Plan) -> tuple[Config, Path | None]:
        """The settings of a run under a plan, and the place of its tuned text encoder."""
        changes = list(self.request.changes)
        config = self.experiment.config(system, self.encoder, self.text, seed, changes)
        name = self.experiment.systems[system].data or self.experiment.data
        encoder = None
        if config.text.encoder == TUNED and self.tuned is not None:
            encoder = self.tuned.folder
            changes.append(f"text.encoder={self.tuned.name}")
        if config.features == TRIPLES:
            changes.append(f"features={self.features(name, config.text.encoder).request.place(None).name}")
        if plan.epochs is not None and plan.epochs < config.training.epochs:
            changes.append(f"training.epochs={plan.epochs}")
        if plan.share < 1:
            changes.append(f"training.train_fraction={config.training.train_fraction * plan.share}")
        return self.experiment.config(system, self.encoder, self.text, seed, changes), encoder

    def found(self, plan: Plan) -> Iterator[tuple[Cell, Path]]:
        """The cells of all systems that have a result file, with that file. Its settings may differ from the cell's."""
        for system in self.experiment.systems:
            for seed in seeds_of(self.request.folder, system):
                cell = self.cell(system, seed, plan)
                yield cell, cell.file(self.request.folder)


def set_up(request: Request) -> Setup:
    """Check a request and prepare its data."""
    experiment, text = _with_files(Experiment.named(request.name), request.questions), TextSettings.named(request.encoder)
    if request.folder.exists() and not request.folder.is_dir():
        raise UserError(f"{request.folder} is not a folder; name another one with --results.")
    if experiment.predict is not None and "dev" not in experiment.splits:
        raise UserError(f"{request.name}: to predict {experiment.predict}, add dev to its splits: the best run on dev is used.")
    if request.seeds < 1 or request.jobs < 1:
        raise UserError("--seeds and --jobs must be 1 or more.")
    if request.engine is not None and request.jobs > 1:
        raise UserError("--jobs is the number of runs at the same time on this machine; remove it, or --engine.")
    if request.engine is not None and request.budget is not None:
        raise UserError("--budget is a time on this machine; remove it, or --engine.")
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
    _check_encoders(request, text, configs)
    names = [system.data or experiment.data for name, system in systems.items() if system.measure is None]
    targets = [target.data for target in experiment.evaluate.values()]
    for data in (*names, *targets):
        if data != SYNTHESIZED or experiment.synthesis is None:
            request.sources.questions(data)
    setup = Setup(request, experiment, text, configs, request.sources.graph(text).folder, notes)
    if request.encoder_folder is not None and setup.tuned is not None:
        setup.tuned.check(request.encoder_folder)
    for column in setup.columns:
        PreparedData.load(column.prepared).answered_split(column.split)
    for prepared in map(setup.load, dict.fromkeys(names)):
        for split in ("train", *([] if experiment.evaluate else experiment.splits)):
            prepared.answered_split(split)
        if experiment.predict is not None:
            prepared.split(experiment.predict)
    if any(config.text.encoder == TUNED for config in configs.values()) and (tuning := text.tuning) is not None:
        notes.append(
            f"{tuning.encoder} was tuned on the graph for {tuning.steps:,} steps of {tuning.batch_size} questions about facts, with"
            f" {tuning.keep:.0%} of its untuned weights kept (seed {tuning.seed}); all runs use this one text encoder."
        )
    if experiment.synthesis is not None and names:
        made = experiment.synthesis
        combined = f", up to {made.combined:.0%} with two facts of the answer" if made.combined else ""
        hidden = f"{made.hide:.0%} with hidden facts{combined}"
        notes.append(f"{made.count:,} questions were made from the graph (seed {made.seed}), {hidden}.")
    if any(config.features == TRIPLES for config in configs.values()):
        most = text.max_triples_per_concept
        notes.append(f"Node features are computed from {'all' if most is None else f'at most {most}'} triples of each concept.")
    return setup


def _with_files(experiment: Experiment, files: list[Path]) -> Experiment:
    """The experiment with a column for each file of questions."""
    if not files:
        return experiment
    if not experiment.evaluate:
        raise UserError(f"{experiment.name} evaluates only its own dataset; use --questions with zero-shot.")
    for path in files:
        if not path.is_file():
            raise UserError(f"{path} is not a file; name a file of questions with answers.")
    labels = [*experiment.splits, *(path.stem for path in files)]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise UserError(f"--questions: two columns would be called {twice[0]}; rename the file.")
    return experiment.model_copy(update={"splits": labels})


def _check_encoders(request: Request, text: TextSettings, configs: dict[str, Config]) -> None:
    """Load every text encoder, and the one that is to be tuned, before anything is built."""
    names = dict.fromkeys(config.text.encoder for config in configs.values())
    if request.encoder_folder is not None and TUNED not in names:
        raise UserError(f"--encoder-folder: {request.encoder} tunes no text encoder; use --encoder minilm-knowledge.")
    for name, config in {config.text.encoder: config for config in configs.values()}.items():
        if name != TUNED:
            load_text_encoder(config.text)
            continue
        if text.tuning is None:
            raise UserError(f"{request.encoder} does not say how to tune a text encoder; use --encoder minilm-knowledge.")
        load_text_encoder(config.text, text.tuning.encoder)
    for config in configs.values():
        if config.text.encoder == TUNED and config.features == TRIPLES:
            raise UserError("features: triples needs a text encoder that is not tuned on the graph; use features: names.")


def build_inputs(setup: Setup, systems: Iterable[str]) -> None:
    """Tune the text encoder and build the node features of these systems, if they do not exist."""
    systems = set(systems)
    if setup.tuned is not None and any(setup.configs[name].text.encoder == TUNED for name in systems & setup.configs.keys()):
        setup.tuned.build(setup.request.encoder_folder)
    _build_features(setup, systems)


def _build_features(setup: Setup, systems: Iterable[str]) -> None:
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
