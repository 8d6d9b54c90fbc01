"""Tables of head, relation, tail and perhaps a weight, separated by commas.

The csv module reads it, though polars 2.1 is 26x faster (``benchmarks/table_readers.py``): polars stops at the first malformed
row without naming its line, and pyarrow 26 reads some malformed rows as valid ones.
"""

import csv
from collections.abc import Iterator

from mhgrn.errors import UserError
from mhgrn.kg.reader import BadRow, Fields, GraphReader
from mhgrn.kg.readers._lines import lines
from mhgrn.kg.readers._tables import is_header


class CsvReader(GraphReader):
    """Comma-separated values, with a header or without."""

    name = "csv"
    is_any_table = True

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return bool(line) and "\t" not in line

    def rows(self) -> Iterator[tuple[int, Fields]]:
        reader = csv.reader(lines(self.path, self.advance), strict=True)
        is_first = True
        while True:
            start = reader.line_num + 1
            row: Fields
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                row = BadRow(f"malformed ({error})")
            if reader.line_num > start and (isinstance(row, BadRow) or len(row) not in (3, 4)):
                raise UserError(
                    f"{self.path}:{start}: a quotation mark opens here and is not closed on this line; close or double it."
                )
            if isinstance(row, BadRow) or any(map(str.strip, row)):
                if isinstance(row, BadRow) or not (is_first and is_header(row, self.path)):
                    yield start, row
                is_first = False
