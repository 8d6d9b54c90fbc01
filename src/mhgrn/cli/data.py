"""mhgrn data: look into data sets of questions."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check files of questions.", no_args_is_help=True)

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
    from mhgrn.data.questions import check_questions
    from mhgrn.errors import UserError

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
