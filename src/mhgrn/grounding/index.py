"""By which words a graph's concepts are found in texts: lemma sequences → concepts, and words → lemmas, as arrays."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.grounding.lemmas import (
    LONGEST,
    RULED,
    concept_pattern,
    dictionary,
    may_begin_or_end,
    says_nothing,
    tokenise,
)
from mhgrn.kg.interning import Interner
from mhgrn.kg.kernels import ASK, EMPTY, NO_PATTERN, OUTER, find_patterns, grouped, intern_beginnings
from mhgrn.kg.strings import StringIndex

Array = NDArray[Any]

CHUNK = 1 << 16  # names looked at by one call of the kernel: tables grow with what they hold


def pattern_arrays(names: StringIndex) -> tuple[dict[str, Array], int]:
    """The arrays by which concepts are found in texts.

    ``pattern_*`` are the patterns' texts, ``pattern_concept_ptr`` and ``pattern_concept`` say which concepts have each;
    ``beginning_*`` are the first two words of longer patterns; ``word_*`` are the words of the names and all others with their
    lemmas, which a text may use, ``word_lemma`` a word's lemma, one of ``lemma_*`` (-1 if it is its own). The second result is how
    many of the words, the first ones, are of the lemma dictionary.
    """
    known, patterns, unlisted = known_words(), Interner(), Interner()
    pattern_of = np.full(len(names), NO_PATTERN, dtype=np.int32)  # of each concept
    used = np.zeros(len(known.texts), dtype=bool)  # is the lemma of a word of some concept
    listed = known.texts.slots, known.texts.ptr, known.texts.data, known.root, known.traits
    for start in range(0, len(names), CHUNK):
        ptr, part = names.ptr[start : start + CHUNK + 1], pattern_of[start : start + CHUNK]
        size = int(ptr[-1] - ptr[0])
        unlisted.reserve(LONGEST * len(part), size)
        patterns.reserve(len(part), size + known.growth * LONGEST * len(part))
        of_words = unlisted.slots, unlisted.ptr, unlisted.data, unlisted.count
        of_patterns = patterns.slots, patterns.ptr, patterns.data, patterns.count
        unlisted.count, patterns.count = find_patterns(ptr, names.data, *listed, used, part, *of_words, *of_patterns)
        for number in np.flatnonzero(part == ASK).tolist():
            name = names[start + number]
            for word in tokenise(name):
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
    """The first two lemmas of every pattern of more: most stretches of a text begin none, and need not be looked up."""
    found = Interner()
    found.reserve(patterns.count, int(patterns.ptr[patterns.count]))
    found.count = intern_beginnings(patterns.ptr, patterns.data, patterns.count, found.slots, found.ptr, found.data)
    return found.index()


def _word_arrays(known: "_Known", used: Array, unlisted: Interner) -> tuple[dict[str, Array], int]:
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


class _Known(NamedTuple):
    """The words that the lemmatiser knows, and their lemmas; every other word is its own lemma and has no traits."""

    number: dict[str, int]
    texts: StringIndex
    root: Array  # [texts] number of each one's lemma
    traits: Array  # [texts] OUTER, EMPTY, or both
    growth: int  # bytes by which a lemma may be longer than its word


@cache
def known_words() -> _Known:
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
    return _Known(number, texts, root, traits, int((lengths[root] - lengths).max()))
