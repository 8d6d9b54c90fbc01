"""Column names of tables."""

from collections.abc import Sequence
from pathlib import Path

from mhgrn.errors import UserError

HEADERS = (
    ["head", "relation", "tail"],
    ["subject", "predicate", "object"],
    ["subject", "relation", "object"],
    ["start", "rel", "end"],
    ["source", "relation", "target"],
    ["h", "r", "t"],
)


def is_header(fields: Sequence[str], path: Path) -> bool:
    """Return whether a table's first row holds the names of columns; refuse another order than head, relation, tail."""
    names = [field.strip().lower() for field in fields[:3]]
    if names not in HEADERS and sorted(names) in map(sorted, HEADERS):
        raise UserError(f"{path}: the columns are {', '.join(names)}; put them in the order head, relation, tail.")
    return names in HEADERS
