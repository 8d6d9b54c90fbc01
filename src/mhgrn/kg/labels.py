"""Ids, labels and aliases of concepts: an optional part of a graph's folder, memory-mapped like the rest.

In a graph with labels, the *name* of a concept is its preferred label as it is spelled, with underscores for spaces. Concepts that
share a label have their id in brackets behind it: ``Mercury_(Q308)``. All texts that show a concept use its name.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.stored import StoredArray, StoredFolder, in_memory
from mhgrn.kg.names import concept_name
from mhgrn.kg.strings import StringIndex, stored_texts

Array = NDArray[Any]

LABEL, ALIAS = 0, 1  # kinds
MOST_LANGUAGES = 1 << 15
ARRAYS = (
    *("key_ptr", "key_bytes", "key_slots"),  # the id of each concept as files of facts name it: lower case, underscores
    *("id_ptr", "id_bytes"),  # the id as it is spelled
    *(
        "label_ptr",
        "label_text_ptr",
        "label_text_bytes",
        "label_language",
        "label_kind",
    ),  # rows of a concept, preferred first
    *("surface_ptr", "surface_bytes", "surface_slots"),  # every distinct label or alias, as a name in lower case
    *("surface_concept_ptr", "surface_concept"),  # its concepts, ascending
)
_NO_SLOTS = np.zeros(0, dtype=np.uint64)


class Label(NamedTuple):
    """A label or an alias of a concept, as a file states it. Files with labels have ids in their facts.

    Args:
        concept: The id of the concept, as facts name it: ``"Q42"``. Case does not matter, but it is kept to be shown.
        text: The text, as it is spelled. Without text, the row only says how the id is spelled.
        language: The language as a tag (``"en"``, ``"pt-br"``); empty if the text is of all languages or of an unknown one.
        is_preferred: Whether it is the label to show in its language, not another name of the concept.

    >>> Label("Q42", "Douglas Adams", "en", is_preferred=True)
    Label(concept='Q42', text='Douglas Adams', language='en', is_preferred=True)
    """

    concept: str
    text: str
    language: str = ""
    is_preferred: bool = False


class Labels:
    """The ids, labels and aliases of a graph's concepts.

    Args:
        languages: The languages by number, as ``graph.json`` holds them.
        arrays: The arrays by name, see :data:`ARRAYS`.
    """

    def __init__(self, languages: list[str], arrays: Mapping[str, Array | StoredArray]) -> None:
        self.languages = languages
        self._stored = {name: in_memory(arrays[name]) for name in ARRAYS}
        self.keys = StringIndex.from_arrays("key", arrays)
        self.surfaces = StringIndex.from_arrays("surface", arrays)
        self._ids = StringIndex(arrays["id_ptr"], arrays["id_bytes"], _NO_SLOTS)
        self._texts = StringIndex(arrays["label_text_ptr"], arrays["label_text_bytes"], _NO_SLOTS)

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays, after checking them."""
        return {name: stored.whole for name, stored in self._stored.items()}

    def raise_if_damaged(self) -> None:
        """Raise a :class:`~mhgrn.errors.UserError` if a kernel found damage."""
        for stored in self._stored.values():
            stored.raise_if_damaged()

    def __len__(self) -> int:
        """The number of concepts."""
        return len(self.keys)

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of labels and of aliases."""
        found = np.bincount(self._stored["label_kind"].whole, minlength=2).tolist()
        return {"labels": found[LABEL], "aliases": found[ALIAS]}

    def homonyms(self, names: StringIndex) -> int:
        """Return the number of concepts whose names have an id in brackets, because others have their label."""
        return sum(name != "_".join(self.text(concept).split()) for concept, name in enumerate(names))

    def id(self, concept: int) -> str:
        """Return the id of a concept as it is spelled."""
        return self._ids[concept]

    def rows(self, concept: int) -> list[Label]:
        """Return the labels and aliases of a concept, the preferred label first."""
        start, end = self._part("label_ptr", concept, concept + 2)
        languages, kinds = self._part("label_language", start, end), self._part("label_kind", start, end)
        return [
            Label(self.id(concept), self._texts[row], self.languages[language], kind == LABEL)
            for row, language, kind in zip(range(start, end), languages, kinds, strict=True)
        ]

    def text(self, concept: int) -> str:
        """Return the preferred label of a concept; without labels, its id, and of an address the last part."""
        start, end = self._part("label_ptr", concept, concept + 2)
        return self._texts[start] if start < end else text_of_id(self.id(concept))

    def all_rows(self) -> Iterator[Label]:
        """Yield the labels and aliases of all concepts; of a concept that has none, a row without text."""
        for concept in range(len(self)):
            yield from self.rows(concept) or [Label(self.id(concept), "")]

    def concepts_of(self, surface: int) -> list[int]:
        """Return the concepts that have a label or an alias, given by its number in ``surfaces``."""
        return self._part("surface_concept", *self._part("surface_concept_ptr", surface, surface + 2))

    def named(self, text: str) -> list[int]:
        """Return the concepts that a text may mean: one by its id or its name; or by a label; or, if there is none, by an alias.

        Args:
            text: An id, a label, an alias or a name of the graph, written with spaces or underscores, in any case.
        """
        name = concept_name(text)
        if (found := self.keys.find(name)) is not None:
            return [found]
        if (surface := self.surfaces.find(name)) is not None:
            concepts = self.concepts_of(surface)
            return [concept for concept in concepts if concept_name(self.text(concept)) == name] or concepts
        for at in (i for i in range(len(name)) if name.endswith(")") and name.startswith("_(", i)):
            found = self.keys.find(name[at + 2 : -1])  # a name with an id in brackets
            if found is not None and concept_name(self.text(found)) == name[:at]:
                return [found]
        return []

    def find(self, text: str) -> int | None:
        """Return the only concept that a text may mean; None if there is none, or more than one."""
        found = self.named(text)
        return found[0] if len(found) == 1 else None

    def _part(self, name: str, start: int, end: int) -> list[int]:
        stored = self._stored[name]
        stored.ensure(start, end)
        part: list[int] = stored.values[start:end].tolist()
        return part


def text_of_id(text: str) -> str:
    """Return the text for a concept that has only an id: the id, or the last part of an address.

    >>> text_of_id("HP:0001250"), text_of_id("http://dbpedia.org/resource/New_York")
    ('HP:0001250', 'New York')
    """
    if "://" not in text:
        return text
    last = unquote(re.split(r"[/#]", text.rstrip("/#"))[-1], errors="replace")
    return " ".join(last.replace("_", " ").split()) or text


def read_labels(stored: StoredFolder, concepts: int) -> dict[str, StoredArray]:
    """Load the arrays from a graph's folder."""
    languages = stored_languages(stored)
    ids, text_bytes = stored.array("id_bytes", "uint8"), stored.array("label_text_bytes", "uint8")
    text_ptr = stored.array("label_text_ptr", "int64", high=len(text_bytes.values), is_pointer=True)
    rows = len(text_ptr.values) - 1
    surfaces = stored_texts(stored, "surface")
    of_surface = stored.array("surface_concept", "int32", high=concepts - 1)
    pointers = {
        "id_ptr": stored.array("id_ptr", "int64", concepts + 1, high=len(ids.values), is_pointer=True),
        "label_ptr": stored.array("label_ptr", "int64", concepts + 1, high=rows, is_pointer=True),
        "surface_concept_ptr": stored.array(
            "surface_concept_ptr", "int64", len(surfaces["surface_ptr"].values), high=len(of_surface.values), is_pointer=True
        ),
    }
    return {
        **stored_texts(stored, "key", concepts),
        **pointers,
        **surfaces,
        "id_bytes": ids,
        "label_text_ptr": text_ptr,
        "label_text_bytes": text_bytes,
        "label_language": stored.array("label_language", "int16", rows, high=len(languages) - 1),
        "label_kind": stored.array("label_kind", "uint8", rows, high=ALIAS),
        "surface_concept": of_surface,
    }


def stored_languages(stored: StoredFolder) -> list[str]:
    """Return the languages that the marker of a graph's folder lists."""
    about = stored.about.get("labels")
    languages = about.get("languages") if isinstance(about, dict) else None
    if not isinstance(languages, list) or not all(isinstance(language, str) for language in languages):
        raise UserError(f"{stored.path / stored.marker} is damaged (the languages of its labels); build the graph again.")
    return languages
