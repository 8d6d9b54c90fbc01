"""mhgrn predict: answer a file of questions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mhgrn.cli._options import (
    AbstainBelow,
    Address,
    AllowDownload,
    AllowPickle,
    By,
    Coverage,
    Dataset,
    Device,
    EngineName,
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
COLUMNS = (
    "id",
    "question",
    "prediction",
    "choice",
    "answerKey",
    "confidence",
    "abstained",
    "prediction_set",
    "probabilities",
)  # of CSV


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
    by: By = "evidence",
    paths: Annotated[int, typer.Option(min=1, max=1000, help="Number of paths by attention per answer, best first.")] = 1,
    effects: Annotated[
        bool, typer.Option("--effects", help="With --by attention: add the answer's probability without each fact of the paths.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions to answer together. More need more memory.")] = 64,
    abstain_below: AbstainBelow = None,
    coverage: Coverage = None,
    device: Device = "cpu",
    text_precision: TextPrecision = "float32",
    engine: EngineName = "local",
    address: Address = None,
    force: Force = False,
) -> None:
    """Answer every question of a file. Each line of the output is one answer with its probabilities and evidence."""
    from mhgrn.engines import engine_named, session_of
    from mhgrn.errors import UserError
    from mhgrn.inference.asked import check_probability
    from mhgrn.inference.predicting import PredictOptions
    from mhgrn.inference.predicting import predict as answer_all
    from mhgrn.io.atomic import check_file_writable
    from mhgrn.io.replacing import is_special
    from mhgrn.open.run import is_open_run
    from mhgrn.questions.open import has_no_choices, open_splits
    from mhgrn.questions.predictions import predictions_format, write_predictions
    from mhgrn.questions.reading import read_questions
    from mhgrn.starter import find_run, load

    mapped = engine_named(engine, address)
    if mapped is not None and device != "cpu":
        raise UserError("the nodes of a cluster compute on processors; remove --device, or --engine.")
    check_probability("--abstain-below", abstain_below or None)
    check_probability("--coverage", coverage)
    check_file_writable(output, force)
    format = predictions_format(output, format)
    if output.exists() and questions.exists() and output.samefile(questions):
        raise UserError(f"{output} is the file of questions; name another file to write to.")
    asked: Sequence[Any]
    if is_open := is_open_run(find_run(run)) or (questions.exists() and has_no_choices(questions, dataset)):
        asked = [question for found in open_splits(questions, dataset)[1].values() for question in found]
    else:
        asked = list(read_questions(questions, dataset))
        if not asked:
            raise UserError(f"{questions} contains no questions.")
    options = PredictOptions(batch_size, paths, effects, by, abstain_below, coverage)
    loaded_with: dict[str, Any] = {"kg": kg, "features": features, "encoder": encoder, "device": device}
    loaded_with |= {"allow_download": allow_download, "allow_pickle": allow_pickle, "text_precision": text_precision}
    qa = load(run, **loaded_with)
    with session_of(mapped, None if is_special(output) else output) as session:
        rows = answer_all(qa, asked, options, session, loaded_with)
        write_predictions(output, [_in_csv(row) for row in rows] if format == "csv" else rows, format)
    show_written(output, f"{len(rows):,} answers{_open_summary(rows) if is_open else _summary(rows)}")


def _open_summary(rows: Sequence[dict[str, Any]]) -> str:
    """As :func:`_summary`, for questions without choices."""
    known = [row for row in rows if "right" in row]
    parts = [f"{sum(row['right'] for row in known) / len(known):.1%} right"] if known else []
    if rows and "abstained" in rows[0]:
        sure = [row for row in rows if not row["abstained"]]
        right = [row["right"] for row in sure if "right" in row]
        parts.append(f"sure of {len(sure):,}" + (f", of which {sum(right) / len(right):.1%} right" if right else ""))
    return "".join(f", {part}" for part in parts)


def _summary(rows: Sequence[dict[str, Any]]) -> str:
    """How many answers are right, as far as it is known; of how many the model is sure; how many sets contain the right choice."""
    known = [row for row in rows if "answerKey" in row]
    parts = []
    if known:
        parts.append(f"{sum(row['prediction'] == row['answerKey'] for row in known) / len(known):.1%} right")
    if "abstained" in rows[0]:
        parts.append(f"{sum(row['abstained'] for row in rows):,} not sure enough")
        sure = [row["prediction"] == row["answerKey"] for row in known if not row["abstained"]]
        parts += [f"{sum(sure) / len(sure):.1%} of the others right"] if sure else []
    if "prediction_set" in rows[0]:
        parts.append(f"{sum(len(row['prediction_set']) for row in rows) / len(rows):.2f} choices in a set")
        inside = [row["answerKey"] in row["prediction_set"] for row in known]
        parts += [f"{sum(inside) / len(inside):.1%} of the sets contain the right one"] if inside else []
    return "".join(f", {part}" for part in parts)


def _in_csv(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of an answer that fit a table, with the best path and the evidence as text."""
    columns = {name: row[name] for name in COLUMNS if name in row}
    facts = [fact["sentence"] for fact in row["evidence"]["facts"]] if row["evidence"] else []
    return columns | {
        "path": row["paths"][0]["text"] if row.get("paths") else "",
        "evidence": " ".join(facts),
        "notes": row["notes"],
    }
