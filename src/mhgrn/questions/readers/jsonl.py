"""JSON lines: one object on each line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mhgrn.errors import UserError
from mhgrn.questions.reader import NumberedRow, QuestionReader, as_row, is_utf8, lines_of


class JSONLinesReader(QuestionReader):
    name = "jsonl"
    endings = (".jsonl", ".ndjson")

    def rows(self, file: BinaryIO, path: Path) -> Iterator[NumberedRow]:
        for number, line in enumerate(lines_of(file, path, "\n"), start=1):
            if not line.strip():
                continue
            if not is_utf8(line):
                yield number, UserError("not UTF-8 text.")
                continue
            try:
                yield number, as_row(json.loads(line))
            except json.JSONDecodeError as error:
                yield number, UserError(f"not JSON ({error.msg} at column {error.colno}).")
            except ValueError as error:  # a number with too many digits
                yield number, UserError(f"not JSON ({error}).")
            except RecursionError:
                yield number, UserError("not JSON (nested too deeply).")
