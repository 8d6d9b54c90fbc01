"""Questions without choices, whose answers are concepts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Self

from mhgrn.errors import UserError
from mhgrn.printing import shortened
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.fields import FieldNames, first, is_empty, value_at
from mhgrn.questions.question import LONGEST_CHOICE, Question, cleaned_text, row_id
from mhgrn.questions.reader import Row, read_rows
from mhgrn.questions.reading import SPLITS, read_splits, rows_of

MOST_ANSWERS = 100_000


@dataclass(frozen=True)
class OpenQuestion:
    """A question without choices.

    Args:
        id: Identifies the question in its dataset.
        stem: The question. ``[…]`` marks a concept that walks start at.
        answers: The names of all right answers. Empty: unknown.

    >>> OpenQuestion.from_dict({"question": "what does [Tom Cullen] act in", "answers": ["Weekend"]}).answers
    ('Weekend',)
    """

    id: str
    stem: str
    answers: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, row: Row, fields: FieldNames = FieldNames(), number: int = 1) -> Self:
        """A question from a row of a dataset: with the fields ``question`` and ``answers`` (a list) or ``answer`` (a text)."""
        values = dict(row)
        _, stem = first(values, fields.stem, "stem")
        name, given = first(values, fields.answers)
        texts = [] if is_empty(given) else given if isinstance(given, list) else [given]
        if len(texts) > MOST_ANSWERS:
            raise UserError(f"the question has {len(texts):,} answers; at most {MOST_ANSWERS:,} are allowed.")
        answers = [cleaned_text(name, str(text) if isinstance(text, int) else text) for text in texts]
        if longest := [text for text in answers if len(text) > LONGEST_CHOICE]:
            raise UserError(f"the answer {shortened(longest[0])} has more than {LONGEST_CHOICE:,} characters.")
        return cls(row_id(values, number, fields), cleaned_text("the question", stem), tuple(dict.fromkeys(answers)))

    @classmethod
    def without_choices(cls, question: Question) -> Self:
        """A multiple-choice question without its choices: the text of the right one is the answer."""
        return cls(question.id, question.stem, () if question.answer is None else (question.choices[question.answer],))


def has_no_choices(source: Any, dataset: str | Path | None = None) -> bool:
    """Whether the first question of a dataset has answers but no choices."""
    if isinstance(source, str | PathLike):
        declared = Dataset.find(Path(source), dataset)
        files = [file for split in SPLITS for file in getattr(declared.splits, split) if file.exists()]
        rows = (row for file in files for _, row in islice(read_rows(file, declared.reader_of(file)), 1))
    else:
        declared = Dataset() if dataset is None else Dataset.named(dataset)
        by_split = source.values() if isinstance(source, dict) else [source]
        rows = (row for given in by_split for row in islice(given, 1) if isinstance(given, Sequence))
    row = next(iter(rows), None)
    if isinstance(row, OpenQuestion):
        return True
    if not isinstance(row, dict):
        return False
    places = [name for place in declared.fields.choices for name in ([place] if isinstance(place, str) else place)]
    has_choices = any(value_at(row, name) is not None or ("*" in name and _has_column(row, name)) for name in places)
    return not has_choices and first(row, declared.fields.answers)[1] is not None


def _has_column(row: Row, name: str) -> bool:
    start, _, end = name.partition("*")
    return any(column.startswith(start) and column.endswith(end) for column in row)


def open_splits(source: Any, dataset: str | Path | None = None) -> tuple[Dataset, dict[str, list[OpenQuestion]]]:
    """The open questions of each split, and how they were declared. Choices of multiple-choice questions are dropped.

    Args:
        source: A path as :meth:`Dataset.find` takes it, rows (split ``test``), or a dictionary of rows by split.
        dataset: A built-in declaration or a YAML file.
    """
    if not isinstance(source, str | PathLike):
        declared = Dataset() if dataset is None else Dataset.named(dataset)
        by_split = source if isinstance(source, dict) else {"test": source}
        if unknown := [name for name in by_split if name not in SPLITS]:
            raise UserError(f"{shortened(unknown[0])} is not a split; give rows by split: train, dev, test.")
        found = {split: list(open_from(by_split[split], declared)) for split in SPLITS if split in by_split}
        return declared, found
    declared = Dataset.find(Path(source), dataset)
    if not has_no_choices(source, dataset):
        return declared, {split: [*map(OpenQuestion.without_choices, found)] for split, found in read_splits(declared).items()}
    if declared.inhouse_ids:
        raise UserError(f"{declared.inhouse_ids} divides multiple-choice questions; these questions have no choices.")
    splits = {}
    for split in SPLITS:
        files: tuple[Path, ...] = getattr(declared.splits, split)
        if files:
            splits[split] = list(_read(files, declared))
    return declared, splits


def open_from(rows: Any, dataset: Dataset = Dataset()) -> Iterator[OpenQuestion]:
    """Open questions from rows in memory: dictionaries, a frame, a dataset, questions with choices or without."""
    for number, row in enumerate(rows_of(rows), start=1):
        if isinstance(row, OpenQuestion):
            yield row
        elif isinstance(row, Question):
            yield OpenQuestion.without_choices(row)
        else:
            try:
                yield OpenQuestion.from_dict(dict(row), dataset.fields, number)
            except (TypeError, ValueError) as error:
                raise UserError(f"row {number}: not a dictionary ({error}).") from None
            except UserError as error:
                raise UserError(f"row {number}: {error}") from None


def _read(files: Iterable[Path], dataset: Dataset) -> Iterator[OpenQuestion]:
    seen: set[str] = set()
    count = 0
    for path in files:
        reader = dataset.reader_of(path)
        for number, row in read_rows(path, reader):
            count += 1
            try:
                if isinstance(row, UserError):
                    raise row
                question = OpenQuestion.from_dict(row, dataset.fields, count)
                if question.id in seen:
                    raise UserError(f"the id {shortened(question.id)} is already used.")
            except UserError as error:
                raise UserError(f"{reader.place(path, number)}: {error}") from None
            seen.add(question.id)
            yield question
