"""mhgrn data: check, draw and report datasets of questions."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mhgrn.cli._options import AsJson, DataGraph, Dataset, Force, Image, MaxNodes, Prepared, Questions, folder_to_write
from mhgrn.cli._output import check_one_output, show, show_json, show_written

app = typer.Typer(help="Check questions, draw and count prepared subgraphs.", no_args_is_help=True, rich_help_panel="Data")

SHOWN = 20  # problems


@app.command()
def check(
    questions: Questions,
    dataset: Dataset = None,
    as_json: AsJson = False,
) -> None:
    """Count the questions of a dataset and list its problems by file and line. Exit with 2 if there are any."""
    from mhgrn.errors import UserError
    from mhgrn.questions.reading import check_questions

    found = check_questions(questions, dataset)
    if as_json:
        show_json(asdict(found))
    else:
        for split, counts in found.splits.items():
            fewest, most = counts.choices
            choices = f"{fewest}" if fewest == most else f"{fewest}–{most}"
            show(f"{split:<6}{counts.questions:>9,} questions, {choices} choices, {counts.answered:,} with answers")
        total = sum(counts.questions for counts in found.splits.values())
        repeated = f"{found.repeated:,} of them in more than one split" if found.repeated else "none in more than one split"
        show(f"in all{total:>9,} questions, {repeated}; {found.statements:,} statements ({found.dataset})")
    if found.problems:
        many = len(found.problems)
        more = [f"… and {many - SHOWN:,} more"] if many > SHOWN else []
        raise UserError("\n".join([f"{many:,} problem{'s' * (many > 1)} in {questions}", *found.problems[:SHOWN], *more]))


@app.command()
def draw(
    prepared: Prepared,
    question: Annotated[str, typer.Argument(metavar="ID", help="A question's id.", show_default=False)],
    output: Image,
    choice: Annotated[
        str | None, typer.Option(metavar="LABEL", help="Label of a choice. Unset: the right choice.", show_default=False)
    ] = None,
    split: Annotated[str | None, typer.Option(help="The question's split, if its id is not unique.", show_default=False)] = None,
    max_nodes: MaxNodes = 40,
    max_arrows: Annotated[
        int, typer.Option(min=1, help="Largest number of arrows; one arrow stands for all relations of its ends.")
    ] = 80,
    kg: DataGraph = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw the subgraph of a question and one of its choices."""
    from mhgrn.drawing import PictureLimits, check_image, picture_of_question
    from mhgrn.drawing import draw as draw_picture
    from mhgrn.subgraphs.prepared import PreparedData

    check_image(output, force)
    check_one_output(output, as_json)
    data = PreparedData.load(prepared)
    picture = picture_of_question(data, data.load_graph(kg), question, choice, PictureLimits(max_nodes, max_arrows), split)
    draw_picture(picture, output)
    show_written(output, picture.shown, {"file": str(output), **picture.counts} if as_json else None)


@app.command()
def report(
    prepared: Prepared,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            parser=folder_to_write,
            help="Folder for report.json and paths.png.",
            show_default=False,
        ),
    ] = None,
    hops: Annotated[int, typer.Option(min=1, max=16, help="Longest paths to count, in hops.")] = 5,
    kg: DataGraph = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Report the concepts found, the sizes of the subgraphs, and the number of paths by nodes and hops."""
    from mhgrn.drawing.path_counts import check_report_folder, save_report
    from mhgrn.subgraphs.prepared import PreparedData
    from mhgrn.subgraphs.report import report as make_report

    if output is not None:
        check_report_folder(output, force)
    made = make_report(PreparedData.load(prepared), hops, kg)
    if output is not None:
        save_report(made, output)
    if as_json:
        show_json(made.to_dict())
    else:
        show(made)
