"""mhgrn faithfulness: measure whether explanations name the facts that decide."""

from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import (
    AllowDownload,
    AllowPickle,
    AsJson,
    Device,
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
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Measure how faithful each kind of explanation is to a run, and how much the run depends on its graph.

    Each method ranks the facts of a question. The model answers again without the first facts, and with these facts alone.
    """
    from mhgrn.faithfulness.methods import chosen_methods
    from mhgrn.faithfulness.plot import check_plots
    from mhgrn.faithfulness.plot import plot as draw
    from mhgrn.io.atomic import check_file_writable, write_text
    from mhgrn.io.replacing import is_standard_output
    from mhgrn.printing import strict_json

    check_one_output(output, as_json)
    names = None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]
    chosen_methods(names)
    if plot is not None:
        check_plots()
        check_file_writable(plot, force)
    if output is not None:
        check_file_writable(output, force)

    from mhgrn.faithfulness import faithfulness as measure
    from mhgrn.faithfulness.report import report
    from mhgrn.runs import Run, find_data
    from mhgrn.starter import find_run, starter_data

    folder = Path(find_run(run))
    prepared = starter_data() if data is None and str(run) == "starter" else find_data(folder, data)
    trained = Run.load(folder, kg, features, encoder, allow_download, allow_pickle)
    other = None if beside is None else Run.load(Path(find_run(beside)), kg, None, encoder, allow_download, allow_pickle)
    keeps = output is not None and not is_standard_output(output)
    progress_file = output.with_name(f"{output.name}.partial") if output is not None and keeps else None
    found = measure(trained, prepared, split, names, limit, limits, perturb, other, seed, device, progress_file)
    if store:
        from mhgrn.sharing import store_faithfulness

        store_faithfulness(trained, found.to_dict())
    if plot is not None:
        draw(found, plot)
    if output is not None and keeps:
        write_text(output, strict_json(found.to_dict()) + "\n")
    if as_json or (output is not None and not keeps):
        show_json(found.to_dict())
    else:
        show(report(found))
