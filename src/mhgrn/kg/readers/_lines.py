"""Text files, plain or compressed, as blocks of whole lines."""

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError

Item = TypeVar("Item")

BLOCK = 1 << 23  # bytes read at once
PIECE = 1 << 16  # bytes read at once, of formats without lines
LONGEST_LINE = 1 << 20
XZ_MEMORY = 1 << 28  # bytes for decompression: more than any preset of xz needs
LINES = 1 << 19  # lines split at once


def millions(longest: int) -> str:
    """Return a limit of length in words.

    >>> millions(1 << 20), millions(1 << 24)
    ('a million', '16 million')
    """
    return "a million" if longest == LONGEST_LINE else f"{longest >> 20} million"


class Block(NamedTuple):
    """Whole lines of valid UTF-8."""

    text: bytes
    line: int  # number of the first line
    starts: NDArray[np.int64]  # [lines + 1] start of each line, and end of the last

    def parts(self) -> "Iterator[Block]":
        """Yield the same text with at most ``LINES`` of its lines at once."""
        bounds = [*range(0, len(self.starts) - 1, LINES), len(self.starts) - 1]
        for start, end in pairwise(bounds):
            yield Block(self.text, self.line + start, self.starts[start : end + 1])


def blocks(path: Path, advance: Callable[[int], None], longest: int = LONGEST_LINE) -> Iterator[Block]:
    """Yield the lines of a file in blocks. Each block is read while the caller works on the previous one."""
    yield from _ahead(_blocks(path, advance, longest))


def lines(path: Path, advance: Callable[[int], None], longest: int = LONGEST_LINE) -> Iterator[str]:
    """Yield the lines of a file with their line ends."""
    for block in blocks(path, advance, longest):
        yield from (f"{line}\n" for line in block.text[:-1].decode().split("\n"))


def first_line(path: Path) -> str:
    """Return the first line of a file that is not blank; with the next one, if it is only a bracket, as in JSON."""
    try:
        with path.open("rb") as raw, _body(path, raw) as body:
            found = body.read(LONGEST_LINE).removeprefix(codecs.BOM_UTF8).lstrip()
            while not found and (more := body.read(LONGEST_LINE)):
                found = more.lstrip()
            line, end, rest = found.partition(b"\n")
            if end and line.strip() == b"[":
                line += end + (rest.partition(b"\n")[0] if b"\n" in rest else rest + body.readline(LONGEST_LINE))
            return (line if end else found + body.readline(LONGEST_LINE)).decode()
    except (UnicodeDecodeError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path} cannot be read as text ({error}); name a UTF-8 file, or a compressed one ending in .gz.") from None


class _Streams(io.RawIOBase):
    """Concatenated compressed streams. A damaged stream is an error; the standard library takes it for the end of the file."""

    def __init__(self, raw: BinaryIO, new: Callable[[], Any]) -> None:
        self._raw, self._new, self._stream = raw, new, new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            more = b""
            if self._stream.eof:
                more = self._stream.unused_data.lstrip(b"\0")  # zeros between streams are padding
                while not more:
                    if not (piece := self._raw.read(io.DEFAULT_BUFFER_SIZE)):
                        return 0
                    more = piece.lstrip(b"\0")
                self._stream = self._new()
            elif self._stream.needs_input and not (more := self._raw.read(io.DEFAULT_BUFFER_SIZE)):
                raise EOFError("the compressed data ends too early")
            data = self._stream.decompress(more, len(buffer))
        buffer[: len(data)] = data
        return len(data)


OPENERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": lambda raw: io.BufferedReader(_Streams(raw, bz2.BZ2Decompressor)),
    ".xz": lambda raw: io.BufferedReader(_Streams(raw, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, XZ_MEMORY))),
}


def pieces(path: Path, advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the content of a file, decompressed, in pieces."""
    line = 1
    try:
        with path.open("rb") as raw, _body(path, raw) as body:
            while piece := body.read(PIECE):
                yield piece
                line += piece.count(b"\n")
                advance(raw.tell())
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _unreadable(path, line, error) from None


def text_pieces(path: Path, content: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces of a file as they are, and refuse what is not UTF-8 text."""
    line, start = 1, b""  # the start of a character that the last piece ends in
    for number, piece in enumerate(content):
        text = start + (piece.removeprefix(codecs.BOM_UTF8) if number == 0 else piece)
        try:
            _, end = codecs.utf_8_decode(text, "strict", False)
        except UnicodeDecodeError:
            end = len(text)
        _check_text(text[:end], path, line)
        yield text[:end]
        line, start = line + text.count(b"\n"), text[end:]
    if start:
        _check_text(start, path, line)


def _unreadable(path: Path, line: int, error: Exception) -> UserError:
    return UserError(f"{path}:{line}: cannot be read from here ({error}); is the file damaged or truncated?")


def _body(path: Path, raw: BinaryIO) -> BinaryIO:
    opener = OPENERS.get(path.suffix)
    return raw if opener is None else cast(BinaryIO, opener(raw))


def _blocks(path: Path, advance: Callable[[int], None], longest: int) -> Iterator[Block]:
    line = 1
    try:
        with path.open("rb") as raw, _body(path, raw) as body:
            rest = body.read(BLOCK).removeprefix(codecs.BOM_UTF8)
            while rest:
                more = body.read(BLOCK)
                end = rest.rfind(b"\n") + 1 if more else len(rest)
                text, rest = rest[:end], rest[end:] + more
                if not more and not text.endswith(b"\n"):
                    text += b"\n"
                starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == 10) + 1])
                lengths = np.append(np.diff(starts), 0 if end else len(rest))
                if lengths.max() > longest:
                    where = line + int(lengths.argmax())
                    raise UserError(
                        f"{path}:{where}: a line of more than {millions(longest)} characters; is this a file of triples?"
                    )
                _check_text(text, path, line)
                if text:  # else the line goes on
                    yield Block(text, line, starts)
                line += len(starts) - 1
                advance(raw.tell())
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _unreadable(path, line, error) from None


def _check_text(block: bytes, path: Path, line: int) -> None:
    place, reason = block.find(b"\0"), "a zero byte"  # UTF-16 text, or no text at all
    try:
        block.decode()
    except UnicodeDecodeError as error:
        place, reason = error.start, error.reason
    if place >= 0:
        where = line + block.count(b"\n", 0, place)
        raise UserError(f"{path}:{where}: not UTF-8 text ({reason}); save the file as UTF-8.")


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the same items, each prepared in a thread while the caller works on the previous one."""
    nothing = object()
    pool = ThreadPoolExecutor(1)
    try:
        pending = pool.submit(next, items, nothing)
        while (item := pending.result()) is not nothing:
            pending = pool.submit(next, items, nothing)
            yield cast(Item, item)
    finally:
        # not waiting for the thread: the garbage collector may come here while it holds a lock that the thread needs to end
        pool.shutdown(wait=False)
