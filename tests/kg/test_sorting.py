"""Sorting and hash tables on the disk, against numpy and tables in memory."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mhgrn.kg.sorting
from mhgrn.kg.interning import fill_slots
from mhgrn.kg.sorting import Sorter
from mhgrn.kg.spilled_slots import write_slots
from mhgrn.kg.spilled_texts import Paths, TextWriter
from mhgrn.kg.strings import slot_count

keys = st.sampled_from([0, 1, 2, 7, 2**31, 2**32 - 1, 2**32, 5 << 32, 2**63, 2**64 - 1])


@settings(max_examples=60)
@given(st.lists(st.lists(st.tuples(keys, st.integers(0, 3)), max_size=12), max_size=8), st.sampled_from([40, 150, 600, 10**6]))
def test_of_equal_rows_the_first_is_kept(blocks: list[list[tuple[int, int]]], room: int) -> None:
    """The third column, which does not take part in the sort, says which row was kept."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as name:
        patch.setattr(mhgrn.kg.sorting, "FEWEST", 2)
        sorter = Sorter(Path(name), [np.uint64, np.uint16, np.int32], room, has_minor=True)
        rows = 0
        for block in blocks:
            number = np.arange(rows, rows + len(block), dtype=np.int32)
            sorter.add(np.array([k for k, _ in block], np.uint64), np.array([m for _, m in block], np.uint16), number)
            rows += len(block)
        again = Sorter(Path(name), sorter.types, room, has_minor=True, runs=sorter.finish())
        found = [row for block in again.merged() for row in zip(*(column.tolist() for column in block), strict=True)]
    first: dict[tuple[int, int], int] = {}
    for number, row in enumerate(row for block in blocks for row in block):
        first.setdefault(row, number)
    assert found == [(*row, number) for row, number in sorted(first.items())]


def test_rows_that_are_sorted_already_are_merged_with_others(tmp_path: Path) -> None:
    sorter = Sorter(tmp_path, [np.uint64], room=100)
    for start in range(0, 100, 10):
        sorter.add_sorted(np.arange(start, start + 10, dtype=np.uint64))
        sorter.add(np.array([3 * start, 1000 - start], dtype=np.uint64))
    sorter.finish()
    found = np.concatenate([block[0] for block in sorter.merged()])
    assert found.tolist() == sorted({*range(100), *range(0, 300, 30), *range(910, 1001, 10)})


@settings(max_examples=60, deadline=None)
@given(st.sets(st.text("abc", max_size=6), min_size=1, max_size=60), st.sampled_from([8, 32, 64, 256, 10**6]))
def test_a_hash_table_that_is_written_in_pieces_has_the_bytes_of_one_in_memory(texts: set[str], room: int) -> None:
    """Also where texts of the last places of the table go on at its beginning."""
    encoded = [text.encode() for text in sorted(texts, key=lambda text: text[::-1])]
    lengths = np.array([len(text) for text in encoded], dtype=np.uint32)
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    with TemporaryDirectory() as name:
        paths = Paths.of(Path(name), "text")
        writer = TextWriter(paths)
        writer.append(lengths, data)
        writer.close()
        write_slots(Path(name) / "slots.npy", paths, len(encoded), room)
        found = np.load(Path(name) / "slots.npy")
    ptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    assert found.tolist() == fill_slots(ptr, data, len(encoded), slot_count(len(encoded))).tolist()
