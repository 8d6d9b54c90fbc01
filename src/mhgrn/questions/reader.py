"""Readers of question files: a format is one file in ``questions/readers``, or a plug-in of another package."""

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

from mhgrn.errors import UserError
from mhgrn.plugins import Plugins
from mhgrn.printing import shortened

LONGEST_LINE = 1 << 24  # characters
STANDARD_INPUT, PIPES = Path("/dev/stdin"), (Path("/dev/fd"), Path("/proc/self/fd"))  # of the shell
LARGEST_JSON = 1 << 28  # bytes of a file of JSON, which is read at once

Row = dict[str, Any]
NumberedRow = tuple[int, Row | UserError]
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # surrogateescape decodes bytes that are not UTF-8 to these characters


class QuestionReader:
    """Base class of the readers of question files.

    A subclass in another package becomes usable by its name (``format: NAME`` in a dataset declaration) and by the endings of its
    files, after the package declares it as an entry point::

        [project.entry-points."mhgrn.question_readers"]
        my-format = "my_package.my_format"

    Args:
        delimiter: The delimiter that the dataset declares, for formats that have one.

    >>> class Lines(QuestionReader):
    ...     name, endings = "lines", (".txt",)
    ...
    ...     def rows(self, file, path):
    ...         for number, line in enumerate(decoded(file, "\\n"), start=1):  # Where does a fish live? sea / tree
    ...             stem, _, choices = line.partition("?")
    ...             yield number, {"question": stem + "?", "choices": choices.split("/")}
    >>> Lines().place(Path("quiz.txt"), 3)
    'quiz.txt:3'
    """

    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]
    """Endings of file names, in lower case, for example ``(".csv",)``."""
    may_be_gzipped: ClassVar[bool] = True
    """Whether a file ending in ``.gz`` is unpacked first."""
    by_line: ClassVar[bool] = True
    """Whether rows are numbered by the line they begin on, or else counted."""

    def __init__(self, delimiter: str | None = None) -> None:
        self.delimiter = delimiter

    def rows(self, file: BinaryIO, path: Path) -> Iterator[NumberedRow]:
        """Read the rows of a file, each with its number.

        Yield an invalid row as a ``UserError`` without its place, so that the other rows are read too. Raise a ``UserError`` with
        ``path`` for a file that cannot be read at all.
        """
        raise NotImplementedError

    def place(self, path: Path, number: int) -> str:
        """The place of a row, as error messages begin."""
        return f"{path}:{number}" if self.by_line else f"{path}, row {number}"


READERS: Plugins[type[QuestionReader]] = Plugins(
    "question format", "mhgrn.question_readers", "mhgrn.questions.readers", "mhgrn.questions.reader:QuestionReader"
)


def format_of(path: Path) -> str | None:
    """The name of a file's format by its ending, or None. Readers of other packages are only loaded for endings not built in.

    >>> format_of(Path("train.csv.gz"))
    'csv'
    """
    is_gzipped = path.suffix.lower() == ".gz"
    ending = (path.with_suffix("") if is_gzipped else path).suffix.lower()
    for names in (READERS.built_in(), READERS.entry_points()) if ending else ():
        for name in names:
            reader = READERS.load(name)
            if ending in reader.endings and (reader.may_be_gzipped or not is_gzipped):
                return name
    return None


def endings() -> list[str]:
    """The endings of all formats."""
    return [ending for reader in READERS.load_all().values() for ending in reader.endings]


def read_rows(path: Path, reader: QuestionReader) -> Iterator[NumberedRow]:
    """Open a file and read its rows. An invalid row comes as a ``UserError``; a file that cannot be read raises one."""
    if not path.exists():
        raise UserError(f"{path} does not exist; name a file of questions.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file of questions.")
    if not path.is_file() and path != STANDARD_INPUT and path.parent not in PIPES:  # a device may have no end, a FIFO no writer
        raise UserError(f"{path} is not a regular file; write the questions to a file, or pass them as /dev/stdin.")
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" and reader.may_be_gzipped else path.open("rb") as file:
            yield from reader.rows(cast(BinaryIO, file), path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is not a complete gzip file ({error}).") from None


def decoded(file: BinaryIO, newline: str) -> io.TextIOWrapper:
    """The file as text. Bytes that are not UTF-8 can be found with :func:`is_utf8`, line by line."""
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline=newline)


def lines_of(file: BinaryIO, path: Path, newline: str) -> Iterator[str]:
    """The lines of a text file, see :func:`decoded`. A line without end is not read into memory."""
    text = decoded(file, newline)
    number = 0
    while line := text.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise UserError(f"{path}:{number}: the line has more than {LONGEST_LINE:,} characters.")
        yield line


def is_utf8(text: str) -> bool:
    return not _NOT_UTF8.search(text)


def as_row(value: object) -> Row | UserError:
    return value if isinstance(value, dict) else UserError(f"not a JSON object (`{{…}}`): {shortened(value, 40)}.")
