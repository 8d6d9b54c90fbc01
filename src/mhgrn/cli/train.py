"""mhgrn train: train a model on prepared data."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhgrn.cli._options import (
    Address,
    AllowDownload,
    AllowPickle,
    AsJson,
    ConfigFile,
    DataGraph,
    EngineName,
    RunEncoder,
    Settings,
    folder_to_write,
)
from mhgrn.cli._output import show, show_json

if TYPE_CHECKING:
    from mhgrn.config import Config
    from mhgrn.open.data import OpenData

PANEL = "Train"


def train(
    data: Annotated[Path, typer.Option("--data", help="Folder of a prepared dataset, or its URL.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", parser=folder_to_write, help="Folder of the run.", show_default=False),
    ],
    config: ConfigFile = None,
    settings: Settings = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Start with the weights of this run, for example one trained on synthesized questions. It has the same text"
            " encoder and model settings.",
            show_default=False,
        ),
    ] = None,
    kg: DataGraph = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    engine: EngineName = "local",
    address: Address = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="With --engine ray: processes that train together, each with its own batches. Unset: one per node.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Start over and replace the run in the folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model and keep its best epoch on dev. `mhgrn settings` lists all settings.

    Ctrl-C saves a checkpoint. The same command resumes from the last checkpoint, also after a crash. Under `torchrun`,
    or with `--engine ray` on a cluster, several processes train together.
    """
    from mhgrn.config import Config, given_settings, ignored_settings
    from mhgrn.engines import engine_named
    from mhgrn.errors import UserError
    from mhgrn.open.data import OpenData
    from mhgrn.progress import say
    from mhgrn.subgraphs.prepared import PreparedData

    is_on_ray = engine_named(engine, address) is not None
    if workers is not None and not is_on_ray:
        raise UserError("--workers is the number of processes of --engine ray; on one machine, use torchrun.")
    given = given_settings(config, settings)
    loaded_config = Config.of(given)
    if loaded_config.task == "open" or OpenData.is_at(data):
        if start_from is not None:
            raise UserError("--start-from is for questions with choices; remove it.")
        if is_on_ray:
            raise UserError("training on questions without choices uses one process; remove --engine.")
        for note in ignored_settings(loaded_config, given):
            say(f"note: {note}.")
        _train_open(loaded_config, OpenData.load(data), output, kg, force, (encoder, allow_download, allow_pickle), as_json)
        return
    loaded = PreparedData.load(data)
    graph = loaded.load_graph(kg)
    from mhgrn.training.distributed import Processes
    from mhgrn.training.loop import train as train_model

    if Processes().is_main:
        for note in ignored_settings(loaded_config, given):
            say(f"note: {note}.")
    how = (loaded, loaded_config, output, graph, force, encoder, allow_download, allow_pickle, start_from)
    if is_on_ray:
        from mhgrn.training.on_ray import train_on_ray

        run = train_on_ray(*how, address or "auto", workers)
    else:
        run = train_model(*how)
    if not Processes().is_main:
        return
    metrics = run.about.get("metrics", {})
    if as_json:
        show_json({"run": str(output), **metrics})
    elif metrics:
        show(f"{output}: dev accuracy {metrics['dev_accuracy']:.1%} (epoch {metrics['epoch']})")


def _train_open(
    config: "Config",
    data: "OpenData",
    output: Path,
    kg: Path | None,
    force: bool,
    access: tuple[str | None, bool, bool],
    as_json: bool,
) -> None:
    from mhgrn.errors import UserError
    from mhgrn.open.calibrating import calibrate_open
    from mhgrn.progress import say
    from mhgrn.training.open import train_open

    if config.task != "open":
        raise UserError(f"{data.folder} holds questions without choices; add --set task=open.")
    run = train_open(data, config, output, data.load_graph(kg), force, *access)
    metrics = run.about["metrics"]
    if config.training.calibrate:
        found = calibrate_open(run, data)
        error = [f"{found[name]['expected_calibration_error']:.1%}" for name in ("before", "after")]
        say(f"calibrated on dev: temperature {found['temperature']:.2f}, calibration error {error[0]} → {error[1]}")
    if as_json:
        show_json({"run": str(output), **metrics})
    else:
        show(f"{output}: dev hits@1 {metrics['dev_accuracy']:.1%}, MRR {metrics['dev_mrr']:.3f} (epoch {metrics['epoch']})")
