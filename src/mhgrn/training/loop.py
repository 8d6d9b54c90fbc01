"""Training a run: set-up, resuming and the final result. The loop itself is in :mod:`mhgrn.training.trainer`."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.checksums import remove_file, seal
from mhgrn.io.folders import begin_folder, check_replaceable, delete_partial, new_folder, replace_folder
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_marker
from mhgrn.io.remote import local_folder, place_of
from mhgrn.io.replacing import PARTIAL
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.model import build_model, parameter_count
from mhgrn.progress import say, silence
from mhgrn.runs import MARKER, METRICS, Run, describe, features_for, read_about
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.likelihood import Likelihood
from mhgrn.text.loading import load_text_encoder
from mhgrn.training.calibrating import store_calibration
from mhgrn.training.checkpoints import (
    CHECKPOINT,
    differences,
)
from mhgrn.training.checks import explaining_memory_errors
from mhgrn.training.distributed import Processes
from mhgrn.training.evaluation import accuracy, as_data
from mhgrn.training.examples import Examples
from mhgrn.training.loggers import MetricLogger
from mhgrn.training.metrics import Record
from mhgrn.training.trainer import Trainer


def set_seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train(
    data: PreparedData | str | Path,
    config: Config | Mapping[str, Any] | str | Path,
    folder: str | Path,
    graph: KnowledgeGraph | str | Path | None = None,
    force: bool = False,
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
    start_from: str | Path | None = None,
    loggers: Sequence[MetricLogger] = (),
) -> Run:
    """Train a model and keep its best epoch on dev.

    An interrupted run in ``folder`` is resumed and ends with the same weights as an uninterrupted one. Ctrl-C saves a checkpoint
    and raises KeyboardInterrupt.

    Args:
        data: The questions, with answers in the splits train and dev, or the folder of prepared data.
        config: The settings: a :class:`~mhgrn.Config`, nested dictionaries, or a YAML file.
        folder: The folder of the run.
        graph: The graph that the data was prepared from, or its folder. By default it is loaded.
        force: Start over, and replace the run in the folder.
        encoder: The place of the text encoder, if it is not where ``text.encoder`` says: a folder or a hub name.
        allow_download: Download the text encoder if it is not on this machine. Otherwise the network is never used.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.
        start_from: The folder of a trained run whose weights are the initial ones. It has the same text encoder, relations and
            settings of the model; its questions and its graph may be others.
        loggers: Receive the metrics while the training runs; see :mod:`mhgrn.training.loggers`.

    Returns:
        The trained run.

    >>> run = train("prepared", {"mhgrn": {"hops": 3}}, "run")  # doctest: +SKIP
    """
    data, config, graph = as_data(data), _config(config), _graph(graph)
    if not isinstance(folder, str | Path):
        raise TypeError(f"folder is of type {type(folder).__name__}; give the path of the run's folder.")
    folder = check_replaceable(Path(folder), MARKER)
    for split in ("train", "dev"):
        data.answered_split(split)
    processes = Processes()
    access = _Access(encoder, allow_download, allow_pickle)
    start = None if start_from is None else local_folder(start_from)
    if not processes.is_main:
        silence()
        return _train(data, config, folder, graph, force, processes, access, start)
    busy = f"another process is training in {folder}; wait for it, or name another folder."
    with locked(folder.with_name(f".{folder.name}.lock"), busy=busy):
        return _train(data, config, folder, graph, force, processes, access, start, loggers)


class _Access(NamedTuple):
    """Where the text encoder is, and what loading it may do; see :func:`~mhgrn.text.loading.load_text_encoder`."""

    place: str | Path | None = None
    allow_download: bool = False
    allow_pickle: bool = False


def _config(config: object) -> Config:
    if isinstance(config, str | Path):
        return Config.load(config)
    if isinstance(config, Mapping):
        return Config.of(config)
    if not isinstance(config, Config):
        raise TypeError(f"config is of type {type(config).__name__}; give a Config, nested dictionaries, or a YAML file.")
    return config


def _graph(graph: object) -> KnowledgeGraph | None:
    if isinstance(graph, str | Path):
        return KnowledgeGraph.load(graph)
    if graph is not None and not isinstance(graph, KnowledgeGraph):
        raise TypeError(f"graph is of type {type(graph).__name__}; give a KnowledgeGraph or its folder.")
    return graph


def _train(
    data: PreparedData,
    config: Config,
    folder: Path,
    graph: KnowledgeGraph | None,
    force: bool,
    processes: Processes,
    access: _Access,
    start: Path | None,
    loggers: Sequence[MetricLogger] = (),
) -> Run:
    is_there = (folder / MARKER).is_file() and not force
    if is_there and read_about(folder).get("finished"):
        raise UserError(f"{folder} contains a trained run; name another folder, or replace it with --force.")
    record = Record(config.training.tensorboard, loggers)
    graph = graph or data.load_graph()
    for logger in loggers:
        logger.start(config.identity())
    with explaining_memory_errors(config):
        run = _new_run(data, config, folder, graph, processes, access)
        if start is not None:
            run.about["started_from"] = run.load_weights(start)
        if is_there:
            check_same(folder, run.about)
            is_there = (folder / CHECKPOINT).is_file()  # if it was stopped before its first checkpoint, it starts over
        with processes.main_first():  # the others load the files that it writes
            examples = Examples(data, run, processes.device)
            _ = examples.likelihoods
            if run.model.graph_encoder.uses_text and config.text.frozen_epochs != 0:
                # now, with all threads; training may use fewer
                _ = examples.vectors
                _ = examples.tokens if run.model.graph_encoder.uses_tokens else None
        partial = None
        if not is_there and processes.is_main:
            partial = run.folder = begin_folder(folder, MARKER)
        try:
            if partial is not None:
                write_text(partial / "config.yaml", config.to_yaml())
                write_marker(partial / MARKER, run.about)
            with training_threads(config.training.threads):
                if parameter_count(run.model):
                    _fit(Trainer(examples, processes, folder, record), is_there)
                elif processes.is_main:
                    _keep(examples, folder)
        finally:
            record.close()
            if partial is not None:
                delete_partial(partial)
    del run, examples  # the memory of the last epoch, before the best one is loaded
    if processes.is_main:
        write_marker(folder / MARKER, read_about(folder) | {"finished": True})
        remove_file(folder / CHECKPOINT)
        for left in folder.glob(f".*{PARTIAL}*"):  # of killed processes; this one has the lock of the run
            left.unlink(missing_ok=True)
        seal(folder)
        trained = Run.load(folder, graph.folder, None, *access)
        if config.training.calibrate:
            _calibrate(trained, data, processes)
    processes.wait()
    return trained if processes.is_main else Run.load(folder, graph.folder, None, *access)


def _fit(trainer: Trainer, is_there: bool) -> None:
    if is_there:
        trainer.resume()
    trainer.fit()


def _calibrate(run: Run, data: PreparedData, processes: Processes) -> None:
    """Calibrate the best model on dev. The run is finished: an interruption loses only this."""
    try:
        with explaining_memory_errors(run.config), training_threads(run.config.training.threads):
            found = store_calibration(run, data, "dev", processes.device)
    except KeyboardInterrupt:
        say(f"{run.folder} is trained, but not calibrated; calibrate it with `mhgrn calibrate {run.folder}`.")
        raise
    error = [f"{found[name]['expected_calibration_error']:.1%}" for name in ("before", "after")]
    say(f"calibrated on dev: temperature {found['temperature']:.2f}, calibration error {error[0]} → {error[1]}")


def _keep(examples: Examples, folder: Path) -> None:
    """Evaluate and keep a model without parameters, which has nothing to train."""
    run = examples.run
    row = {"epoch": 0, "dev_accuracy": accuracy(examples, "dev", live_text=False)}
    write_text(run.folder / METRICS, json.dumps(row) + "\n")
    run.save(row, text_changed=False)
    replace_folder(run.folder, folder, grows=(METRICS,))
    run.folder = folder
    say(f"nothing to train; dev {row['dev_accuracy']:.1%}")


def new_run(data: PreparedData, config: Config, folder: str | Path, graph: KnowledgeGraph | None = None) -> Run:
    """An untrained run, for training loops other than :func:`train`; :func:`save_new` writes it once it is trained.

    Args:
        data: The questions.
        config: The settings. They also seed the random numbers.
        folder: The folder of the run.
        graph: The graph that the data was prepared from. By default it is loaded.
    """
    return _new_run(data, config, check_replaceable(Path(folder), MARKER), graph or data.load_graph(), Processes(), _Access())


def save_new(run: Run, metrics: dict[str, Any]) -> None:
    """Write a run of :func:`new_run` to its folder, completely or not at all.

    Args:
        run: The trained run.
        metrics: ``epoch`` and ``dev_accuracy``, and others that should be stored.
    """
    folder = run.folder
    with new_folder(folder, MARKER) as partial:
        write_text(partial / "config.yaml", run.config.to_yaml())
        run.folder, run.about = partial, run.about | {"finished": True}
        try:
            run.save(metrics, text_changed=run.config.text.frozen_epochs is not None)
        finally:
            run.folder = folder


def _new_run(data: PreparedData, config: Config, folder: Path, graph: KnowledgeGraph, processes: Processes, access: _Access) -> Run:
    """A new model, the same in every process. After that, each process has its own random numbers."""
    if graph.fingerprint != data.about["graph_fingerprint"]:
        raise UserError(f"{data.folder} was prepared from another graph than {graph.folder or 'the given one'}.")
    if graph.folder is None:
        raise UserError("save the graph first; a run stores the folder of its graph.")
    set_seed(config.seed)
    encoder = load_text_encoder(config.text, *access).to(processes.device)
    trains_text = config.text.frozen_epochs is not None
    untrained = load_text_encoder(config.text, *access).to(processes.device) if trains_text else encoder
    features = features_for(config, graph, untrained)
    model = build_model(config, encoder, features.dim, 2 * len(graph.schema))
    source = {"folder": place_of(data.folder), "fingerprint": data.fingerprint, **data.about["settings"]}
    likelihood = None
    if config.likelihood.model is not None:
        likelihood = Likelihood(config.likelihood, None, None, access.allow_download, access.allow_pickle)
    about = describe(config, graph, encoder, features, source, folder, likelihood) | {"processes": processes.count}
    if processes.index:
        set_seed(int(np.random.SeedSequence([config.seed, processes.index]).generate_state(1)[0]))
    return Run(folder, about, config, graph, encoder, features, model.to(processes.device), untrained, likelihood=likelihood)


def check_same(folder: Path, about: dict[str, Any]) -> None:
    """Refuse to resume an unfinished run with other settings, data or weights."""
    before = read_about(folder)
    if different := differences(before, about):
        more = f", and {len(different) - 3} more" if len(different) > 3 else ""
        raise UserError(
            f"{folder} contains an unfinished run with different settings: {'; '.join(different[:3])}{more}. To resume it, use the"
            f" same settings and data. Otherwise name another folder, or start over with --force."
        )
    changed = [f"{k} {v}" for k, v in before.get("versions", {}).items() if about["versions"].get(k) != v]
    if changed:
        say(f"note: {folder} was started with {', '.join(changed)}; numbers may differ in their last digits from here on.")


@contextmanager
def training_threads(count: int | None) -> Iterator[None]:
    """Compute with so many threads; None: with all."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
