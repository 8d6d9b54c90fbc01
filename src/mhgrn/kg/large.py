"""Files of triples → a graph's folder in bounded memory, stage by stage.

1. ``read``: facts with the numbers of their names so far; names that the memory has no room for are put aside.
2. ``names``: all names, by number, and their hash table.
3. ``sort``: sorted runs of facts with final numbers.
4. ``facts``: the merged facts without repetitions, sorted by head, tail and relation; and sorted runs of their ends, both ways.
5. ``neighbors``: the undirected simple graph.

The bytes are those of :func:`mhgrn.kg.building.build`. Ids, labels and aliases, and the texts of origins, are held in memory.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from mhgrn.io.arrays import ArrayWriter, load_array, save_array
from mhgrn.io.raw import RawReader, append_raw
from mhgrn.io.stages import Stages
from mhgrn.kg.building import Inputs, read_into
from mhgrn.kg.fact_table import ImportReport, with_controls
from mhgrn.kg.graph import Ints
from mhgrn.kg.graph_folder import description
from mhgrn.kg.labels import ARRAYS as LABELS
from mhgrn.kg.provenance import ARRAYS as PROVENANCE
from mhgrn.kg.provenance import ORIGIN, ROW, TEXTS, origin_type, row_type
from mhgrn.kg.reader import ImportOptions
from mhgrn.kg.schema import Schema
from mhgrn.kg.sorting import Sorter
from mhgrn.kg.spilled_facts import SpilledFacts, column_types, spilled_blocks
from mhgrn.kg.spilled_slots import write_slots
from mhgrn.kg.spilled_texts import PARTS, Paths, SpilledTexts, text_blocks
from mhgrn.kg.strings import StringIndex
from mhgrn.progress import bar

LOW = np.uint64(0xFFFFFFFF)
_AT_ONCE = 1 << 20  # rows


class LargeBuild:
    """The stages of a build in bounded memory.

    Args:
        stages: The folder of the stages.
        inputs: What the graph is built from.
        options: The rules of import.
        room: Bytes of memory for tables and buffers.
        parts: Into so many parts names are put aside.
    """

    def __init__(self, stages: Stages, inputs: Inputs, options: ImportOptions, room: int, parts: int = PARTS) -> None:
        self.stages, self.inputs, self.options, self.room = stages, inputs, options, room
        self._parts = parts
        self._at = stages.folder
        self._table: SpilledFacts | None = None

    def run(self) -> None:
        """Do all stages that are not done yet."""
        done = self.stages.done
        if "names" not in done and done.get("read", {}).get("has_labels"):
            del done["read"]  # labels are in memory until the names are known
        self.stages.run("read", self._read)
        self.stages.run("names", self._names, drops=["read/texts/aside"])
        self.stages.run("sort", self._sort, drops=["read", "names/numbers"])
        self.stages.run("facts", self._facts, drops=["sort"])
        self.stages.run("neighbors", self._neighbors, drops=["facts/pairs"])

    # ---- 1: facts with names

    def _read(self, folder: Path) -> dict[str, Any]:
        texts = SpilledTexts(folder / "texts", self.room, self._parts)
        table = SpilledFacts(self.inputs.schema, self.options, folder, texts)
        source = read_into(table, self.inputs)
        schema, numbers = table.finished_schema()
        (folder / "origins.json").write_text(json.dumps(table.origin_texts()), encoding="utf-8")
        front, listed_aside = table.names.count, table.close()
        self._table = table
        return {
            "source": source,
            "report": stored_report(table.report),
            "schema": schema.to_dict(),
            "relations": None if numbers is None else numbers.tolist(),
            "has_labels": table.labels is not None,
            "facts": table.facts,
            "front": front,
            "listed_aside": listed_aside,
        }

    # ---- 2: names

    def _names(self, folder: Path) -> dict[str, Any]:
        read = self.stages.done["read"]
        keys = Paths.of(folder, "name")
        (folder / "numbers").mkdir()
        shutil.copy(self._at / "read" / "origins.json", folder)
        count = self._texts.number(keys, folder / "numbers")
        write_slots(folder / "name_slots.npy", keys, count, self.room)
        report = loaded_report(read["report"])
        report.with_controls += _controls(keys, read["front"]) - read["listed_aside"]
        languages = None
        if read["has_labels"]:
            assert self._table is not None  # reading and naming are one stage then
            self._table.report = report
            names = StringIndex(*(load_array(folder / f"name_{kind}.npy") for kind in ("ptr", "bytes", "slots")))
            names, labels = self._table.finished_labels(names)
            assert labels is not None
            languages = labels.languages
            for name, array in (names.to_arrays("name") | labels.arrays).items():
                save_array(folder / f"{name}.npy.new", array)
            for path in folder.glob("*.new"):  # the ids were mapped until now
                path.replace(path.with_suffix(""))
            self._table = None
        return {"report": stored_report(report), "concepts": count, "languages": languages}

    @property
    def _texts(self) -> SpilledTexts:
        return SpilledTexts(self._at / "read" / "texts", self.room, self._parts)

    # ---- 3 and 4: facts

    def _sorter(self, folder: Path, runs: list[int] | None = None) -> Sorter:
        types: list[DTypeLike] = [np.uint64, *column_types(self.options).values()]
        return Sorter(folder, types, self.room, has_minor=True, runs=runs or [])

    def _sort(self, folder: Path) -> dict[str, Any]:
        read = self.stages.done["read"]
        relations = None if read["relations"] is None else np.array(read["relations"], dtype=np.uint16)
        sorter = self._sorter(folder)
        numbers = self._texts.numbers(self._at / "names" / "numbers")
        done = 0
        with bar("sorting facts", read["facts"]) as advance:
            for head, tail, relation, *others in spilled_blocks(self._at / "read", self.options, numbers):
                sorter.add(_keys(head, tail), relation if relations is None else relations[relation], *others)
                done += len(head)
                advance(done)
            runs = sorter.finish()
        return {"runs": runs}

    def _facts(self, folder: Path) -> dict[str, Any]:
        names, sort, read = (self.stages.done[stage] for stage in ("names", "sort", "read"))
        (folder / "pairs").mkdir()
        pairs = Sorter(folder / "pairs", [np.uint64], self.room // 2)
        relation_type = np.uint8 if len(Schema.from_dict(read["schema"])) <= 256 else np.uint16
        columns = column_types(self.options)
        writers = [ArrayWriter(folder / "tail.npy", np.int32), ArrayWriter(folder / "relation.npy", relation_type)]
        writers += [ArrayWriter(folder / "weight.npy", np.float32)] if self.options.weights else []
        heads = PointerWriter(folder / "head_ptr.npy", names["concepts"])
        last = None
        merging = Sorter(self._at / "sort", [np.uint64, *columns.values()], self.room // 2, has_minor=True, runs=sort["runs"])
        with bar("merging facts", read["facts"]) as advance:
            for keys, *others in merging.merged():
                heads.add(keys >> np.uint64(32))
                for writer, column in zip(writers, [keys & LOW, *others], strict=False):
                    writer.append(column)
                for name, column in list(zip(columns, others, strict=True))[len(writers) - 1 :]:
                    append_raw(folder / f"{name}.raw", column)
                is_new = np.concatenate([[last is None or keys[0] != last], keys[1:] != keys[:-1]])
                last, distinct = keys[-1], keys[is_new]
                pairs.add_sorted(distinct)
                pairs.add((distinct << np.uint64(32)) | (distinct >> np.uint64(32)))
                advance(heads.rows)
        for writer in writers:
            writer.close()
        heads.close()
        if self.options.provenance:
            self._provenance(folder, json.loads((self._at / "names" / "origins.json").read_text(encoding="utf-8")))
        report = loaded_report(names["report"])
        report.kept = heads.rows
        report.duplicates = read["facts"] - report.kept
        return {"report": stored_report(report), "pairs": pairs.finish()}

    def _provenance(self, folder: Path, texts: list[str]) -> None:
        """Write where facts come from, in the smallest types, with the origins that are used."""
        used, greatest = np.zeros(len(texts), dtype=bool), 0
        for rows, origins in _raw_blocks(folder):
            used[origins] = True
            greatest = max(greatest, int(rows.max(initial=0)))
        number = np.cumsum(used) - 1
        writers = [ArrayWriter(folder / f"{ROW}.npy", row_type(greatest))]
        writers.append(ArrayWriter(folder / f"{ORIGIN}.npy", origin_type(int(used.sum()))))
        for rows, origins in _raw_blocks(folder):
            writers[0].append(rows)
            writers[1].append(number[origins])
        for writer in writers:
            writer.close()
        for name in ("row", "origin"):
            (folder / f"{name}.raw").unlink(missing_ok=True)
        index = StringIndex.of(texts[place] for place in np.flatnonzero(used).tolist())
        for name, array in index.to_arrays(TEXTS).items():
            save_array(folder / f"{name}.npy", array)

    # ---- 5: neighbors

    def _neighbors(self, folder: Path) -> dict[str, Any]:
        facts = self.stages.done["facts"]
        pairs = Sorter(self._at / "facts" / "pairs", [np.uint64], self.room, runs=facts["pairs"])
        pointer = PointerWriter(folder / "neighbour_ptr.npy", self.stages.done["names"]["concepts"])
        neighbor = ArrayWriter(folder / "neighbour.npy", np.int32)
        with bar("joining neighbors", None) as advance:
            for (keys,) in pairs.merged():
                pointer.add(keys >> np.uint64(32))
                neighbor.append(keys & LOW)
                advance(pointer.rows)
        pointer.close()
        neighbor.close()
        return {}

    def described(self) -> tuple[ImportReport, dict[str, Path], dict[str, Any]]:
        """Return the report, the files of the graph's arrays, and the graph's description."""
        read, names, facts = (self.stages.done[stage] for stage in ("read", "names", "facts"))
        in_facts = ["head_ptr", "tail", "relation", *(["weight"] if self.options.weights else [])]
        places = {
            **dict.fromkeys(in_facts, "facts"),
            **dict.fromkeys(["neighbour_ptr", "neighbour"], "neighbors"),
            **dict.fromkeys(["name_ptr", "name_bytes", "name_slots"], "names"),
            **dict.fromkeys(PROVENANCE if self.options.provenance else (), "facts"),
            **dict.fromkeys(LABELS if names["languages"] is not None else (), "names"),
        }
        arrays = {name: self._at / stage / f"{name}.npy" for name, stage in places.items()}
        report = loaded_report(facts["report"])
        source = {**read["source"], "report": report.to_dict()}
        return report, arrays, description(arrays, Schema.from_dict(read["schema"]), source, names["languages"])


class PointerWriter:
    """Writes where each row begins, given the sorted row numbers of all entries, block by block.

    Args:
        path: The file.
        size: The number of rows.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._writer, self._size, self._next = ArrayWriter(path, np.int64), size, 0
        self.rows = 0  # entries so far

    def add(self, rows: Ints) -> None:
        """Add the row numbers of further entries."""
        rows = rows.astype(np.int64)
        last = int(rows[-1])
        for start in range(self._next, last + 1, _AT_ONCE):
            self._writer.append(self.rows + np.searchsorted(rows, np.arange(start, min(start + _AT_ONCE, last + 1))))
        self._next = max(self._next, last + 1)
        self.rows += len(rows)

    def close(self) -> None:
        for start in range(self._next, self._size + 1, _AT_ONCE):
            self._writer.append(np.full(min(_AT_ONCE, self._size + 1 - start), self.rows))
        self._writer.close()


def _keys(head: Ints, tail: Ints) -> Ints:
    return (head.astype(np.uint64) << np.uint64(32)) | tail.astype(np.uint64)


def _raw_blocks(folder: Path) -> Iterator[tuple[Ints, Ints]]:
    rows, origins = RawReader(folder / "row.raw", np.int64), RawReader(folder / "origin.raw", np.int32)
    while rows.left:
        yield rows.take(_AT_ONCE), origins.take(_AT_ONCE)


def _controls(texts: Paths, first: int) -> int:
    """Count the texts from number ``first`` on that have control or bidirectional characters."""
    found = at = 0
    for ptr, data in text_blocks(texts):
        if at + len(ptr) - 1 > first:
            found += len(with_controls(ptr[max(0, first - at) :], data))
        at += len(ptr) - 1
    return found


def stored_report(report: ImportReport) -> dict[str, Any]:
    """Return a report as JSON values, complete."""
    return report.__dict__ | {"other_relations": dict(report.other_relations)}


def loaded_report(stored: dict[str, Any]) -> ImportReport:
    """Return the report of :func:`stored_report`."""
    return ImportReport(**(stored | {"other_relations": Counter(stored["other_relations"])}))
