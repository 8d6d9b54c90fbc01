"""Parquet files with columns for head, relation, tail and perhaps a weight."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.kg.reader import Fields, GraphReader
from mhgrn.kg.readers._lines import BLOCK, LONGEST_LINE
from mhgrn.kg.readers._tables import HEADERS

BATCH = 50_000  # rows read at once, at most


class ParquetReader(GraphReader):
    """Parquet. Columns are found by name, or by position if there are three or four."""

    name = "parquet"
    endings = (".parquet",)

    def rows(self) -> Iterator[tuple[int, Fields]]:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise UserError(f"{self.path}: reading Parquet needs pyarrow: pip install 'mhgrn[parquet]'.") from None
        size = self.path.stat().st_size
        number = 0
        try:
            columns = _columns(pyarrow.parquet.read_schema(self.path), self.path)
            # a repeated text is read once, however often a small file repeats a large one
            with pyarrow.parquet.ParquetFile(self.path, read_dictionary=columns) as file:
                about = file.metadata
                unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
                at_a_time = max(1, min(BATCH, BLOCK * about.num_rows // max(unpacked, 1)))
                for batch in file.iter_batches(at_a_time, columns=columns):
                    for row in zip(*(_texts(batch.column(name)) for name in columns), strict=True):
                        number += 1
                        if sum(map(len, row)) > LONGEST_LINE:
                            raise UserError(
                                f"{self.path}:{number}: a row of more than a million characters; is this a file of triples?"
                            )
                        yield number, list(row)
                    self.advance(size * number // max(about.num_rows, 1))
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = str(error).partition("\n")[0]
            raise UserError(f"{self.path}:{number + 1}: cannot be read from here ({reason}); is the file damaged?") from None


def _texts(column: Any) -> list[str]:
    """Return the cells of a column. Equal cells of a dictionary column are one text in memory."""
    column.validate(full=True)  # a damaged file may refer to missing entries of its dictionary
    if hasattr(column, "dictionary"):
        texts = _texts(column.dictionary)
        return ["" if number is None else texts[number] for number in column.indices.to_pylist()]
    return ["" if cell is None else cell.decode() if isinstance(cell, bytes) else str(cell) for cell in column.to_pylist()]


def _columns(schema: Any, path: Path) -> list[str]:
    """Return the names of the columns for head, relation, tail and perhaps weight."""
    from pyarrow.types import is_nested

    names = [str(name) for name in schema.names]
    lowered = {name.lower(): name for name in names}
    header = next((header for header in HEADERS if set(header) <= set(lowered)), None)
    if header is None and len(names) not in (3, 4):
        raise UserError(f"{path}: the columns are {', '.join(names)}; call them head, relation, tail and, if wanted, weight.")
    columns = names if header is None else [lowered[name] for name in (*header, "weight") if name in lowered]
    for column in columns:
        if [name.lower() for name in names].count(column.lower()) > 1:
            raise UserError(f"{path}: two columns are called {column}; rename one.")
        if is_nested(kind := schema.field(column).type):
            raise UserError(f"{path}: the column {column} holds {kind}, not texts.")
    return columns
