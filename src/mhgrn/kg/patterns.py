"""By which words a graph's concepts are found in texts: lemma sequences → concepts, and words → lemmas, as arrays."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled import kernel
from mhgrn.kg.interning import Interner, find_text, intern_last
from mhgrn.kg.strings import StringIndex
from mhgrn.text.lemmas import (
    LONGEST,
    concept_pattern,
    dictionary,
    may_begin_or_end,
    says_nothing,
    tokenise,
)

Array = NDArray[Any]

CHUNK = 1 << 16  # names looked at by one call of the kernel: tables grow with what they hold
NO_PATTERN, ASK = -1, -2


def pattern_arrays(names: StringIndex) -> tuple[dict[str, Array], int]:
    """The arrays by which concepts are found in texts.

    ``pattern_*`` are the patterns' texts, ``pattern_concept_ptr`` and ``pattern_concept`` say which concepts have each;
    ``beginning_*`` are the first two words of longer patterns; ``word_*`` are the words of the names and all others with their
    lemmas, which a text may use, ``word_lemma`` a word's lemma, one of ``lemma_*`` (-1 if it is its own). The second result is how
    many of the words, the first ones, are of the lemma dictionary.
    """
    known, patterns, unlisted = _known_words(), Interner(), Interner()
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
        unlisted.count, patterns.count = _find_patterns(ptr, names.data, *listed, used, part, *of_words, *of_patterns)
        for number in np.flatnonzero(part == ASK).tolist():
            name = names[start + number]
            for word in tokenise(name):
                if (place := known.texts.find(word)) is None:
                    unlisted.add(word.encode())
                else:
                    used[known.root[place]] = True
            pattern = concept_pattern(name)
            part[number] = NO_PATTERN if pattern is None else patterns.add(" ".join(pattern).encode())
    concept_ptr, concepts = _grouped(pattern_of, patterns.count)
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


def _word_arrays(known: "_Known", used: Array, unlisted: Interner) -> tuple[dict[str, Array], int]:
    chosen = np.flatnonzero(used[known.root] | used)
    words = StringIndex.of(known.texts[word] for word in chosen.tolist())
    more = unlisted.ptr[: unlisted.count + 1]
    ptr, data = np.concatenate([words.ptr, words.ptr[-1] + more[1:]]), np.concatenate([words.data, unlisted.data[: more[-1]]])
    root = known.root[chosen]
    other = root != chosen
    roots, number = np.unique(root[other], return_inverse=True)
    word_lemma = np.full(len(ptr) - 1, -1, dtype=np.int32)
    word_lemma[np.flatnonzero(other)] = number
    lemmas = StringIndex.of(known.texts[root] for root in roots.tolist())
    arrays = {**StringIndex.indexed(ptr, data).to_arrays("word"), **lemmas.to_arrays("lemma"), "word_lemma": word_lemma}
    return arrays, len(chosen)


class _Known(NamedTuple):
    """The words that the lemmatiser knows, and their lemmas; every other word is its own lemma and has no traits."""

    texts: StringIndex
    root: Array  # [texts] number of each one's lemma
    traits: Array  # [texts] _OUTER, _EMPTY, or both
    growth: int  # bytes by which a lemma may be longer than its word


_OUTER, _EMPTY = 1, 2  # traits of a word: not at either end of a pattern; says nothing


@cache
def _known_words() -> _Known:
    listed = dictionary()
    number = {text: i for i, text in enumerate(listed)}
    texts = StringIndex.of(number)
    roots = list(listed.values())
    root = np.array([number[text] for text in roots])
    traits = [
        _OUTER * (not may_begin_or_end(text)) + _EMPTY * says_nothing(text, of) for text, of in zip(number, roots, strict=True)
    ]
    lengths = np.diff(texts.ptr)
    return _Known(texts, root, np.array(traits, dtype=np.uint8), int((lengths[root] - lengths).max()))


@kernel
def _grouped(group: Array, groups: int) -> tuple[Array, Array]:
    """Pointer to the members of each group and these, ascending; members of no group (negative) are left out."""
    ptr = np.zeros(groups + 1, np.int64)
    for g in group:
        if g >= 0:
            ptr[g + 1] += 1
    for g in range(groups):
        ptr[g + 1] += ptr[g]
    place, members = ptr.copy(), np.empty(ptr[groups], np.int32)
    for i in range(len(group)):
        if group[i] >= 0:
            members[place[group[i]]] = i
            place[group[i]] += 1
    return ptr, members


@kernel
def _find_patterns(
    name_ptr: Array,
    names: Array,
    word_slots: Array,
    word_ptr: Array,
    word_data: Array,
    root: Array,
    traits: Array,
    used: Array,
    pattern: Array,
    unlisted_slots: Array,
    unlisted_ptr: Array,
    unlisted: Array,
    unlisted_count: int,
    slots: Array,
    ptr: Array,
    data: Array,
    count: int,
) -> tuple[int, int]:
    """The pattern of every name made of letters a to z and underscores: the lemmas of its words with spaces between; of other
    names it is ASK. Lemmas of listed words are marked as used, other words numbered. Returns how many of these there are, and
    how many patterns."""
    for i in range(len(pattern)):
        size = 0
        pattern[i] = NO_PATTERN
        for j in range(name_ptr[i], name_ptr[i + 1]):
            byte = names[j]
            if byte == 95:
                continue
            if byte < 97 or byte > 122:
                pattern[i] = ASK
                break
            if j == name_ptr[i] or names[j - 1] == 95:
                size += 1
        if pattern[i] == ASK or size == 0 or size > LONGEST:
            continue
        length = word = 0
        empty, outer = True, False
        start = name_ptr[i]
        for end in range(name_ptr[i], name_ptr[i + 1] + 1):
            if end < name_ptr[i + 1] and names[end] != 95:
                continue
            if start < end:
                number, _, _ = find_text(word_slots, word_ptr, word_data, names, start, end)
                trait = 0
                source, first, last = names, start, end
                if number >= 0:
                    trait = traits[number]
                    number = root[number]
                    used[number] = True
                    source, first, last = word_data, word_ptr[number], word_ptr[number + 1]
                else:
                    free = unlisted_ptr[unlisted_count]
                    unlisted[free : free + end - start] = names[start:end]
                    unlisted_count += (
                        intern_last(unlisted_slots, unlisted_ptr, unlisted, unlisted_count, end - start) == unlisted_count
                    )
                if word > 0:
                    data[ptr[count] + length] = 32
                    length += 1
                for j in range(first, last):
                    data[ptr[count] + length] = source[j]
                    length += 1
                word += 1
                empty = empty and (trait & _EMPTY) != 0
                outer = outer or ((word == 1 or word == size) and (trait & _OUTER) != 0)
            start = end + 1
        if empty or outer:
            continue
        pattern[i] = intern_last(slots, ptr, data, count, length)
        count += pattern[i] == count
    return unlisted_count, count
