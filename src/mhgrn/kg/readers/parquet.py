"""Parquet files with columns for head, relation, tail and perhaps a weight, read by pyarrow.

Reading and checking takes 1.05 s of processor time for 1.38 million rows. Pyarrow 26 without the checks takes 0.82 s, and polars
2.1, which would be another dependency, takes 0.65 s (``benchmarks/table_readers.py``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mhgrn.compiled.jit import kernel
from mhgrn.errors import UserError
from mhgrn.kg.columns import INDEX, ROLES, known_columns, named_columns
from mhgrn.kg.names import concept_name
from mhgrn.kg.reader import BATCH_SIZE, MAX_WEIGHT, GraphReader, RowBlock, relation_name
from mhgrn.kg.readers._lines import BLOCK, LONGEST_LINE
from mhgrn.kg.readers._split import LOOK, Array, Columns, is_ascii, look, trimmed
from mhgrn.printing import shown

BATCH = 50_000  # rows read at once, at most
BUFFER = 1 << 20  # bytes of a column that are read at once, however large its row group is


class ParquetReader(GraphReader):
    """Parquet. Columns are found by name, or by position if there are three or four."""

    name = "parquet"
    endings = (".parquet",)
    heeds = frozenset({"columns"})

    def blocks(self) -> Iterator[RowBlock]:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise UserError(f"{self.path}: reading Parquet needs pyarrow: pip install 'mhgrn[parquet]'.") from None
        size = self.path.stat().st_size
        number = 0
        try:
            about = pyarrow.parquet.read_metadata(self.path)
            columns = self._columns(about.schema.to_arrow_schema())
            repeated = _with_dictionary(about) & set(columns)
            with pyarrow.parquet.ParquetFile(
                self.path, metadata=about, read_dictionary=sorted(repeated), buffer_size=BUFFER, pre_buffer=False
            ) as file:
                unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
                at_a_time = max(1, min(BATCH, BLOCK * about.num_rows // max(unpacked, 1)))
                for batch in file.iter_batches(at_a_time, columns=columns):
                    yield from _parts(self._block([batch.column(name) for name in columns], number + 1))
                    number += len(batch)
                    self.advance(size * number // max(about.num_rows, 1))
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = str(error).partition("\n")[0]
            raise UserError(f"{self.path}:{number + 1}: cannot be read from here ({reason}); is the file damaged?") from None

    def _block(self, cells: Sequence[Any], first: int) -> RowBlock:
        """Return the rows of columns of cells. ``first`` is the number of the first row."""
        head, relation, tail = map(_Texts.of, cells[:3])
        columns = Columns.empty(len(cells[0]))
        weight, sizes = columns.weight, head.sizes() + relation.sizes() + tail.sizes()
        usable = np.ones(len(weight), dtype=bool)
        if len(cells) == 4:
            weight[:], weight_sizes = _weights(cells[3])
            usable &= np.abs(weight) <= MAX_WEIGHT
            sizes += weight_sizes
        for i in np.flatnonzero(sizes > LONGEST_LINE).tolist():
            if sum(len(_text(column[i].as_py())) for column in cells) > LONGEST_LINE:
                raise UserError(f"{self.path}:{first + i}: a row of more than a million characters; is this a file of triples?")
        head, tail = head.named(), tail.named()
        spans = columns.spans
        spans[:, :2], spans[:, 2:] = head.spans(), tail.spans() + len(head.data)
        usable &= (spans[:, 0] < spans[:, 1]) & (spans[:, 2] < spans[:, 3])
        columns.relation[:] = -1
        columns.relation[usable] = self._relations(relation, usable)
        columns.status[columns.relation < 0] = LOOK
        rows = RowBlock(np.concatenate([head.data, tail.data]), spans, columns.relation, weight, seen=len(weight))
        look(self, first, lambda i: [_text(column[i].as_py()) for column in cells], columns, rows)
        return rows

    def _columns(self, schema: Any) -> list[str]:
        """Return the names of the columns for head, relation, tail and perhaps weight."""
        from pyarrow.types import is_nested

        names = [str(name) for name in schema.names]
        lowered = [name.lower() for name in names]
        if self.options.columns is not None:
            places: dict[str, int] | None = named_columns(self.options.columns, names, str(self.path))[0]
        else:
            places = known_columns(names, str(self.path))
        if places is None:
            kept = [place for place, name in enumerate(lowered) if not INDEX.fullmatch(name)]
            if len(kept) not in (3, 4):
                raise UserError(
                    f"{self.path}: the columns are {shown(', '.join(names))}; name head, relation and tail among them (--columns)."
                )
            places = dict(zip(ROLES, kept, strict=False))
            self.goes_by_order = True
        columns = [names[places[role]] for role in ROLES if role in places]
        for column in columns:
            if lowered.count(column.lower()) > 1:
                raise UserError(f"{self.path}: two columns are called {shown(column)}; rename one.")
            if is_nested(kind := schema.field(column).type):
                raise UserError(f"{self.path}: the column {shown(column)} holds {kind}, not texts.")
        return columns

    def _relations(self, column: "_Texts", usable: Array) -> Array:
        """Return the number of the relation's name of each usable row, -1 for an unusable name."""
        used, codes = _used(column.codes[usable], len(column.starts))
        names = [relation_name(column.text(code)) for code in used.tolist()]
        known = [self.relations.number(name) if name and self.relations.knows(name) else -1 for name in names]
        return np.array(known, dtype=np.int64)[codes]


def _with_dictionary(about: Any) -> set[str]:
    """Return the columns that are stored as numbers of texts, at least in part.

    They are read as such: a text is read once, however often a small file repeats a large one. The texts of a row group stay in
    memory until its end, so other columns are read as they are.
    """
    groups = (about.row_group(i) for i in range(about.num_row_groups))
    chunks = (group.column(j) for group in groups for j in range(group.num_columns))
    return {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}


class _Texts(NamedTuple):
    """A column of texts. Equal cells may share a text."""

    codes: Array  # [rows] number of each cell's text
    starts: Array  # [texts]
    ends: Array  # [texts]
    data: Array  # [bytes] UTF-8

    @classmethod
    def of(cls, column: Any) -> "_Texts":
        """Make a column of texts of any Arrow array. A missing cell is an empty text."""
        from pyarrow import array

        column.validate(full=True)  # a damaged file may refer to missing entries of its dictionary
        values, codes = column, np.arange(len(column))
        if hasattr(column, "dictionary"):
            values = column.dictionary
            codes = column.indices.cast("int64").fill_null(len(values)).to_numpy()
            if len(values) > len(codes):  # a batch that uses few entries of a dictionary
                used, codes = _used(codes, len(values) + 1)
                values = values.take(array(used, mask=used == len(values)))
        ptr, data = _encoded(values)
        return cls(codes, np.append(ptr[:-1], 0), np.append(ptr[1:], 0), data)

    def text(self, code: int) -> str:
        return self.data[self.starts[code] : self.ends[code]].tobytes().decode()

    def sizes(self) -> Array:
        """Return the number of bytes of each cell."""  # [rows]
        return (self.ends - self.starts)[self.codes]

    def spans(self) -> Array:
        """Return the start and end of each cell in ``data``."""  # [rows, 2]
        return np.stack([self.starts, self.ends], axis=1)[self.codes]

    def named(self) -> "_Texts":
        """Return the texts as names of concepts; ASCII is only trimmed, since interning normalizes the rest."""
        starts, ends = self.starts.copy(), self.ends.copy()
        other = np.flatnonzero(_trim(self.data, starts, ends)).tolist()
        names = [concept_name(self.text(i)).encode() for i in other]
        bounds = len(self.data) + np.cumsum([0, *map(len, names)], dtype=np.int64)
        starts[other], ends[other] = bounds[:-1], bounds[1:]
        return _Texts(self.codes, starts, ends, np.append(self.data, np.frombuffer(b"".join(names), dtype=np.uint8)))


def _used(codes: Array, count: int) -> tuple[Array, Array]:
    """Return which of ``count`` codes occur, ascending, and the place of each code among them. It is a faster ``np.unique``."""
    occurs = np.zeros(count, dtype=bool)
    occurs[codes] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def _encoded(values: Any) -> tuple[Array, Array]:
    """Return the bounds and the bytes of the texts of an Arrow array."""
    import pyarrow

    if values.type not in (pyarrow.string(), pyarrow.large_string(), pyarrow.binary(), pyarrow.large_binary()):
        texts = [_text(cell).encode() for cell in values.to_pylist()]
        return np.cumsum([0, *map(len, texts)], dtype=np.int64), np.frombuffer(b"".join(texts), dtype=np.uint8)
    if not len(values):
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    values = values.cast(pyarrow.large_string()).fill_null("")  # refuses bytes that are not UTF-8
    _, offsets, data = values.buffers()
    ptr = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data or b"", dtype=np.uint8)[ptr[0] : ptr[-1]]
    return ptr - ptr[0], content


def _weights(column: Any) -> tuple[Array, Array]:
    """Return the weight of each cell, NaN for what is not a number, and its number of bytes as a text."""
    import pyarrow

    if pyarrow.types.is_integer(column.type) or column.type in (pyarrow.float32(), pyarrow.float64()):
        weight = column.cast(pyarrow.float64(), safe=False).fill_null(1.0).to_numpy(zero_copy_only=False)
        return weight, np.zeros(len(weight), dtype=np.int64)
    texts = _Texts.of(column)
    values = np.array([_number(texts.text(code)) for code in range(len(texts.starts))])
    return values[texts.codes], texts.sizes()


def _number(text: str) -> float:
    try:
        return float(text) if text.strip() else 1.0
    except ValueError:
        return float("nan")


def _text(cell: object) -> str:
    return "" if cell is None else cell.decode() if isinstance(cell, bytes) else str(cell)


def _parts(rows: RowBlock) -> Iterator[RowBlock]:
    """Yield the rows in blocks whose names are not too long together."""
    size = np.cumsum(rows.spans[:, 1] - rows.spans[:, 0] + rows.spans[:, 3] - rows.spans[:, 2])
    if not len(size) or size[-1] <= BATCH_SIZE:
        yield rows
        return
    part = size // BATCH_SIZE
    for number in range(int(part[-1]) + 1):
        chosen = slice(*np.searchsorted(part, [number, number + 1]).tolist())
        lines = None if rows.lines is None else rows.lines[chosen]
        some = RowBlock(rows.text, rows.spans[chosen], rows.relation[chosen], rows.weight[chosen], lines=lines)
        # the first block has the counts of all
        yield replace(rows, spans=some.spans, relation=some.relation, weight=some.weight, lines=lines) if number == 0 else some


@kernel
def _trim(data: Array, starts: Array, ends: Array) -> Array:
    """Trim texts of ASCII characters in place, and return which texts have others."""
    other = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        if is_ascii(data, starts[i], ends[i]):
            starts[i], ends[i] = trimmed(data, starts[i], ends[i])
        else:
            other[i] = True
    return other
