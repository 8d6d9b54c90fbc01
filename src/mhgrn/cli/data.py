"""mhgrn data: look at prepared questions."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look at questions and what was prepared from them.", no_args_is_help=True)

Prepared = Annotated[Path, typer.Argument(metavar="PREPARED", help="Folder of a prepared data set.", show_default=False)]
Kg = Annotated[Path | None, typer.Option("--kg", help="The data's graph, if it has moved.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def draw(
    prepared: Prepared,
    question: Annotated[str, typer.Argument(metavar="ID", help="A question's id.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Image to write, .svg or .png.", show_default=False)],
    choice: Annotated[
        str | None, typer.Option(metavar="LABEL", help="A choice's label. Unset: the right one's.", show_default=False)
    ] = None,
    max_nodes: Annotated[int, typer.Option(min=1, help="Nodes to draw at most.")] = 40,
    max_arrows: Annotated[int, typer.Option(min=1, help="Arrows to draw at most; one has all relations of its ends.")] = 80,
    kg: Kg = None,
    as_json: AsJson = False,
) -> None:
    """Draw the subgraph of a question and one of its choices."""
    from mhgrn.data.prepared import PreparedData
    from mhgrn.drawing import Limits, check_image, picture_of_question
    from mhgrn.drawing import draw as draw_picture

    check_image(output)
    data = PreparedData.load(prepared)
    picture = picture_of_question(data, data.load_graph(kg), question, choice, Limits(max_nodes, max_arrows))
    draw_picture(picture, output)
    print(json.dumps({"file": str(output), **picture.counts}) if as_json else f"{output}: {picture.shown}")


@app.command()
def report(
    prepared: Prepared,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for report.json and paths.png.", show_default=False)
    ] = None,
    hops: Annotated[int, typer.Option(min=1, max=16, help="Count paths of up to so many hops.")] = 5,
    questions: Annotated[
        Path | None,
        typer.Option(help="What was prepared: counts how many question_concept of these files were found.", show_default=False),
    ] = None,
    kg: Kg = None,
    as_json: AsJson = False,
) -> None:
    """Concepts found, sizes of subgraphs, and the number of paths in them by nodes and by hops."""
    from mhgrn.data.prepared import PreparedData
    from mhgrn.data.report import check_output, read_question_concepts
    from mhgrn.data.report import report as make_report

    if output is not None:
        check_output(output)
    data = PreparedData.load(prepared)
    concepts = read_question_concepts(questions) if questions else None
    made = make_report(data, hops, data.load_graph(kg) if questions else None, concepts)
    if output is not None:
        made.save(output)
    print(json.dumps(made.to_dict(), ensure_ascii=False) if as_json else made)
