"""Damaged question files: refused with a message that names the file, or read as valid questions."""

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from damage import IN_FILE, IN_TEXT, PACKERS
from mhgrn.errors import UserError
from mhgrn.questions.question import Question
from mhgrn.questions.reading import check_questions, read_splits
from mhgrn.starter import HERE

QUICK = pytest.param(150, id="150 files")
LONG = pytest.param(2000, id="2,000 files", marks=pytest.mark.long)
Rows = list[dict[str, Any]]


def as_table(rows: Rows, delimiter: str) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows({**row, "choices": "|".join(row["choices"])} for row in rows)
    return text.getvalue()


def as_parquet(rows: Rows) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file, row_group_size=7)
    return file.getvalue()


TEXTS: dict[str, Callable[[Rows], str]] = {
    "q.jsonl": lambda rows: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
    "q.json": lambda rows: json.dumps(rows, indent=1),
    "q.csv": lambda rows: as_table(rows, ","),
    "q.tsv": lambda rows: as_table(rows, "\t"),
}


@pytest.fixture(scope="module")
def some_rows() -> Rows:
    lines = (HERE / "dev.jsonl").read_text(encoding="utf-8").splitlines()[:30]
    rows: Rows = []
    for number, question in enumerate(map(json.loads, lines)):
        choices = [choice["text"] for choice in question["question"]["choices"]]
        stem = question["question"]["stem"] + (" 日本, “2.5” \n or so?" if number % 7 == 0 else "")
        rows.append({"id": f"q{number}", "stem": stem, "choices": choices, "answer": question["answerKey"]})
    return rows


def damaged(number: int, rows: Rows, folder: Path) -> tuple[Path, str]:
    """The damaged file of this number, and what was done to it."""
    dice = random.Random(number)
    kind = dice.choice([*TEXTS, "q.parquet"])
    packing = "" if kind == "q.parquet" else dice.choice(["", ".gz"])
    content = as_parquet(rows) if kind == "q.parquet" else TEXTS[kind](rows).encode()
    done = dice.sample(IN_TEXT, k=dice.choice([0, 1, 2]) if packing else 1) if kind != "q.parquet" else []
    for damage in done:
        content = damage(content, dice)
    content = PACKERS[packing](content)
    if not done:
        done = [dice.choice(IN_FILE)]
        content = done[0](content, dice)
    path = folder / f"{kind}{packing}"
    path.write_bytes(content)
    return path, f"file {number}: {path.name}, {', '.join(damage.__name__ for damage in done)}"


def assert_can_be_asked(questions: list[Question]) -> None:
    assert len({question.id for question in questions}) == len(questions)
    for question in questions:
        assert question.stem.strip()
        assert len(question.choices) >= 2
        assert all(choice.strip() for choice in question.choices)
        assert question.answer is None or 0 <= question.answer < len(question.choices)
        assert len(set(map(question.label, range(len(question.choices))))) == len(question.choices)
        json.dumps(question.__dict__, ensure_ascii=False).encode()  # as a prepared data set keeps it


@pytest.mark.parametrize("count", [QUICK, LONG])
def test_a_damaged_file_is_refused_or_gives_valid_questions(count: int, some_rows: Rows, tmp_path: Path) -> None:
    read = refused = 0
    problems = []
    for number in range(count):
        path, what = damaged(number, some_rows, tmp_path)
        try:
            found = check_questions(path)
            problems += [f"{what}: {problem[:300]!r}" for problem in found.problems if str(path) not in problem]
            try:
                questions = read_splits(path)["test"]
            except UserError as error:
                refused += 1
                if str(path) not in str(error) or not found.problems:
                    problems.append(f"{what}: {str(error)[:300]!r}")
            else:
                read += 1
                assert len(questions) == found.splits["test"].questions
                assert bool(questions) == (not found.problems)
                assert_can_be_asked(questions)
        except Exception as error:
            problems.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
        path.unlink()
    assert not problems, "\n".join(problems)
    assert min(read, refused) > count // 20
