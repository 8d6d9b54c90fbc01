"""mhgrn prepare: ground questions in a graph and extract their subgraphs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhgrn.cli._options import Address, AsJson, Dataset, EngineName, Force, Output, Questions
from mhgrn.cli._output import show, show_json

if TYPE_CHECKING:
    from mhgrn.subgraphs.prepared import PrepareOptions

PANEL = "Data"


def prepare(
    questions: Questions,
    kg: Annotated[Path, typer.Option("--kg", help="Folder of a built graph, or its URL (s3://bucket/graph).", show_default=False)],
    output: Output,
    dataset: Dataset = None,
    statement: Annotated[
        str, typer.Option(help="How a question and a choice become a statement: fill-in-the-blank, append or auto (as declared).")
    ] = "auto",
    max_nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Largest number of nodes of a subgraph (published: 200). Unset: 10,000.", show_default=False),
    ] = None,
    max_facts: Annotated[
        int | None,
        typer.Option(min=1, help="Largest number of facts of a subgraph. Unset: 250,000.", show_default=False),
    ] = None,
    max_degree: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="For graphs with hubs: do not expand mentioned concepts that have more neighbors. Unset: expand all.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="TRAIN,DEV,TEST",
            help="Divide the questions of one file at random into splits, for example 0.8,0.1,0.1.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --split.")] = 0,
    open: Annotated[
        bool,
        typer.Option("--open", help="Drop the choices of questions: the right one is the answer, to be found in the whole graph."),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(help="Folder for a report with path counts, as `mhgrn data report` writes it.", show_default=False),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Unset: one per core.", show_default=False)] = None,
    engine: EngineName = "local",
    address: Address = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Ground questions in a graph and extract their subgraphs.

    Questions with answers and no choices are prepared for `mhgrn train --set task=open`.
    """
    from mhgrn.drawing.path_counts import check_report_folder, save_report
    from mhgrn.engines import engine_named
    from mhgrn.errors import UserError
    from mhgrn.io.folders import check_replaceable
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.questions.open import has_no_choices
    from mhgrn.subgraphs.prepared import DIVIDE_HINT, HOLDS, MARKER, PrepareOptions
    from mhgrn.subgraphs.prepared import prepare as prepare_data
    from mhgrn.subgraphs.report import report as make_report

    mapped = engine_named(engine, address)
    if mapped is not None and workers is not None:
        raise UserError("--workers is the number of threads of this machine; remove it, or --engine.")
    threads = workers or PrepareOptions.workers
    options = PrepareOptions(statement, max_nodes, max_degree, threads, dataset, max_facts, _shares(split), seed)
    if seed and split is None:
        raise UserError("--seed is the seed of --split; add --split, or remove --seed.")
    if open or has_no_choices(questions, dataset):
        if mapped is not None:
            raise UserError("questions without choices are prepared on this machine; remove --engine.")
        _prepare_open(questions, kg, output, options, force, as_json)
        return
    check_replaceable(output, MARKER, HOLDS, force)
    if report is not None:
        check_report_folder(report, force)
        if report.resolve() == output.resolve():
            raise UserError(f"{output} cannot hold both the data and its report; name another folder with --report.")
    data = prepare_data(questions, KnowledgeGraph.load(kg), output, options, mapped)
    if report is not None:
        save_report(make_report(data, kg=kg), report)
    about = data.about
    if as_json:
        show_json({"prepared": str(output), **{k: about[k] for k in ("splits", "statements", "settings", "report")}})
        return
    splits = ", ".join(f"{count:,} {split}" for split, count in about["splits"].items())
    show(f"{output}: {splits} questions, {about['statements']:,} statements ({about['settings']['statement']})")
    for name, value in about["report"].items():
        shown = ", ".join(f"{k} {v:,}" for k, v in value.items()) if isinstance(value, dict) else f"{value:,}"
        show(f"  {name}: {shown}")
    if list(about["splits"]) == ["test"]:
        show(f"  All questions are in the split test. {DIVIDE_HINT}")


def _prepare_open(questions: Path, kg: Path, output: Path, options: "PrepareOptions", force: bool, as_json: bool) -> None:
    from mhgrn.io.folders import check_replaceable
    from mhgrn.open.data import HOLDS, MARKER, prepare_open

    check_replaceable(output, MARKER, HOLDS, force)
    about = prepare_open(questions, kg, output, options.dataset, options.split, options.seed).about
    if as_json:
        show_json({"prepared": str(output), **{key: about[key] for key in ("splits", "marks", "report")}})
        return
    splits = ", ".join(f"{count:,} {split}" for split, count in about["splits"].items())
    show(f"{output}: {splits} questions without choices")
    for name, value in about["report"].items():
        show(f"  {name}: {value:,}")
    show(f"Next: mhgrn train --data {output} -o run/ --set task=open")


def _shares(split: str | None) -> list[float] | None:
    from mhgrn.errors import UserError
    from mhgrn.printing import shortened

    try:
        return None if split is None else [float(share) for share in split.split(",")]
    except ValueError:
        raise UserError(f"--split {shortened(split)}: give three numbers, for example 0.8,0.1,0.1.") from None
