"""N-Triples: one fact per line, ``<subject> <predicate> <object> .``"""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from mhgrn.kg.names import concept_name
from mhgrn.kg.reader import BadRow, Fields, GraphReader, Row, SkippedRow, relation_name

_TRIPLE = re.compile(
    r"""\s*(?P<subject><[^<>"{}|^`\\\s]*>|_:\S+)\s+<(?P<predicate>[^<>"{}|^`\\\s]*)>\s+
    (?:(?P<object><[^<>"{}|^`\\\s]*>|_:\S+?)|"(?P<literal>(?:[^"\\\n\r]|\\.)*)"(?:@(?P<language>[a-zA-Z0-9-]+)|\^\^<[^<>\s]*>)?)
    \s*\.\s*(?:\#.*)?$""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class NTriplesReader(GraphReader):
    """N-Triples. A resource is named by the last part of its address, a literal by its text."""

    name = "ntriples"
    endings = (".nt",)
    heeds = frozenset({"language"})

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return "\t" not in line and _TRIPLE.match(line) is not None

    def rows(self) -> Iterator[tuple[int, Fields]]:
        for number, line in self.lines():
            if not line.lstrip().startswith("#"):
                yield number, [line]

    def row(self, fields: Sequence[str]) -> Row:
        found = _TRIPLE.match(fields[0])
        if found is None:
            raise BadRow("not of the form <subject> <predicate> <object> .")
        if found["language"] is not None and not self.options.keeps_language(found["language"]):
            raise SkippedRow("other_language")
        if found["object"] is not None:
            tail = _resource(found["object"])
        else:
            tail = concept_name(_ESCAPE.sub(_unescaped, found["literal"]))
        head, relation = _resource(found["subject"]), relation_name(_local_name(found["predicate"]))
        if not (head and relation and tail):
            raise BadRow("a subject, predicate or object without a name")
        return Row(head, relation, tail)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1 and int(code[1:], 16) < 0xD800:
        return chr(int(code[1:], 16))
    if len(code) > 1 and 0xDFFF < int(code[1:], 16) <= 0x10FFFF:
        return chr(int(code[1:], 16))
    if code not in _ESCAPED:
        raise BadRow(f"\\{code} is not an escape sequence")
    return _ESCAPED[code]


def _resource(term: str) -> str:
    return concept_name(term.removeprefix("_:") if term.startswith("_:") else _local_name(term[1:-1]))


def _local_name(address: str) -> str:
    """Return the last part of an address.

    >>> _local_name("http://dbpedia.org/resource/New_York_City"), _local_name("http://www.w3.org/2000/01/rdf-schema#label")
    ('New_York_City', 'label')
    """
    return unquote(re.split(r"[/#]", address.rstrip("/#"))[-1])
