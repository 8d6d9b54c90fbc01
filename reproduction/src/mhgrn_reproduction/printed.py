"""Results of experiments with a table of their own: their file, their table and their figure."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.markers import read_marker, write_json
from mhgrn_reproduction.cells import made
from mhgrn_reproduction.formats import Printed, check
from mhgrn_reproduction.tables import FIGURE, TABLE, grid, try_to_draw
from mhgrn_reproduction.titles import PRINTED

FORMAT = 1
RESULT = "result.json"
Row = list[str]


def result(name: str, columns: Sequence[str], rows: Sequence[Row], notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """A result as it is stored.

    Args:
        name: The experiment.
        columns: The headings of the table.
        rows: The cells of the table.
        notes: Sentences below the table.
        more: Further keys.
    """
    return {
        "format": FORMAT,
        "experiment": name,
        **made(),
        "columns": list(columns),
        "rows": list(rows),
        "notes": list(notes),
        **more,
    }


def remarks(found: dict[str, Any]) -> list[str]:
    """The notes of a table, with its date and commit."""
    code = f", commit {found['commit']}" if found["commit"] else ""
    return [*found["notes"], f"Made {found['date']}{code}."]


def markdown(found: dict[str, Any]) -> str:
    """A section with the table and its notes."""
    about = PRINTED[found["experiment"]]
    heading = f"### {found['experiment']} ({about.place}: {about.title})"
    return "\n".join([heading, "", grid(found["columns"], found["rows"]), "", *(f"- {line}" for line in remarks(found))]) + "\n"


def save(found: dict[str, Any], folder: Path, draw: Callable[[Path], None] | None = None, replace: bool = True) -> None:
    """Write ``result.json`` and ``table.md``, and the figure if matplotlib is installed.

    Args:
        found: The result.
        folder: The folder to write.
        draw: Draws the figure to a file.
        replace: Replace a result of other inputs (its key ``of``).
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name another one with --results.")
    if not replace and (folder / RESULT).is_file():
        before = read(folder).get("of")
        if before is not None and before != found.get("of"):
            was = ", ".join(f"{key} {value}" for key, value in before.items())
            raise UserError(f"{folder} has a result of {was}. Write to another folder with --results, or replace it with --force.")
    write_json(folder / RESULT, found)
    write_text(folder / TABLE, markdown(found))
    if draw is not None:
        try_to_draw(draw, folder / FIGURE)


def read(folder: Path) -> dict[str, Any]:
    """Read and check ``result.json`` of a folder."""
    found = read_marker(folder, RESULT, "result", FORMAT)
    check(found, Printed, folder / RESULT)
    if found["experiment"] not in PRINTED:
        raise UserError(f"{folder / RESULT} is of an unknown experiment; run the experiment again.")
    return found


def yes(value: bool) -> str:
    """``yes`` or ``no``."""
    return "yes" if value else "no"
