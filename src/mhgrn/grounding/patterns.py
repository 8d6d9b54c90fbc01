"""The arrays of a concept index, made of concept names: lemma n-grams → concepts, and words → lemmas."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.pool import once
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
    listed = Known(known.texts.table, known.root, known.traits)
    for start in range(0, len(names), CHUNK):
        ptr, part = names.ptr[start : start + CHUNK + 1], pattern_of[start : start + CHUNK]
        size = int(ptr[-1] - ptr[0])
        unlisted.reserve(LONGEST * len(part), size)
        patterns.reserve(len(part), size + known.growth * LONGEST * len(part))
        unlisted.count, patterns.count = find_patterns(
            Texts(ptr, names.data), listed, used, part, unlisted.table, unlisted.count, patterns.table, patterns.count
        )
        for number in np.flatnonzero(part == ASK).tolist():
            name = names[start + number]
            for word in tokenize(name):
                if (place := known.number.get(word)) is None:
                    unlisted.add(word.encode())
                else:
                    used[known.root[place]] = True
            pattern = concept_pattern(name)
            part[number] = NO_PATTERN if pattern is None else patterns.add(" ".join(pattern).encode())
    concept_ptr, concepts = grouped(pattern_of, patterns.count)
    words, listed_words = _word_arrays(known, used, unlisted)
    arrays = {
        **patterns.index().to_arrays("pattern"),
        **_beginnings(patterns).to_arrays("beginning"),
        **words,
        "pattern_concept_ptr": concept_ptr,
        "pattern_concept": concepts,
    }
    return arrays, listed_words


def _beginnings(patterns: Interner) -> StringIndex:
    """Index the first two lemmas of longer patterns, so that most spans of a text need no look-up."""
    found = Interner()
    found.reserve(patterns.count, int(patterns.ptr[patterns.count]))
    found.count = intern_beginnings(Texts(patterns.ptr, patterns.data), patterns.count, found.table)
    return found.index()


def _word_arrays(known: "_Dictionary", used: Array, unlisted: Interner) -> tuple[dict[str, Array], int]:
    chosen = np.flatnonzero(used[known.root] | used)
    texts = list(known.number)
    words = StringIndex.of(texts[word] for word in chosen.tolist())
    more = unlisted.ptr[: unlisted.count + 1]
    ptr, data = np.concatenate([words.ptr, words.ptr[-1] + more[1:]]), np.concatenate([words.data, unlisted.data[: more[-1]]])
    root = known.root[chosen]
    other = root != chosen
    roots, number = np.unique(root[other], return_inverse=True)
    word_lemma = np.full(len(ptr) - 1, -1, dtype=np.int32)
    word_lemma[np.flatnonzero(other)] = number
    lemmas = StringIndex.of(texts[root] for root in roots.tolist())
    arrays = {**StringIndex.indexed(ptr, data).to_arrays("word"), **lemmas.to_arrays("lemma"), "word_lemma": word_lemma}
    return arrays, len(chosen)


class _Dictionary(NamedTuple):
    """The words of the lemma dictionary. Every other word is its own lemma and has no traits."""

    number: dict[str, int]
    texts: StringIndex
    root: Array  # [texts] number of the lemma
    traits: Array  # [texts] OUTER, EMPTY, or both
    growth: int  # bytes by which a lemma is longer than its word at most


@once
def known_words() -> _Dictionary:
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
    return _Dictionary(number, texts, root, traits, int((lengths[root] - lengths).max()))
