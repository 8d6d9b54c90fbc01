"""mhgrn data: look into data sets of questions."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look at questions and what was prepared from them.", no_args_is_help=True)

Prepared = Annotated[Path, typer.Argument(metavar="PREPARED", help="Folder of a prepared data set.", show_default=False)]
Kg = Annotated[Path | None, typer.Option("--kg", help="The data's graph, if it has moved.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SHOWN = 20


@app.command()
def check(
    questions: Annotated[
        Path,
        typer.Argument(
            help="A YAML file that declares a data set, a folder with train*, dev* and test* files, or one file.",
            show_default=False,
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", help="A known data set's name or a YAML file, to read the questions by.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count a data set's questions and say everything that is wrong with them, by file and line; exit code 2 if anything is."""
    from mhgrn.errors import UserError
    from mhgrn.questions.question import check_questions

    found = check_questions(questions, dataset)
    if as_json:
        print(json.dumps(asdict(found), ensure_ascii=False))
    else:
        for split, counts in found.splits.items():
            fewest, most = counts.choices
            choices = f"{fewest}" if fewest == most else f"{fewest}–{most}"
            print(f"{split:<6}{counts.questions:>9,} questions, {choices} choices, {counts.answered:,} with answers")
        total = sum(counts.questions for counts in found.splits.values())
        repeated = f"{found.repeated:,} of them in more than one split" if found.repeated else "none in more than one split"
        print(f"in all{total:>9,} questions, {repeated}; {found.statements:,} statements ({found.dataset})")
    if found.problems:
        many = len(found.problems)
        more = [f"… and {many - SHOWN:,} more"] if many > SHOWN else []
        raise UserError("\n".join([f"{many:,} problem{'s' * (many > 1)} in {questions}", *found.problems[:SHOWN], *more]))


@app.command()
def draw(
    prepared: Prepared,
    question: Annotated[str, typer.Argument(metavar="ID", help="A question's id.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Image to write, .svg or .png.", show_default=False)],
    choice: Annotated[
        str | None, typer.Option(metavar="LABEL", help="A choice's label. Unset: the right one's.", show_default=False)
    ] = None,
    split: Annotated[str | None, typer.Option(help="The question's split, if several have its id.", show_default=False)] = None,
    max_nodes: Annotated[int, typer.Option(min=1, help="Nodes to draw at most.")] = 40,
    max_arrows: Annotated[int, typer.Option(min=1, help="Arrows to draw at most; one has all relations of its ends.")] = 80,
    kg: Kg = None,
    as_json: AsJson = False,
) -> None:
    """Draw the subgraph of a question and one of its choices."""
    from mhgrn.drawing import Limits, check_image, picture_of_question
    from mhgrn.drawing import draw as draw_picture
    from mhgrn.subgraphs.prepared import PreparedData

    check_image(output)
    data = PreparedData.load(prepared)
    picture = picture_of_question(data, data.load_graph(kg), question, choice, Limits(max_nodes, max_arrows), split)
    draw_picture(picture, output)
    print(json.dumps({"file": str(output), **picture.counts}) if as_json else f"{output}: {picture.shown}")


@app.command()
def report(
    prepared: Prepared,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for report.json and paths.png.", show_default=False)
    ] = None,
    hops: Annotated[int, typer.Option(min=1, max=16, help="Count paths of up to so many hops.")] = 5,
    kg: Kg = None,
    as_json: AsJson = False,
) -> None:
    """Concepts found, sizes of subgraphs, and the number of paths in them by nodes and by hops."""
    from mhgrn.subgraphs.prepared import PreparedData
    from mhgrn.subgraphs.report import check_output
    from mhgrn.subgraphs.report import report as make_report

    if output is not None:
        check_output(output)
    made = make_report(PreparedData.load(prepared), hops, kg)
    if output is not None:
        made.save(output)
    print(json.dumps(made.to_dict(), ensure_ascii=False) if as_json else made)
