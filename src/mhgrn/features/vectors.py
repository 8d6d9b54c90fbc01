"""Features from a text file of word vectors: Numberbatch, word2vec, GloVe."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.features.folder import BLOCK, HOLDS, MARKER, FeatureFolder, Request, reached
from mhgrn.io.fingerprint import file_fingerprint
from mhgrn.io.folders import check_replaceable
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import bar, say

WIDEST = 65_536  # numbers a vector may have; more is some other kind of file


class VectorFile:
    """Rows of a text file, ``word number number …``, with or without word2vec's first line; ``.gz`` too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise UserError(f"{path} does not exist; name a text file of word vectors.")
        with self._open() as file:
            fields = self._first_line(file)
        self.declared: int | None = None  # rows, if the file says how many
        if len(fields) == 2 and all(field.isdigit() for field in fields):
            self.declared, self.dim = map(int, fields)
        else:
            self.dim = len(fields) - 1
        if not 1 <= self.dim <= WIDEST:
            raise UserError(f"{path}:1: not a row of word vectors (a word, then its numbers, separated by spaces).")

    def _open(self) -> IO[bytes]:
        if self.path.suffix == ".gz":
            return gzip.open(self.path)  # type: ignore[return-value]
        return self.path.open("rb")

    def _first_line(self, file: IO[bytes]) -> list[bytes]:
        try:
            line = file.readline(20 * WIDEST)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self.path} cannot be unpacked ({error}).") from None
        if not line.strip():
            raise UserError(f"{self.path} is empty: its first line should be a word with its numbers.")
        if line.startswith(b"PK\x03\x04"):
            raise UserError(f"{self.path} is a zip archive; unpack it first.")
        return line.split()

    def rows(self) -> Iterator[tuple[int, str, list[bytes]]]:
        """Line number, word and numbers (still as text) of every row."""
        count = 0
        with self._open() as file, bar("reading vectors", self.path.stat().st_size) as advance:
            compressed = getattr(file, "fileobj", None) or file
            try:
                for number, line in enumerate(file, start=1):
                    if number % 10_000 == 0:
                        advance(compressed.tell())
                    if (number == 1 and self.declared is not None) or not line.strip():
                        continue
                    yield self._row(number, line.rstrip(b" \r\n").split(b" "))
                    count += 1
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise UserError(f"{self.path} cannot be unpacked to its end ({error}); is it whole?") from None
        if self.declared not in (None, count):
            raise UserError(f"{self.path}:1 speaks of {self.declared:,} rows, but there are {count:,}; is the file whole?")

    def _row(self, number: int, fields: list[bytes]) -> tuple[int, str, list[bytes]]:
        # GloVe has words with a space in them, so a row may have more fields than a word and its numbers
        if len(fields) <= self.dim or (len(fields) > self.dim + 1 and _is_number(fields[1])):
            raise UserError(
                f"{self.path}:{number}: {len(fields) - 1} numbers after the word, separated by spaces, not {self.dim} as"
                f" {'the first line says' if self.declared is not None else 'in the first row'}."
            )
        try:
            return number, b" ".join(fields[: -self.dim]).decode(), fields[-self.dim :]
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.path}:{number}: not UTF-8 text ({error.reason}); of word2vec's two forms only that of text is read."
            ) from None

    def numbers(self, line: int, fields: list[bytes]) -> NDArray[np.float32]:
        """A row's numbers, checked."""
        try:
            values = np.array(fields, dtype="S").astype(np.float32)
        except ValueError:
            wrong = next(field for field in fields if not _is_number(field))
            raise UserError(f"{self.path}:{line}: {wrong.decode(errors='replace')!r} is not a number.") from None
        if not np.isfinite(values).all() or np.abs(values).max() > np.finfo(np.float16).max:
            raise UserError(f"{self.path}:{line}: a number is infinite, not a number (NaN), or too large for 16-bit floats.")
        return values


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def word_key(word: str, language: str) -> str | None:
    """How a graph would name the concept of a file's word, but for its case; None for a ConceptNet URI of another language.

    >>> word_key("/c/en/Furniture_store/n", "en"), word_key("New_York", "en"), word_key("/c/de/haus", "en")
    ('Furniture_store', 'New_York', None)
    """
    if word.startswith("/c/"):
        parts = word.split("/")
        return parts[3] if len(parts) > 3 and parts[2] == language else None
    return "_".join(word.split())


def from_vectors(
    graph: KnowledgeGraph,
    path: str | Path,
    folder: str | Path | None = None,
    only: Iterable[str | Path] = (),
    mean_of_words: bool = True,
    language: str = "en",
) -> FeatureFolder:
    """A concept's vector is the file's for its name; failing that, and if so wished, the mean of those of its words.

    A row that is spelt as the concept is goes before one that differs in case; of equals, the first in the file counts.
    """
    path = Path(path)
    source = VectorFile(path)
    concepts = reached(graph, only)
    about = {"from": "vectors", "file": file_fingerprint(path), "mean_of_words": mean_of_words, "language": language}
    request = Request(graph, concepts, about)
    place = check_replaceable(request.place(folder), MARKER, HOLDS)
    if (found := request.finished(place)) is not None:
        say(f"{place} is there already.")
        return found
    names = [graph.name(int(c)) for c in concepts]
    # each concept's name is looked for, and each word of a longer one
    row_of = {name: row for row, name in enumerate(names)}
    words: list[list[int]] = [
        [row_of.setdefault(word, len(row_of)) for word in name.split("_") if word] if mean_of_words and "_" in name else []
        for name in names
    ]
    existing = next(parent for parent in place.parents if parent.is_dir())
    with TemporaryFile(dir=existing) as scratch:
        table, at = _look_up(source, row_of, language, scratch)
        usable = [[at[word] for word in found if at[word] >= 0] for found in words]
        covered = np.array([at[row] >= 0 or bool(usable[row]) for row in range(len(names))], dtype=bool)
        if not covered.any():
            raise UserError(f"{path} has a vector for none of the {len(names):,} concepts; is it of another language?")

        def blocks() -> Iterator[NDArray[Any]]:
            rows = np.flatnonzero(covered)
            for start in range(0, len(rows), BLOCK):
                part = rows[start : start + BLOCK]
                yield np.stack([table[at[r]] if at[r] >= 0 else table[usable[r]].mean(axis=0) for r in part])

        return request.write(place, concepts[covered], blocks(), source.dim)


def _look_up(source: VectorFile, row_of: dict[str, int], language: str, scratch: IO[bytes]) -> tuple[NDArray[Any], Ints]:
    """The vectors of words in ``row_of``, in a table on disk; and which of its rows each word has, -1 for none."""
    at = np.full(len(row_of), -1, dtype=np.int64)
    spelt_alike = np.zeros(len(row_of), dtype=bool)
    count = 0
    for line, word, fields in source.rows():
        key = word_key(word, language)
        if key is None:
            continue
        row = row_of.get(key.lower())
        if row is None or spelt_alike[row] or (at[row] >= 0 and key != key.lower()):
            continue
        scratch.write(source.numbers(line, fields).tobytes())
        at[row], spelt_alike[row] = count, key == key.lower()
        count += 1
    scratch.flush()
    shape = (count, source.dim)
    return np.memmap(scratch, np.float32, "r", shape=shape) if count else np.zeros(shape, dtype=np.float32), at
