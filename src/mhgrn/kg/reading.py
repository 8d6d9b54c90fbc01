"""Files of triples → blocks of rows: ConceptNet's release, tables (TSV, CSV, Parquet) and N-Triples, plain or compressed."""

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, cast
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.interning import Interner
from mhgrn.kg.kernels import BLANK, LOOK, NOT_ALPHABETIC, OTHER_LANGUAGE, USABLE, split_assertions, split_table
from mhgrn.kg.names import concept_name
from mhgrn.kg.schema import MAX_RELATIONS, Schema

Array = NDArray[Any]
Format = Literal["conceptnet", "tsv", "csv", "ntriples", "parquet"]
Item = TypeVar("Item")

HEADERS = (["head", "relation", "tail"], ["subject", "predicate", "object"], ["start", "rel", "end"])
BLOCK = 1 << 23  # bytes read at a time
LONGEST_LINE = 1 << 20
XZ_MEMORY = 1 << 28  # for decompression: more than xz's own settings need
_SPACE, _NEWLINE = 32, 10
LINES = 1 << 19  # split at a time
BATCH = 50_000  # rows of the formats that Python reads
SHOWN = 5  # malformed rows named in a message
WIDEST = 200  # characters of what is said of each
HEAVIEST = 3.4028235e38  # the largest weight of 32 bits, as it is written


@dataclass(frozen=True)
class ImportOptions:
    """The rules of import. The defaults are those of the paper's graph, with concept names parsed as they were meant.

    ``names="published"`` takes the last part of a ConceptNet URI after its part of speech (``/c/en/cat/n/wn/animal`` is then
    ``animal``), as the published graph does; ``"word"`` takes the word itself (``cat``).
    """

    language: str = "en"
    names: Literal["word", "published"] = "word"
    alphabetic: bool = True  # ConceptNet only: a concept is letters, hyphens and underscores
    prune: bool = True  # leave out the schema's pruned relations and concepts
    self_loops: bool = False  # keep facts that join a concept with itself
    weights: bool = False  # keep each fact's weight
    min_weight: float | None = None  # leave out facts of a smaller weight
    max_bad: float = 0.01  # share of malformed rows past which nothing is built


class Row(NamedTuple):
    """One fact by names, as a file states it."""

    head: str
    relation: str
    tail: str
    weight: float = 1.0


@dataclass
class Rows:
    """Some rows of a file: those to use, as spans of ``text``, and what became of the others."""

    text: Array  # [bytes]
    spans: Array  # [rows, 4] start and end of head, start and end of tail
    relation: Array  # [rows] number of the relation's name
    weight: Array  # [rows]
    seen: int = 0  # usable or not
    other_language: int = 0
    not_alphabetic: int = 0
    other_relations: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    bad_rows: list[str] = field(default_factory=list)


class RelationNames:
    """The relation names that files use, numbered as they appear. Without a schema every name is a relation."""

    def __init__(self, schema: Schema | None) -> None:
        self.schema = schema
        self.names = Interner()
        self._resolved: list[tuple[int, bool]] = []

    def number(self, name: str) -> int:
        return self.names.add(name.encode())

    def resolved(self) -> tuple[Array, Array]:
        """For each name its relation in the schema, -1 if none; and whether it swaps head and tail."""
        for number in range(len(self._resolved), self.names.count):
            name = self.names[number]
            known = self.schema.lookup.get(name.lower(), (-1, False)) if self.schema is not None else (number, False)
            self._resolved.append(known if self.knows(name) else (-1, False))
        pairs = np.array(self._resolved, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1].astype(bool)

    def derived(self) -> tuple[Schema, Array]:
        """A schema of the names that occurred, and each name's relation in it."""
        names = [self.names[number] for number in range(self.names.count)]
        schema = Schema.derived(filter(self.knows, names))
        return schema, np.array([schema.lookup.get(name.lower(), (0, False))[0] for name in names], dtype=np.uint16)

    @property
    def are_too_many(self) -> bool:
        return self.schema is None and self.names.count > MAX_RELATIONS

    def knows(self, name: str) -> bool:
        return not name.startswith("*") if self.schema is None else name.lower() in self.schema.lookup

    def unknown(self, name: str) -> str:
        """What to say of a name that is no relation."""
        if self.schema is None:
            return f"the relation {name!r} begins with *, by which a schema swaps head and tail; rename it."
        members = [member.removeprefix("*") for relation in self.schema.relations for member in relation.members]
        return f"{name!r} is no relation of the schema {self.schema.name}.{did_you_mean(name, members)}"


class BadRow(Exception):
    """A row that is malformed; the message says how."""


class OtherRow(Exception):
    """A well-formed row that is not wanted, of the kind its status says."""

    def __init__(self, status: int, relation: str = "") -> None:
        self.status, self.relation = status, relation


OTHER_RELATION = 100
Parser = Callable[[list[str]], Row]


def read_rows(
    path: Path, kind: Format, relations: RelationNames, options: ImportOptions, advance: Callable[[int], None]
) -> Iterator[Rows]:
    """The rows of a file, block after block."""
    if kind in ("conceptnet", "tsv"):
        yield from _split_blocks(path, kind, relations, options, advance)
    else:
        numbered = {"csv": _csv_rows, "ntriples": _ntriples_rows, "parquet": _parquet_rows}[kind](path, advance)
        parse = partial(_ntriples_row, options=options) if kind == "ntriples" else table_row
        yield from _collected(path, numbered, parse, relations)


def sniff(path: Path) -> Format:
    """Which format a file has, by its ending and its first line."""
    if not path.exists():
        raise UserError(f"{path} does not exist; name a file of triples.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the files of triples in it.")
    if not path.is_file():
        raise UserError(f"{path} is not a file that can be read more than once; write what it holds to a file first.")
    endings = [ending for ending in path.suffixes if ending not in _OPENERS]
    if endings[-1:] == [".parquet"]:
        return "parquet"
    if endings[-1:] == [".nt"]:
        return "ntriples"
    try:
        with path.open("rb") as raw, _body(path, raw) as body:
            line = _first_line(body).decode()
    except (UnicodeDecodeError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path} cannot be read as text ({error}); name a UTF-8 file, or a compressed one ending in .gz.") from None
    if len(parts := line.split("\t")) >= 4 and parts[1].startswith("/r/"):
        return "conceptnet"
    if "\t" in line or not line:
        return "tsv"
    return "ntriples" if _TRIPLE.match(line) else "csv"


def _first_line(body: BinaryIO) -> bytes:
    """The first line that is not blank."""
    found = body.read(LONGEST_LINE).removeprefix(codecs.BOM_UTF8).lstrip()
    while not found and (more := body.read(LONGEST_LINE)):
        found = more.lstrip()
    return found.partition(b"\n")[0] if b"\n" in found else found + body.readline(LONGEST_LINE)


# ---- blocks of whole lines


class _Streams(io.RawIOBase):
    """Compressed streams, one behind the other. The standard library takes a damaged one for the end; here it is an error."""

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


_OPENERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": lambda raw: io.BufferedReader(_Streams(raw, bz2.BZ2Decompressor)),
    ".xz": lambda raw: io.BufferedReader(_Streams(raw, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, XZ_MEMORY))),
}


def _body(path: Path, raw: BinaryIO) -> BinaryIO:
    opener = _OPENERS.get(path.suffix)
    return raw if opener is None else cast(BinaryIO, opener(raw))


class Block(NamedTuple):
    """Whole lines of valid UTF-8."""

    text: bytes
    line: int  # the number of the first
    starts: Array  # [lines + 1] where each begins, and where the last ends

    def parts(self) -> "Iterator[Block]":
        """The same text with some of its lines at a time: short ones are many."""
        bounds = [*range(0, len(self.starts) - 1, LINES), len(self.starts) - 1]
        for start, end in pairwise(bounds):
            yield Block(self.text, self.line + start, self.starts[start : end + 1])


def _blocks(path: Path, advance: Callable[[int], None]) -> Iterator[Block]:
    """A file's lines, some megabytes at a time."""
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
                if lengths.max() > LONGEST_LINE:
                    where = line + int(lengths.argmax())
                    raise UserError(f"{path}:{where}: a line of more than a million characters; is this a file of triples?")
                _check_text(text, path, line)
                yield Block(text, line, starts)
                line += len(starts) - 1
                advance(raw.tell())
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path}:{line}: cannot be read from here on ({error}); is the file damaged or cut off?") from None


def _check_text(block: bytes, path: Path, line: int) -> None:
    place, reason = block.find(b"\0"), "a zero byte"  # in text of two bytes a character, or in no text at all
    try:
        block.decode()
    except UnicodeDecodeError as error:
        place, reason = error.start, error.reason
    if place >= 0:
        where = line + block.count(b"\n", 0, place)
        raise UserError(f"{path}:{where}: not UTF-8 text ({reason}); save the file as UTF-8.")


def _ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, each got ready in a thread while the one before is worked on."""
    nothing = object()
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(next, items, nothing)
        while (item := pending.result()) is not nothing:
            pending = pool.submit(next, items, nothing)
            yield cast(Item, item)


# ---- formats that kernels split


def _split_blocks(
    path: Path, kind: Format, relations: RelationNames, options: ImportOptions, advance: Callable[[int], None]
) -> Iterator[Rows]:
    names = relations.names
    parse = Assertions(options, relations).row if kind == "conceptnet" else table_row
    marks = tuple(_bytes(mark) for mark in ("/r/", "/c/", f"/c/{options.language}/", '"weight": '))
    is_start = kind == "tsv"
    for block in _ahead(_blocks(path, advance)):
        text = np.frombuffer(block.text, dtype=np.uint8)
        if is_start and (first := block.text.strip()):
            is_start = False
            head, _, _ = first.partition(b"\n")
            if is_header(head.decode().split("\t"), path):
                text = text.copy()
                text[: block.text.index(head) + len(head)] = _SPACE
                text[block.starts[1:] - 1] = _NEWLINE
        for part in block.parts():
            starts, count = part.starts, len(part.starts) - 1
            spans, weight = np.zeros((count, 4), dtype=np.int64), np.ones(count)
            relation, status = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.uint8)
            names.reserve(count, len(text))
            where = (text, starts, spans, relation, weight, status, names.slots, names.ptr, names.data, names.count)
            if kind == "conceptnet":
                names.count = split_assertions(*where, marks, options.names == "published", options.alphabetic)
            else:
                names.count = split_table(*where)
            rows = Rows(text, spans, relation, weight, seen=int((status != BLANK).sum()))
            outside = (relation >= 0) & (np.append(relations.resolved()[0], 0)[relation] < 0) & (status != BLANK)
            if kind == "conceptnet":  # such a row need not be looked at further
                numbers, times = np.unique(relation[outside], return_counts=True)
                rows.other_relations.update({names[number]: n for number, n in zip(numbers.tolist(), times.tolist(), strict=True)})
                status[outside] = BLANK
            else:
                status[outside] = LOOK
            rows.other_language = int((status == OTHER_LANGUAGE).sum())
            rows.not_alphabetic = int((status == NOT_ALPHABETIC).sum())
            _look(path, part, status, rows, relations, parse)
            yield rows


def _look(path: Path, block: Block, status: Array, rows: Rows, relations: RelationNames, parse: Parser) -> None:
    """Parse the lines that the kernel left to Python, and keep of ``rows`` what is usable."""
    spans, relation, weight = rows.spans, rows.relation, rows.weight
    extra: list[bytes] = []
    place = len(block.text)
    for i in np.flatnonzero(status == LOOK).tolist():
        fields = block.text[block.starts[i] : block.starts[i + 1]].decode().rstrip("\r\n").split("\t")
        row = _looked_at(fields, f"{path}:{block.line + i}", parse, relations, rows)
        if row is None:
            continue
        status[i] = USABLE
        relation[i], weight[i] = relations.number(row.relation), row.weight
        for side, name in enumerate((row.head.encode(), row.tail.encode())):
            spans[i, 2 * side : 2 * side + 2] = place, place + len(name)
            extra.append(name)
            place += len(name)
    if extra:
        rows.text = np.concatenate([rows.text, np.frombuffer(b"".join(extra), dtype=np.uint8)])
    usable = status == USABLE
    rows.spans, rows.relation, rows.weight = spans[usable], relation[usable], weight[usable]


def _looked_at(fields: list[str] | BadRow, where: str, parse: Parser, relations: RelationNames, rows: Rows) -> Row | None:
    """The row that ``fields`` are, or None after counting why they are none."""
    try:
        if isinstance(fields, BadRow):
            raise fields
        row = parse(fields)
        if not relations.knows(row.relation):
            # the nearest name takes a while to find: only for rows that will be shown
            raise BadRow(relations.unknown(row.relation) if len(rows.bad_rows) < SHOWN else "")
        return row
    except OtherRow as other:
        rows.other_language += other.status == OTHER_LANGUAGE
        rows.not_alphabetic += other.status == NOT_ALPHABETIC
        if other.status == OTHER_RELATION:
            rows.other_relations[other.relation] += 1
    except BadRow as error:
        rows.bad += 1
        if len(rows.bad_rows) < SHOWN:
            reason = str(error)
            rows.bad_rows.append(f"{where}: {reason if len(reason) <= WIDEST else reason[: WIDEST - 1] + '…'}")
    return None


def _bytes(text: str) -> Array:
    return np.frombuffer(text.encode(), dtype=np.uint8).copy()


_POS = re.compile(r"/[navr]$")


@dataclass(frozen=True)
class Assertions:
    """Rows of ConceptNet's release: uri, relation, head, tail, JSON with a weight."""

    options: ImportOptions
    relations: RelationNames

    def row(self, fields: list[str]) -> Row:
        options, prefix = self.options, f"/c/{self.options.language}/"
        if len(fields) != 5:
            raise BadRow(f"{len(fields)} fields separated by tabs, not 5 (uri, relation, start, end, JSON)")
        _, relation, head, tail, details = fields
        if not relation.startswith("/r/"):
            raise BadRow(f"the relation {relation!r} does not begin with /r/")
        if not (head.startswith("/c/") and tail.startswith("/c/")) and relation != "/r/ExternalURL":
            raise BadRow(f"{head!r} and {tail!r} must be concept URIs (/c/language/word)")
        if not (head.startswith(prefix) and tail.startswith(prefix)):
            raise OtherRow(OTHER_LANGUAGE)
        relation = relation.rpartition("/")[2]
        if not self.relations.knows(relation):
            raise OtherRow(OTHER_RELATION, relation)
        weight = _weight(details)
        head, tail = (self._name(uri, prefix) for uri in (head, tail))
        if not head or not tail:
            raise BadRow("a concept without a name")
        if options.alphabetic and not (_is_alphabetic(head) and _is_alphabetic(tail)):
            raise OtherRow(NOT_ALPHABETIC)
        return Row(head, relation, tail, weight)

    def _name(self, uri: str, prefix: str) -> str:
        word = self.options.names == "word"
        return concept_name(uri[len(prefix) :].partition("/")[0] if word else _POS.sub("", uri).rpartition("/")[2])


def _is_alphabetic(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalpha()


def _weight(details: str) -> float:
    try:
        weight = json.loads(details)["weight"]
        if not isinstance(weight, bool) and abs(weight) <= HEAVIEST:
            return float(weight)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise BadRow("the last field is not a JSON object with a weight")


def relation_name(text: str) -> str:
    """A relation as it is spelt, on one line."""
    return " ".join(text.split())


def table_row(fields: list[str]) -> Row:
    """head, relation, tail and, if wanted, a weight."""
    if len(fields) not in (3, 4):
        raise BadRow(f"{len(fields)} fields, not 3 (head, relation, tail) or 4 (and a weight)")
    head, relation, tail = concept_name(fields[0]), relation_name(fields[1]), concept_name(fields[2])
    if not (head and relation and tail):
        raise BadRow("an empty head, relation or tail")
    try:
        weight = float(fields[3]) if len(fields) == 4 and fields[3].strip() else 1.0
    except ValueError:
        raise BadRow(f"the weight {fields[3]!r} is not a number") from None
    if not abs(weight) <= HEAVIEST:
        raise BadRow(f"the weight {fields[3]!r} is not a finite number")
    return Row(head, relation, tail, weight)


def is_header(fields: list[str], path: Path) -> bool:
    names = [field.strip().lower() for field in fields[:3]]
    if names not in HEADERS and sorted(names) in map(sorted, HEADERS):
        raise UserError(f"{path}: the columns are {', '.join(names)}; put them in the order head, relation, tail.")
    return names in HEADERS


# ---- formats that Python reads row by row


def _collected(
    path: Path, numbered: Iterator[tuple[int, list[str] | BadRow]], parse: Parser, relations: RelationNames
) -> Iterator[Rows]:
    """Rows that were read one by one, gathered into blocks."""
    for part in _batches(numbered):
        counts = rows_of([], relations)
        looked_at = [_looked_at(fields, f"{path}:{number}", parse, relations, counts) for number, fields in part]
        usable = rows_of([row for row in looked_at if row is not None], relations)
        yield replace(counts, seen=len(part), text=usable.text, spans=usable.spans, relation=usable.relation, weight=usable.weight)


def _batches(numbered: Iterator[tuple[int, list[str] | BadRow]]) -> Iterator[list[tuple[int, list[str] | BadRow]]]:
    """Rows by the thousands, or fewer where they are long."""
    part, size = [], 0
    for number, fields in numbered:
        part.append((number, fields))
        size += 0 if isinstance(fields, BadRow) else sum(map(len, fields))
        if len(part) == BATCH or size > BLOCK:
            yield part
            part, size = [], 0
    if part:
        yield part


def rows_of(rows: Sequence[Row], relations: RelationNames) -> Rows:
    """Facts by names as a block of rows."""
    names = [name.encode() for row in rows for name in (row.head, row.tail)]
    ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
    return Rows(
        text=np.frombuffer(b"".join(names), dtype=np.uint8),
        spans=np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, 4),
        relation=np.array([relations.number(row.relation) for row in rows], dtype=np.int64),
        weight=np.array([row.weight for row in rows], dtype=np.float64),
        seen=len(rows),
    )


def _lines(path: Path, advance: Callable[[int], None]) -> Iterator[str]:
    for block in _ahead(_blocks(path, advance)):
        yield from (f"{line}\n" for line in block.text[:-1].decode().split("\n"))


def _csv_rows(path: Path, advance: Callable[[int], None]) -> Iterator[tuple[int, list[str] | BadRow]]:
    reader = csv.reader(_lines(path, advance), strict=True)
    is_first = True
    while True:
        start = reader.line_num + 1
        row: list[str] | BadRow
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = BadRow(f"malformed ({error})")
        if reader.line_num > start and (isinstance(row, BadRow) or len(row) not in (3, 4)):
            raise UserError(f"{path}:{start}: a quotation mark is opened here that takes in the lines below; close or double it.")
        if isinstance(row, BadRow) or any(map(str.strip, row)):
            if isinstance(row, BadRow) or not (is_first and is_header(row, path)):
                yield start, row
            is_first = False


_TRIPLE = re.compile(
    r"""\s*(?P<subject><[^<>"{}|^`\\\s]*>|_:\S+)\s+<(?P<predicate>[^<>"{}|^`\\\s]*)>\s+
    (?:(?P<object><[^<>"{}|^`\\\s]*>|_:\S+?)|"(?P<literal>(?:[^"\\\n\r]|\\.)*)"(?:@(?P<language>[a-zA-Z0-9-]+)|\^\^<[^<>\s]*>)?)
    \s*\.\s*(?:\#.*)?$""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def _ntriples_rows(path: Path, advance: Callable[[int], None]) -> Iterator[tuple[int, list[str] | BadRow]]:
    for number, line in enumerate(_lines(path, advance), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, [line]


def _ntriples_row(fields: list[str], options: ImportOptions) -> Row:
    """<subject> <predicate> <object> . Resources are named by the last part of their address, literals by their text."""
    found = _TRIPLE.match(fields[0])
    if found is None:
        raise BadRow("not of the form <subject> <predicate> <object> .")
    language = found["language"]
    if language is not None and language.partition("-")[0].lower() != options.language:
        raise OtherRow(OTHER_LANGUAGE)
    tail = _resource(found["object"]) if found["object"] is not None else concept_name(_ESCAPE.sub(_unescaped, found["literal"]))
    head, relation = _resource(found["subject"]), relation_name(_local_name(found["predicate"]))
    if not (head and relation and tail):
        raise BadRow("a subject, predicate or object without a name")
    return Row(head, relation, tail)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1 and int(code[1:], 16) < 0xD800:
        return chr(int(code[1:], 16))
    if len(code) > 1 and 0xDFFF < int(code[1:], 16) <= 0x10FFFF:
        return chr(int(code[1:], 16))
    if code not in _ESCAPED:
        raise BadRow(f"\\{code} stands for no character")
    return _ESCAPED[code]


def _resource(term: str) -> str:
    return concept_name(term.removeprefix("_:") if term.startswith("_:") else _local_name(term[1:-1]))


def _local_name(address: str) -> str:
    """The last part of an address.

    >>> _local_name("http://dbpedia.org/resource/New_York_City"), _local_name("http://www.w3.org/2000/01/rdf-schema#label")
    ('New_York_City', 'label')
    """
    return unquote(re.split(r"[/#]", address.rstrip("/#"))[-1])


def _parquet_rows(path: Path, advance: Callable[[int], None]) -> Iterator[tuple[int, list[str] | BadRow]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"{path}: reading Parquet needs pyarrow: pip install 'mhgrn[parquet]'.") from None
    size = path.stat().st_size
    number = 0
    try:
        columns = _parquet_columns(pyarrow.parquet.read_schema(path), path)
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


def _parquet_columns(schema: Any, path: Path) -> list[str]:
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
