"""Facts by names → columns of numbers on the disk, in bounded memory."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from mhgrn.io.raw import Columns, RawReader, append_raw
from mhgrn.kg.fact_table import FactTable, with_controls
from mhgrn.kg.graph import Ints
from mhgrn.kg.interning import Interner
from mhgrn.kg.reader import ImportOptions
from mhgrn.kg.schema import Schema
from mhgrn.kg.spilled_texts import Numbers, SpilledTexts
from mhgrn.kg.strings import StringIndex

_LISTED = 50_000  # names that are numbered together


def column_types(options: ImportOptions) -> dict[str, DTypeLike]:
    """Return the columns that are kept of facts besides head and tail. The first one is the relation."""
    more: dict[str, DTypeLike] = {"weight": np.float32} if options.weights else {}
    return {"relation": np.uint16, **more, **({"row": np.int64, "origin": np.int32} if options.provenance else {})}


class SpilledFacts(FactTable):
    """A table of facts that is kept on the disk.

    Until the hash table of names is as large as the memory allows, facts have the final numbers of their concepts. From then on the
    names of each block are numbered on their own, and a block is stored with its names.

    Args:
        schema: As for :class:`~mhgrn.kg.fact_table.FactTable`.
        options: The rules of import.
        folder: Where facts are written.
        texts: What numbers the names.
    """

    def __init__(self, schema: Schema | None, options: ImportOptions, folder: Path, texts: SpilledTexts) -> None:
        super().__init__(schema, options)
        self.texts = texts
        self.names = self.block_names = texts.front
        self.facts = 0
        self._folder = folder
        self._columns_of = Columns(folder, {"head": np.int32, "tail": np.int32, **column_types(options)})
        self._own = Interner()
        self._listed_controls: set[str] = set()

    @property
    def has_names(self) -> bool:
        return self.names.count > 0 or self.texts.is_full

    def list_concepts(self, names: Iterable[str]) -> None:
        own = Interner()
        for name in names:
            own.add(name.encode())
            if own.count == _LISTED:
                self._add_listed(own)
                own = Interner()
        self._add_listed(own)

    def _add_listed(self, names: Interner) -> None:
        self.texts.add(names)
        self._write_block(0, names.count)
        self._listed_controls |= {names[i] for i in with_controls(names.ptr[: names.count + 1], names.data).tolist()}

    def _interner(self, texts: int, size: int) -> Interner:
        # the first rows of a file are compared with each other: their names are numbered together
        has_begun = self.first_rows.size > 0 and not self.first_rows.are_enough
        if self.block_names is self.names and (has_begun or self.texts.has_room(texts, size)):
            return super()._interner(texts, size)
        if self.block_names is self.names or not has_begun:
            self._own = Interner()
        self._own.reserve(texts, size)
        return self._own

    def _report_controls(self, known: int, head: Ints, tail: Ints, lines: Ints | None, where: str) -> None:
        if self.block_names is self.names:
            super()._report_controls(known, head, tail, lines, where)
        elif not self.report.first_with_controls:  # how many there are is counted when all names are known
            own = self._own
            for name in (known + with_controls(own.ptr[known : own.count + 1], own.data)).tolist():
                if own[name] not in self._listed_controls:
                    self._report_first_control(name, head, tail, lines, where)
                    return

    def _keep(self, *columns: Ints) -> None:
        head, relation, tail, weight, *others = columns
        values = {"head": head, "tail": tail, "relation": relation, "weight": weight}
        values |= dict(zip(("row", "origin"), others, strict=False))
        self._columns_of.append({name: values[name] for name in self._columns_of.paths})
        own = 0
        if self.block_names is not self.names:
            self.texts.add(self.block_names)
            own = self.block_names.count
        self._write_block(len(head), own)
        self.facts += len(head)

    def _write_block(self, facts: int, names: int) -> None:
        append_raw(self._folder / "blocks", np.array([facts, names], dtype=np.int64))

    def close(self) -> int:
        """Write what is in memory. Returns how many listed names with control characters are put aside."""
        front = StringIndex(self.names.ptr, self.names.data, self.names.slots)
        aside = sum(front.find(name) is None for name in self._listed_controls)
        self.texts.close()
        self.names = self.block_names = self._own = Interner()
        return aside

    def origin_texts(self) -> list[str]:
        """Return the origins of facts by number."""
        return self._origins.texts()


def spilled_blocks(folder: Path, options: ImportOptions, numbers: Numbers) -> Iterator[tuple[Ints, ...]]:
    """Yield the facts of :class:`SpilledFacts` with the final numbers of their concepts: head, tail, and the other columns."""
    columns = Columns(folder, {"head": np.int32, "tail": np.int32, **column_types(options)}).readers()
    blocks = RawReader(folder / "blocks", np.int64)
    while blocks.left:
        facts, names = blocks.take(2).tolist()
        head, tail, *others = (reader.take(facts) for reader in columns.values())
        if names:
            number = numbers.take(names)
            head, tail = number[head], number[tail]
        yield head, tail, *others
