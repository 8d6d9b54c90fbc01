"""Multiple-choice questions and the files they come in."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.fields import Fields, first, is_empty, letter
from mhgrn.questions.tables import Row, place, read_rows

SPLITS = ("train", "dev", "test")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Question:
    """A stem, its choices, and the number of the right one where it is known."""

    id: str
    stem: str
    choices: tuple[str, ...]
    answer: int | None = None
    labels: tuple[str, ...] = ()
    concept: str | None = None  # what it is about, where its file says so

    @classmethod
    def asked(cls, stem: str, choices: Sequence[str]) -> "Question":
        """A question put by a person: checked, without an answer."""
        if isinstance(choices, str) or not isinstance(choices, Sequence):
            raise UserError(f"the choices are {choices!r}; give a list of texts.")
        return cls("", *checked(stem, list(choices)))

    def label(self, choice: int) -> str:
        """The letter of a choice as its file names it."""
        return self.labels[choice] if self.labels else letter(choice)


def checked(stem: object, choices: list[Any], may_repeat: bool = False) -> tuple[str, tuple[str, ...]]:
    """Stem and choices without outer spaces, or an error that says what is wrong with them."""
    cleaned = _cleaned("the question", stem)
    if len(choices) < 2:
        raise UserError(f"a question needs at least two choices, this one has {len(choices)}.")
    texts = tuple(_cleaned(f"choice {number}", choice) for number, choice in enumerate(choices, start=1))
    if len(set(texts)) < len(texts) and not may_repeat:
        twice = next(text for text in texts if texts.count(text) > 1)
        raise UserError(f"the choice {twice!r} is given twice.")
    return cleaned, texts


def _cleaned(what: str, text: object) -> str:
    if text is not None and not isinstance(text, str):
        raise UserError(f"{what} is not text but {text!r}.")
    if text is None or not text.strip():
        raise UserError(f"{what} is empty.")
    if not text.isascii() and _SURROGATE.search(text):
        raise UserError(f"{what} holds half of a character (a lone surrogate).")
    return text.strip()


def read_questions(path: str | Path, dataset: str | Path | None = None) -> Iterator[Question]:
    """The questions of one file of JSON lines, JSON, CSV, TSV (each also .gz) or Parquet.

    ``dataset`` is a shipped declaration's name or a YAML file, for files whose columns are called otherwise.
    """
    for question in _read([Path(path)], Dataset() if dataset is None else Dataset.named(dataset)):
        if isinstance(question, UserError):
            raise question
        yield question


def find_splits(source: str | Path | Dataset, dataset: str | Path | None = None) -> dict[str, list[Question]]:
    """The questions of a YAML file's splits, of a folder's, or of a file (split ``test``); see :meth:`Dataset.find`."""
    splits, problems = _gather(source if isinstance(source, Dataset) else Dataset.find(source, dataset))
    if problems:
        more = len(problems) - 1
        raise UserError(str(problems[0]) + (f" And {more:,} more: `mhgrn data check` lists them." if more else ""))
    return splits


@dataclass(frozen=True)
class SplitCounts:
    questions: int
    choices: tuple[int, int]  # fewest and most
    answered: int


@dataclass(frozen=True)
class Check:
    """What a data set holds, and everything that is wrong with it."""

    dataset: str
    splits: dict[str, SplitCounts]
    statements: int
    repeated: int  # questions whose stem and choices are another split's too
    problems: list[str]


def check_questions(source: str | Path, dataset: str | Path | None = None) -> Check:
    """Read a data set as :func:`find_splits` does, past every problem."""
    declared = Dataset.find(source, dataset)
    splits, problems = _gather(declared)
    if not problems and not any(splits.values()):
        problems.append(UserError(f"{source} holds no question."))
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


def _gather(dataset: Dataset) -> tuple[dict[str, list[Question]], list[UserError]]:
    """All questions that can be read, and all that is wrong."""
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
    if problems:  # what follows would say them twice
        return splits, problems
    # a name that is nowhere is misspelt, which the rows of an unanswered test split cannot show
    train = splits.get("train", [])
    for name in ("answer", "concept"):
        names = " or ".join(getattr(dataset.fields, name))
        is_wanted = name == "answer" or name in dataset.fields.model_fields_set
        if is_wanted and names and train and all(getattr(q, name) is None for q in train):
            problems.append(UserError(f"no training question of {dataset.name} has its {name} ({names}); is that its name?"))
    if dataset.inhouse_ids:
        try:
            _require(dataset.inhouse_ids, "the list of in-house training ids", dataset)
            splits["train"], splits["test"] = _divided(train, dataset.inhouse_ids)
        except UserError as error:
            problems.append(error)
    return splits, problems


def _require(file: Path, what: str, dataset: Dataset) -> None:
    if not file.exists():
        raise UserError(f"{file}, {what} of {dataset.name}, does not exist; put it there, or declare another place in YAML.")


def _divided(questions: list[Question], file: Path) -> tuple[list[Question], list[Question]]:
    """The questions whose ids are listed in ``file``, and the others."""
    try:
        ids = set(file.read_text(encoding="utf-8-sig").split())
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 text ({error.reason}).") from None
    if missing := ids - {q.id for q in questions}:
        raise UserError(f"{file}: {len(missing)} ids are not in the training set, e.g. {min(missing)}.")
    return [q for q in questions if q.id in ids], [q for q in questions if q.id not in ids]


def _read(files: Iterable[Path], dataset: Dataset) -> Iterator[Question | UserError]:
    """The questions of one split's files; in the place of one that cannot be read, what is wrong with it."""
    seen: dict[str, tuple[Path, str]] = {}
    count = 0
    for path in files:
        kind = dataset.format_of(path)
        unit = "row" if kind in ("json", "parquet") else "line"
        for number, row in read_rows(path, kind, dataset.delimiter):
            count += 1
            try:
                if isinstance(row, UserError):
                    raise row
                question = _parse(row, count, dataset)
                if question.id in seen:
                    file, earlier = seen[question.id]
                    raise UserError(f"the id {question.id!r} is that of {earlier}{'' if file == path else f' of {file}'} too.")
            except UserError as error:
                yield UserError(f"{place(path, number, kind)}: {error}")
                continue
            seen[question.id] = path, f"{unit} {number}"
            yield question


def _parse(row: Row, number: int, dataset: Dataset) -> Question:
    fields = dataset.fields
    _, stem = first(row, fields.stem, "stem")
    given, labels = fields.choices_of(row)
    # published data sets do repeat a choice now and then
    stem, choices = checked(stem, given, may_repeat=True)
    for label in labels:
        if _SURROGATE.search(label):
            raise UserError(f"the label {label!r} holds half of a character (a lone surrogate).")
    if len(set(labels)) < len(labels):
        raise UserError(f"two choices have the same label ({', '.join(labels)}).")
    if dataset.number_of_choices not in ("any", len(choices)):
        raise UserError(f"{len(choices)} choices, not the {dataset.number_of_choices} that {dataset.name} has.")
    context = [_cleaned(name, first(row, [name], name)[1]) for name in fields.context]
    sentences = [text if text.endswith((".", "!", "?")) else f"{text}." for text in context]
    _, concept = first(row, fields.concept)
    return Question(
        _id(row, number, fields),
        " ".join([*sentences, stem]),
        choices,
        fields.answer_of(row, choices, labels),
        labels,
        None if is_empty(concept) else _cleaned("the concept", concept),
    )


def _id(row: Row, number: int, fields: Fields) -> str:
    name, value = first(row, fields.id, "id" if "id" in fields.model_fields_set else "")
    if not name and not any(name in row for name in fields.id):
        return str(number)
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise UserError(f"the {name} is neither text nor a whole number but {value!r}.")
    return _cleaned("the id", None if value is None else str(value))
