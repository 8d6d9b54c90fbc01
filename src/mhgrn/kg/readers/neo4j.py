"""Neo4j's exports: JSON lines and CSV of `apoc.export`, and CSV files for `neo4j-admin import`."""

import csv
import json
from collections.abc import Iterator
from typing import Any

from mhgrn.errors import UserError
from mhgrn.kg.reader import BadRow, Found, GraphReader, Label

_NAMES = ("name", "label", "title", "preferredLabel", "prefLabel", "displayName")  # properties that name nodes, the first there is
_ALIASES = ("aliases", "synonyms", "altLabels", "alternateNames")


class Neo4jReader(GraphReader):
    """Neo4j's exports. A node is a concept, named by its property ``name``, ``label`` or ``title``; a list of aliases names it too.

    Node and relationship files of ``neo4j-admin`` are recognized by their headers (``:ID``, ``:START_ID``); name them together.
    """

    name = "neo4j"
    heeds = frozenset({"columns"})

    @classmethod
    def recognizes(cls, line: str) -> bool:
        if line.lstrip().startswith("{"):
            value = _object(line)
            return value is not None and value.get("type") in ("node", "relationship") and "id" in value
        return _kind(_header(line)) is not None

    def rows(self) -> Iterator[Found]:
        lines = self.lines()
        number, first = next(lines, (1, ""))
        if first.lstrip().startswith("{"):
            yield from self._of_json(number, first)
            for number, line in lines:
                yield from self._of_json(number, line)
            return
        header = _header(first)
        kind = _kind(header)
        if kind is None:
            raise UserError(f"{self.path}:{number}: no JSON lines of nodes and relationships, and no header with :ID or :START_ID.")
        for number, fields in self._rows(lines, len(header)):
            yield from self._of_table(number, fields, header, kind)

    def _rows(self, lines: Iterator[tuple[int, str]], columns: int) -> Iterator[tuple[int, list[str] | None]]:
        """Yield the fields of each row, None for one that is not CSV. A quoted field may span lines."""
        first = last = 0  # the lines of a row

        def text() -> Iterator[str]:
            nonlocal first, last
            for number, line in lines:
                first, last = first or number, number
                yield f"{line}\n"

        reader = csv.reader(text(), strict=True)
        while True:
            first = 0
            fields: list[str] | None = None
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error:
                pass
            if last > first and (fields is None or len(fields) != columns):
                raise UserError(
                    f"{self.path}:{first}: a quotation mark opens here and is not closed on this line; close or double it."
                )
            yield first, fields

    def _of_json(self, number: int, line: str) -> Iterator[Found]:
        value = _object(line)
        if value is None or value.get("type") not in ("node", "relationship"):
            yield number, BadRow("not a node or a relationship as apoc.export.json writes them")
        elif value["type"] == "node" and (value.get("id") is None or isinstance(value["id"], dict | list)):
            yield number, BadRow("a node without an id")
        elif value["type"] == "node":
            properties = value.get("properties")
            yield from self._labels(str(value.get("id")), properties if isinstance(properties, dict) else {})
        else:
            ends = [value.get(end) for end in ("start", "end")]
            ids = [end.get("id") if isinstance(end, dict) else end for end in ends]
            if any(found is None or isinstance(found, dict | list) for found in ids) or not isinstance(value.get("label"), str):
                yield number, BadRow("a relationship without start, label or end")
            else:
                yield number, [str(ids[0]), value["label"], str(ids[1])]

    def _of_table(self, number: int, fields: list[str] | None, header: list[str], kind: dict[str, int]) -> Iterator[Found]:
        if fields is None or len(fields) != len(header):
            what = "not CSV" if fields is None else f"{len(fields)} fields"
            yield number, BadRow(f"{what}, not the {len(header)} fields of the header")
            return
        if "start" in kind and fields[kind["start"]]:
            relation = fields[kind["type"]] if "type" in kind else "related to"
            yield number, [fields[kind["start"]], relation, fields[kind["end"]]]
        elif "id" in kind:
            values = {column.partition(":")[0]: field for column, field in zip(header, fields, strict=True) if field}
            yield from self._labels(fields[kind["id"]], values)

    def _labels(self, node: str, values: dict[str, Any]) -> Iterator[Label]:
        wanted = (self.options.columns or {}).get("name")
        names = [str(wanted)] if wanted is not None else [name for name in _NAMES if name in values]
        if names and isinstance(values.get(names[0]), str | int | float):
            yield Label(node, str(values[names[0]]), "", True)
        for name in _ALIASES:
            found = values.get(name)
            for alias in found.split(";") if isinstance(found, str) else found if isinstance(found, list) else []:
                if isinstance(alias, str) and alias.strip():
                    yield Label(node, alias, "", False)


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _header(line: str) -> list[str]:
    return [field.strip() for field in _fields(line.partition("\n")[0]) or []]


def _fields(line: str) -> list[str] | None:
    """Return the fields of a line of CSV; None if it is not CSV."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return None


def _kind(header: list[str]) -> dict[str, int] | None:
    """Return the columns that say which node or relationship a row is; None if there are none.

    >>> _kind(["personId:ID", "name", ":LABEL"]), _kind([":START_ID", "since", ":END_ID", ":TYPE"])
    ({'id': 0}, {'start': 0, 'end': 2, 'type': 3})
    >>> _kind(["_id", "_labels", "name", "_start", "_end", "_type"])
    {'id': 0, 'start': 3, 'end': 4, 'type': 5}
    """
    marks = {"id": (":ID", "_id"), "start": (":START_ID", "_start"), "end": (":END_ID", "_end"), "type": (":TYPE", "_type")}
    found = {}
    for role, (mark, apoc) in marks.items():
        for place, column in enumerate(header):
            if column == apoc or (mark in column and column[column.index(mark) :].partition("(")[0] == mark):
                found[role] = place
                break
    return found if "id" in found or {"start", "end"} <= set(found) else None
