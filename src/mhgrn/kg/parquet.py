"""Parquet: a table with columns for head, relation and tail."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.kg.blocks import BLOCK, LONGEST_LINE
from mhgrn.kg.rows import HEADERS, Fields

BATCH = 50_000  # rows at a time, at most


def table(path: Path, advance: Callable[[int], None]) -> Iterator[tuple[int, Fields]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"{path}: reading Parquet needs pyarrow: pip install 'mhgrn[parquet]'.") from None
    size = path.stat().st_size
    number = 0
    try:
        columns = _columns(pyarrow.parquet.read_schema(path), path)
        # texts that repeat are read once, however often a small file repeats large ones
        with pyarrow.parquet.ParquetFile(path, read_dictionary=columns) as file:
            about = file.metadata
            unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
            at_a_time = max(1, min(BATCH, BLOCK * about.num_rows // max(unpacked, 1)))
            for batch in file.iter_batches(at_a_time, columns=columns):
                for row in zip(*(_texts(batch.column(name)) for name in columns), strict=True):
                    number += 1
                    if sum(map(len, row)) > LONGEST_LINE:
                        raise UserError(f"{path}:{number}: a row of more than a million characters; is this a file of triples?")
                    yield number, list(row)
                advance(size * number // max(about.num_rows, 1))
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}:{number + 1}: cannot be read from here on ({reason}); is the file damaged?") from None


def _texts(column: Any) -> list[str]:
    """The cells of a Parquet column; equal ones of a dictionary are one text in memory."""
    column.validate(full=True)  # a damaged file may have cells of no entry of its dictionary
    if hasattr(column, "dictionary"):
        texts = _texts(column.dictionary)
        return ["" if number is None else texts[number] for number in column.indices.to_pylist()]
    return ["" if cell is None else cell.decode() if isinstance(cell, bytes) else str(cell) for cell in column.to_pylist()]


def _columns(schema: Any, path: Path) -> list[str]:
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
