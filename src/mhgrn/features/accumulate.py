"""Sums on disk that survive a kill: every addition counts exactly once."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhgrn.errors import UserError
from mhgrn.io.arrays import DAMAGED_ARRAY, ArrayWriter
from mhgrn.io.locks import locked
from mhgrn.io.markers import read_marker, write_json
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.kg.graph import Ints

MARKER = "unfinished.json"
FORMAT = 1
BLOCK = 8192  # rows read or written at once


class Accumulator:
    """A table of sums and counts in a folder beside ``target``. As a context manager it locks the folder for one process.

    A step is first recorded with the new values of its rows, then applied to the table. If a process is killed in between, the next
    process applies the record again, with the same effect. ``steps`` counts every step once, and a run that was killed any number
    of times writes the same bytes as an uninterrupted one.

    Args:
        target: The folder that the sums are for.
        key: Identifies the work. An unfinished table with another key is refused.
        rows: Number of rows.
        dim: Width of a row.
    """

    def __init__(self, target: Path, key: str, rows: int, dim: int) -> None:
        target = target.resolve()
        self.folder = target.parent / f".{target.name}.unfinished"
        self.key, self.rows, self.dim = key, rows, dim
        self.steps = 0

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            busy = f"another process is building {self.folder}; wait for it, or name another folder with -o."
            stack.enter_context(locked(self.folder / "lock", busy=busy))
            self._open_table()
            self._held = stack.pop_all()
        return self

    def _open_table(self) -> None:
        """Open the table, or create it."""
        if not (self.folder / MARKER).is_file():
            try:
                self._begin()
            except BaseException:
                self.remove()
                raise
        if read_marker(self.folder, MARKER, "unfinished features folder", FORMAT, ("key",))["key"] != self.key:
            raise UserError(
                f"{self.folder} was started with other settings, encoder or graph. Repeat that command to finish it,"
                " delete it, or name another folder with -o."
            )
        self._sums = self._open("sums", "float32", (self.rows, self.dim))
        self._counts = self._open("counts", "int64", (self.rows,))
        if self._record.is_file():
            self._put(self._checked(load_tensors(self._record, is_own=True)))
        if (self._counts < 0).any():
            raise UserError(f"{self.folder / 'counts.npy'} is damaged (a negative count); delete {self.folder} and start again.")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._held.close()

    @property
    def _record(self) -> Path:
        return self.folder / "step.safetensors"

    def _begin(self) -> None:
        # Write the zeros: with a sparse file, a full disk would crash the process later.
        for name, dtype, width in (("sums", np.float32, self.dim), ("counts", np.int64, None)):
            writer = ArrayWriter(self.folder / f"{name}.npy", dtype, width)
            try:
                for start in range(0, self.rows, BLOCK):
                    rows = min(BLOCK, self.rows - start)
                    writer.append(np.zeros(rows if width is None else (rows, width), dtype=dtype))
            finally:
                writer.close()
        self._record.unlink(missing_ok=True)
        write_json(self.folder / MARKER, {"format": FORMAT, "key": self.key})

    def _open(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.memmap:  # type: ignore[type-arg]
        path = self.folder / f"{name}.npy"
        try:
            np.load(path, mmap_mode="r", allow_pickle=False)  # open_memmap would silently extend a truncated file
            array = np.lib.format.open_memmap(path, mode="r+")
        except DAMAGED_ARRAY as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
                raise
            raise UserError(f"{path} is damaged ({error}); delete {self.folder} and start again.") from None
        if array.shape != shape or array.dtype != dtype:
            raise UserError(f"{path} is damaged ({array.dtype} of shape {array.shape}); delete {self.folder} and start again.")
        return array

    def add(self, rows: Ints, sums: Tensor, counts: Tensor) -> None:
        """One step: add ``sums`` [n, dim] and ``counts`` [n] to ``rows`` [n], which may contain a row several times."""
        distinct, place = np.unique(rows, return_inverse=True)
        index = torch.from_numpy(place)
        step = {
            "number": torch.tensor(self.steps),
            "rows": torch.from_numpy(distinct),
            "sums": torch.from_numpy(self._sums[distinct]).index_add_(0, index, sums),
            "counts": torch.from_numpy(self._counts[distinct]).index_add_(0, index, counts),
        }
        # the previous step must be in the table on disk before its record is replaced
        self._sums.flush()
        self._counts.flush()
        save_tensors(self._record, step)
        self._put(step)

    def _checked(self, step: dict[str, Tensor]) -> dict[str, Tensor]:
        """Check a recorded step before it is applied."""
        n = len(step["rows"]) if "rows" in step and step["rows"].dim() else -1
        expected = {
            "number": (torch.int64, ()),
            "rows": (torch.int64, (n,)),
            "sums": (torch.float32, (n, self.dim)),
            "counts": (torch.int64, (n,)),
        }
        found = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in step.items()}
        if (
            found != expected
            or int(step["number"]) < 0
            or (n and not 0 <= int(step["rows"].min()) <= int(step["rows"].max()) < self.rows)
        ):
            raise UserError(f"{self._record} is damaged (its tensors do not fit); delete {self.folder} and start again.")
        return step

    def _put(self, step: dict[str, Tensor]) -> None:
        rows = step["rows"].numpy()
        self._sums[rows] = step["sums"].numpy()
        self._counts[rows] = step["counts"].numpy()
        self.steps = int(step["number"]) + 1

    def covered(self) -> Ints:
        """The rows with at least one addition."""
        return np.flatnonzero(self._counts)

    def means(self) -> Iterator[NDArray[np.float32]]:
        """The means of the covered rows, in order, in blocks."""
        covered = self.covered()
        for start in range(0, len(covered), BLOCK):
            rows = covered[start : start + BLOCK]
            yield (self._sums[rows] / self._counts[rows, None]).astype(np.float32)

    def remove(self) -> None:
        """Delete the folder after its content was used."""
        shutil.rmtree(self.folder)
