"""Files of predictions: what was answered to each question of a file or of a split."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.printing import strict_json
from mhgrn.questions.question import Question

Format = Literal["jsonl", "csv"]


def prediction(question: Question, chosen: int, probabilities: Sequence[float]) -> dict[str, Any]:
    """The columns that all files of predictions have. ``answerKey`` is the right answer, as in files of questions, if it is known.

    >>> prediction(Question("q1", "Where does a fish live?", ("tree", "sea"), answer=1), 1, [0.25, 0.75])
    {'id': 'q1', 'prediction': 'B', 'choice': 'sea', 'answerKey': 'B', 'probabilities': {'A': 0.25, 'B': 0.75}}
    """
    labels = [question.label(choice) for choice in range(len(question.choices))]
    known = {} if question.answer is None else {"answerKey": labels[question.answer]}
    shares = dict(zip(labels, probabilities, strict=True))
    return {"id": question.id, "prediction": labels[chosen], "choice": question.choices[chosen], **known, "probabilities": shares}


def predictions_format(path: Path, format: Format | None) -> Format:
    """The format of a file of predictions: as given, or by its name, JSON lines by default."""
    by_name: Format = "csv" if path.suffix.lower() == ".csv" else "jsonl"
    if format == "jsonl" and by_name == "csv":
        raise UserError(f"{path} would hold JSON lines; name a .jsonl file, or use --format csv.")
    return format or by_name


def write_predictions(path: Path, rows: Sequence[dict[str, Any]], format: Format = "jsonl") -> None:
    """Write a file of predictions.

    Args:
        path: The file; ``-`` is standard output.
        rows: See :func:`prediction`; more keys may follow.
        format: One JSON object per line, or CSV with a column for each key and for the probability of each label.
    """
    write_text(path, _csv(rows) if format == "csv" else "".join(f"{strict_json(row)}\n" for row in rows))


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    flat = [_flat(row) for row in rows]
    columns = list(dict.fromkeys(column for row in flat for column in row))
    columns.sort(key=lambda column: column.startswith("probability "))  # stable: the other columns keep their order
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return file.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row as columns: a list of texts is joined, other lists and objects are JSON."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if key == "probabilities":
            flat |= {f"probability {label}": share for label, share in value.items()}
        elif isinstance(value, list) and all(isinstance(part, str) for part in value):
            flat[key] = " ".join(value)
        else:
            flat[key] = json.dumps(value, ensure_ascii=False, allow_nan=False) if isinstance(value, list | dict) else value
    return flat
