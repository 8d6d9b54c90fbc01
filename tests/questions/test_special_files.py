"""Question files that are no regular files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.questions.reading import read_questions

LINE = '{"question": "Where is a fish?", "choices": ["sea", "tree"]}\n'


def test_devices_and_pipes_without_a_writer_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "device.jsonl").symlink_to("/dev/urandom")
    for name in ("fifo.jsonl", "device.jsonl"):
        with pytest.raises(UserError, match="not a regular file"):
            list(read_questions(tmp_path / name))


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file.jsonl").write_text(LINE, encoding="utf-8")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "file.jsonl")
    assert [question.choices for question in read_questions(tmp_path / "link.jsonl")] == [("sea", "tree")]


def test_standard_input_is_read() -> None:
    code = "from mhgrn.questions.reading import read_questions; print([q.stem for q in read_questions('/dev/stdin')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, input=LINE, capture_output=True, text=True)
    assert done.stdout == "['Where is a fish?']\n"
