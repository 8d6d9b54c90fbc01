"""Question files and rows that are meant to do harm: one short message each, with its place, and little work."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mhgrn.errors import UserError
from mhgrn.questions import reader
from mhgrn.questions.question import Question
from mhgrn.questions.reading import check_questions, questions_from, read_questions

GOOD = '{"question": "Where is a child?", "choices": ["school", "farm"]}\n'


def row(**values: Any) -> str:
    return json.dumps({"question": "Where?", "choices": ["here", "there"]} | values) + "\n"


LINES = {
    "nested lists": ("[" * 200_000 + "\n", "nested too deeply"),
    "nested objects": ('{"question":' * 50_000 + "\n", "nested too deeply"),
    "nested choices": ('{"question": "Where?", "choices": ' + "[" * 900 + "]" * 900 + "}\n", "choice"),
    "a long number": ('{"id": ' + "1" * 5_000 + "}\n", "not JSON"),
    "an infinite id": ('{"id": 1e999, "question": "a", "choices": ["b", "c"]}\n', "the id is neither text nor an integer but inf"),
    "an infinite answer": (
        '{"question": "a", "choices": ["b", "c"], "answer": -1e999}\n',
        "neither a label, a number nor a text but -inf",
    ),
    "an infinite stem": ('{"question": Infinity, "choices": ["b", "c"]}\n', "the question is not text but inf"),
    "NaN for choices": ('{"question": "a", "choices": NaN}\n', "choices is not a list of choices but nan"),
    "half a character": ('{"question": "\\ud800", "choices": ["b", "c"]}\n', "half a character"),
    "half a character in an id": ('{"id": "\\udc00", "question": "a", "choices": ["b", "c"]}\n', "half a character"),
    "half a character in a label": (
        row(choices=[{"label": "\ud800", "text": "a"}, {"label": "b", "text": "b"}]),
        "half a character",
    ),
    "a long id": (row(id="i" * 20_000), "the id has 20,000 characters; at most 10,000"),
    "a long label": (row(choices=[{"label": "l" * 20_000, "text": "a"}, {"label": "b", "text": "b"}]), "a label has 20,000"),
    "many long names of fields": (json.dumps({"n" * 1_000 + str(i): i for i in range(1_000)}) + "\n", "no stem"),
    "an answer that is none": (row(answer="x" * 100_000), "the answer 'xxx"),
    "labels that are equal": (row(choices=[{"label": "l", "text": str(i)} for i in range(900)]), "the same label"),
    "many choices": (row(choices=["c"] * 100_000), "100,000 choices; at most 1,000"),
    "choices with control characters": (row(choices={"\x1b[2J": {}}), "at least two choices"),
    "a list": ("[" + "1," * 100_000 + "1]\n", "not a JSON object"),
}


@pytest.mark.parametrize(("line", "says"), LINES.values(), ids=LINES)
def test_a_hostile_line_is_reported_with_its_number_and_others_are_read(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(GOOD + line + GOOD, encoding="utf-8", errors="surrogatepass")
    found = check_questions(file)
    assert found.splits["test"].questions == 2
    (problem,) = found.problems
    assert problem.startswith(f"{file}:2: ")
    assert says in problem
    assert len(problem) < 700
    assert problem.isprintable()


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".tsv", ".jsonl.gz", ".csv.gz"])
def test_a_line_without_end_is_not_read(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LONGEST_LINE", 10_000)
    file = tmp_path / f"questions{ending}"
    content = (GOOD if "jsonl" in ending else "question,choices\n").encode() + b"x" * 30_000
    file.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    with pytest.raises(UserError, match=r":2: the line has more than 10,000 characters"):
        list(read_questions(file))


def test_a_large_file_of_json_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mhgrn.questions.readers.json.LARGEST_JSON", 1_000)
    file = tmp_path / "questions.json"
    file.write_text(f"[{GOOD}]", encoding="utf-8")
    assert len(list(read_questions(file))) == 1
    file.write_text(f"[{GOOD}]" + " " * 1_000, encoding="utf-8")
    with pytest.raises(UserError, match=r"more than 1,000 bytes; write one object on each line \(\.jsonl\)"):
        list(read_questions(file))
    file.write_text("[" * 100_000, encoding="utf-8")
    monkeypatch.undo()
    with pytest.raises(UserError, match="nested too deeply"):
        list(read_questions(file))


def test_a_wide_table_is_read_in_linear_time(tmp_path: Path) -> None:
    """A header of 300,000 columns, nearly all of them empty choices: quadratic work would take minutes."""
    file = tmp_path / "questions.csv"
    columns = ["question", *(f"choice_{i}" for i in range(300_000))]
    file.write_text(",".join(columns) + "\nWhere?,here,there" + "," * 299_998 + "\n", encoding="utf-8")
    (question,) = read_questions(file)
    assert question.choices == ("here", "there")


def test_repeated_ids_are_named(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(row(id="q" * 9_000) * 2, encoding="utf-8")
    with pytest.raises(UserError, match=r":2: the id 'q+… is already used in line 1") as caught:
        list(read_questions(file))
    assert len(str(caught.value)) < 500


def test_hostile_rows_in_memory() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    endless: list[Any] = []
    endless.append(endless)
    for choices in (nested, endless, [nested, endless]):
        with pytest.raises(UserError) as caught:
            list(questions_from([{"question": "Where?", "choices": choices}]))
        assert len(str(caught.value)) < 300
        with pytest.raises(UserError) as caught:
            Question.asked("Where?", choices)
        assert len(str(caught.value)) < 300
    with pytest.raises(UserError, match=r"the choices are \{'a': 'b'\}; give a list of texts"):
        Question.asked("Where?", {"a": "b"})  # type: ignore[arg-type]
