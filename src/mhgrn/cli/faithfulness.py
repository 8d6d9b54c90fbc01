"""mhgrn faithfulness: measure whether explanations name the facts that decide."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mhgrn.cli._options import (
    Address,
    AllowDownload,
    AllowPickle,
    AsJson,
    Device,
    EngineName,
    Force,
    NamedRun,
    RunData,
    RunEncoder,
    RunFeatures,
    RunGraph,
    Split,
    Store,
    file_to_write,
)
from mhgrn.cli._output import check_one_output, show, show_json

PANEL = "Train"


def faithfulness(
    run: NamedRun,
    split: Split = "dev",
    methods: Annotated[
        str | None, typer.Option("--methods", help="Names of methods, with commas. Unset: all.", show_default=False)
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Explain at most this many random questions. The rest uses the whole split.")
    ] = 200,
    limits: Annotated[
        int, typer.Option("--limits", min=0, help="Search for the attainable limits of at most this many of them; 0: none.")
    ] = 50,
    perturb: Annotated[
        int, typer.Option("--perturb", min=0, help="Perturb the graphs of at most this many random questions; 0: none.")
    ] = 400,
    beside: Annotated[
        Path | None,
        typer.Option("--beside", metavar="RUN", help="A run, such as one without a graph, to show beside.", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw deletion and insertion curves, .png or .svg.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="JSON file to write. With it, an interrupted measurement resumes.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random questions, facts and resamples.")] = 0,
    data: RunData = None,
    kg: RunGraph = None,
    features: RunFeatures = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    device: Device = "cpu",
    store: Store = False,
    engine: EngineName = "local",
    address: Address = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure how faithful each kind of explanation is to a run, and how much the run depends on its graph.

    Each method ranks the facts of a question. The model answers again without the first facts, and with these facts alone.
    For task=open, the first answer of each question is explained; --limits and --perturb have no effect.
    """
    from mhgrn.engines import engine_named, session_of
    from mhgrn.errors import UserError
    from mhgrn.faithfulness.methods import chosen_methods
    from mhgrn.faithfulness.plot import check_plots
    from mhgrn.faithfulness.plot import plot as draw
    from mhgrn.io.atomic import check_file_writable
    from mhgrn.io.remote import refuse_fetched
    from mhgrn.io.replacing import is_standard_output
    from mhgrn.open.run import OpenRun, is_open_run
    from mhgrn.starter import find_run, starter_data

    mapped = engine_named(engine, address)
    if mapped is not None and device != "cpu":
        raise UserError("the nodes of a cluster compute on processors; remove --device, or --engine.")
    check_one_output(output, as_json)
    names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    folder = Path(find_run(run))
    if store:
        refuse_fetched(folder, "measurements")
    is_open = is_open_run(folder)
    if not is_open:
        chosen_methods(names)
    elif plot is not None or beside is not None:
        raise UserError(f"{'--plot' if plot is not None else '--beside'} is for runs of questions with choices.")
    if plot is not None:
        check_plots()
        check_file_writable(plot, force)
    if output is not None:
        check_file_writable(output, force)

    from mhgrn.faithfulness import faithfulness as measure
    from mhgrn.faithfulness.open import faithfulness_open, report_open
    from mhgrn.faithfulness.report import report
    from mhgrn.open.data import OpenData
    from mhgrn.runs import Run, find_data

    keeps = output is not None and not is_standard_output(output)
    progress_file = output.with_name(f"{output.name}.partial") if output is not None and keeps else None
    file, prints_json = output if keeps else None, as_json or (output is not None and not keeps)
    loaded_with = {"kg": kg, "encoder": encoder, "allow_download": allow_download, "allow_pickle": allow_pickle}
    if is_open:
        ranked = OpenRun.load(folder, kg, encoder, allow_download, allow_pickle)
        of_data = ranked.find_data() if data is None else OpenData.load(data)
        with session_of(mapped, file) as session:
            measured = faithfulness_open(ranked, of_data, split, names, limit, seed, progress_file, session, loaded_with)
            _give(measured.to_dict(), report_open(measured), file, prints_json)
        return
    prepared = starter_data() if data is None and str(run) == "starter" else find_data(folder, data)
    trained = Run.load(folder, kg, features, encoder, allow_download, allow_pickle)
    other = None if beside is None else Run.load(Path(find_run(beside)), kg, None, encoder, allow_download, allow_pickle)
    loaded_with |= {"features": features}
    numbers = names, limit, limits, perturb, other, seed, device, progress_file
    with session_of(mapped, file) as session:
        found = measure(trained, prepared, split, *numbers, session, loaded_with)
        if store:
            from mhgrn.sharing import store_faithfulness

            store_faithfulness(trained, found.to_dict())
        if plot is not None:
            draw(found, plot)
        _give(found.to_dict(), report(found), file, prints_json)


def _give(found: dict[str, Any], text: str, file: Path | None, as_json: bool) -> None:
    """Write the result to a file, if there is one, and show it."""
    from mhgrn.io.atomic import write_text
    from mhgrn.printing import strict_json

    if file is not None:
        write_text(file, strict_json(found) + "\n")
    if as_json:
        show_json(found)
    else:
        show(text)
