"""mhgrn synthesize: make questions from the facts of a graph."""

from typing import Annotated, TypeVar

import typer

from mhgrn.cli._options import AsJson, Force, GraphFolder, Output
from mhgrn.cli._output import show, show_json

PANEL = "Data"
Number = TypeVar("Number", int, float)


def synthesize(
    graph: GraphFolder,
    output: Output,
    count: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 50_000,
    choices: Annotated[int, typer.Option(min=2, help="Choices of a question.")] = 5,
    hops: Annotated[str, typer.Option(metavar="HOPS", help="Facts that a question is made of: 1, 2, or 1,2 for both.")] = "1,2",
    distractors: Annotated[
        str, typer.Option(help="How wrong choices are found: random, same-relation, near-graph, near-text or mixed.")
    ] = "mixed",
    hide: Annotated[float, typer.Option(help="Share of the questions whose facts are hidden from their own subgraphs.")] = 0.5,
    combined: Annotated[
        float, typer.Option(help="Share of the questions about one fact that say a second one; wrong choices fit the first.")
    ] = 0.0,
    negated: Annotated[
        float, typer.Option(help="Share of the questions about one fact that ask for what does not fit, where the graph allows.")
    ] = 0.0,
    split: Annotated[str, typer.Option(metavar="TRAIN,DEV,TEST", help="Shares of the splits.")] = "0.96,0.02,0.02",
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other questions.")] = 0,
    temperature: Annotated[
        float, typer.Option(help="Draw relations by the number of their facts to this power; 0 draws all equally often.")
    ] = 0.5,
    min_degree: Annotated[int, typer.Option(min=1, help="Do not use concepts with fewer neighbors.")] = 2,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. Unset: one per core.", show_default=False)] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make multiple-choice questions from the facts of a graph."""
    from mhgrn.io.folders import check_replaceable
    from mhgrn.synthesis.options import SynthesisOptions
    from mhgrn.synthesis.synthesizing import HOLDS, MARKER
    from mhgrn.synthesis.synthesizing import synthesize as make

    options = SynthesisOptions(
        count=count,
        choices=choices,
        hops=numbers_of("--hops", hops, int, "1,2"),
        distractors=distractors,
        hide=hide,
        combined=combined,
        negated=negated,
        split=numbers_of("--split", split, float, "0.96,0.02,0.02"),
        seed=seed,
        temperature=temperature,
        min_degree=min_degree,
        workers=workers or SynthesisOptions.workers,
    )
    check_replaceable(output, MARKER, HOLDS, force)
    about = make(graph, output, options).about
    if as_json:
        show_json({"questions": str(output), **{k: v for k, v in about.items() if k != "format"}})
        return
    show(f"{output}: {', '.join(f'{size:,} {name}' for name, size in about['splits'].items())} questions")
    show(f"  hidden facts: {about['hidden']:,} questions")
    for title in ("kinds", "distractors", "relations"):
        counts = list(about[title].items())
        more = f", and {len(counts) - 8} more" if len(counts) > 8 else ""
        show(f"  {title}: {', '.join(f'{name} {number:,}' for name, number in counts[:8])}{more}")
    show(f"Next: mhgrn prepare {output} --kg {graph} -o prepared/")


def numbers_of(option: str, text: str, kind: type[Number], example: str) -> list[Number]:
    """The numbers of an option that takes several, separated by commas."""
    from mhgrn.errors import UserError
    from mhgrn.printing import shortened

    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {shortened(text)}: give numbers, for example {example}.") from None
