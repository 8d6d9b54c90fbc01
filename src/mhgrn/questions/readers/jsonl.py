"""JSON lines: one object on each line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mhgrn.errors import UserError
from mhgrn.questions.reader import NumberedRow, QuestionReader, as_row, decoded, is_utf8


class JSONLinesReader(QuestionReader):
    name = "jsonl"
    endings = (".jsonl", ".ndjson")

    def rows(self, file: BinaryIO, path: Path) -> Iterator[NumberedRow]:
        for number, line in enumerate(decoded(file, "\n"), start=1):
            if not line.strip():
                continue
            if not is_utf8(line):
                yield number, UserError("not UTF-8 text.")
                continue
            try:
                yield number, as_row(json.loads(line))
            except json.JSONDecodeError as error:
                yield number, UserError(f"not JSON ({error.msg} at column {error.colno}).")
            except (ValueError, RecursionError) as error:  # a number with too many digits, a row nested too deeply
                yield number, UserError(f"not JSON ({error}).")
