"""Wikidata's JSON dumps: one entity on each line, with labels, aliases and statements."""

import json
from collections.abc import Iterator
from typing import Any

from mhgrn.kg.reader import BadRow, Found, GraphReader, Label

_BRACKETS = ("[", "]", "")  # the first and the last line of a dump
_ITEMS = ("wikibase-item", "wikibase-property", "wikibase-lexeme")
_TEXTS = ("string", "monolingualtext")


class WikidataReader(GraphReader):
    """Wikidata's JSON dumps.

    A fact is a statement of the best rank whose value is an entity or, with a name of its own, a text. Quantities, times,
    coordinates, and identifiers of other catalogues are left out. Relations are named by the labels of their properties, if the
    file has them: ``instance of`` instead of ``P31``.
    """

    name = "wikidata"
    heeds = frozenset({"language"})
    longest_line = 1 << 26  # entities of the dump have up to some million characters

    @classmethod
    def recognizes(cls, line: str) -> bool:
        return line.removeprefix("[").lstrip().startswith('{"') and '"claims":' in line and '"labels":' in line

    def rows(self) -> Iterator[Found]:
        left_out = 0
        is_open = False
        for number, line in self.lines():
            text = line.strip().removesuffix(",")
            if text in _BRACKETS:
                is_open = text == "["
                continue
            entity = _entity(text)
            if entity is None:
                yield number, BadRow("not an entity of Wikidata: a JSON object with id, labels and claims")
                continue
            labels = list(self._labels(entity))
            if entity.get("type") == "property":
                for label in labels:
                    if label.is_preferred and self.is_wanted(label.language):
                        self.relations.label(entity["id"], label.text)
            else:
                yield from labels
            for relation, claims in _mapping(entity.get("claims")).items():
                for value in _best(claims):
                    if value is None:
                        left_out += 1
                    else:
                        yield number, [entity["id"], relation, value]
        if is_open:
            self.notes.append(f"{self.path}: the list of entities is not closed by a bracket; is the dump truncated?")
        if left_out:
            self.notes.append(f"{self.path}: left out: statements whose value is not an entity or a text ({left_out:,}).")

    def _labels(self, entity: dict[str, Any]) -> Iterator[Label]:
        for field, is_preferred in (("labels", True), ("aliases", False)):
            for language, found in _mapping(entity.get(field)).items():
                for entry in found if isinstance(found, list) else [found]:
                    if isinstance(entry, dict) and isinstance(entry.get("value"), str):
                        yield Label(entity["id"], entry["value"], language, is_preferred)


def _entity(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_entity = isinstance(value, dict) and isinstance(value.get("id"), str) and value["id"]
    return value if is_entity else None


def _mapping(value: Any) -> dict[str, Any]:
    """Return an object; an empty one for the empty list that PHP writes in its place."""
    return value if isinstance(value, dict) else {}


def _best(claims: Any) -> Iterator[str | None]:
    """Yield the values of the statements with the best rank; None for values that are no concepts."""
    found = [claim for claim in claims if isinstance(claim, dict)] if isinstance(claims, list) else []
    best = "preferred" if any(claim.get("rank") == "preferred" for claim in found) else "normal"
    for claim in found:
        if claim.get("rank", "normal") == best:
            yield _value(_mapping(claim.get("mainsnak")))


def _value(snak: dict[str, Any]) -> str | None:
    kind, value = snak.get("datatype"), _mapping(snak.get("datavalue")).get("value")
    if isinstance(value, dict):
        found = value.get("id") if kind in _ITEMS or "entity-type" in value else value.get("text")
        if found is None and isinstance(value.get("numeric-id"), int) and "entity-type" in value:  # dumps before 2016
            found = f"{'P' if value['entity-type'] == 'property' else 'Q'}{value['numeric-id']}"
        return found if isinstance(found, str) and found else None
    return value if kind in _TEXTS and isinstance(value, str) and value else None
