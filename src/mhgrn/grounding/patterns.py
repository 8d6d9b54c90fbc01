"""The arrays of a concept index, made of concept names: lemma n-grams → concepts, and words → lemmas."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.pool import once
from mhgrn.errors import UserError
from mhgrn.grounding.kernels import ASK, EMPTY, NO_PATTERN, OUTER, Known, Texts, find_patterns, grouped, intern_beginnings
from mhgrn.grounding.lemmas import (
    LONGEST,
    RULED,
    concept_pattern,
    dictionary,
    may_begin_or_end,
    says_nothing,
    tokenize,
)
from mhgrn.kg.interning import Interner
from mhgrn.kg.strings import StringIndex

Array = NDArray[Any]

CHUNK = 1 << 16  # names per call of the kernel: between calls, hash tables grow with their content


def pattern_arrays(names: StringIndex) -> tuple[dict[str, Array], int]:
    """Make the arrays by which concepts are found in texts.

    - ``pattern_*``: the texts of patterns; ``pattern_concept_ptr`` and ``pattern_concept``: the concepts of each pattern.
    - ``beginning_*``: the first two lemmas of longer patterns.
    - ``word_*``: the words of the names, and all other words of the dictionary that have one of their lemmas.
    - ``word_lemma``: the lemma of each word, one of ``lemma_*``, or -1 for a word that is its own lemma.

    Returns:
        The arrays, and the number of words that the dictionary has. These come first.
    """
    known, patterns, unlisted = known_words(), Interner(), Interner()
    pattern_of = np.full(len(names), NO_PATTERN, dtype=np.int32)  # of each concept
    used = np.zeros(len(known.texts), dtype=bool)  # whether some concept has a word with this lemma
    for start in range(0, len(names), CHUNK):
        part = pattern_of[start : start + CHUNK]
        intern_patterns(Texts(names.ptr[start : start + CHUNK + 1], names.data), known, used, part, unlisted, patterns)
    concept_ptr, concepts = grouped(pattern_of, patterns.count)
    words = listed_words(known, used)
    more = unlisted.ptr[: unlisted.count + 1]
    ptr = np.concatenate([words.texts.ptr, words.texts.ptr[-1] + more[1:]])
    data = np.concatenate([words.texts.data, unlisted.data[: more[-1]]])
    arrays = {
        **patterns.index().to_arrays("pattern"),
        **beginnings(patterns.ptr, patterns.data, patterns.count).index().to_arrays("beginning"),
        **StringIndex.indexed(ptr, data).to_arrays("word"),
        **words.lemmas.to_arrays("lemma"),
        "word_lemma": np.concatenate([words.lemma, np.full(unlisted.count, -1, dtype=np.int32)]),
        "pattern_concept_ptr": concept_ptr,
        "pattern_concept": concepts,
    }
    return arrays, len(words.texts)


def intern_patterns(names: Texts, known: "Dictionary", used: Array, part: Array, unlisted: Interner, patterns: Interner) -> None:
    """Find the patterns of some names, and intern them and the words that the dictionary lacks.

    Args:
        names: The names.
        known: The dictionary.
        used: [words] Marks the lemmas of the names' words.
        part: [names] Gets the number of each name's pattern, or ``NO_PATTERN``.
        unlisted: Interns words.
        patterns: Interns patterns.
    """
    ptr, data = names
    size = int(ptr[-1] - ptr[0])
    unlisted.reserve(LONGEST * len(part), size)
    patterns.reserve(len(part), size + known.growth * LONGEST * len(part))
    listed = Known(known.texts.table, known.root, known.traits)
    unlisted.count, patterns.count = find_patterns(
        names, listed, used, part, unlisted.table, unlisted.count, patterns.table, patterns.count
    )
    for number in np.flatnonzero(part == ASK).tolist():
        try:
            name = data[ptr[number] : ptr[number + 1]].tobytes().decode()
        except UnicodeDecodeError:
            raise UserError("the names of the graph are damaged (a text is not UTF-8); build its folder again.") from None
        for word in tokenize(name):
            if (place := known.number.get(word)) is None:
                unlisted.add(word.encode())
            else:
                used[known.root[place]] = True
        pattern = concept_pattern(name)
        part[number] = NO_PATTERN if pattern is None else patterns.add(" ".join(pattern).encode())


def beginnings(ptr: Array, data: Array, count: int) -> Interner:
    """Intern the first two lemmas of longer patterns, so that most spans of a text need no look-up."""
    found = Interner()
    found.reserve(count, int(ptr[count]))
    found.count = intern_beginnings(Texts(ptr, data), count, found.table)
    return found


class ListedWords(NamedTuple):
    """The words of the dictionary that have the lemma of a concept's word."""

    texts: StringIndex
    lemmas: StringIndex
    lemma: Array  # [texts] the lemma of each word, or -1 for a word that is its own


def listed_words(known: "Dictionary", used: Array) -> ListedWords:
    """Return the words of the dictionary to index, given which lemmas are used."""
    chosen = np.flatnonzero(used[known.root] | used)
    texts = list(known.number)
    root = known.root[chosen]
    other = root != chosen
    roots, number = np.unique(root[other], return_inverse=True)
    lemma = np.full(len(chosen), -1, dtype=np.int32)
    lemma[np.flatnonzero(other)] = number
    return ListedWords(
        StringIndex.of(texts[word] for word in chosen.tolist()), StringIndex.of(texts[r] for r in roots.tolist()), lemma
    )


class Dictionary(NamedTuple):
    """The words of the lemma dictionary. Every other word is its own lemma and has no traits."""

    number: dict[str, int]
    texts: StringIndex
    root: Array  # [texts] number of the lemma
    traits: Array  # [texts] OUTER, EMPTY, or both
    growth: int  # bytes by which a lemma is longer than its word at most


@once
def known_words() -> Dictionary:
    """Return the lemma dictionary as arrays."""
    listed = dictionary()
    number = {text: i for i, text in enumerate(listed)}
    texts = StringIndex.of(number)
    roots = list(listed.values())
    root = np.array([number[text] for text in roots])
    traits = np.zeros(len(roots), dtype=np.uint8)
    for i, (text, of) in enumerate(zip(number, roots, strict=True)):
        if text in RULED or of in RULED:
            traits[i] = OUTER * (not may_begin_or_end(text)) + EMPTY * says_nothing(text, of)
    lengths = np.diff(texts.ptr)
    return Dictionary(number, texts, root, traits, int((lengths[root] - lengths).max()))
