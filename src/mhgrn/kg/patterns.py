"""By which words a graph's concepts are found in texts: lemma sequences → concepts, and words → lemmas, as arrays."""

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled import kernel
from mhgrn.kg.interning import Interner, intern_last
from mhgrn.kg.strings import StringIndex
from mhgrn.text.lemmas import LONGEST, concept_pattern, inflected, lemma, may_begin_or_end, says_nothing, tokenise

Array = NDArray[Any]

CHUNK = 1 << 20  # names split into words at a time
NO_PATTERN, ASK = -1, -2


def pattern_arrays(names: StringIndex) -> dict[str, Array]:
    """The arrays of the patterns of all concepts: ``pattern_*`` (texts), ``pattern_concept_ptr`` and ``pattern_concept`` (which
    concepts have a pattern), ``beginning_*`` (the first two words of longer patterns), ``word_*`` (texts) and ``word_lemma`` (a
    word's lemma, one of ``lemma_*``)."""
    words, patterns, vocabulary = Interner(), Interner(), _Vocabulary()
    pattern_of = np.full(len(names), NO_PATTERN, dtype=np.int64)  # of each concept
    lemma_of, traits = array("q"), array("B")  # of each word
    for start in range(0, len(names), CHUNK):
        ptr, part = names.ptr[start : start + CHUNK + 1], pattern_of[start : start + CHUNK]
        found, sizes = np.zeros((len(part), LONGEST), dtype=np.int64), np.zeros(len(part), dtype=np.int64)
        words.reserve(found.size, int(ptr[-1] - ptr[0]))
        words.count = _split_names(ptr, names.data, found, sizes, words.slots, words.ptr, words.data, words.count)
        for word in words.since(len(lemma_of)):
            lemma_of.append(vocabulary.lemma(word))
            traits.append(_OUTER * (not may_begin_or_end(word)) + _EMPTY * says_nothing(word, lemma(word)))
        roots = vocabulary.lemmas()
        of_words = np.array(lemma_of), np.array(traits)
        patterns.reserve(len(part), int(_pattern_bytes(found, sizes, of_words[0], roots.ptr)))
        where = part, patterns.slots, patterns.ptr, patterns.data, patterns.count
        patterns.count = _join_lemmas(found, sizes, *of_words, roots.ptr, roots.data, *where)
        for number in np.flatnonzero(part == ASK).tolist():
            name = names[start + number]
            for word in tokenise(name):
                vocabulary.lemma(word)
            pattern = concept_pattern(name)
            part[number] = NO_PATTERN if pattern is None else patterns.add(" ".join(pattern).encode())
    vocabulary.add_inflections()
    concept_ptr, concepts = _grouped(pattern_of, patterns.count)
    return {
        **patterns.index().to_arrays("pattern"),
        **_beginnings(patterns).to_arrays("beginning"),
        **StringIndex.of(vocabulary.words).to_arrays("word"),
        **vocabulary.lemmas().to_arrays("lemma"),
        "pattern_concept_ptr": concept_ptr,
        "pattern_concept": concepts,
        "word_lemma": np.fromiter(vocabulary.words.values(), dtype=np.int32, count=len(vocabulary.words)),
    }


def _beginnings(patterns: Interner) -> StringIndex:
    """The first two lemmas of every pattern of more: most stretches of a text begin none, and need not be looked up."""
    found = Interner()
    found.reserve(patterns.count, int(patterns.ptr[patterns.count]))
    found.count = _intern_beginnings(patterns.ptr, patterns.data, patterns.count, found.slots, found.ptr, found.data)
    return found.index()


@kernel
def _intern_beginnings(ptr: Array, data: Array, size: int, slots: Array, at: Array, into: Array) -> int:
    count = 0
    for i in range(size):
        spaces = 0
        for j in range(ptr[i], ptr[i + 1]):
            spaces += data[j] == 32
            if spaces == 2:
                length = j - ptr[i]
                into[at[count] : at[count] + length] = data[ptr[i] : j]
                count += intern_last(slots, at, into, count, length) == count
                break
    return count


class _Vocabulary:
    """Words and the numbers of their lemmas."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self._roots: dict[str, int] = {}

    def lemma(self, word: str) -> int:
        root = lemma(word)
        number = self._roots.setdefault(root, len(self._roots))
        self.words[word] = number
        return number

    def add_inflections(self) -> None:
        """Add the other words that have the same lemmas, which a text may use; and what the lemmas are if taken for words."""
        for root, number in list(self._roots.items()):
            for word in inflected(root):
                self.words[word] = number
            self.lemma(root)

    def lemmas(self) -> StringIndex:
        return StringIndex.of(self._roots)


_OUTER, _EMPTY = 1, 2  # traits of a word: not at either end of a pattern; says nothing


def _grouped(group: Array, groups: int) -> tuple[Array, Array]:
    """The members of each group, ascending; members of no group (negative) are left out."""
    members = np.flatnonzero(group >= 0)
    counts = np.bincount(group[members], minlength=groups)
    order = np.argsort(group[members], kind="stable")
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), members[order].astype(np.int32)


@kernel
def _split_names(ptr: Array, data: Array, found: Array, sizes: Array, slots: Array, at: Array, into: Array, count: int) -> int:
    """The words of names made of letters a to z and underscores; of others the size is ASK. Returns the number of words."""
    for i in range(len(ptr) - 1):
        size = 0
        for j in range(ptr[i], ptr[i + 1]):
            byte = data[j]
            if byte == 95:
                continue
            if byte < 97 or byte > 122:
                size = ASK
                break
            if j == ptr[i] or data[j - 1] == 95:
                size += 1
        sizes[i] = size
        if size > found.shape[1] or size <= 0:
            continue
        word = length = 0
        for j in range(ptr[i], ptr[i + 1]):
            if data[j] != 95:
                into[at[count] + length] = data[j]
                length += 1
            if length > 0 and (data[j] == 95 or j + 1 == ptr[i + 1]):
                found[i, word] = intern_last(slots, at, into, count, length)
                count += found[i, word] == count
                word += 1
                length = 0
    return count


@kernel
def _pattern_bytes(found: Array, sizes: Array, lemma_of: Array, ptr: Array) -> int:
    total = 0
    for i in range(len(sizes)):
        if 0 < sizes[i] <= found.shape[1]:
            for k in range(sizes[i]):
                root = lemma_of[found[i, k]]
                total += ptr[root + 1] - ptr[root] + 1
    return total


@kernel
def _join_lemmas(
    found: Array,
    sizes: Array,
    lemma_of: Array,
    traits: Array,
    lemma_ptr: Array,
    lemma_data: Array,
    pattern: Array,
    slots: Array,
    ptr: Array,
    data: Array,
    count: int,
) -> int:
    """The pattern of every name: the lemmas of its words with spaces between. Returns the number of patterns."""
    for i in range(len(sizes)):
        size = sizes[i]
        pattern[i] = ASK if size == ASK else NO_PATTERN
        if size <= 0 or size > found.shape[1]:
            continue
        if (traits[found[i, 0]] | traits[found[i, size - 1]]) & _OUTER:
            continue
        empty = True
        for k in range(size):
            empty = empty and (traits[found[i, k]] & _EMPTY) != 0
        if empty:
            continue
        length = 0
        for k in range(size):
            root = lemma_of[found[i, k]]
            if k > 0:
                data[ptr[count] + length] = 32
                length += 1
            for j in range(lemma_ptr[root], lemma_ptr[root + 1]):
                data[ptr[count] + length] = lemma_data[j]
                length += 1
        pattern[i] = intern_last(slots, ptr, data, count, length)
        count += pattern[i] == count
    return count
