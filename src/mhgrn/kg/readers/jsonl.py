"""JSON lines: one object with the keys head, relation, tail and perhaps weight, or one array of these, on each line."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mhgrn.errors import UserError
from mhgrn.kg.columns import ROLES, check_roles, known_columns, named_columns
from mhgrn.kg.reader import USUAL_FIELDS, BadRow, Fields, GraphReader, has_surrogates
from mhgrn.printing import shortened, shown

_ADVICE = "write one JSON object on each line"


class JsonLinesReader(GraphReader):
    """JSON lines. The keys of objects are found like the columns of a header, or named by the option ``columns``."""

    name = "jsonl"
    endings = (".jsonl", ".ndjson")
    heeds = frozenset({"columns"})
    is_vague = True

    @classmethod
    def recognizes(cls, line: str) -> bool:
        if line.partition("\n")[0].strip() in ("{", "["):  # a document over many lines, which is refused with advice
            return True
        return line.lstrip().startswith(("{", "[")) and isinstance(_value(line), dict | list)

    def rows(self) -> Iterator[tuple[int, Fields]]:
        keys: tuple[str, ...] = ()
        chosen: list[str] = []  # the keys of head, relation, tail and perhaps weight in objects with these keys
        is_first = True
        for number, line in self.lines():
            value = _value(line)
            if is_first and (value is None or (isinstance(value, list) and value and isinstance(value[0], dict | list))):
                raise UserError(f"{self.path}:{number}: not a line of JSON by itself; {_ADVICE} (jq -c '.[]' does that).")
            is_first = False
            if isinstance(value, dict):
                if tuple(value) != keys:
                    keys, chosen = tuple(value), self._keys(list(value))
                if not chosen:
                    yield number, BadRow(f"an object with the keys {shown(', '.join(keys)) or 'none'}, {_NEEDED}")
                    continue
                value = [value.get(key) for key in chosen]
            elif isinstance(value, list) and len(value) in (3, 4):
                self.goes_by_order = self.options.columns is None
                if self.options.columns is not None:
                    value = self._of_array(value)
            else:
                what = "not JSON" if value is None else shortened(value)
                yield number, BadRow(f"{what}, not an object or an array of {USUAL_FIELDS}")
                continue
            yield number, _texts(value)

    def _keys(self, keys: list[str]) -> list[str]:
        """Return the keys of head, relation, tail and perhaps weight; none if they are not there."""
        columns = self.options.columns
        if columns is None:
            places = known_columns(keys, str(self.path))
            return [] if places is None else [keys[places[role]] for role in ROLES if role in places]
        check_roles(columns, ROLES, ROLES[:3])
        return [str(columns[role]) for role in ROLES if role in columns] if all(str(columns[r]) in keys for r in ROLES[:3]) else []

    def _of_array(self, value: list[Any]) -> list[Any]:
        places, _ = named_columns(self.options.columns or {}, [""] * len(value), str(self.path))
        return [value[places[role]] for role in ROLES if role in places]


_NEEDED = "not head, relation, tail; name them (--columns)"


def _value(line: str) -> Any:
    """Return the value of a line; None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _texts(values: Sequence[Any]) -> Fields:
    """Return the values of a row as texts."""
    fields = []
    for role, value in zip(ROLES, values, strict=False):
        if role == "weight" and value is None:
            break
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
            return BadRow(f"the {role} is {shortened(value)}, not a text")
        if isinstance(value, str) and has_surrogates(value):
            return BadRow(f"the {role} {shortened(value)} has half of a surrogate pair")
        fields.append(str(value))
    return fields
