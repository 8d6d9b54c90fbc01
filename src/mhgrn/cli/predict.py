"""mhgrn predict: answer a file of questions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mhgrn.cli._options import (
    AllowDownload,
    AllowPickle,
    Dataset,
    Device,
    Force,
    NamedRun,
    PredictionFormat,
    RunEncoder,
    RunFeatures,
    RunGraph,
    TextPrecision,
    file_to_write,
)
from mhgrn.cli._output import show_written

PANEL = "Ask"


def predict(
    run: NamedRun,
    questions: Annotated[Path, typer.Argument(help="JSON lines, JSON, CSV, TSV (also .gz) or Parquet.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=file_to_write,
            help="File of predictions to write; - is standard output.",
            show_default=False,
        ),
    ],
    format: PredictionFormat = None,
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
    text_precision: TextPrecision = "float32",
    force: Force = False,
) -> None:
    """Answer every question of a file. Each line of the output is one answer with its probabilities and best paths."""
    from mhgrn.errors import UserError
    from mhgrn.io.atomic import check_file_writable
    from mhgrn.questions.predictions import prediction, predictions_format, write_predictions
    from mhgrn.questions.reading import read_questions

    check_file_writable(output, force)
    format = predictions_format(output, format)
    if output.exists() and questions.exists() and output.samefile(questions):
        raise UserError(f"{output} is the file of questions; name another file to write to.")
    asked = list(read_questions(questions, dataset))
    if not asked:
        raise UserError(f"{questions} contains no questions.")
    from mhgrn.starter import load

    qa = load(run, kg, features, device, encoder, allow_download, allow_pickle, text_precision)
    rows: list[dict[str, Any]] = []
    answers = qa.ask_many(asked, batch_size=batch_size, paths=paths, effects=effects)
    for question, answer in zip(asked, answers, strict=True):
        chosen = list(answer.probabilities).index(answer.choice)
        predicted = prediction(question, chosen, list(answer.probabilities.values()))
        rows.append(predicted | {key: value for key, value in answer.to_dict().items() if key not in predicted})
    write_predictions(output, [_in_csv(row) for row in rows] if format == "csv" else rows, format)
    known = [row["prediction"] == row["answerKey"] for row in rows if "answerKey" in row]
    accuracy = f", {sum(known) / len(known):.1%} right" if known else ""
    show_written(output, f"{len(rows):,} answers{accuracy}")


def _in_csv(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of an answer that fit a table, with the best path as text."""
    columns = {name: row[name] for name in ("id", "question", "prediction", "choice", "answerKey", "probabilities") if name in row}
    return columns | {"path": row["paths"][0]["text"] if row["paths"] else "", "notes": row["notes"]}
