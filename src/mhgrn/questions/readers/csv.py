"""CSV: a header, then one question per row."""

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, ClassVar

from mhgrn.errors import UserError
from mhgrn.printing import shortened
from mhgrn.questions.reader import NumberedRow, QuestionReader, is_utf8, lines_of


class CSVReader(QuestionReader):
    name = "csv"
    endings = (".csv",)
    usual_delimiter: ClassVar[str] = ","

    def rows(self, file: BinaryIO, path: Path) -> Iterator[NumberedRow]:
        reader = csv.reader(lines_of(file, path, ""), delimiter=self.delimiter or self.usual_delimiter, strict=True)
        names: list[str] | None = None
        while True:
            number = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if names is None:
                    raise UserError(f"{path}:{number}: the header is malformed ({error}).") from None
                yield number, UserError(f"malformed ({error}).")
                continue
            if not cells:
                continue
            if names is None:
                names = _header(cells, f"{path}:{number}")
            elif not all(map(is_utf8, cells)):
                yield number, UserError("not UTF-8 text.")
            elif len(cells) != len(names):
                yield number, UserError(f"{len(cells)} fields, but the header has {len(names)}.")
            else:
                yield number, dict(zip(names, cells, strict=True))


def _header(cells: list[str], place: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    if not all(map(is_utf8, names)):
        raise UserError(f"{place}: not UTF-8 text.")
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise UserError(f"{place}: two columns are named {shortened(repeated[0])}.")
    return names
