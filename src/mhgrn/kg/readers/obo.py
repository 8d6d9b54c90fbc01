"""OBO: terms of an ontology with names, synonyms and relationships, as the Gene Ontology and the HPO are published."""

import re
from collections.abc import Iterator

from mhgrn.errors import UserError
from mhgrn.kg.reader import BadRow, Found, GraphReader, Label

_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": " ", "W": " ", "t": " "}
_END = re.compile(r"\s+(?:!.*|\{[^{}]*\}\s*(?:!.*)?)$")  # a comment, or qualifiers, at the end of a line
_LONGEST = 10_000_000  # characters of a stanza


class OboReader(GraphReader):
    """OBO 1.2 and 1.4. Obsolete terms are left out. Relations are named by their Typedef, if the file has one."""

    name = "obo"
    endings = (".obo",)
    heeds = frozenset()

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return line.startswith("format-version:")

    def rows(self) -> Iterator[Found]:
        kind, found = "", list[tuple[int, str, str]]()  # the stanza: number of the line, tag, value
        obsolete = size = start = 0
        for number, line in self.lines():
            if line.startswith("["):
                obsolete += _is_obsolete(found)
                yield from self._stanza(kind, start, found)
                kind, found, size, start = line.strip().strip("[]"), [], 0, number
            elif kind and not line.startswith("!"):
                tag, colon, value = line.partition(":")
                if not colon:
                    yield number, BadRow("not of the form `tag: value`")
                else:
                    found.append((number, tag.strip(), value.strip()))
                    size += len(line)
                    if size > _LONGEST:
                        raise UserError(f"{self.path}:{start}: a stanza of more than {_LONGEST:,} characters; is this an OBO file?")
        obsolete += _is_obsolete(found)
        yield from self._stanza(kind, start, found)
        if obsolete:
            self.notes.append(f"{self.path}: left out: obsolete terms ({obsolete:,}).")

    def _stanza(self, kind: str, start: int, found: list[tuple[int, str, str]]) -> Iterator[Found]:
        if kind not in ("Term", "Typedef", "Instance") or _is_obsolete(found):
            return
        own = next((_bare(value) for _, tag, value in found if tag == "id"), "")
        if not own:
            yield start, BadRow(f"a [{kind}] without an id")
            return
        for number, tag, value in found:
            if tag == "name" and kind == "Typedef":
                self.relations.label(own, _unescaped(value))
            elif tag == "name":
                yield Label(own, _unescaped(value), "en", True)
            elif tag == "synonym" and kind != "Typedef":
                text = _TEXT.match(value)
                yield Label(own, _unescaped(text[1]), "en", False) if text else (number, BadRow("a synonym without quotes"))
            elif tag == "is_a" and kind != "Typedef":
                yield number, [own, tag, _bare(value)]
            elif tag in ("relationship", "instance_of") and kind != "Typedef":
                parts = _bare(value).split()
                if tag == "instance_of" and len(parts) == 1:
                    yield number, [own, tag, parts[0]]
                else:
                    yield number, [own, *parts] if len(parts) == 2 else BadRow("a relationship needs a relation and a term")


def _is_obsolete(found: list[tuple[int, str, str]]) -> bool:
    return any(tag == "is_obsolete" and _bare(value) == "true" for _, tag, value in found)


def _bare(value: str) -> str:
    """Return a value without comment and qualifiers.

    >>> _bare('HP:0000118 {source="x"} ! Phenotypic abnormality')
    'HP:0000118'
    """
    return _END.sub("", f"{value} ").strip() if "!" in value or "{" in value else value.strip()


def _unescaped(text: str) -> str:
    return text if "\\" not in text else _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)
