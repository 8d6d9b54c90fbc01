"""Rows of JSON lines, JSON, CSV, TSV and Parquet files, one at a time, each with where it stands."""

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from mhgrn.errors import UserError

Row = dict[str, Any]
Format = Literal["jsonl", "json", "csv", "tsv", "parquet"]
ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of bytes that are no UTF-8


def format_of(path: Path) -> Format | None:
    """A file's format by its ending, if that tells it.

    >>> format_of(Path("train.csv.gz"))
    'csv'
    """
    found = ENDINGS.get(_without_gz(path).suffix.lower())
    return None if found == "parquet" and path.suffix.lower() == ".gz" else found


def _without_gz(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path


def place(path: Path, number: int, kind: Format) -> str:
    """Where a row stands, as messages begin: by line where a person can go to it."""
    return f"{path}, row {number}" if kind in ("json", "parquet") else f"{path}:{number}"


def read_rows(path: Path, kind: Format, delimiter: str | None = None) -> Iterator[tuple[int, Row | UserError]]:
    """A file's rows with their line (JSON lines, CSV, TSV) or their number (JSON, Parquet).

    A row that cannot be read comes as the error that says why; a file that cannot be read raises.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; name a file of questions.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file of questions.")
    if kind == "parquet":
        yield from _parquet_rows(path)
        return
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            body = cast(BinaryIO, file)
            if kind == "json":
                yield from _json_rows(path, body.read())
            elif kind == "jsonl":
                yield from _json_line_rows(_text(body, "\n"))
            else:
                yield from _csv_rows(path, _text(body, ""), delimiter or ("\t" if kind == "tsv" else ","))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is damaged ({error}); it is no whole gzip file.") from None


def _text(body: BinaryIO, newline: str) -> io.TextIOWrapper:
    """Text in which a wrong byte spoils its own line only."""
    return io.TextIOWrapper(body, encoding="utf-8-sig", errors="surrogateescape", newline=newline)


def _json_line_rows(lines: io.TextIOWrapper) -> Iterator[tuple[int, Row | UserError]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if _NOT_UTF8.search(line):
            yield number, UserError("not UTF-8 text.")
            continue
        try:
            yield number, _object(json.loads(line))
        except json.JSONDecodeError as error:
            yield number, UserError(f"not JSON ({error.msg} at column {error.colno}).")
        except (ValueError, RecursionError) as error:  # a number of too many digits, a row too deep
            yield number, UserError(f"not JSON ({error}).")


def _object(value: object) -> Row | UserError:
    return value if isinstance(value, dict) else UserError(f"no object with named values (`{{…}}`) but {str(value)[:40]}.")


def _json_rows(path: Path, content: bytes) -> Iterator[tuple[int, Row | UserError]]:
    try:
        rows = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not UTF-8 text ({error.reason}).") from None
    except json.JSONDecodeError as error:
        more = " One object a line is JSON lines: name the file .jsonl." if error.msg == "Extra data" else ""
        raise UserError(f"{path}:{error.lineno}: not JSON ({error.msg} at column {error.colno}).{more}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error}).") from None
    if not isinstance(rows, list):
        raise UserError(f"{path}: no list of questions (`[{{…}}, …]`).")
    yield from enumerate(map(_object, rows), start=1)


def _csv_rows(path: Path, lines: io.TextIOWrapper, delimiter: str) -> Iterator[tuple[int, Row | UserError]]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
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
        spoilt = any(map(_NOT_UTF8.search, cells))
        if names is None:
            names = [cell.strip() for cell in cells]
            if spoilt:
                raise UserError(f"{path}:{number}: not UTF-8 text.")
            if twice := [name for name in names if names.count(name) > 1]:
                raise UserError(f"{path}:{number}: two columns are named {twice[0]!r}.")
        elif spoilt:
            yield number, UserError("not UTF-8 text.")
        elif len(cells) != len(names):
            yield number, UserError(f"{len(cells)} fields, the header has {len(names)}.")
        else:
            yield number, dict(zip(names, cells, strict=True))


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row | UserError]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UserError(f"{path} is Parquet, which needs another package: pip install 'mhgrn[parquet]'.") from None
    number = 0
    try:
        for batch in ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise UserError(f"{path} cannot be read as Parquet ({reason}).") from None
