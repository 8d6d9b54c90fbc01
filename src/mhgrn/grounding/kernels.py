"""Compiled kernels of grounding: patterns of names, spans of texts that have patterns, words one edit away."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.grounding.lemmas import LONGEST
from mhgrn.kg.interning import find_text, intern_last
from mhgrn.kg.names import LETTERS

Array = NDArray[Any]

NO_PATTERN, ASK = -1, -2
OUTER, EMPTY = 1, 2  # traits of a word: not at either end of a pattern; says nothing

_UNDERSCORE, _HYPHEN = 95, 45


# ---- the patterns of names


@kernel
def intern_beginnings(ptr: Array, data: Array, size: int, slots: Array, at: Array, into: Array) -> int:
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


@kernel
def grouped(group: Array, groups: int) -> tuple[Array, Array]:
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
def _is_letter(byte: int) -> bool:
    return 97 <= byte <= 122


@kernel
def find_patterns(
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
    """The pattern of every name made of letters a to z, underscores, and hyphens within words, which part them too: the lemmas of
    its words with spaces between; of other names it is ASK. Lemmas of listed words are marked as used, other words numbered.
    Returns how many of these there are, and how many patterns."""
    for i in range(len(pattern)):
        size = 0
        pattern[i] = NO_PATTERN
        start, stop = name_ptr[i], name_ptr[i + 1]
        for j in range(start, stop):
            if _is_letter(names[j]):
                size += j == start or not _is_letter(names[j - 1])
            elif names[j] == _HYPHEN and start < j < stop - 1:
                if not (_is_letter(names[j - 1]) and _is_letter(names[j + 1])):
                    pattern[i] = ASK
            elif names[j] != _UNDERSCORE:
                pattern[i] = ASK
        if pattern[i] == ASK or size == 0 or size > LONGEST:
            continue
        length = word = 0
        empty, outer = True, False
        for end in range(start, stop + 1):
            if end < stop and _is_letter(names[end]):
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
                empty = empty and (trait & EMPTY) != 0
                outer = outer or ((word == 1 or word == size) and (trait & OUTER) != 0)
            start = end + 1
        if empty or outer:
            continue
        pattern[i] = intern_last(slots, ptr, data, count, length)
        count += pattern[i] == count
    return unlisted_count, count


# ---- the spans of texts in which concepts are found


DETERMINER, ODD, FOUND = 1, 2, 4  # traits of a word of a text: passed over in a span; may have to be read as another; is a concept
MOST_SPANS, MOST_WORDS = 8, 32  # of a text: no more spans than so many for each of its words, and words in all of these

Index = tuple[Array, Array, Array]  # slots, pointer and bytes of a StringIndex
Texts = tuple[Array, Array]  # pointer and bytes


@kernel
def _join(words: Any, size: int, texts: Texts, spaced: bool, into: Array) -> int:
    """Write the texts of some words one behind the other, spaces between if ``spaced``; the length."""
    ptr, data = texts
    length = 0
    for i in range(size):
        if spaced and i > 0:
            into[length] = 32
            length += 1
        for j in range(ptr[words[i]], ptr[words[i] + 1]):
            into[length] = data[j]
            length += 1
    return length


@kernel
def _holds(index: Index, text: Array, length: int) -> bool:
    number: int = find_text(index[0], index[1], index[2], text, 0, length)[0]
    return number >= 0


PAIRS = 1 << 16  # remembered: texts have most of their pairs of words in common with those before
_PAIR_FINDS, _PAIR_BEGINS = 1, 2


@kernel
def _pair(
    first: int, second: int, lemmas: Texts, spellings: Texts, indices: tuple[Index, Index, Index], published: bool, text: Array
) -> int:
    """Whether a concept has the lemmas of two words, or is found by them written as one; whether a longer pattern begins so."""
    patterns, beginnings, known = indices
    words = (first, second)
    length = _join(words, 2, lemmas, True, text)
    result = _PAIR_BEGINS if _holds(beginnings, text, length) else 0
    if _holds(patterns, text, length) or (not published and _holds(known, text, _join(words, 2, spellings, False, text))):
        result |= _PAIR_FINDS
    return result


@kernel
def _equals(words: Array, start: int, end: int, others: Array, first: int, last: int) -> bool:
    if end - start != last - first:
        return False
    for i in range(end - start):  # noqa: SIM110 (compiled)
        if words[start + i] != others[first + i]:
            return False
    return True


@kernel
def _place_of_pair(first: int, second: int) -> tuple[Any, Any]:
    """Under which key two words are remembered, and where."""
    key = (np.uint64(first) << np.uint64(32)) | np.uint64(second + 1)
    return key, (key ^ (key >> np.uint64(25))) & np.uint64(PAIRS - 1)


@kernel
def _is_pattern(words: Array, size: int, lemmas: Texts, patterns: Index, text: Array) -> bool:
    found: bool = _holds(patterns, text, _join(words, size, lemmas, True, text))
    return found


@kernel
def find_spans(
    text_ptr: Array,
    words: Array,
    answer_ptr: Array,
    answers: Array,
    traits: Array,
    lemmas: Texts,
    spellings: Texts,
    indices: tuple[Index, Index, Index],
    published: bool,
    pair_keys: Array,
    pairs: Array,
    slots: Array,
    ptr: Array,
    data: Array,
    count: int,
) -> tuple[Array, Array, int]:
    """The spans of each text that may find a concept: those whose lemmas are a pattern, and those with a word that may have to be
    read as another. All words are numbers; a text's span that equals its answer is passed over.

    A span is a word and up to three more; unless ``published`` also more, if all but four of them are articles within. Spans are
    numbered as texts of four bytes a word. ``indices`` are the graph's patterns, beginnings of patterns, and words. Returns a
    pointer, the spans' numbers, and how many are known now.
    """
    longest = 0
    for w in words:
        longest = max(longest, lemmas[0][w + 1] - lemmas[0][w], spellings[0][w + 1] - spellings[0][w])
    text = np.empty(LONGEST * (longest + 1), np.uint8)
    plain, inner = np.empty(LONGEST, np.int32), np.empty(LONGEST, np.int32)  # the words of a span, and those that are no articles
    found_ptr = np.zeros(len(text_ptr), np.int64)
    found = np.empty(MOST_SPANS * len(words), np.int32)
    total = 0
    for t in range(len(text_ptr) - 1):
        last = text_ptr[t + 1]
        for start in range(text_ptr[t], last):
            may_have_gaps = not published and not traits[words[start]] & DETERMINER
            has_odd = False
            size = pair = inner_pair = 0
            for end in range(start + 1, last + 1):
                length, word = end - start, words[end - 1]
                is_article = (traits[word] & DETERMINER) != 0
                if (length > LONGEST and not may_have_gaps) or (size == LONGEST and not is_article):
                    break
                has_odd = has_odd or (traits[word] & ODD) != 0
                if not is_article:
                    inner[size] = word
                    size += 1
                if length == 2 or (size == 2 and not is_article):
                    first = words[start]
                    key, place = _place_of_pair(first, word)
                    if pair_keys[place] != key:
                        pair_keys[place], pairs[place] = key, _pair(first, word, lemmas, spellings, indices, published, text)
                    if length == 2:
                        pair = pairs[place]
                    inner_pair = pairs[place]
                is_found = False
                if length <= LONGEST:  # as it stands
                    plain[length - 1] = word
                    if has_odd:
                        is_found = True
                    elif length == 1:
                        is_found = (traits[word] & FOUND) != 0
                    elif length == 2:
                        is_found = (pair & _PAIR_FINDS) != 0
                    else:
                        is_found = (pair & _PAIR_BEGINS) != 0 and _is_pattern(plain, length, lemmas, indices[0], text)
                if may_have_gaps and not is_article and size < length and not is_found:  # without articles
                    if has_odd:
                        is_found = True
                    elif size == 2:
                        is_found = (inner_pair & _PAIR_FINDS) != 0
                    else:
                        is_found = (inner_pair & _PAIR_BEGINS) != 0 and _is_pattern(inner, size, lemmas, indices[0], text)
                if is_found and not _equals(words, start, end, answers, answer_ptr[t], answer_ptr[t + 1]):
                    at = ptr[count]
                    for i in range(start, end):
                        for byte in range(4):
                            data[at] = (words[i] >> (8 * byte)) & 255
                            at += 1
                    found[total] = intern_last(slots, ptr, data, count, 4 * length)
                    count += found[total] == count
                    total += 1
        found_ptr[t + 1] = total
    return found_ptr, found[:total], count


Rows = tuple[Array, Array]  # pointer and numbers


@kernel
def _is_among(rows: Rows, row: int, number: int) -> bool:
    ptr, numbers = rows
    for i in range(ptr[row], ptr[row + 1]):  # noqa: SIM110 (compiled)
        if numbers[i] == number:
            return True
    return False


@kernel
def gather_mentions(
    span_ptr: Array, spans: Array, kept: Rows, choices: Array, found: Rows, remaining: Rows, ask_all: bool
) -> tuple[Array, Array, Array, Array]:
    """For each statement the concepts ``kept`` of its spans, sorted, and behind them those that remain of its choice.

    Left out are those that its choice was found to mention, those that remain of it, and those marked to be left out: ``kept``
    holds twice the concept's number, and one more for a mark. Returns a pointer, how many concepts of each statement are the
    question's, the concepts, and which statements are to be asked about because none was kept; these have the choice's only.
    """
    size = len(choices)
    room = most = 0
    for t in range(size):
        mine = 0
        for s in spans[span_ptr[t] : span_ptr[t + 1]]:
            mine += kept[0][s + 1] - kept[0][s]
        room += mine + remaining[0][choices[t] + 1] - remaining[0][choices[t]]
        most = max(most, mine)
    ptr, of_question, asked = np.zeros(size + 1, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_)
    concepts, gathered = np.empty(room, np.int64), np.empty(most, np.int64)
    for t in range(size):
        choice, total, count = choices[t], ptr[t], 0
        for s in spans[span_ptr[t] : span_ptr[t + 1]]:
            for i in range(kept[0][s], kept[0][s + 1]):
                gathered[count] = kept[1][i]
                count += 1
        asked[t] = True
        last = np.int64(-1)
        for marked in np.sort(gathered[:count]):
            number = marked >> 1
            if number == last or _is_among(found, choice, number):
                continue
            last = number
            asked[t] = False
            if marked & 1 == 0 and not _is_among(remaining, choice, number):
                concepts[total] = number
                total += 1
        if ask_all:
            asked[t], total = True, ptr[t]
        of_question[t] = total - ptr[t]
        for i in range(remaining[0][choice], remaining[0][choice + 1]):
            concepts[total] = remaining[1][i]
            total += 1
        ptr[t + 1] = total
    return ptr, of_question, concepts[: ptr[size]], asked


# ---- misspelt words


_LETTERS = np.frombuffer(LETTERS.encode(), dtype=np.uint8)


@kernel
def one_edit_away_in(slots: Array, ptr: Array, data: Array, word: Array) -> Array:
    """The numbers of the texts that :func:`mhgrn.kg.names.one_edit_away` gives for a word and that are in the index."""
    n = len(word)
    found = np.empty((n + 1) * (2 * len(_LETTERS) + 2), np.int64)
    other = np.empty(n + 1, np.uint8)
    count = 0
    for i in range(n + 1):
        # a letter added
        other[:i] = word[:i]
        other[i + 1 :] = word[i:]
        for letter in _LETTERS:
            other[i] = letter
            found[count], _, _ = find_text(slots, ptr, data, other, 0, n + 1)
            count += found[count] >= 0
        if i == n:
            break
        # left out
        other[i:n] = word[i:]
        other[i : n - 1] = word[i + 1 :]
        found[count], _, _ = find_text(slots, ptr, data, other, 0, n - 1)
        count += found[count] >= 0
        # exchanged
        other[i:n] = word[i:]
        for letter in _LETTERS:
            other[i] = letter
            found[count], _, _ = find_text(slots, ptr, data, other, 0, n)
            count += found[count] >= 0
        # swapped with the next
        if i < n - 1:
            other[i], other[i + 1] = word[i + 1], word[i]
            found[count], _, _ = find_text(slots, ptr, data, other, 0, n)
            count += found[count] >= 0
    return found[:count]
