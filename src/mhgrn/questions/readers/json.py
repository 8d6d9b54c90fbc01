"""JSON: one list of objects."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mhgrn.errors import UserError
from mhgrn.questions.reader import LARGEST_JSON, NumberedRow, QuestionReader, as_row


class JSONReader(QuestionReader):
    name = "json"
    endings = (".json",)
    by_line = False

    def rows(self, file: BinaryIO, path: Path) -> Iterator[NumberedRow]:
        content = file.read(LARGEST_JSON + 1)
        if len(content) > LARGEST_JSON:
            raise UserError(f"{path} has more than {LARGEST_JSON:,} bytes; write one object on each line (.jsonl) instead.")
        try:
            rows = json.loads(content.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise UserError(f"{path}:{line}: not UTF-8 text ({error.reason}).") from None
        except json.JSONDecodeError as error:
            hint = " If each line is an object, rename the file to .jsonl." if error.msg == "Extra data" else ""
            raise UserError(f"{path}:{error.lineno}: not JSON ({error.msg} at column {error.colno}).{hint}") from None
        except ValueError as error:
            raise UserError(f"{path}: not JSON ({error}).") from None
        except RecursionError:
            raise UserError(f"{path}: not JSON (nested too deeply).") from None
        if not isinstance(rows, list):
            raise UserError(f"{path}: not a list of questions (`[{{…}}, …]`).")
        yield from enumerate(map(as_row, rows), start=1)
