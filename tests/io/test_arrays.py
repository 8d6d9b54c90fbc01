"""Arrays round-trip through ``.npy`` files; damaged files are user errors."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mhgrn.errors import UserError
from mhgrn.io.arrays import PIECE, ArrayWriter, load_array, save_array


@settings(max_examples=40)
@given(
    parts=st.lists(arrays.arrays(np.int64, st.integers(0, 5), elements=st.integers(-(2**40), 2**40)), max_size=5),
    dtype=st.sampled_from([np.int64, np.int32, np.float32]),
)
def test_an_appended_array_is_the_concatenation_of_its_parts(
    tmp_path_factory: pytest.TempPathFactory, parts: list[np.ndarray], dtype: type
) -> None:
    path = tmp_path_factory.mktemp("arrays") / "array.npy"
    writer = ArrayWriter(path, dtype)
    for part in parts:
        writer.append(part)
    writer.close()
    found = load_array(path)
    expected = np.concatenate([np.zeros(0, np.int64), *parts]).astype(dtype)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, expected)


def test_rows_are_written_as_a_matrix(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path / "matrix.npy", np.float16, width=3)
    for rows in (4, 0, 2_000):
        writer.append(np.full((rows, 3), rows))
    writer.close()
    found = load_array(tmp_path / "matrix.npy")
    assert (found.shape, found.dtype) == ((2_004, 3), np.float16)
    assert (found[:4] == 4).all()
    assert (found[4:] == 2_000).all()


def test_an_array_larger_than_one_piece_is_written_completely(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 100, (PIECE, 3), dtype=np.uint16)
    save_array(tmp_path / "array.npy", array)
    np.testing.assert_array_equal(load_array(tmp_path / "array.npy"), array)
    assert (tmp_path / "array.npy").stat().st_size == 128 + array.nbytes


def test_an_unclosed_array_reads_as_empty(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path / "array.npy", np.int64)
    writer.append(np.arange(10_000))
    writer._file.flush()
    assert len(load_array(tmp_path / "array.npy")) == 0
    writer.close()
    assert len(load_array(tmp_path / "array.npy")) == 10_000


def test_damaged_and_missing_arrays_are_user_errors(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    with pytest.raises(UserError, match="missing"):
        load_array(path)
    np.save(path, np.arange(100))
    whole = path.read_bytes()
    for damaged in (b"", b"not an array", whole[:-8], whole[:20]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            load_array(path)
    np.save(path, np.array([{"code": "is never run"}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="damaged"):
        load_array(path)
