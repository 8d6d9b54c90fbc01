"""Multiple-choice questions and the files they come in."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Question:
    """A stem, its choices, and the number of the right one where it is known."""

    id: str
    stem: str
    choices: tuple[str, ...]
    answer: int | None = None
    labels: tuple[str, ...] = ()

    @classmethod
    def asked(cls, stem: str, choices: list[str]) -> "Question":
        """A question put by a person: checked, without an answer."""
        return cls("", *checked(stem, choices))

    def label(self, choice: int) -> str:
        """The letter of a choice as its file names it."""
        return self.labels[choice] if self.labels else chr(ord("A") + choice)


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
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UserError(f"{what} holds half of a character (a lone surrogate).")
    return text.strip()


def read_questions(path: str | Path) -> Iterator[Question]:
    """Questions from JSON lines in CommonsenseQA's form: id, question {stem, choices [{label, text}]}, answerKey if known."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} does not exist; name a file of questions (JSON lines in CommonsenseQA's form).")
    seen: dict[str, int] = {}
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    question = _parse(line, number)
                except UserError as error:
                    raise UserError(f"{path}:{number}: {error}") from None
                if question.id in seen:
                    raise UserError(f"{path}:{number}: the id {question.id!r} is that of line {seen[question.id]} too.")
                seen[question.id] = number
                yield question
    except UnicodeDecodeError as error:
        raise UserError(f"{path}:{number + 1}: not UTF-8 text ({error.reason}).") from None


def _parse(line: str, number: int) -> Question:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"not JSON ({error.msg} at column {error.colno}).") from None
    body = row.get("question") if isinstance(row, dict) else None
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        raise UserError('no "question" with a "stem" and a list of "choices".')
    if any(not isinstance(choice, dict) or "text" not in choice for choice in body["choices"]):
        raise UserError('each of the "choices" needs a "text" (and a "label").')
    # published data sets do repeat a choice now and then
    stem, choices = checked(body.get("stem"), [choice["text"] for choice in body["choices"]], may_repeat=True)
    labels = tuple(str(choice.get("label", chr(ord("A") + i))) for i, choice in enumerate(body["choices"]))
    if len(set(labels)) < len(labels):
        raise UserError(f"two choices have the same label ({', '.join(labels)}).")
    key = row.get("answerKey")
    if key in (None, ""):
        answer = None
    elif str(key) in labels:
        answer = labels.index(str(key))
    else:
        raise UserError(f"the answerKey {key!r} is none of the labels {', '.join(labels)}.")
    return Question(str(row.get("id", number)), stem, choices, answer, labels)


def find_splits(source: str | Path) -> dict[str, list[Question]]:
    """The questions of a file (split ``test``), or of a folder whose files' names begin with train, dev and test.

    A list of ids ``inhouse_split_qids.txt`` beside CommonsenseQA's files makes the in-house split: training questions not on
    it are the test set, and the official test set, which has no answers, is left out.
    """
    source = Path(source)
    if not source.is_dir():
        return {"test": list(read_questions(source))}
    found: dict[str, list[Question]] = {}
    for split in SPLITS:
        files = sorted(p for p in source.glob(f"{split}*.jsonl") if not p.stem.endswith("_complete"))
        if len(files) > 1:
            raise UserError(f"{source} has {len(files)} files for {split} ({', '.join(p.name for p in files)}); keep one.")
        if files:
            found[split] = list(read_questions(files[0]))
    if not found:
        raise UserError(f"{source} holds no train*.jsonl, dev*.jsonl or test*.jsonl.")
    inhouse = source / "inhouse_split_qids.txt"
    if inhouse.is_file() and "train" in found:
        ids = set(inhouse.read_text(encoding="utf-8").split())
        missing = ids - {q.id for q in found["train"]}
        if missing:
            raise UserError(f"{inhouse}: {len(missing)} ids are not in the training set, e.g. {min(missing)}.")
        found["test"] = [q for q in found["train"] if q.id not in ids]
        found["train"] = [q for q in found["train"] if q.id in ids]
    return found
