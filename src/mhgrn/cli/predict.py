"""mhgrn predict: answer a file of questions."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mhgrn.cli._options import (
    AllowDownload,
    AllowPickle,
    Dataset,
    Device,
    Force,
    RunEncoder,
    RunFeatures,
    RunFolder,
    RunGraph,
    file_to_write,
)
from mhgrn.cli._output import show_written

PANEL = "Ask"


def predict(
    run: RunFolder,
    questions: Annotated[Path, typer.Argument(help="JSON lines, JSON, CSV, TSV (also .gz) or Parquet.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="JSON lines to write; - is standard output.",
            show_default=False,
        ),
    ],
    dataset: Dataset = None,
    kg: RunGraph = None,
    features: RunFeatures = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    paths: Annotated[int, typer.Option(min=1, max=1000, help="Number of paths per answer, best first.")] = 1,
    effects: Annotated[
        bool, typer.Option("--effects", help="Add the answer's probability without each fact shown, and without the graph.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions to answer together. More need more memory.")] = 64,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Answer every question of a file. Each line of the output is one answer with its probabilities and best paths."""
    from mhgrn.errors import UserError
    from mhgrn.io.atomic import check_file_writable, write_text
    from mhgrn.questions.reading import read_questions

    check_file_writable(output, force)
    if output.exists() and questions.exists() and output.samefile(questions):
        raise UserError(f"{output} is the file of questions; name another file to write to.")
    asked = list(read_questions(questions, dataset))
    if not asked:
        raise UserError(f"{questions} contains no questions.")
    from mhgrn.starter import load

    qa = load(run, kg, features, device, encoder, allow_download, allow_pickle)
    rows: list[dict[str, Any]] = []
    answers = qa.ask_many(asked, batch_size=batch_size, paths=paths, effects=effects)
    for question, answer in zip(asked, answers, strict=True):
        label = question.label(list(answer.probabilities).index(answer.choice))
        rows.append({"id": question.id, "answerKey": label, **answer.to_dict()})
    write_text(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    known = [(q.label(q.answer), row["answerKey"]) for q, row in zip(asked, rows, strict=True) if q.answer is not None]
    accuracy = f", {sum(a == b for a, b in known) / len(known):.1%} right" if known else ""
    show_written(output, f"{len(rows):,} answers{accuracy}")
