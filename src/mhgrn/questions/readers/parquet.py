"""Parquet, read by pyarrow."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mhgrn.errors import UserError
from mhgrn.questions.reader import NumberedRow, QuestionReader


class ParquetReader(QuestionReader):
    name = "parquet"
    endings = (".parquet",)
    may_be_gzipped = False
    by_line = False

    def rows(self, file: BinaryIO, path: Path) -> Iterator[NumberedRow]:
        try:
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise UserError(f"{path} is a Parquet file; to read it: pip install 'mhgrn[parquet]'") from None
        number = 0
        try:
            for batch in ParquetFile(file).iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
        except (ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise UserError(f"{path} cannot be read as Parquet ({reason}).") from None
