"""KGTK: tables with the columns node1, label, node2, where texts are quoted and labels of nodes are rows like others."""

import re
from collections.abc import Iterator

from mhgrn.errors import UserError
from mhgrn.kg.reader import BadRow, Found, GraphReader, Label

_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'@([a-zA-Z]+)(?:-\w+)*$|\"((?:[^\"\\]|\\.)*)\"$")
_ESCAPE = re.compile(r"\\(.)")
_LABELS = {"label": True, "rdfs:label": True, "P1": True, "alias": False, "skos:altLabel": False}
_QUOTES = ("'", '"')
_NEITHER = ("^", "@", "!", "+", "-")  # times, places, and extensions; signs of numbers
_COLUMNS = {"node1": ("node1", "from", "subject"), "label": ("label", "predicate", "relation"), "node2": ("node2", "to", "object")}


class KgtkReader(GraphReader):
    """KGTK edge files. Rows ``label`` and ``alias`` name nodes. Quantities, times and places are left out, descriptions too."""

    name = "kgtk"
    endings = (".kgtk",)
    heeds = frozenset({"language"})

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return {"node1", "label", "node2"} <= set(line.strip().split("\t"))

    def rows(self) -> Iterator[Found]:
        left_out, places = 0, list[int]()
        for number, line in self.lines():
            fields = line.split("\t")
            if not places:
                places = self._places(fields)
                continue
            if len(fields) <= max(places):
                yield number, BadRow(f"{len(fields)} fields, fewer than the header has")
                continue
            head, relation, tail = (fields[place].strip() for place in places)
            text = _TEXT.match(tail) if tail.startswith(_QUOTES) else None
            if text is not None:
                value, language = _ESCAPE.sub(r"\1", text[1] if text[1] is not None else text[3]), text[2] or ""
                if relation in _LABELS:
                    yield Label(head, value, language, _LABELS[relation])
                elif relation == "description" or not self.is_wanted(language):
                    left_out += 1
                else:
                    yield number, [head, relation, value]
            elif tail.startswith(_NEITHER) or tail[:1].isdigit():
                left_out += 1
            else:
                yield number, [head, relation, tail]
        if left_out:
            self.notes.append(
                f"{self.path}: left out: numbers, times, places, descriptions and texts in other languages ({left_out:,})."
            )

    def _places(self, header: list[str]) -> list[int]:
        places = [next((header.index(name) for name in names if name in header), -1) for names in _COLUMNS.values()]
        if -1 in places:
            raise UserError(f"{self.path}:1: no columns node1, label and node2 in the header; is this a KGTK edge file?")
        return places
