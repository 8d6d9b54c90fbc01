"""Vectors from a text file of word vectors: Numberbatch, word2vec, GloVe."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mhgrn.errors import UserError
from mhgrn.features.folder import BLOCK, FeatureFolder, Request
from mhgrn.features.source import FeatureSource
from mhgrn.io.fingerprint import file_fingerprint
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.printing import shortened
from mhgrn.progress import bar
from mhgrn.settings import NoEffect, Settings

WIDEST = 65_536  # largest width of a vector; a wider row means another kind of file


class VectorFile:
    """A text file with rows ``word number number …``, with or without word2vec's first line. May be ``.gz``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise UserError(f"{path} does not exist; name a text file of word vectors.")
        with self._open() as file:
            fields = self._first_line(file)
        self.declared: int | None = None  # number of rows, if the first line has it
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
            raise UserError(f"{self.path} is empty; its first line should be a word with its numbers.")
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
                raise UserError(f"{self.path} cannot be unpacked ({error}); is it complete?") from None
        if self.declared not in (None, count):
            raise UserError(f"{self.path}:1 declares {self.declared:,} rows, but there are {count:,}; is the file complete?")

    def _row(self, number: int, fields: list[bytes]) -> tuple[int, str, list[bytes]]:
        # GloVe has words with a space in them, so a row may have more fields than a word and its numbers
        if len(fields) <= self.dim or (len(fields) > self.dim + 1 and _is_number(fields[1])):
            raise UserError(
                f"{self.path}:{number}: {len(fields) - 1} numbers after the word, separated by spaces, not {self.dim} as"
                f" {'in the first line' if self.declared is not None else 'in the first row'}."
            )
        try:
            return number, b" ".join(fields[: -self.dim]).decode(), fields[-self.dim :]
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.path}:{number}: not UTF-8 text ({error.reason}); word2vec's binary form is not supported."
            ) from None

    def numbers(self, line: int, fields: list[bytes]) -> NDArray[np.float32]:
        """A row's numbers, checked."""
        try:
            values = np.array(fields, dtype="S").astype(np.float32)
        except ValueError:
            wrong = next(field for field in fields if not _is_number(field))
            raise UserError(f"{self.path}:{line}: {shortened(wrong.decode(errors='replace'))} is not a number.") from None
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
    """The concept name of a word in a file, in the case of the file. None for a ConceptNet URI of another language.

    >>> word_key("/c/en/Furniture_store/n", "en"), word_key("New_York", "en"), word_key("/c/de/haus", "en")
    ('Furniture_store', 'New_York', None)
    """
    if word.startswith("/c/"):
        parts = word.split("/")
        return parts[3] if len(parts) > 3 and parts[2] == language else None
    return "_".join(word.split())


class VectorSettings(Settings):
    file: Annotated[Path | None, NoEffect()] = Field(None, description="text file of word vectors; identified by its content")
    mean_of_words: bool = Field(True, description="use the mean of a name's words if the file does not have the name")
    language: str = Field("en", description="language of the ConceptNet URIs to read")


class VectorSource(FeatureSource):
    """The vector of a concept is that of its name in a file of word vectors, or the mean of its words' vectors.

    A row with the same spelling is preferred to one that differs in case. Of equal rows, the first is used.
    """

    name = "vectors"
    summary = "a text file of word vectors: Numberbatch, word2vec, GloVe"
    uses_facts = False
    Settings = VectorSettings
    settings: VectorSettings
    opens_directly = False
    always_in_key = ("mean_of_words", "language")

    def __init__(self, graph: KnowledgeGraph, settings: VectorSettings | None = None) -> None:
        super().__init__(graph, settings)
        if self.settings.file is None:
            raise UserError("--from vectors needs a file: mhgrn features build GRAPH --from vectors FILE")
        self.file = VectorFile(self.settings.file)
        self.dim = self.file.dim

    def content(self) -> dict[str, Any]:
        return {"file": file_fingerprint(self.file.path)}

    def write(self, request: Request, place: Path) -> FeatureFolder:
        concepts = request.concepts
        names = [self.graph.name(int(c)).lower() for c in concepts]
        row_of = {name: row for row, name in enumerate(names)}  # of names, and of the words of longer names
        words: list[list[int]] = [
            [row_of.setdefault(word, len(row_of)) for word in name.split("_") if word]
            if self.settings.mean_of_words and "_" in name
            else []
            for name in names
        ]
        existing = next(parent for parent in place.parents if parent.is_dir())
        with TemporaryFile(dir=existing) as scratch:
            table, at = _look_up(self.file, row_of, self.settings.language, scratch)
            usable = [[at[word] for word in found if at[word] >= 0] for found in words]
            covered = np.array([at[row] >= 0 or bool(usable[row]) for row in range(len(names))], dtype=bool)
            if not covered.any():
                raise UserError(f"{self.file.path} has no vector for any of the {len(names):,} concepts; check its language.")

            def blocks() -> Iterator[NDArray[Any]]:
                rows = np.flatnonzero(covered)
                for start in range(0, len(rows), BLOCK):
                    part = rows[start : start + BLOCK]
                    yield np.stack([table[at[r]] if at[r] >= 0 else table[usable[r]].mean(axis=0) for r in part])

            return request.write(place, concepts[covered], blocks(), self.dim)


def _look_up(source: VectorFile, row_of: dict[str, int], language: str, scratch: IO[bytes]) -> tuple[NDArray[Any], Ints]:
    """The vectors of the words in ``row_of`` as a table on disk, and the row of each word in it, -1 for none."""
    at = np.full(len(row_of), -1, dtype=np.int64)
    same_case = np.zeros(len(row_of), dtype=bool)
    count = 0
    for line, word, fields in source.rows():
        key = word_key(word, language)
        if key is None:
            continue
        row = row_of.get(key.lower())
        if row is None or same_case[row] or (at[row] >= 0 and key != key.lower()):
            continue
        scratch.write(source.numbers(line, fields).tobytes())
        at[row], same_case[row] = count, key == key.lower()
        count += 1
    scratch.flush()
    shape = (count, source.dim)
    return np.memmap(scratch, np.float32, "r", shape=shape) if count else np.zeros(shape, dtype=np.float32), at
