"""mhgrn predict: answer a file of questions."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mhgrn.cli._options import Dataset, RunFeatures, RunFolder, RunGraph

PANEL = "Ask"


def predict(
    run: RunFolder,
    questions: Annotated[Path, typer.Argument(help="JSON lines, JSON, CSV, TSV (also .gz) or Parquet.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="JSON lines to write.", show_default=False)],
    dataset: Dataset = None,
    kg: RunGraph = None,
    features: RunFeatures = None,
) -> None:
    """Answer every question of a file. Each line of the output is one answer with its probabilities and best path."""
    from mhgrn.errors import UserError
    from mhgrn.io.atomic import check_file_writable, write_text
    from mhgrn.progress import track
    from mhgrn.questions.reading import read_questions

    check_file_writable(output)
    if output.exists() and questions.exists() and output.samefile(questions):
        raise UserError(f"{output} is the file of questions; name another file to write to.")
    asked = list(read_questions(questions, dataset))
    if not asked:
        raise UserError(f"{questions} contains no questions.")
    from mhgrn.inference import load

    qa = load(run, kg, features)
    rows: list[dict[str, Any]] = []
    for question in track(asked, "answering"):
        answer = qa.answer(question, paths=1, effects=False)
        label = question.label(list(answer.probabilities).index(answer.choice))
        rows.append({"id": question.id, "answerKey": label, **answer.to_dict()})
    write_text(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    known = [(q.label(q.answer), row["answerKey"]) for q, row in zip(asked, rows, strict=True) if q.answer is not None]
    accuracy = f", {sum(a == b for a, b in known) / len(known):.1%} right" if known else ""
    print(f"{output}: {len(rows):,} answers{accuracy}")
