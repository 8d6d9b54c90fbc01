"""Compiled kernels of grounding: patterns of names, spans of texts that have patterns, words one edit away."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.guards import readable
from mhgrn.compiled.jit import kernel
from mhgrn.grounding.lemmas import LONGEST
from mhgrn.kg.interning import CRC_TABLE, find_stored, find_text, intern_last, text_crc
from mhgrn.kg.names import LETTERS
from mhgrn.kg.strings import MOST_PROBES, StoredTable, TextTable

Array = NDArray[Any]

NO_PATTERN, ASK = -1, -2
OUTER, EMPTY = 1, 2  # traits of a word: not at either end of a pattern; says nothing

_UNDERSCORE, _HYPHEN = 95, 45


class Texts(NamedTuple):
    """Texts by number."""

    ptr: Array  # [texts + 1]
    data: Array  # bytes, or the numbers of words


class Known(NamedTuple):
    """The words of the lemma dictionary. Every other word is its own lemma and has no traits."""

    table: TextTable
    root: Array  # [words] number of the lemma
    traits: Array  # [words] OUTER, EMPTY, or both


@kernel
def intern_beginnings(patterns: Texts, size: int, found: TextTable) -> int:
    """Intern the first two lemmas of the first ``size`` patterns that have more, and return how many there are."""
    ptr, data = patterns
    at, into = found.ptr, found.data
    count = 0
    for i in range(size):
        spaces = 0
        for j in range(ptr[i], ptr[i + 1]):
            spaces += data[j] == 32
            if spaces == 2:
                length = j - ptr[i]
                into[at[count] : at[count] + length] = data[ptr[i] : j]
                count += intern_last(found, count, length) == count
                break
    return count


@kernel
def grouped(group: Array, groups: int) -> tuple[Array, Array]:
    """Return a pointer to the members of each group, and these, ascending. Members of no group (negative) are left out."""
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
    names: Texts,
    known: Known,
    used: Array,
    pattern: Array,
    unlisted: TextTable,
    unlisted_count: int,
    patterns: TextTable,
    count: int,
) -> tuple[int, int]:
    """Find the pattern of each name: the lemmas of its words with spaces between.

    Names are made of the letters a to z, underscores, and hyphens within words, which separate words too. The pattern of any other
    name is ASK. Lemmas of known words are marked in ``used``; other words are interned in ``unlisted``.

    Returns:
        The number of unlisted words, and of patterns.
    """
    name_ptr, name = names
    ptr, data = patterns.ptr, patterns.data
    for i in range(len(pattern)):
        size = 0
        pattern[i] = NO_PATTERN
        start, stop = name_ptr[i], name_ptr[i + 1]
        for j in range(start, stop):
            if _is_letter(name[j]):
                size += j == start or not _is_letter(name[j - 1])
            elif name[j] == _HYPHEN and start < j < stop - 1:
                if not (_is_letter(name[j - 1]) and _is_letter(name[j + 1])):
                    pattern[i] = ASK
            elif name[j] != _UNDERSCORE:
                pattern[i] = ASK
        if pattern[i] == ASK or size == 0 or size > LONGEST:
            continue
        length = word = 0
        empty, outer = True, False
        for end in range(start, stop + 1):
            if end < stop and _is_letter(name[end]):
                continue
            if start < end:
                number, _, _ = find_text(known.table, name, start, end)
                trait = 0
                source, first, last = name, start, end
                if number >= 0:
                    trait = known.traits[number]
                    number = known.root[number]
                    used[number] = True
                    source, first, last = known.table.data, known.table.ptr[number], known.table.ptr[number + 1]
                else:
                    free = unlisted.ptr[unlisted_count]
                    unlisted.data[free : free + end - start] = name[start:end]
                    unlisted_count += intern_last(unlisted, unlisted_count, end - start) == unlisted_count
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
        pattern[i] = intern_last(patterns, count, length)
        count += pattern[i] == count
    return unlisted_count, count


DETERMINER, ODD, FOUND = 1, 2, 4  # traits of a word of a text: skipped in a span; may have to be read as another; is a concept
MOST_SPANS, MOST_WORDS = 8, 32  # per word of a text: spans at most, and words in all of these
PAIRS = 1 << 16  # size of the cache of pairs of words
_PAIR_FINDS, _PAIR_BEGINS = 1, 2


class Vocabulary(NamedTuple):
    """The words of texts, by number."""

    traits: Array  # [words] of DETERMINER, ODD, FOUND
    lemmas: Texts
    spellings: Texts


class IndexTables(NamedTuple):
    """The texts of a concept index."""

    patterns: StoredTable
    beginnings: StoredTable  # the first two lemmas of longer patterns
    words: StoredTable


class PairCache(NamedTuple):
    """What pairs of words find; texts share most of their pairs."""

    keys: Array  # [PAIRS]
    finds: Array  # [PAIRS] of _PAIR_FINDS, _PAIR_BEGINS


@kernel
def _join(words: Any, size: int, texts: Texts, spaced: bool, into: Array) -> int:
    """Concatenate the texts of some words, with spaces between if ``spaced``, and return the length."""
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
def _holds(table: StoredTable, text: Array, length: int) -> bool:
    found: bool = find_stored(table, text, 0, length) >= 0
    return found


@kernel
def _pair(first: int, second: int, words: Vocabulary, index: IndexTables, published: bool, text: Array) -> int:
    """Return whether a concept has the lemmas of two words or is these written as one, and whether a longer pattern begins so."""
    pair = (first, second)
    length = _join(pair, 2, words.lemmas, True, text)
    result = _PAIR_BEGINS if _holds(index.beginnings, text, length) else 0
    if _holds(index.patterns, text, length) or (
        not published and _holds(index.words, text, _join(pair, 2, words.spellings, False, text))
    ):
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
    """Return the key of two words in the cache of pairs, and its place."""
    key = (np.uint64(first) << np.uint64(32)) | np.uint64(second + 1)
    return key, (key ^ (key >> np.uint64(25))) & np.uint64(PAIRS - 1)


@kernel
def _is_pattern(words: Array, size: int, lemmas: Texts, patterns: StoredTable, text: Array) -> bool:
    found: bool = _holds(patterns, text, _join(words, size, lemmas, True, text))
    return found


@kernel
def find_spans(
    texts: Texts,
    answers: Texts,
    vocabulary: Vocabulary,
    index: IndexTables,
    published: bool,
    cache: PairCache,
    spans: TextTable,
    count: int,
) -> tuple[Array, Array, int]:
    """Find the spans of each text that may be a concept, and intern them as texts of four bytes per word.

    These are the spans whose lemmas are a pattern, and those with a word that may have to be read as another. A span has up to four
    words; unless ``published``, it may have more if all but four of them are articles inside it. A span that equals the text's
    answer is skipped. Words are numbers of the vocabulary.

    Returns:
        A pointer to each text's spans, their numbers, and the number of spans known now.
    """
    text_ptr, words = texts
    answer_ptr, answer = answers
    keys, pairs = cache
    traits, lemmas, spellings = vocabulary
    ptr, data = spans.ptr, spans.data
    longest = 0
    for w in words:
        longest = max(longest, lemmas.ptr[w + 1] - lemmas.ptr[w], spellings.ptr[w + 1] - spellings.ptr[w])
    text = np.empty(LONGEST * (longest + 1), np.uint8)
    plain, inner = np.empty(LONGEST, np.int32), np.empty(LONGEST, np.int32)  # words of a span, with and without articles
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
                    if keys[place] != key:
                        keys[place], pairs[place] = key, _pair(first, word, vocabulary, index, published, text)
                    if length == 2:
                        pair = pairs[place]
                    inner_pair = pairs[place]
                is_found = False
                if length <= LONGEST:  # with articles
                    plain[length - 1] = word
                    if has_odd:
                        is_found = True
                    elif length == 1:
                        is_found = (traits[word] & FOUND) != 0
                    elif length == 2:
                        is_found = (pair & _PAIR_FINDS) != 0
                    else:
                        is_found = (pair & _PAIR_BEGINS) != 0 and _is_pattern(plain, length, lemmas, index.patterns, text)
                if may_have_gaps and not is_article and size < length and not is_found:  # without articles
                    if has_odd:
                        is_found = True
                    elif size == 2:
                        is_found = (inner_pair & _PAIR_FINDS) != 0
                    else:
                        is_found = (inner_pair & _PAIR_BEGINS) != 0 and _is_pattern(inner, size, lemmas, index.patterns, text)
                if is_found and not _equals(words, start, end, answer, answer_ptr[t], answer_ptr[t + 1]):
                    at = ptr[count]
                    for i in range(start, end):
                        for byte in range(4):
                            data[at] = (words[i] >> (8 * byte)) & 255
                            at += 1
                    found[total] = intern_last(spans, count, 4 * length)
                    count += found[total] == count
                    total += 1
        found_ptr[t + 1] = total
    return found_ptr, found[:total], count


class Rows(NamedTuple):
    """Rows of concept numbers."""

    ptr: Array  # [rows + 1]
    number: Array


@kernel
def _is_among(rows: Rows, row: int, number: int) -> bool:
    """Return whether a sorted row has a number."""
    low, high = rows.ptr[row], rows.ptr[row + 1]
    while low < high:
        middle = (low + high) // 2
        if rows.number[middle] < number:
            low = middle + 1
        else:
            high = middle
    found: bool = low < rows.ptr[row + 1] and rows.number[low] == number
    return found


@kernel
def gather_mentions(
    spans: Rows, kept: Rows, choices: Array, found: Rows, remaining: Rows, ask_all: bool
) -> tuple[Array, Array, Array, Array]:
    """Gather the concepts of each statement: sorted, those that are ``kept`` of its spans, then those that remain of its choice.

    ``kept`` holds twice a concept's number, plus one if the concept is to be dropped. The concepts that a choice mentions
    (``found``) and those that remain of it are not concepts of the question.

    Returns:
        A pointer to each statement's concepts, how many of these are the question's, the concepts, and which statements kept no
        concept of the question, so that the caller has to find some.
    """
    size = len(choices)
    room = most = 0
    for t in range(size):
        mine = 0
        for s in spans.number[spans.ptr[t] : spans.ptr[t + 1]]:
            mine += kept.ptr[s + 1] - kept.ptr[s]
        room += mine + remaining.ptr[choices[t] + 1] - remaining.ptr[choices[t]]
        most = max(most, mine)
    ptr, of_question, asked = np.zeros(size + 1, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_)
    concepts, gathered = np.empty(room, np.int64), np.empty(most, np.int64)
    for t in range(size):
        choice, total, count = choices[t], ptr[t], 0
        for s in spans.number[spans.ptr[t] : spans.ptr[t + 1]]:
            for i in range(kept.ptr[s], kept.ptr[s + 1]):
                gathered[count] = kept.number[i]
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
        for i in range(remaining.ptr[choice], remaining.ptr[choice + 1]):
            concepts[total] = remaining.number[i]
            total += 1
        ptr[t + 1] = total
    return ptr, of_question, concepts[: ptr[size]], asked


_LETTERS = np.frombuffer(LETTERS.encode(), dtype=np.uint8)


@kernel
def _of_byte(changes: Array, after: int, byte: int) -> Any:
    """Return the change of a text's CRC if a byte changes by ``byte`` (exclusive or) and ``after`` bytes follow it."""
    change = np.uint32(0)
    for bit in range(8):
        if byte >> bit & 1:
            change ^= changes[after, bit]
    return change


@kernel
def _has_crc(stored: StoredTable, crc: Any) -> bool:
    """Return whether a table may hold a text with this CRC."""
    slots = stored.table.slots
    mask = np.uint64(len(slots) - 1)
    place = np.uint64(crc) & mask
    for _ in range(min(len(slots), MOST_PROBES)):
        at = np.int64(place)
        if not readable(slots, stored.slots, at, at + 1) or slots[place] == 0:
            return False
        if slots[place] >> np.uint64(32) == np.uint64(crc):
            return True
        place = (place + np.uint64(1)) & mask
    return False


@kernel
def one_edit_away_in(table: StoredTable, word: Array) -> Array:
    """Return the numbers of the texts of a table that :func:`mhgrn.kg.names.one_edit_away` gives for a word of ASCII letters.

    The CRC of each changed word follows from that of another in a few steps, because a CRC is linear: the time is linear in the
    length of the word. Only words whose CRC is in the table are spelled out.
    """
    n = len(word)
    changes = np.empty((n + 1, 8), np.uint32)  # of the CRC, by the number of bytes that follow and the bit that changes
    for bit in range(8):
        change = CRC_TABLE[1 << bit]
        for after in range(n + 1):
            changes[after, bit] = change
            change = CRC_TABLE[change & np.uint32(0xFF)] ^ (change >> np.uint32(8))
    whole = np.uint32(text_crc(word, 0, n))
    found = np.empty((n + 1) * (2 * len(_LETTERS) + 2) + 1, np.int64)
    other = np.empty(n + 1, np.uint8)
    found[0] = find_stored(table, word, 0, n)
    count = 1 if n > 0 and found[0] >= 0 else 0
    # Of edits with the same result, such as deleting either of two equal letters, one is tried.
    inserted = np.uint32(0)  # CRC of the word with letter i twice
    deleted = np.uint32(text_crc(word, 0, n - 1)) if n > 0 else np.uint32(0)  # CRC of the word without letter i
    for i in range(n, -1, -1):
        here = word[i] if i < n else _LETTERS[0]
        if i == n:
            other[:n] = word
            other[n] = here
            inserted = np.uint32(text_crc(other, 0, n + 1))
        for letter in _LETTERS:
            if (i == n or letter != here) and _has_crc(table, inserted ^ _of_byte(changes, n - i, letter ^ here)):
                other[:i], other[i + 1 :] = word[:i], word[i:]
                other[i] = letter
                found[count] = find_stored(table, other, 0, n + 1)
                count += found[count] >= 0
            if i < n and letter != here and _has_crc(table, whole ^ _of_byte(changes, n - 1 - i, letter ^ here)):
                other[:n] = word
                other[i] = letter
                found[count] = find_stored(table, other, 0, n)
                count += found[count] >= 0
        if i < n - 1:
            following = word[i + 1]
            both = here ^ following
            deleted ^= _of_byte(changes, n - 2 - i, both)
            swapped = whole ^ _of_byte(changes, n - 1 - i, both) ^ _of_byte(changes, n - 2 - i, both)
            if both and _has_crc(table, swapped):
                other[:n] = word
                other[i], other[i + 1] = following, here
                found[count] = find_stored(table, other, 0, n)
                count += found[count] >= 0
        if i < n and (i == n - 1 or word[i + 1] != here) and _has_crc(table, deleted):
            other[:i], other[i : n - 1] = word[:i], word[i + 1 :]
            found[count] = find_stored(table, other, 0, n - 1)
            count += found[count] >= 0
        if i > 0:  # the word with letter i - 1 twice is the same, inserted before or after that letter
            inserted ^= _of_byte(changes, n - i, here ^ word[i - 1])
    return found[:count]
