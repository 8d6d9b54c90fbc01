"""Columns of numbers in plain files, appended to and read in order: what a computation that exceeds the memory puts aside."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mhgrn.io.arrays import PIECE
from mhgrn.io.replacing import naming_file

Array = NDArray[Any]


def append_raw(path: Path, values: Array) -> None:
    """Append the bytes of an array to a file. The file is open only meanwhile, so that there may be any number of files."""
    content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    with naming_file(path), path.open("ab", buffering=0) as file:
        for start in range(0, len(content), PIECE):
            rest = content[start : start + PIECE].data
            while rest:
                rest = rest[file.write(rest) :]


class RawReader:
    """Read a file of numbers from its beginning to its end, some at a time.

    Args:
        path: the file. A missing one is empty.
        dtype: the type of the numbers.
        offset: bytes before the first number.
    """

    def __init__(self, path: Path, dtype: DTypeLike, offset: int = 0) -> None:
        self.path, self.dtype, self._at = path, np.dtype(dtype), offset
        size = path.stat().st_size - offset if path.exists() else 0
        self.left = size // self.dtype.itemsize  # numbers that were not read yet

    def take(self, count: int) -> Array:
        """Return the next numbers; fewer at the end."""
        count = min(count, self.left)
        if not count:
            return np.empty(0, self.dtype)
        with naming_file(self.path):
            found = np.fromfile(self.path, self.dtype, count, offset=self._at)
        if len(found) < count:
            raise OSError(f"{self.path} became shorter while it was read")
        self._at += found.nbytes
        self.left -= count
        return found


def array_reader(path: Path) -> RawReader:
    """Read a one-dimensional ``.npy`` file of ours in order."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        _, _, dtype = np.lib.format.read_array_header_1_0(file)
        return RawReader(path, dtype, file.tell())


class Columns:
    """Columns of the same length, each in a file of its own.

    Args:
        folder: the folder of the files.
        types: the type of each column, by name.
    """

    def __init__(self, folder: Path, types: dict[str, DTypeLike]) -> None:
        self.paths = {name: folder / name for name in types}
        self.types = types

    def append(self, columns: dict[str, Array]) -> None:
        """Append rows. Values are converted to the types of the columns."""
        for name, values in columns.items():
            append_raw(self.paths[name], values.astype(self.types[name], copy=False))

    def readers(self) -> dict[str, RawReader]:
        """Return a reader of each column."""
        return {name: RawReader(path, self.types[name]) for name, path in self.paths.items()}
