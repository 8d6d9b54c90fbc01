"""mhgrn reproduce and mhgrn report: run the paper's experiments."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from mhgrn.cli._options import Address, EngineName
from mhgrn.errors import UserError
from mhgrn.printing import strict_json
from mhgrn_reproduction.titles import OPEN, PRINTED, TRAINED

PANEL = "Reproduce the paper"
app = typer.Typer(
    help="Run the paper's experiments, one command for each table or figure.", no_args_is_help=True, rich_help_panel=PANEL
)

Data = Annotated[
    Path,
    typer.Option(
        "--data",
        help="Folder with conceptnet/, commonsenseqa/ (or csqa/), openbookqa/ (or obqa/). Unset: the current"
        " folder. Download them with `mhgrn fetch`.",
        show_default=False,
    ),
]
Kg = Annotated[Path | None, typer.Option("--kg", help="A built graph, instead of building one.", show_default=False)]
RunKg = Annotated[
    Path | None,
    typer.Option("--kg", help="The graph, if it has moved, or another one with the same relations.", show_default=False),
]
Encoder = Annotated[
    str,
    typer.Option(
        help="minilm (frozen), minilm-tuned, minilm-knowledge (tuned on the graph, frozen; also -short, -trained and -without),"
        " bert-base, bert-large, roberta-large, or a YAML file of settings."
    ),
]
UsualEncoder = Annotated[
    str | None, typer.Option("--encoder", help="Text encoder. Unset: the experiment's default.", show_default=False)
]
EncoderFolder = Annotated[
    Path | None,
    typer.Option(
        help="A folder of `mhgrn text tune`, tuned as the settings of --encoder say, instead of tuning.", show_default=False
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Option("--questions", metavar="FILE", help="A file of questions to evaluate too; may be repeated.", show_default=False),
]


def _writable(folder: Path) -> Path:
    """Check that a folder can be written, before any work is done."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"{there} is not a folder; name another one with --results.")
    if not os.access(there, os.W_OK):
        raise UserError(f"{there} cannot be written to; name another folder with --results.")
    return folder


Results = Annotated[Path, typer.Option(help="Folder for results.", callback=_writable)]
Finished = Annotated[Path, typer.Option("--results", help="Folder of results.")]
Work = Annotated[
    Path | None,
    typer.Option(help="Folder for graphs, prepared questions and runs. Unset: in the user's cache folder.", show_default=False),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting for all systems; results record it.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seeds = Annotated[int, typer.Option(min=1, help="Number of seeds; the paper has 4.")]
Systems = Annotated[
    str | None, typer.Option(help="Comma-separated names, see `list`. Unset: all that are not optional.", show_default=False)
]
Budget = Annotated[
    str | None,
    typer.Option(help="Time limit, e.g. 30m. Reduces seeds, then epochs, then questions; results record it.", show_default=False),
]
Force = Annotated[bool, typer.Option("--force", help="Replace results of other settings, and discard the plan of a budget.")]
Replace = Annotated[bool, typer.Option("--force", help="Replace a result of other inputs.")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs at the same time.")]
RESULTS, HERE = Path("results"), Path()


def _usual(experiment: str) -> str:
    """The default text encoder of an experiment."""
    return TRAINED[experiment].encoder if experiment in TRAINED else "minilm"


def _sources(data: Path, work: Path | None, kg: Path | None) -> Any:
    from mhgrn_reproduction.sources import Sources, default_work

    return Sources(data, work or default_work(), kg)


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List experiments, their systems, and text encoders."""
    from mhgrn_reproduction.papers import Experiment, TextSettings

    experiments = [
        {"name": name, "paper": about.place, "title": about.title, "systems": list(Experiment.named(name).systems)}
        for name, about in TRAINED.items()
    ]
    experiments += [{"name": name, "paper": about.place, "title": about.title} for name, about in PRINTED.items()]
    encoders = {name: TextSettings.named(name).label for name in TextSettings.shipped()}
    if as_json:
        print(strict_json({"experiments": experiments, "encoders": encoders}))
        return
    for row in experiments:
        print(f"{row['name']:<15} {row['paper']:<18} {row['title']}")
        if "systems" in row:
            print(f"{'':<15} {'':<18} {_short(row['systems'])}")
    print("text encoders:  " + ", ".join(f"{name} ({label})" for name, label in encoders.items()))


def _short(systems: Any) -> str:
    """The names of systems; a varied system appears once, with its number of values."""
    bases: dict[str, int] = {}
    for name in systems:
        base = str(name).partition("@")[0]
        bases[base] = bases.get(base, 0) + ("@" in name)
    return ", ".join(f"{base} × {count}" if count else base for base, count in bases.items())


def _run(
    name: str,
    data: Path,
    encoder: str,
    seeds: int,
    systems: str | None,
    budget: str | None,
    jobs: int,
    settings: list[str] | None,
    results: Path,
    work: Path | None,
    kg: Path | None,
    engine: str,
    address: str | None,
    force: bool,
    as_json: bool,
    encoder_folder: Path | None,
    questions: list[Path] | None = None,
) -> None:
    from mhgrn.engines import engine_named
    from mhgrn.progress import seconds_of
    from mhgrn_reproduction.experiment_setup import Request
    from mhgrn_reproduction.runner import reproduce
    from mhgrn_reproduction.tables import markdown

    mapped = engine_named(engine, address)
    names = [part.strip() for part in systems.split(",") if part.strip()] if systems is not None else None
    seconds = seconds_of(budget) if budget is not None else None
    request = Request(
        name,
        encoder,
        _sources(data, work, kg),
        results,
        seeds,
        names,
        seconds,
        jobs,
        settings or [],
        force,
        encoder_folder,
        questions or [],
        mapped,
    )
    summary = reproduce(request)
    print(strict_json(summary) if as_json else markdown(summary), end="\n" if as_json else "")


def _command(name: str) -> Callable[..., None]:
    def run(
        data: Data = HERE,
        encoder: Encoder = TRAINED[name].encoder,
        encoder_folder: EncoderFolder = None,
        seeds: Seeds = 4,
        systems: Systems = None,
        budget: Budget = None,
        jobs: Jobs = 1,
        settings: Settings = None,
        results: Results = RESULTS,
        work: Work = None,
        kg: Kg = None,
        engine: EngineName = "local",
        address: Address = None,
        force: Force = False,
        as_json: AsJson = False,
    ) -> None:
        _run(name=name, **{option: value for option, value in locals().items() if option != "name"})

    return run


def zero_shot(
    data: Data = HERE,
    questions: Files = None,
    encoder: Encoder = TRAINED["zero-shot"].encoder,
    encoder_folder: EncoderFolder = None,
    seeds: Seeds = 4,
    systems: Systems = None,
    budget: Budget = None,
    jobs: Jobs = 1,
    settings: Settings = None,
    results: Results = RESULTS,
    work: Work = None,
    kg: Kg = None,
    engine: EngineName = "local",
    address: Address = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    _run(name="zero-shot", **locals())


@app.command("run")
def run_own(
    experiment: Annotated[Path, typer.Argument(help="YAML file that describes an experiment.", show_default=False)],
    data: Data = HERE,
    questions: Files = None,
    encoder: Encoder = "minilm",
    encoder_folder: EncoderFolder = None,
    seeds: Seeds = 4,
    systems: Systems = None,
    budget: Budget = None,
    jobs: Jobs = 1,
    settings: Settings = None,
    results: Results = RESULTS,
    work: Work = None,
    kg: Kg = None,
    engine: EngineName = "local",
    address: Address = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Run your own experiment, described in a YAML file."""
    given = dict(locals())
    from mhgrn.settings import read_yaml

    read_yaml(given.pop("experiment"), "an experiment")
    _run(name=str(experiment), **given)


def _print_result(
    found: dict[str, Any], folder: Path, as_json: bool, draw: Callable[[Path], None] | None = None, replace: bool = True
) -> None:
    from mhgrn_reproduction.printed import markdown, save

    save(found, folder, draw, replace)
    print(strict_json(found) if as_json else markdown(found), end="\n" if as_json else "")


def properties(results: Results = RESULTS, as_json: AsJson = False) -> None:
    """Table 1: which graph encoders use relations, show paths, and do not enumerate paths."""
    from mhgrn_reproduction import encoder_tables

    _print_result(encoder_tables.properties(), results / "properties", as_json)


def parameters(results: Results = RESULTS, as_json: AsJson = False) -> None:
    """Table 11: the number of trained parameters of every graph encoder."""
    from mhgrn_reproduction import encoder_tables

    _print_result(encoder_tables.parameters(), results / "parameters", as_json)


def splits(data: Data = HERE, results: Results = RESULTS, as_json: AsJson = False) -> None:
    """Table 8: the number of questions in every split."""
    from mhgrn_reproduction import data_tables

    _print_result(data_tables.splits(_sources(data, None, None)), results / "splits", as_json)


def scalability(results: Results = RESULTS, as_json: AsJson = False) -> None:
    """Table 2 and figure 7: time of a training step by hops and nodes, on random graphs."""
    from mhgrn_reproduction.scalability import draw_scalability
    from mhgrn_reproduction.scalability import scalability as measure

    found = measure()
    _print_result(found, results / "scalability", as_json, lambda path: draw_scalability(found, path))


def path_counts(
    data: Data = HERE,
    dataset: Annotated[str, typer.Option(help="A dataset in --data.")] = "commonsenseqa",
    hops: Annotated[int, typer.Option(min=1, max=16, help="Largest number of hops.")] = 5,
    results: Results = RESULTS,
    work: Work = None,
    kg: Kg = None,
    force: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Figure 2: relational paths by hops and by nodes of the subgraph."""
    from mhgrn_reproduction import data_tables
    from mhgrn_reproduction.papers import TextSettings

    prepared = _sources(data, work, kg).prepared(dataset, TextSettings.named("minilm"))
    found, draw = data_tables.path_counts(prepared, hops)
    _print_result(found, results / "path-counts", as_json, draw, force)


def cases(
    run: Annotated[Path, typer.Option("--run", help="Folder of a trained run, e.g. one in the work folder.", show_default=False)],
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    count: Annotated[int, typer.Option(min=1, max=1000, help="Number of correct answers, and of wrong ones.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choice of questions.")] = 0,
    data: Annotated[Path | None, typer.Option("--data", help="Prepared data, if it has moved.", show_default=False)] = None,
    kg: RunKg = None,
    results: Results = RESULTS,
    force: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Figure 8: random questions with the paths behind their answers, and the paper's examples."""
    from mhgrn_reproduction.cases import cases as find_cases

    _print_result(find_cases(run, split, count, seed, data, kg), results / "cases", as_json, None, force)


def breakdown(
    data: Data = HERE,
    name: Annotated[str, typer.Option("--of", help="A finished experiment.")] = "csqa-inhouse",
    encoder: UsualEncoder = None,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    baseline: Annotated[str, typer.Option(help="The system that others are compared with.")] = "none",
    results: Results = RESULTS,
    work: Work = None,
    kg: Kg = None,
    force: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Accuracy of each system of a finished experiment by kind of question."""
    from mhgrn_reproduction.analysis import breakdown as break_down
    from mhgrn_reproduction.documents import results_of
    from mhgrn_reproduction.papers import Experiment, TextSettings

    encoder = encoder or _usual(name)
    folder = results / Path(name).stem / Path(encoder).stem
    results_of(results, name, encoder)  # checked before anything is built
    if Experiment.named(name).evaluate:
        raise UserError(f"{name} evaluates several datasets; a breakdown needs an experiment with one.")
    prepared = _sources(data, work, kg).prepared(Experiment.named(name).data, TextSettings.named(encoder))
    _print_result(break_down(folder, prepared, split, baseline), results / "breakdown", as_json, None, force)


def curves(
    name: Annotated[str, typer.Option("--of", help="A finished experiment.")] = "csqa-inhouse",
    encoder: UsualEncoder = None,
    results: Results = RESULTS,
    force: Replace = False,
    as_json: AsJson = False,
) -> None:
    """Training loss and dev accuracy by epoch, for each system of a finished experiment."""
    from mhgrn_reproduction.analysis import curves as read_curves
    from mhgrn_reproduction.documents import results_of

    encoder = encoder or _usual(name)
    results_of(results, name, encoder)
    found, draw = read_curves(results / Path(name).stem / Path(encoder).stem)
    _print_result(found, results / "curves", as_json, draw, force)


def _open_command(name: str) -> Callable[..., None]:
    def run(
        data: Data = HERE,
        seeds: Seeds = 4,
        systems: Systems = None,
        settings: Settings = None,
        results: Results = RESULTS,
        work: Work = None,
        kg: Kg = None,
        engine: EngineName = "local",
        address: Address = None,
        as_json: AsJson = False,
    ) -> None:
        from mhgrn.engines import engine_named
        from mhgrn_reproduction.open_experiments import Place, run_experiment

        names = [part.strip() for part in systems.split(",") if part.strip()] if systems is not None else None
        place, mapped = Place(_sources(data, work, kg), results / name), engine_named(engine, address)
        _print_result(run_experiment(name, place, seeds, names, settings or [], mapped), results / name, as_json)

    return run


@app.command()
def table(
    name: Annotated[str | None, typer.Argument(help="An experiment's name.", show_default=False)] = None,
    encoder: Annotated[str | None, typer.Option(help="Text encoder. Unset: all that have results.", show_default=False)] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Update the tables of a Markdown file, each between <!-- NAME ENCODER --> and <!-- end -->."),
    ] = None,
    results: Finished = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Print finished results as Markdown, from their summary.json."""
    from mhgrn.errors import UserError
    from mhgrn.progress import say
    from mhgrn_reproduction import documents, printed, tables

    if (name is None) == (into is None):
        raise UserError("name an experiment, or a file whose tables to update with --into.")
    if into is not None:
        say(f"{into}: {documents.refresh(into, results)} tables")
        return
    assert name is not None
    found = documents.results_of(results, name, encoder)
    shown = [printed.markdown(each) if "encoder" not in each else tables.markdown(each) for each in found]
    print(strict_json(found) if as_json else "\n".join(shown), end="\n" if as_json else "")


@app.command()
def plots(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the pictures.")] = Path(),
    results: Finished = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Draw accuracy.svg and speed.svg from finished results."""
    from mhgrn_reproduction.plots import draw_plots

    drawn = [str(path) for path in draw_plots(results, output)]
    print(strict_json({"pictures": drawn}) if as_json else "\n".join(drawn))


@app.command()
def verify(
    name: Annotated[str, typer.Argument(help="An experiment's name, or its YAML file.", show_default=False)],
    cell: Annotated[str, typer.Option("--cell", metavar="SYSTEM:SEED", help="Which run, e.g. mhgrn:0.", show_default=False)],
    data: Data = HERE,
    encoder: UsualEncoder = None,
    results: Finished = RESULTS,
    work: Work = None,
    kg: Kg = None,
    as_json: AsJson = False,
) -> None:
    """Run one finished cell again and compare every answer; exit code 1 if any differs."""
    from mhgrn_reproduction.experiment_setup import Request
    from mhgrn_reproduction.runner import verify as run_again

    found = run_again(Request(name, encoder or _usual(name), _sources(data, work, kg), results), cell)
    if as_json:
        print(strict_json(found))
    else:
        for split, of in found["splits"].items():
            measured = f", accuracy {of['before']:.2%} → {of['now']:.2%}" if of["before"] is not None else ""
            print(f"{cell} {split}: {of['same']:,} of {of['questions']:,} answers are the same{measured}")
        for package, (before, now) in found["other_versions"].items():
            print(f"  {package}: {before} before, {now} now")
    if not found["same"]:
        raise typer.Exit(1)


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.", show_default=False)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File. Unset: DIR/report.html.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML page of all results."""
    from mhgrn_reproduction.page import write_page

    written = write_page(folder, output)
    print(strict_json({"page": str(written)}) if as_json else written)


def _add_experiments() -> None:
    for name, about in TRAINED.items():
        command = zero_shot if name == "zero-shot" else _command(name)
        app.command(name, help=f"{about.place[0].upper()}{about.place[1:]}: {about.title}.")(command)
    for printed in (properties, parameters, splits, scalability, path_counts, cases, breakdown, curves):
        app.command(printed.__name__.replace("_", "-"))(printed)
    for name in OPEN:
        app.command(name, help=f"{PRINTED[name].place[0].upper()}{PRINTED[name].place[1:]}: {PRINTED[name].title}.")(
            _open_command(name)
        )


_add_experiments()
