"""Reading questions: from files, from the splits of a dataset, or from rows in memory."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from mhgrn.errors import UserError
from mhgrn.printing import shortened, shown
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.question import Question
from mhgrn.questions.reader import Row, read_rows

SPLITS = ("train", "dev", "test")
AnyQuestion = TypeVar("AnyQuestion", bound=Any)


def read_questions(path: str | Path, dataset: str | Path | None = None) -> Iterator[Question]:
    """Read the questions of one file of JSON lines, JSON, CSV, TSV (each also ``.gz``), Parquet, or an installed format.

    Args:
        path: The file.
        dataset: A built-in dataset declaration or a YAML file, for files with other field names.

    >>> next(read_questions("dev.jsonl")).choices  # doctest: +SKIP
    ('schoolroom', 'patio')
    """
    for question in _read([Path(path)], Dataset() if dataset is None else Dataset.named(dataset)):
        if isinstance(question, UserError):
            raise question
        yield question


def read_splits(source: str | Path | Dataset, dataset: str | Path | None = None) -> dict[str, list[Question]]:
    """Read the questions of all splits: of a declaration, of a folder, or of one file (split ``test``).

    See :meth:`mhgrn.questions.datasets.Dataset.find`.
    """
    splits, problems = _read_all(source if isinstance(source, Dataset) else Dataset.find(source, dataset))
    if problems:
        more = len(problems) - 1
        raise UserError(str(problems[0]) + (f" And {more:,} more: `mhgrn data check` lists them." if more else ""))
    return splits


def splits_from(source: Any, dataset: str | Path | None = None) -> tuple[Dataset, dict[str, list[Question]]]:
    """The questions of each split, and how they were declared.

    Args:
        source: A path as :meth:`Dataset.find` takes it, rows as :func:`questions_from` takes them (split ``test``), or a dictionary
            of rows by split.
        dataset: A built-in declaration or a YAML file.
    """
    if isinstance(source, str | PathLike):
        declared = Dataset.find(Path(source), dataset)
        return declared, read_splits(declared)
    declared = Dataset() if dataset is None else Dataset.named(dataset)
    by_split = source if isinstance(source, Mapping) else {"test": source}
    if unknown := [name for name in by_split if name not in SPLITS]:
        raise UserError(f"{shortened(unknown[0])} is not a split; give rows by split: train, dev, test.")
    return declared, {
        split: _without_repeated_ids(questions_from(by_split[split], declared)) for split in SPLITS if split in by_split
    }


def _without_repeated_ids(questions: Iterable[Question]) -> list[Question]:
    found: dict[str, Question] = {}
    for number, question in enumerate(questions, start=1):
        if question.id in found:
            raise UserError(f"row {number}: the id {shortened(question.id)} is already used.")
        found[question.id] = question
    return list(found.values())


def divide(
    splits: dict[str, list[AnyQuestion]],
    shares: Sequence[float],
    seed: int = 0,
    texts: Callable[[AnyQuestion], Sequence[str]] = lambda question: question.choices,
) -> dict[str, list[AnyQuestion]]:
    """Divide questions that are all in one split at random into train, dev and test.

    Equal questions, which have the same stem and choices, get into the same split. Only the questions, the shares and the seed
    decide, not the order of the questions.

    Args:
        splits: The questions of the only split.
        shares: The shares of train, dev and test; their sum is 1. A split with a share of 0 is left out.
        seed: Another seed gives other splits.
        texts: Gives the choices of a question, or what stands for them.
    """
    sizes = _checked_shares(shares)
    given = [name for name, questions in splits.items() if questions]
    if len(given) != 1:
        raise UserError(f"the questions have the splits {' and '.join(given)} already; only questions of one split can be divided.")
    questions = splits[given[0]]
    keys = [json.dumps([int(seed), q.stem, sorted(texts(q))]).encode() for q in questions]
    digests = [hashlib.sha256(key).digest() for key in keys]
    ordered = sorted(digests)
    ends = [round(len(questions) * (sum(sizes[: i + 1]) / sum(sizes))) for i in range(len(SPLITS))]
    bounds = [ordered[end - 1] if end else b"" for end in ends]  # the last digest of each split
    divided: dict[str, list[AnyQuestion]] = {split: [] for split, share in zip(SPLITS, sizes, strict=True) if share}
    for question, digest in zip(questions, digests, strict=True):
        divided[next(split for split, bound in zip(SPLITS, bounds, strict=True) if digest <= bound)].append(question)
    if empty := [split for split, found in divided.items() if not found]:
        raise UserError(f"{len(questions):,} questions are too few: {empty[0]} would have none; use other shares.")
    return divided


def _checked_shares(shares: Sequence[float]) -> list[float]:
    are_numbers = isinstance(shares, Sequence) and not isinstance(shares, str)
    are_numbers = are_numbers and all(isinstance(s, int | float) and not isinstance(s, bool) for s in shares)
    if not are_numbers or len(shares) != len(SPLITS) or not all(0 <= s <= 1 for s in shares) or abs(sum(shares) - 1) > 1e-6:
        raise UserError(
            f"split is {shortened(shares)}; give the shares of train, dev and test, for example 0.8,0.1,0.1: their sum is 1."
        )
    return [float(share) for share in shares]


def questions_from(rows: Any, dataset: str | Path | Dataset | None = None) -> Iterator[Question]:
    """Questions from rows in memory.

    Args:
        rows: A pandas or polars frame, a Hugging Face ``datasets.Dataset``, or an iterable of dictionaries. Field names are those
            of question files: ``question`` or ``stem``, ``choices``, ``answer``, or CommonsenseQA's own. A :class:`Question` is
            passed on as it is.
        dataset: A dataset declaration, for rows with other field names.

    Raises:
        UserError: A row is not a question. The message names the row, counted from 1, and the field.

    >>> [q.choices for q in questions_from([{"question": "Where does a fish live?", "choices": ["sea", "tree"]}])]
    [('sea', 'tree')]
    """
    declared = dataset if isinstance(dataset, Dataset) else Dataset() if dataset is None else Dataset.named(dataset)
    for number, row in enumerate(rows_of(rows), start=1):
        if isinstance(row, Question):
            yield row
            continue
        try:
            if not isinstance(row, Mapping):
                raise UserError(f"neither a dictionary nor a Question but {shortened(row)}.")
            yield _question({str(name): _as_python(value) for name, value in row.items()}, number, declared)
        except RecursionError:
            raise UserError(f"row {number}: nested too deeply.") from None
        except UserError as error:
            raise UserError(f"row {number}: {error}") from None


def rows_of(rows: Any) -> Iterable[Any]:
    """The rows of a frame, a dataset or an iterable."""
    if hasattr(rows, "iter_rows"):  # polars
        named: Iterable[Any] = rows.iter_rows(named=True)
        return named
    if hasattr(rows, "to_dict") and hasattr(rows, "iloc"):  # pandas
        records: Iterable[Any] = rows.to_dict("records")
        return records
    if isinstance(rows, Mapping | str) or not isinstance(rows, Iterable):
        raise UserError(f"give a frame, a dataset or a list of dictionaries, not {type(rows).__name__}.")
    return rows


def _as_python(value: Any) -> Any:
    """The value without numpy arrays and scalars, which frames hold."""
    if hasattr(value, "tolist"):
        return _as_python(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): _as_python(inner) for name, inner in value.items()}
    return [_as_python(inner) for inner in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class SplitCounts:
    questions: int
    choices: tuple[int, int]  # smallest and largest number
    answered: int


@dataclass(frozen=True)
class Check:
    """Counts of a dataset, and its problems."""

    dataset: str
    splits: dict[str, SplitCounts]
    statements: int
    repeated: int  # questions with the same stem and choices in several splits
    problems: list[str]


def check_questions(source: str | Path, dataset: str | Path | None = None) -> Check:
    """Read a dataset as :func:`read_splits` does, and collect all of its problems."""
    declared = Dataset.find(source, dataset)
    splits, problems = _read_all(declared)
    if not problems and not any(splits.values()):
        problems.append(UserError(f"{source} contains no questions."))
    counts = {}
    where: dict[tuple[str, frozenset[str]], set[str]] = {}
    for split, questions in splits.items():
        sizes = [len(q.choices) for q in questions] or [0]
        counts[split] = SplitCounts(len(questions), (min(sizes), max(sizes)), sum(q.answer is not None for q in questions))
        for q in questions:
            where.setdefault((q.stem, frozenset(q.choices)), set()).add(split)
    statements = sum(len(q.choices) for questions in splits.values() for q in questions)
    repeated = sum(len(found) > 1 for found in where.values())
    return Check(declared.name, counts, statements, repeated, list(map(str, problems)))


def _read_all(dataset: Dataset) -> tuple[dict[str, list[Question]], list[UserError]]:
    """All readable questions by split, and all problems."""
    splits: dict[str, list[Question]] = {}
    problems: list[UserError] = []
    for split in SPLITS:
        files: tuple[Path, ...] = getattr(dataset.splits, split)
        if not files:
            continue
        splits[split] = []
        try:
            for file in files:
                _require(file, f"the {split} split", dataset)
            for found in _read(files, dataset):
                if isinstance(found, UserError):
                    problems.append(found)
                else:
                    splits[split].append(found)
        except UserError as error:
            problems.append(error)
    if problems:  # the checks below would report them again
        return splits, problems
    # A field that no training question has is misspelled; an unanswered test split cannot show that.
    train = splits.get("train", [])
    for name in ("answer", "concept"):
        names = " or ".join(getattr(dataset.fields, name))
        is_wanted = name == "answer" or name in dataset.fields.model_fields_set
        if is_wanted and names and train and all(getattr(q, name) is None for q in train):
            problems.append(UserError(f"no training question of {dataset.name} has the {name} field {names}; check its name."))
    if dataset.inhouse_ids:
        try:
            _require(dataset.inhouse_ids, "the list of in-house training ids", dataset)
            splits["train"], splits["test"] = _divided(train, dataset.inhouse_ids)
        except UserError as error:
            problems.append(error)
    return splits, problems


def _require(file: Path, what: str, dataset: Dataset) -> None:
    if not file.exists():
        raise UserError(f"{file}, {what} of {dataset.name}, does not exist; put it there, or declare its place in YAML.")


def _divided(questions: list[Question], file: Path) -> tuple[list[Question], list[Question]]:
    """The questions whose ids are in ``file``, and the others."""
    try:
        ids = set(file.read_text(encoding="utf-8-sig").split())
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 text ({error.reason}).") from None
    if missing := ids - {q.id for q in questions}:
        raise UserError(f"{file}: {len(missing)} ids are not in the training set, e.g. {shown(min(missing))}.")
    return [q for q in questions if q.id in ids], [q for q in questions if q.id not in ids]


def _read(files: Iterable[Path], dataset: Dataset) -> Iterator[Question | UserError]:
    """The questions of one split; an invalid row is replaced by its error."""
    seen: dict[str, tuple[Path, str]] = {}
    count = 0
    for path in files:
        reader = dataset.reader_of(path)
        unit = "line" if reader.by_line else "row"
        for number, row in read_rows(path, reader):
            count += 1
            try:
                if isinstance(row, UserError):
                    raise row
                question = _question(row, count, dataset)
                if question.id in seen:
                    file, earlier = seen[question.id]
                    where = earlier if file == path else f"{earlier} of {file}"
                    raise UserError(f"the id {shortened(question.id)} is already used in {where}.")
            except UserError as error:
                yield UserError(f"{reader.place(path, number)}: {error}")
                continue
            seen[question.id] = path, f"{unit} {number}"
            yield question


def _question(row: Row, number: int, dataset: Dataset) -> Question:
    question = Question.from_dict(row, dataset.fields, number)
    if dataset.number_of_choices not in ("any", len(question.choices)):
        raise UserError(f"{len(question.choices)} choices; {dataset.name} declares {dataset.number_of_choices}.")
    return question
