"""mhgrn synthesize-open: make questions without choices from relation paths of a graph."""

from typing import Annotated

import typer

from mhgrn.cli._options import AsJson, Force, GraphFolder, Output
from mhgrn.cli._output import show, show_json
from mhgrn.cli.synthesize import numbers_of

PANEL = "Data"


def synthesize_open(
    graph: GraphFolder,
    output: Output,
    count: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 20_000,
    hops: Annotated[str, typer.Option(metavar="HOPS", help="Facts of a relation path: any of 1, 2 and 3.")] = "1,2,3",
    paths: Annotated[int, typer.Option(min=1, help="Most relation paths of each number of facts.")] = 100,
    max_answers: Annotated[int, typer.Option(min=1, help="Most answers of a question.")] = 50,
    split: Annotated[str, typer.Option(metavar="TRAIN,DEV,TEST", help="Shares of the splits.")] = "0.9,0.05,0.05",
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other questions.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make questions without choices from relation paths of a graph. Their answers are all concepts that a path leads to."""
    from mhgrn.io.folders import check_replaceable
    from mhgrn.open.synthesis import OpenSynthesisOptions
    from mhgrn.open.synthesis import synthesize_open as make
    from mhgrn.synthesis.synthesizing import HOLDS, MARKER

    options = OpenSynthesisOptions(
        count=count,
        hops=numbers_of("--hops", hops, int, "1,2,3"),
        paths=paths,
        max_answers=max_answers,
        split=numbers_of("--split", split, float, "0.9,0.05,0.05"),
        seed=seed,
    )
    check_replaceable(output, MARKER, HOLDS, force)
    about = make(graph, output, options).about
    if as_json:
        show_json({"questions": str(output), **{k: v for k, v in about.items() if k != "format"}})
        return
    show(f"{output}: {', '.join(f'{size:,} {name}' for name, size in about['splits'].items())} questions")
    show(f"  by facts: {', '.join(f'{hops}: {number:,}' for hops, number in about['hops'].items())}")
    show(f"  relation paths: {about['paths']:,}; answers a question: {about['answers']:g}")
    show(f"Next: mhgrn prepare {output} --kg {graph} -o prepared/")
