"""Arrays in ``.npy`` files: memory-mapped when read, never unpickled."""

from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mhgrn.errors import UserError
from mhgrn.io.replacing import naming_file

PIECE = 1 << 18  # bytes written at once; for larger writes Linux allocates large pages in its cache, which is slow
# what numpy raises for a file that is no array: it parses the header as Python
DAMAGED_ARRAY = (ValueError, EOFError, OSError, TypeError, SyntaxError, TokenError, OverflowError, KeyError, RecursionError)


def load_array(path: Path) -> NDArray[Any]:
    """Memory-map a ``.npy`` array of at least one dimension."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise UserError(f"{path} is missing; build its folder again.") from None
    except DAMAGED_ARRAY as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path} is damaged ({str(error)[:200]}); build its folder again.") from None
    if not isinstance(loaded, np.ndarray) or not loaded.ndim:
        raise UserError(f"{path} is damaged (not an array with rows); build its folder again.")
    return loaded.view(np.ndarray)  # slicing a numpy.memmap is several times slower


def load_arrays(folder: Path, lengths: dict[str, int]) -> dict[str, NDArray[Any]]:
    """Memory-map the arrays of a folder by name; raise a :class:`UserError` if an array has another length."""
    arrays = {name: load_array(folder / f"{name}.npy") for name in lengths}
    for name, length in lengths.items():
        if len(arrays[name]) != length:
            raise UserError(f"{folder / name}.npy has {len(arrays[name])} entries, not {length}; build its folder again.")
    return arrays


class ArrayWriter:
    """Append to a ``.npy`` file whose final length is unknown.

    Args:
        path: the file to write.
        dtype: the type of its elements.
        width: the number of columns; None writes a one-dimensional array.
    """

    def __init__(self, path: Path, dtype: DTypeLike, width: int | None = None) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._row = () if width is None else (width,)
        self._file = path.open("wb+")
        self._write_header()

    def _write_header(self) -> None:
        # numpy pads the header so that the length can grow in place
        self._file.seek(0)
        shape = (self.length, *self._row)
        np.lib.format.write_array_header_1_0(self._file, {"descr": self.dtype.str, "fortran_order": False, "shape": shape})

    def append(self, values: NDArray[Any]) -> None:
        """Write further elements, or rows, at the end."""
        content = np.ascontiguousarray(values, dtype=self.dtype).reshape(-1).view(np.uint8)
        with naming_file(self.path):
            for start in range(0, len(content), PIECE):
                self._file.write(content[start : start + PIECE].data)
        self.length += len(values)

    def close(self) -> None:
        """Write the length into the header. A file that was not closed reads as empty."""
        with naming_file(self.path), self._file:
            self._write_header()


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array of one or two dimensions. Unlike ``numpy.save``, a failed write names the file and the cause."""
    writer = ArrayWriter(path, array.dtype, array.shape[1] if array.ndim > 1 else None)
    try:
        writer.append(array)
    finally:
        writer.close()


def are_rows_sorted(ptr: NDArray[Any], values: NDArray[Any]) -> bool:
    """Whether the values of each row, from ``ptr[i]`` to ``ptr[i + 1]``, ascend.

    >>> are_rows_sorted(np.array([0, 2, 3]), np.array([4, 7, 1])), are_rows_sorted(np.array([0, 3]), np.array([4, 7, 1]))
    (True, False)
    """
    begins = np.zeros(len(values) + 1, dtype=bool)
    begins[ptr] = True
    return not ((values[1:] < values[:-1]) & ~begins[1:-1]).any()
