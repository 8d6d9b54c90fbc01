"""mhgrn predict: answer a file of questions."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhgrn.cli._options import (
    AbstainBelow,
    AllowDownload,
    AllowPickle,
    By,
    Coverage,
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

if TYPE_CHECKING:
    from mhgrn.inference import Answer
    from mhgrn.kg.graph import KnowledgeGraph
    from mhgrn.questions.open import OpenQuestion

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
OPEN_COLUMNS = (
    "confidence",
    "probabilities",
    "ranking",
    "evidence",
    "notes",
    "abstain_below",
    "abstained",
    "coverage",
    "prediction_set",
)  # of answers to questions without choices


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
    force: Force = False,
) -> None:
    """Answer every question of a file. Each line of the output is one answer with its probabilities and evidence."""
    from mhgrn.errors import UserError
    from mhgrn.inference.asked import check_probability
    from mhgrn.inference.open import OpenAnswerer
    from mhgrn.inference.proposing import rank_many, refuse_without_choices
    from mhgrn.io.atomic import check_file_writable
    from mhgrn.open.run import is_open_run
    from mhgrn.questions.open import has_no_choices, open_splits
    from mhgrn.questions.predictions import prediction, predictions_format, write_predictions
    from mhgrn.questions.reading import read_questions
    from mhgrn.starter import find_run, load

    check_probability("--abstain-below", abstain_below)
    check_probability("--coverage", coverage)
    check_file_writable(output, force)
    format = predictions_format(output, format)
    if output.exists() and questions.exists() and output.samefile(questions):
        raise UserError(f"{output} is the file of questions; name another file to write to.")
    if is_open_run(find_run(run)) or (questions.exists() and has_no_choices(questions, dataset)):
        qa = load(run, kg, features, device, encoder, allow_download, allow_pickle, text_precision)
        ranking = [question for found in open_splits(questions, dataset)[1].values() for question in found]
        options: dict[str, Any] = {"paths": paths, "effects": effects, "abstain_below": abstain_below}
        if isinstance(qa, OpenAnswerer):
            ranked = _open_rows(qa.graph, ranking, qa.ask_many(ranking, batch_size=batch_size, coverage=coverage, **options))
        else:
            refuse_without_choices(coverage=coverage)
            ranked = _open_rows(qa.graph, ranking, rank_many(qa, [question.stem for question in ranking], **options))
        write_predictions(output, [_in_csv(row) for row in ranked] if format == "csv" else ranked, format)
        show_written(output, f"{len(ranked):,} answers{_open_summary(ranked)}")
        return
    asked = list(read_questions(questions, dataset))
    if not asked:
        raise UserError(f"{questions} contains no questions.")
    qa = load(run, kg, features, device, encoder, allow_download, allow_pickle, text_precision)
    rows: list[dict[str, Any]] = []
    answers = qa.ask_many(
        asked,
        batch_size=batch_size,
        paths=paths,
        effects=effects or by == "evidence",
        by=by,
        abstain_below=abstain_below,
        coverage=coverage,
    )
    for question, answer in zip(asked, answers, strict=True):
        chosen = list(answer.probabilities).index(answer.choice)
        predicted = prediction(question, chosen, list(answer.probabilities.values()))
        row = predicted | {key: value for key, value in answer.to_dict().items() if key not in predicted}
        if answer.prediction_set is not None:  # by label, like the prediction
            labels = dict(zip(answer.probabilities, predicted["probabilities"], strict=True))
            row["prediction_set"] = [labels[choice] for choice in answer.prediction_set]
        rows.append(row)
    write_predictions(output, [_in_csv(row) for row in rows] if format == "csv" else rows, format)
    show_written(output, f"{len(rows):,} answers{_summary(rows)}")


def _open_rows(graph: "KnowledgeGraph", asked: "Sequence[OpenQuestion]", answers: "Iterable[Answer]") -> list[dict[str, Any]]:
    """A row for each question without choices: its ranking, and whether the first answer is right, if that is known."""
    from mhgrn.kg.names import concept_name

    rows = []
    for question, answer in zip(asked, answers, strict=True):
        row: dict[str, Any] = {"id": question.id, "question": question.stem, "prediction": answer.choice}
        if question.answers:
            right = {concept for name in question.answers for concept in graph.find_all(name)}
            row |= {
                "answers": list(question.answers),
                "right": graph.find(concept_name(answer.choice)) in right,
            }
        found = answer.to_dict()
        rows.append(row | {name: found[name] for name in OPEN_COLUMNS if name in found})
    return rows


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
        "path": row["paths"][0]["text"] if row["paths"] else "",
        "evidence": " ".join(facts),
        "notes": row["notes"],
    }
