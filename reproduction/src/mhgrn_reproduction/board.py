"""The progress of an experiment: a live table in a terminal, otherwise one line for each run."""

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mhgrn.progress import say
from mhgrn_reproduction.cells import Cell

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table


class Board:
    """The state of all cells of an experiment."""

    def __init__(self, title: str, cells: Sequence[Cell], splits: Sequence[str]) -> None:
        self.title, self.cells, self.splits = title, cells, splits
        self.done: dict[str, dict[str, Any]] = {}
        self.running: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self._stream = sys.stderr  # cells redirect their own output
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                get_renderable=self.table,
                console=Console(file=self._stream),
                refresh_per_second=1,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def start(self, cell: Cell) -> None:
        self.running[cell.name] = time.monotonic()

    def finish(self, cell: Cell, result: dict[str, Any]) -> None:
        began = self.running.pop(cell.name, None)
        self.done[cell.name] = result
        if began is not None and self._live is None:
            shown = "  ".join(
                f"{split} {found['accuracy']:.1%}" for split, found in result["splits"].items() if "accuracy" in found
            )
            say(f"{len(self.done)}/{len(self.cells)}  {cell.name}  {shown}  {time.monotonic() - began:.0f} s")
            for warning in result.get("warnings", []):
                say(f"warning: {cell.name}: in its last epoch {warning}")

    def fail(self, cell: Cell, message: str) -> None:
        self.running.pop(cell.name, None)
        self.failed[cell.name] = message
        if self._live is None:
            say(f"{cell.name} failed: {message}")

    def table(self) -> "Table":
        """One row for each system, with the mean of its finished seeds."""
        from rich.table import Table

        title = f"{self.title}: {len(self.done)} of {len(self.cells)} runs"
        table = Table(title=title, min_width=len(title) + 2)
        for name in ("system", *self.splits, "runs", "now"):
            table.add_column(name, justify="left" if name in ("system", "now") else "right")
        for system in dict.fromkeys(cell.system for cell in self.cells):
            mine = [cell for cell in self.cells if cell.system == system]
            results = [self.done[cell.name] for cell in mine if cell.name in self.done]
            now = [f"seed {c.seed} {time.monotonic() - self.running[c.name]:.0f} s" for c in mine if c.name in self.running]
            now += [f"seed {c.seed} failed" for c in mine if c.name in self.failed]
            now += [f"seed {result['seed']}: {warning}" for result in results for warning in result.get("warnings", [])]
            accuracies = [[r["splits"][split]["accuracy"] for r in results] for split in self.splits]
            shown = [f"{np.mean(values):.1%}" if values else "" for values in accuracies]
            table.add_row(system, *shown, f"{len(results)}/{len(mine)}", ", ".join(now))
        return table
