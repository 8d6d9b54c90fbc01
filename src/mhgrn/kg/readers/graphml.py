"""GraphML: an XML file of nodes and edges with attributes, as networkx, Gephi, igraph and yEd write it."""

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mhgrn.errors import UserError
from mhgrn.kg.reader import BadRow, Fields, GraphReader
from mhgrn.kg.readers._lines import LONGEST_LINE, pieces
from mhgrn.kg.readers._xml import XmlPieces
from mhgrn.printing import shortened, shown

_ROLES = ("name", "relation", "weight")
_NAMES = ("name", "label", "title")  # attributes of nodes that name them, the first that there is
_RELATIONS = ("relation", "relationship", "predicate", "rel", "label", "type")
_LABELS = {"NodeLabel", "EdgeLabel"}  # yEd's names of nodes and edges
_DEEPEST = 100  # elements inside elements


class _Edge(NamedTuple):
    line: int
    source: str
    target: str
    is_directed: bool
    values: dict[str, str]


class _Element(NamedTuple):
    line: int
    attributes: dict[str, str]  # of XML
    values: dict[str, str]  # of GraphML


class GraphMLReader(GraphReader):
    """GraphML. Nodes are named by an attribute, or else by their identifiers.

    The file is parsed in pieces. A document type declaration is refused, so there are no entities to expand or to fetch. An
    undirected edge gives a row in each direction. Nodes without edges are not read.
    """

    name = "graphml"
    endings = (".graphml",)
    heeds = frozenset({"columns"})

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return line.lstrip().startswith(("<?xml", "<graphml"))

    def rows(self) -> Iterator[tuple[int, Fields]]:
        columns = {role: str(column) for role, column in (self.options.columns or {}).items()}
        if unknown := [role for role in columns if role not in _ROLES]:
            raise UserError(f"{self.path}: --columns {unknown[0]} has no meaning for GraphML; name {', '.join(_ROLES)}.")
        names: dict[str, str] = {}  # of nodes, by identifier
        later = array("q")  # numbers of the edges that come before their nodes; they are read again
        for number, edge in enumerate(self._edges(names, columns, self.advance)):
            if edge.source in names and edge.target in names:
                yield from self._rows_of(edge, names, columns)
            else:
                later.append(number)
        if later:
            wanted = iter(later)
            following = next(wanted)
            for number, edge in enumerate(self._edges(names, columns, lambda done: None)):
                if number == following:
                    yield from self._rows_of(edge, names, columns)
                    following = next(wanted, -1)
        hashes = np.fromiter(map(hash, names.values()), dtype=np.int64, count=len(names))
        if shared := len(names) - len(np.unique(hashes)):
            self.notes.append(f"{self.path}: {shared:,} nodes have the name of another node and become one concept with it.")

    def _edges(self, names: dict[str, str], columns: dict[str, str], advance: Callable[[int], None]) -> Iterator[_Edge]:
        """Yield the edges of the file, and add the names of its nodes to ``names``."""
        document = _Document(self.path, columns.get("name"), names)
        for piece in pieces(self.path, advance):
            yield from document.read(piece)
        document.xml.finish()

    def _rows_of(self, edge: _Edge, names: dict[str, str], columns: dict[str, str]) -> Iterator[tuple[int, Fields]]:
        for end in (edge.source, edge.target):
            if end not in names:
                yield edge.line, BadRow(f"the edge names the node {shortened(end)}, which does not exist")
                return
        lowered = {name.lower(): name for name in edge.values}
        relation = columns.get("relation") or next((lowered[name] for name in _RELATIONS if name in lowered), None)
        if relation is None or relation not in edge.values:
            known = shown(", ".join(edge.values)) or "none"
            yield edge.line, BadRow(f"no attribute with the relation; attributes: {known}; name it (--columns relation=NAME)")
            return
        weight = edge.values.get(columns.get("weight") or lowered.get("weight", ""), "")
        head, tail = names[edge.source], names[edge.target]
        yield edge.line, [head, edge.values[relation], tail, weight]
        if not edge.is_directed and head != tail:
            yield edge.line, [tail, edge.values[relation], head, weight]


class _Document:
    """Parses a file piece by piece, and collects the names of nodes."""

    def __init__(self, path: Path, name: str | None, names: dict[str, str]) -> None:
        self.names = names
        self._name = name  # the attribute that names nodes
        self._keys: dict[str, str] = {}  # the name of an attribute, by identifier
        self._open: list[str] = []  # elements, from the outermost
        self._found: list[_Edge] = []
        self._is_directed: list[bool] = []  # of the open graphs
        self._elements: list[_Element] = []  # the open nodes and edges, from the outermost
        self._key: str | None = None  # of the open value
        self._text: list[str] = []
        self._size = 0
        self.xml = XmlPieces(path)
        parser = self.xml.parser
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse_doctype

    def read(self, piece: bytes) -> list[_Edge]:
        """Return the edges that end in the next piece of the file."""
        self._found = []
        self.xml.feed(piece)
        return self._found

    def _refuse_doctype(self, *_: object) -> None:
        raise UserError(f"{self.xml.place}: a document type declaration (<!DOCTYPE) is not read, for safety; delete it.")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        if not self._open and name != "graphml":
            raise UserError(f"{self.xml.place}: the outermost element is {shortened(name)}, not graphml; name a GraphML file.")
        self._open.append(name)
        if len(self._open) > _DEEPEST:
            raise UserError(f"{self.xml.place}: more than {_DEEPEST} elements inside each other.")
        if name == "key":
            self._keys[attributes.get("id", "")] = attributes.get("attr.name", attributes.get("id", ""))
        elif name == "graph":
            self._is_directed.append(attributes.get("edgedefault", "directed") != "undirected")
        elif name in ("node", "edge", "hyperedge"):
            if name == "hyperedge":
                raise UserError(f"{self.xml.place}: a hyperedge; write it as edges between two nodes.")
            if name == "node":
                self.names.setdefault(attributes.get("id", ""), attributes.get("id", ""))
            self._elements.append(_Element(self.xml.parser.CurrentLineNumber, attributes, {}))
        elif name == "data" and self._open[-2:-1] in (["node"], ["edge"]):
            self._key, self._text, self._size = self._keys.get(attributes.get("key", ""), attributes.get("key", "")), [], 0
        elif name in _LABELS and self._key is not None:
            self._key, self._text, self._size = "label", [], 0

    def _characters(self, text: str) -> None:
        if self._key is not None:
            self._text.append(text)
            self._size += len(text)
            if self._size > LONGEST_LINE:
                raise UserError(f"{self.xml.place}: a text of more than a million characters; is this a file of a graph?")

    def _end(self, tag: str) -> None:
        name = self._open.pop()
        if name == "graph":
            self._is_directed.pop()
        elif self._key is not None and (name in _LABELS or name == "data"):
            if text := "".join(self._text).strip():
                self._elements[-1].values.setdefault(self._key, text)
            self._text = []
            if name == "data":
                self._key = None
        elif name == "node":
            self._name_node(self._elements.pop())
        elif name == "edge":
            line, attributes, values = self._elements.pop()
            own = attributes.get("directed")
            is_directed = own != "false" if own is not None else self._is_directed[-1] if self._is_directed else True
            self._found.append(_Edge(line, attributes.get("source", ""), attributes.get("target", ""), is_directed, values))

    def _name_node(self, node: "_Element") -> None:
        lowered = {name.lower(): name for name in node.values}
        found = [self._name] if self._name is not None else [lowered[name] for name in _NAMES if name in lowered]
        if found and found[0] in node.values:
            self.names[node.attributes.get("id", "")] = node.values[found[0]]
