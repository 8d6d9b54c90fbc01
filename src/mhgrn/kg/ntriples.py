"""N-Triples: a fact a line, ``<subject> <predicate> <object> .``"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

from mhgrn.kg.blocks import lines
from mhgrn.kg.names import concept_name
from mhgrn.kg.parsing import OTHER_LANGUAGE
from mhgrn.kg.rows import BadRow, Fields, OtherRow, Row, relation_name

_TRIPLE = re.compile(
    r"""\s*(?P<subject><[^<>"{}|^`\\\s]*>|_:\S+)\s+<(?P<predicate>[^<>"{}|^`\\\s]*)>\s+
    (?:(?P<object><[^<>"{}|^`\\\s]*>|_:\S+?)|"(?P<literal>(?:[^"\\\n\r]|\\.)*)"(?:@(?P<language>[a-zA-Z0-9-]+)|\^\^<[^<>\s]*>)?)
    \s*\.\s*(?:\#.*)?$""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def is_triple(line: str) -> bool:
    return _TRIPLE.match(line) is not None


def triples(path: Path, advance: Callable[[int], None]) -> Iterator[tuple[int, Fields]]:
    for number, line in enumerate(lines(path, advance), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, [line]


def triple_row(fields: list[str], language: str) -> Row:
    """<subject> <predicate> <object> . Resources are named by the last part of their address, literals by their text."""
    found = _TRIPLE.match(fields[0])
    if found is None:
        raise BadRow("not of the form <subject> <predicate> <object> .")
    if found["language"] is not None and found["language"].partition("-")[0].lower() != language:
        raise OtherRow(OTHER_LANGUAGE)
    tail = _resource(found["object"]) if found["object"] is not None else concept_name(_ESCAPE.sub(_unescaped, found["literal"]))
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
        raise BadRow(f"\\{code} stands for no character")
    return _ESCAPED[code]


def _resource(term: str) -> str:
    return concept_name(term.removeprefix("_:") if term.startswith("_:") else _local_name(term[1:-1]))


def _local_name(address: str) -> str:
    """The last part of an address.

    >>> _local_name("http://dbpedia.org/resource/New_York_City"), _local_name("http://www.w3.org/2000/01/rdf-schema#label")
    ('New_York_City', 'label')
    """
    return unquote(re.split(r"[/#]", address.rstrip("/#"))[-1])
