"""Questions, from published files and from rows in memory; an invalid row is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pytest

from mhgrn.errors import UserError
from mhgrn.questions.datasets import Dataset
from mhgrn.questions.fields import FieldNames
from mhgrn.questions.question import Question
from mhgrn.questions.reading import questions_from, read_questions, read_splits


def line(number: int | str = 1, key: str | None = "B", texts: tuple[Any, ...] = ("bank", "river"), **more: Any) -> str:
    choices = [{"label": label, "text": text} for label, text in zip("ABCDE", texts, strict=False)]
    row = {"id": f"q{number}", "question": {"stem": "Where is it?", "choices": choices}}
    return json.dumps(row | ({"answerKey": key} if key is not None else {}) | more)


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
    return path


def test_published_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(
        "\ufeff" + "\n".join([line(1), "", line(2, None), line(3, ""), line(4, "A", (" bank ", "bank"))]), encoding="utf-8"
    )
    one, two, three, four = read_questions(path)
    assert one == Question("q1", "Where is it?", ("bank", "river"), 1, ("A", "B"))
    assert two.answer is three.answer is None
    assert (four.choices, four.answer) == (("bank", "bank"), 0)
    assert one.label(1) == "B"


def test_ids_and_labels_may_be_absent_or_numbers(tmp_path: Path) -> None:
    plain = {"question": {"stem": " Where? ", "choices": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}, "answerKey": "C"}
    numbered = {
        "id": 7,
        "question": {"stem": "Where?", "choices": [{"label": 1, "text": "a"}, {"label": 2, "text": "b"}]},
        "answerKey": 2,
    }
    first, second = read_questions(write(tmp_path / "q.jsonl", json.dumps(plain), json.dumps(numbered)))
    assert first == Question("1", "Where?", ("a", "b", "c"), 2, ("A", "B", "C"))
    assert (second.id, second.answer, second.labels) == ("7", 1, ("1", "2"))


def test_files_may_repeat_a_choice(tmp_path: Path) -> None:
    [question] = read_questions(write(tmp_path / "q.jsonl", line(texts=("a", "a", "a 1"))))
    assert question.choices == ("a", "a", "a 1")


def choices(*entries: Any) -> dict[str, Any]:
    return {"stem": "Where?", "choices": list(entries)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("3", "not a JSON object"),
        ('{"id": "x"}', "no stem: looked for question.stem or question_stem or stem or question; the row has id."),
        (line(question="Where?"), "no choices: looked for question.choices or choices or choice_*; the row has id,"),
        (line(question={"stem": "Where?", "choices": "a"}), "at least two choices"),
        (line(question={"choices": [{"text": "a"}, {"text": "b"}]}), "the question is empty"),
        (line(question=choices({"text": "a"}, {"text": "b"}) | {"stem": "  "}), "the question is empty"),
        (line(question=choices({"label": "A"}, {"text": "b"})), "choice 1 is empty"),
        (line(question=choices({"label": "A"}, {"label": "B"})), "the question.choices have no field 'text' but label"),
        (line(question=choices("a", {"text": "b"})), "choice 2 is not text"),
        (line(question={"stem": "Where?", "choices": 3}), "question.choices is not a list of choices but 3"),
        (line(question={"stem": "Where?", "choices": {"text": ["a", "b"], "label": ["A"]}}), "1 labels for 2 choices"),
        (line(id=None), "the id is empty"),
        (line(id=[1]), "the id is neither text nor an integer"),
        (line(id=" "), "the id is empty"),
        (line(question_concept=7), "the concept is not text"),
        (line(key=1.5), "the answerKey is neither a label"),
        (line(key=1), "the answerKey 1 is none of the labels A, B, nor a choice's text. If it is an index, declare"),
        ('{"id": ' + "9" * 5000 + "}", "not JSON (Exceeds"),
        ("[" * 100_000, "not JSON"),
        (line(texts=("bank",), key="A"), "at least two choices"),
        (line(texts=()), "at least two choices"),
        (line(texts=("bank", " ")), "choice 2 is empty"),
        (line(texts=("bank", None)), "choice 2 is empty"),
        (line(texts=("bank", ["x"])), "choice 2 is not text"),
        (line(key="E"), "answerKey 'E' is none of the labels A, B"),
        (line(question=choices({"label": "B", "text": "a"}, {"label": "B", "text": "b"})), "label"),
        (line("first"), "the id 'qfirst' is already used in line 1"),
        (line(texts=("bank", "half an emoji \ud83d")), "choice 2"),
    ],
)
def test_an_invalid_line_is_named(tmp_path: Path, wrong: str, message: str) -> None:
    path = write(tmp_path / "q.jsonl", line("first"), "", wrong, line(4))
    with pytest.raises(UserError, match=r"q\.jsonl:3: ") as raised:
        list(read_questions(path))
    assert message in str(raised.value)


def test_unreadable_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        list(read_questions(tmp_path / "nowhere.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes(line(1).encode() + b"\n" + '{"id": "é"}'.encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.jsonl:\d: not UTF-8"):
        list(read_questions(tmp_path / "latin.jsonl"))


def test_a_question_from_a_user_is_validated() -> None:
    assert Question.asked(" Where? ", ["a ", "b"]) == Question("", "Where?", ("a", "b"))
    assert Question.asked("Where?", ["a", "b"]).label(1) == "B"
    for stem, given, message in (
        ("", ["a", "b"], "question is empty"),
        ("Where?", ["a"], "at least two"),
        ("Where?", ["a", ""], "choice 2 is empty"),
        ("Where?", ["a", "b", "a"], "'a' is given twice"),
    ):
        with pytest.raises(UserError, match=message):
            Question.asked(stem, given)


@pytest.mark.parametrize(
    ("stem", "choices", "message"),
    [
        ("x" * 100_001, ["a", "b"], "the question has 100,001 characters; at most 100,000 are allowed."),
        ("why", ["a", "b" * 10_001], "choice 2 has 10,001 characters; at most 10,000 are allowed."),
        ("why", [str(n) for n in range(1_001)], "the question has 1,001 choices; at most 1,000 are allowed."),
        ("x" * 90_000, [str(n) for n in range(12)], "the question with each of its 12 choices has 1,080,014 characters;"),
        ("_ __ " * 2_000, ["a" * 300, "b" * 300], "the question with each of its 2 choices has 1,219,998 characters;"),
        ("\ufdfa" * 6_000, ["a", "b"], "the question has 108,000 characters; at most 100,000 are allowed."),
    ],
)
def test_a_question_of_excessive_size_is_refused(stem: str, choices: list[str], message: str) -> None:
    for make in (
        lambda: Question.asked(stem, choices),
        lambda: Question("1", stem.strip(), tuple(choices)),
        lambda: Question.from_dict({"question": stem, "choices": choices}),
    ):
        with pytest.raises(UserError) as raised:
            make()
        assert str(raised.value).startswith(message)


def test_a_context_counts_as_part_of_the_question() -> None:
    fields = FieldNames(context=["passage"])
    row = {"passage": "x" * 100_000, "question": "why?", "choices": ["a", "b"]}
    with pytest.raises(UserError, match="the question has 100,006 characters"):
        Question.from_dict(row, fields)


def test_a_folder_gives_its_splits_in_order(tmp_path: Path) -> None:
    write(tmp_path / "test_no_answers.jsonl", line(3, None))
    write(tmp_path / "train_rand_split.jsonl", line(1))
    write(tmp_path / "dev.jsonl", line(2))
    write(tmp_path / "dev_complete.jsonl", line(2))
    found = read_splits(tmp_path)
    assert {split: [q.id for q in questions] for split, questions in found.items()} == {
        "train": ["q1"],
        "dev": ["q2"],
        "test": ["q3"],
    }
    assert list(found) == ["train", "dev", "test"]
    write(tmp_path / "dev2.jsonl", line(2))
    with pytest.raises(UserError, match=r"2 files for dev \(dev\.jsonl, dev2\.jsonl\)"):
        read_splits(tmp_path)


def test_a_single_file_is_a_test_set(tmp_path: Path) -> None:
    assert [q.id for q in read_splits(write(tmp_path / "mine.jsonl", line(1)))["test"]] == ["q1"]
    with pytest.raises(UserError, match="does not exist"):
        read_splits(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"contains no train"):
        read_splits(tmp_path / "empty")


def test_the_in_house_split_divides_the_training_set(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", *map(line, range(6)))
    write(tmp_path / "dev.jsonl", line("d"))
    write(tmp_path / "test.jsonl", line("hidden", None))
    write(tmp_path / "inhouse_split_qids.txt", "q4", "q0", "q1")
    found = {split: [q.id for q in questions] for split, questions in read_splits(tmp_path).items()}
    assert found == {"train": ["q0", "q1", "q4"], "dev": ["qd"], "test": ["q2", "q3", "q5"]}
    write(tmp_path / "inhouse_split_qids.txt", "q4", "q9")
    with pytest.raises(UserError, match=r"1 ids are not in the training set, e\.g\. q9"):
        read_splits(tmp_path)


ROWS = [
    {"id": "x", "question": "Where?", "choices": ["sea", "tree"], "answer": "tree"},
    {"id": "y", "question": "Where?", "choices": ["sea", "tree", "sky"], "answer": None},
]
QUESTIONS = [
    Question("x", "Where?", ("sea", "tree"), 1, ("A", "B")),
    Question("y", "Where?", ("sea", "tree", "sky"), None, ("A", "B", "C")),
]


def as_arrays(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with numpy values, as frames that were read from Parquet have them."""
    return [row | {"choices": {"text": np.array(row["choices"], dtype=object), "label": None}} for row in rows]


@pytest.mark.parametrize(
    "make",
    [list, iter, pd.DataFrame, pl.DataFrame, datasets.Dataset.from_list, as_arrays, lambda rows: pd.DataFrame(as_arrays(rows))],
    ids=["list", "iterator", "pandas", "polars", "datasets", "arrays", "arrays in pandas"],
)
def test_rows_in_memory_are_questions(make: Callable[..., Any]) -> None:
    assert list(questions_from(make(ROWS))) == QUESTIONS
    assert list(questions_from(QUESTIONS)) == QUESTIONS


def test_a_frame_with_indices_as_answers_is_read_by_a_declaration() -> None:
    frame = pd.DataFrame({"question": ["a?", "b?"], "choices": ["x|y", "x|y"], "answer": [1, None]})
    assert [q.answer for q in questions_from(frame, Dataset.of({"fields": {"answer_as": "index-from-0"}}))] == [1, None]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], ROWS[1] | {"choices": ["sea"]}], "row 2: a question needs at least two choices, this one has 1."),
        ([{"question": "Where?"}], "row 1: no choices: looked for question.choices or choices or choice_*; the row has question."),
        ([ROWS[0] | {"answer": "moon"}], "row 1: the answer 'moon' is none of the labels A, B, nor a choice's text."),
        (["Where?"], "row 1: neither a dictionary nor a Question but 'Where?'."),
        (ROWS[0], "give a frame, a dataset or a list of dictionaries, not dict."),
        (3, "give a frame, a dataset or a list of dictionaries, not int."),
    ],
)
def test_invalid_rows_in_memory_are_named(rows: Any, message: str) -> None:
    with pytest.raises(UserError) as raised:
        list(questions_from(rows))
    assert str(raised.value).startswith(message)
