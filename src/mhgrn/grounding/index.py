"""The concept index: by which words the concepts of a graph are found in texts. It is stored beside the graph."""

from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.pool import SharedLock
from mhgrn.errors import LONGEST_NAME, UserError
from mhgrn.grounding.lemmas import LEMMATIZER, RULES, concept_pattern, inflected, is_english, lemma, tokenize
from mhgrn.grounding.surfaces import Surfaces
from mhgrn.io.arrays import save_array
from mhgrn.io.fingerprint import array_length, fingerprint
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_marker
from mhgrn.io.stored import StoredArray, StoredFolder, in_memory, read_folder
from mhgrn.kg.extend import ExtendedGraph
from mhgrn.kg.graph import INDEX, KnowledgeGraph, fingerprint_at
from mhgrn.kg.strings import StringIndex, stored_texts
from mhgrn.printing import shown

if TYPE_CHECKING:
    from mhgrn.grounding.kernels import IndexTables

MARKER = "index.json"
FORMAT = 1
TEXTS = ("pattern", "beginning", "word", "lemma")
ORDINARY = 50  # letters; longer words are rare, so only they are compared with the longest word of an index

Array = NDArray[Any]


class ConceptIndex:
    """The lemma n-grams of a graph's concepts, and the words that have these lemmas.

    Use :meth:`of` to get the index of a graph. A *pattern* is the lemmas of a concept's name, see
    :func:`~mhgrn.grounding.lemmas.concept_pattern`. In a graph with labels, the index has the numbers of labels and aliases in the
    place of concepts, see :class:`~mhgrn.grounding.surfaces.Surfaces`.

    Args:
        about: The index's description, as ``index.json`` holds it.
        arrays: The arrays by name, see :func:`~mhgrn.grounding.patterns.pattern_arrays`.
        folder: The folder the index is stored in; None for an index in memory.

    >>> graph = KnowledgeGraph.from_facts([("children", "AtLocation", "furniture_store"), ("child", "IsA", "person")])
    >>> index = ConceptIndex.of(graph)
    >>> index
    ConceptIndex(patterns=3, folder=None)
    >>> [graph.name(concept) for concept in index.with_pattern(("child",))]
    ['children', 'child']
    >>> index.lemma("stores")
    'store'
    """

    def __init__(self, about: dict[str, Any], arrays: Mapping[str, Array | StoredArray], folder: Path | None = None) -> None:
        self.about = about
        self.folder = folder
        self.unwritable: Path | None = None  # a folder where the index could not be stored
        self.fingerprint: str = about["fingerprint"]
        self._stored = {name: in_memory(array) for name, array in arrays.items()}
        self._patterns = StringIndex.from_arrays("pattern", arrays)
        self._beginnings = StringIndex.from_arrays("beginning", arrays)
        self._words = StringIndex.from_arrays("word", arrays)
        self._lemmas = StringIndex.from_arrays("lemma", arrays)
        self._concept_ptr, self._concept = self._stored["pattern_concept_ptr"], self._stored["pattern_concept"]
        self._word_lemma = self._stored["word_lemma"]

    @staticmethod
    def of(graph: KnowledgeGraph) -> "ConceptIndex":
        """Return the index of a graph.

        The index is loaded from the graph's folder. It is built if it is missing, damaged, or made by other lemmas, and then stored
        in the folder if that is writable.
        """
        if isinstance(graph, ExtendedGraph):
            offset = Surfaces(graph).offset
            new = {name: number + offset for name, number in graph.new_concepts.items()}
            return _ExtendedIndex(ConceptIndex.of(graph.base), new)
        index = _INDEXES.get(graph)
        if index is None or _folder_of(graph) not in (index.folder, index.unwritable):
            with _LOCK:
                index = _INDEXES[graph] = ConceptIndex._loaded_or_built(graph)
        return index

    @staticmethod
    def _loaded_or_built(graph: KnowledgeGraph) -> "ConceptIndex":
        index, folder = _INDEXES.get(graph), _folder_of(graph)
        if index is None and folder is not None:
            with suppress(UserError):
                index = ConceptIndex.load(folder, graph)
        if index is None:
            index = ConceptIndex.build(graph)
        if graph.folder is not None and folder is not None and index.folder != folder:
            try:
                if fingerprint_at(graph.folder) != graph.fingerprint:
                    raise UserError(f"{graph.folder} holds another graph now.")
                index.save(folder)
            except (UserError, OSError):
                index.unwritable = folder
        return index

    @classmethod
    def build(cls, graph: KnowledgeGraph) -> Self:
        """Make the index of a graph, in memory."""
        from mhgrn.grounding.patterns import pattern_arrays

        texts = graph.names if graph.labels is None else graph.labels.surfaces
        texts.ensure()
        arrays, listed_words = pattern_arrays(texts)
        for array in arrays.values():  # the same type as memory-mapped ones, so that kernels are compiled once
            array.setflags(write=False)
        return cls(described(arrays, listed_words, graph.about["names"]), arrays)

    @classmethod
    def load(cls, folder: Path, graph: KnowledgeGraph) -> Self:
        """Open a stored index; raise a :class:`~mhgrn.errors.UserError` if it does not fit the graph or the lemma dictionary."""
        keys = {"lemmatizer": str, "listed_words": int, "names": str, "fingerprint": str}
        return read_folder(folder, MARKER, "concept index", FORMAT, lambda stored: cls._read(stored, graph), keys)

    @classmethod
    def _read(cls, stored: StoredFolder, graph: KnowledgeGraph) -> Self:
        about, folder = stored.about, stored.path
        if about["names"] != graph.about["names"]:
            raise UserError(f"{folder} is the concept index of another graph; delete it.")
        if about["lemmatizer"] != LEMMATIZER:
            raise UserError(f"{folder} was made with {shown(about['lemmatizer'])}, {LEMMATIZER} is installed; delete it.")
        arrays = {name: array for kind in TEXTS for name, array in stored_texts(stored, kind).items()}
        patterns, words, lemmas = (len(arrays[f"{kind}_ptr"].values) - 1 for kind in ("pattern", "word", "lemma"))
        texts = graph.names if graph.labels is None else graph.labels.surfaces
        concept = stored.array("pattern_concept", "int32", high=len(texts) - 1)
        return cls(
            about,
            {
                **arrays,
                "word_lemma": stored.array("word_lemma", "int32", length=words, low=-1, high=lemmas - 1),
                "pattern_concept_ptr": stored.array(
                    "pattern_concept_ptr", "int64", length=patterns + 1, high=len(concept.values), is_pointer=True
                ),
                "pattern_concept": concept,
            },
            folder,
        )

    @property
    def _arrays(self) -> dict[str, Array]:
        return {name: stored.whole for name, stored in self._stored.items()}

    def raise_if_damaged(self) -> None:
        """Raise a :class:`~mhgrn.errors.UserError` if a kernel found damage."""
        for stored in self._stored.values():
            stored.raise_if_damaged()

    def save(self, folder: Path) -> None:
        """Write the index to a folder, completely or not at all."""
        with new_folder(folder, MARKER, ("*.npy",)) as partial:
            for name, array in self._arrays.items():
                save_array(partial / f"{name}.npy", array)
            write_marker(partial / MARKER, self.about)
        self.folder = folder

    def __repr__(self) -> str:
        return f"ConceptIndex(patterns={len(self._patterns)}, folder={str(self.folder) if self.folder else None!r})"

    def lemma(self, word: str) -> str:
        """Return the lemma of a lower-cased word; the word itself if the dictionary lacks it or no concept has such a lemma."""
        number = self._words.find(word)
        if number is None:
            return word
        self._word_lemma.ensure(number, number + 1)
        root = int(self._word_lemma.values[number])
        return word if root < 0 else self._lemmas[root]

    def knows_word(self, word: str) -> bool:
        """Return whether a lower-cased word is a word of a concept's name, or has the lemma of one."""
        return self._words.find(word) is not None

    def words_like(self, word: str) -> set[str]:
        """Return the known words that are at most one edit away from a lower-cased word of ASCII letters."""
        return _words_like(self._words, word)

    def lists_word(self, word: str) -> bool:
        """Return whether the lemma dictionary has a lower-cased word. The dictionary is loaded only for unknown words."""
        number = self._words.find(word)
        return is_english(word) if number is None else number < self.about["listed_words"]

    def with_pattern(self, lemmas: tuple[str, ...]) -> list[int]:
        """Return the numbers of the concepts whose names have these lemmas, ascending."""
        number = self._patterns.find(" ".join(lemmas))
        if number is None:
            return []
        self._concept_ptr.ensure(number, number + 2)
        start, end = self._concept_ptr.values[number : number + 2].tolist()
        self._concept.ensure(start, end)
        found: list[int] = self._concept.values[start:end].tolist()
        return found

    def is_pattern(self, lemmas: str) -> bool:
        """Return whether some concept has these lemmas, given as one text with spaces."""
        return self._patterns.find(lemmas) is not None

    def may_begin_new(self, word: str, root: str) -> bool:
        """Return whether several words that begin with this one may be a concept that :attr:`tables` do not hold."""
        return False

    @property
    def tables(self) -> "IndexTables":
        """The texts of the index, for kernels."""
        from mhgrn.grounding.kernels import IndexTables

        return IndexTables(self._patterns.stored_table, self._beginnings.stored_table, self._words.stored_table)


def described(arrays: Mapping[str, Array | Path], listed_words: int, names: str) -> dict[str, Any]:
    """Return what ``index.json`` says of an index.

    Args:
        arrays: Its arrays by name, or the files that hold them.
        listed_words: The number of its words that the dictionary has.
        names: The fingerprint of the graph's concepts.
    """
    content = [array for name, array in sorted(arrays.items()) if not name.endswith("_slots")]
    return {
        "format": FORMAT,
        "lemmatizer": LEMMATIZER,
        "listed_words": listed_words,
        "names": names,
        "fingerprint": fingerprint(RULES, listed_words, *content),
        "arrays": {name: array_length(array) for name, array in arrays.items()},
    }


def _folder_of(graph: KnowledgeGraph) -> Path | None:
    return None if graph.folder is None else graph.folder / INDEX


_LOCK = SharedLock()
_INDEXES: WeakKeyDictionary[KnowledgeGraph, ConceptIndex] = WeakKeyDictionary()


class _ExtendedIndex(ConceptIndex):
    """The index of a graph and of new concepts, by name and number."""

    def __init__(self, base: ConceptIndex, concepts: dict[str, int]) -> None:
        super().__init__(base.about, base._stored)
        self._new_words = {
            form: root for name in concepts for root in map(lemma, tokenize(name)) for form in (root, *inflected(root))
        }
        self._new_words |= {word: lemma(word) for name in concepts for part in tokenize(name) for word in (part, lemma(part))}
        self._new_patterns: dict[tuple[str, ...], list[int]] = {}
        for name, number in concepts.items():
            if (pattern := concept_pattern(name)) is not None:
                self._new_patterns.setdefault(pattern, []).append(number)
        self._sorted_words = sorted(self._new_words)
        self._text_index = StringIndex.of(self._sorted_words)
        self._first_lemmas = {pattern[0] for pattern in self._new_patterns if len(pattern) > 1}

    def lemma(self, word: str) -> str:
        return self._new_words.get(word) or super().lemma(word)

    def knows_word(self, word: str) -> bool:
        return word in self._new_words or super().knows_word(word)

    def words_like(self, word: str) -> set[str]:
        return super().words_like(word) | _words_like(self._text_index, word)

    def with_pattern(self, lemmas: tuple[str, ...]) -> list[int]:
        return super().with_pattern(lemmas) + self._new_patterns.get(lemmas, [])

    def is_pattern(self, lemmas: str) -> bool:
        return tuple(lemmas.split(" ")) in self._new_patterns or super().is_pattern(lemmas)

    def may_begin_new(self, word: str, root: str) -> bool:
        place = bisect_right(self._sorted_words, word)  # of the first longer word that begins so: "salt" and "saltshaker"
        is_part = place < len(self._sorted_words) and self._sorted_words[place].startswith(word)
        return is_part or root in self._first_lemmas


def _words_like(words: StringIndex, word: str) -> set[str]:
    """Return the texts that are at most one edit away from a word of ASCII letters."""
    from mhgrn.grounding.kernels import one_edit_away_in

    if len(word) > ORDINARY and len(word) > (LONGEST_NAME if words.longest is None else words.longest + 1):
        return set()
    near = one_edit_away_in(words.stored_table, np.frombuffer(word.encode("ascii"), dtype=np.uint8))
    words.raise_if_damaged()
    return {words[number] for number in near.tolist()}
