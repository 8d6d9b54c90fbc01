"""Compiled kernels of import: they find the fields of lines and number the concepts in them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.jit import kernel
from mhgrn.kg.interning import intern_last, text_crc

Array = NDArray[Any]

# What became of a line.
USABLE, LOOK, BLANK, OTHER_LANGUAGE, NOT_ALPHABETIC = 0, 1, 2, 3, 4

_TAB, _NEWLINE, _RETURN, _SLASH, _UNDERSCORE, _HYPHEN = 9, 10, 13, 47, 95, 45


@kernel
def _is_space(byte: int) -> bool:
    return byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31


@kernel
def _trimmed(text: Array, start: int, end: int) -> tuple[int, int]:
    while start < end and _is_space(text[start]):
        start += 1
    while start < end and _is_space(text[end - 1]):
        end -= 1
    return start, end


@kernel
def _is_ascii(text: Array, start: int, end: int) -> bool:
    for i in range(start, end):  # noqa: SIM110 (compiled)
        if text[i] >= 128:
            return False
    return True


@kernel
def _is_plain(text: Array, start: int, end: int) -> bool:
    """Whether there is neither a space nor anything beyond ASCII."""
    for i in range(start, end):  # noqa: SIM110 (compiled)
        if text[i] >= 128 or _is_space(text[i]):
            return False
    return True


@kernel
def _is_tidy(text: Array, start: int, end: int) -> bool:
    """Whether the words of a trimmed text are separated by single blanks."""
    for i in range(start, end):  # noqa: SIM110 (compiled)
        if _is_space(text[i]) and (text[i] != 32 or _is_space(text[i + 1])):
            return False
    return True


@kernel
def _begins(text: Array, start: int, end: int, prefix: Array) -> bool:
    if end - start < len(prefix):
        return False
    for i in range(len(prefix)):  # noqa: SIM110 (compiled)
        if text[start + i] != prefix[i]:
            return False
    return True


@kernel
def _number(text: Array, start: int, end: int) -> float:
    """A plain decimal such as 2 or 2.25, exactly as Python reads it; -1 for anything else."""
    value = 0
    scale = 1.0
    digits = 0
    point = False
    for i in range(start, end):
        byte = text[i]
        if 48 <= byte <= 57:
            value = value * 10 + (byte - 48)
            digits += 1
            if point:
                scale *= 10.0
        elif byte == 46 and not point:
            point = True
        else:
            return -1.0
    return value / scale if 0 < digits <= 15 else -1.0


@kernel
def _line(text: Array, start: int, end: int) -> tuple[int, int, int]:
    """A line without its end; BLANK if there is nothing in it, LOOK until more is known."""
    first, last = _trimmed(text, start, end)
    while end > start and (text[end - 1] == _NEWLINE or text[end - 1] == _RETURN):
        end -= 1
    return start, end, BLANK if first == last else LOOK


@kernel
def split_table(
    text: Array,
    starts: Array,
    spans: Array,
    relation: Array,
    weight: Array,
    status: Array,
    slots: Array,
    ptr: Array,
    data: Array,
    count: int,
) -> int:
    """Lines of head, relation, tail and perhaps a weight, separated by tabs. Returns the number of relation names known now."""
    for i in range(len(starts) - 1):
        relation[i] = -1
        start, end, status[i] = _line(text, starts[i], starts[i + 1])
        if status[i] == BLANK:
            continue
        first = second = third = -1
        tabs = 0
        for j in range(start, end):
            if text[j] == _TAB:
                tabs += 1
                if tabs == 1:
                    first = j
                elif tabs == 2:
                    second = j
                elif tabs == 3:
                    third = j
        if tabs != 2 and tabs != 3:
            continue
        head_start, head_end = _trimmed(text, start, first)
        relation_start, relation_end = _trimmed(text, first + 1, second)
        tail_start, tail_end = _trimmed(text, second + 1, third if tabs == 3 else end)
        if head_start == head_end or relation_start == relation_end or tail_start == tail_end or not _is_ascii(text, start, end):
            continue
        if not _is_tidy(text, relation_start, relation_end):
            continue
        weight[i] = 1.0
        if tabs == 3:
            weight_start, weight_end = _trimmed(text, third + 1, end)
            if weight_start < weight_end:
                weight[i] = _number(text, weight_start, weight_end)
                if weight[i] < 0:
                    continue
        length = relation_end - relation_start
        data[ptr[count] : ptr[count] + length] = text[relation_start:relation_end]
        relation[i] = intern_last(slots, ptr, data, count, length)
        count += relation[i] == count
        spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3] = head_start, head_end, tail_start, tail_end
        status[i] = USABLE
    return count


@kernel
def _concept(text: Array, start: int, end: int, prefix: int, published: bool) -> tuple[int, int]:
    """The span of a concept's name in its URI."""
    if not published:
        start += prefix
        for i in range(start, end):
            if text[i] == _SLASH:
                return start, i
        return start, end
    if end - start >= 2 and text[end - 2] == _SLASH:
        last = text[end - 1]
        if last == 110 or last == 97 or last == 118 or last == 114:  # n, a, v, r
            end -= 2
    for i in range(end - 1, start - 1, -1):
        if text[i] == _SLASH:
            return i + 1, end
    return start, end


@kernel
def _is_alphabetic(text: Array, start: int, end: int) -> bool:
    letters = 0
    for i in range(start, end):
        byte = text[i] | 32
        if 97 <= byte <= 122 and text[i] != _UNDERSCORE:
            letters += 1
        elif text[i] != _UNDERSCORE and text[i] != _HYPHEN:
            return False
    return letters > 0


@kernel
def split_assertions(
    text: Array,
    starts: Array,
    spans: Array,
    relation: Array,
    weight: Array,
    status: Array,
    slots: Array,
    ptr: Array,
    data: Array,
    count: int,
    marks: tuple[Array, Array, Array, Array],
    published: bool,
    alphabetic: bool,
) -> int:
    """Lines of ConceptNet's release: uri, relation, start, end, JSON that ends in a weight. ``marks`` are the texts looked for:
    ``/r/``, ``/c/``, the language's prefix and ``"weight": ``. Returns the number of relation names known now."""
    of_relation, of_concept, language, of_weight = marks
    tabs = np.empty(4, np.int64)
    for i in range(len(starts) - 1):
        relation[i] = -1
        start, end, status[i] = _line(text, starts[i], starts[i + 1])
        if status[i] == BLANK:
            continue
        found = 0
        for j in range(start, end):
            if text[j] == _TAB:
                if found < 4:
                    tabs[found] = j
                found += 1
        if found != 4:
            continue
        head_start, head_end, tail_start, tail_end = tabs[1] + 1, tabs[2], tabs[2] + 1, tabs[3]
        if not _begins(text, tabs[0] + 1, tabs[1], of_relation):
            continue
        if not (_begins(text, head_start, head_end, of_concept) and _begins(text, tail_start, tail_end, of_concept)):
            continue
        if not (_begins(text, head_start, head_end, language) and _begins(text, tail_start, tail_end, language)):
            status[i] = OTHER_LANGUAGE
            continue
        name = tabs[1]
        while text[name - 1] != _SLASH:
            name -= 1
        if not _is_ascii(text, name, tabs[1]):
            continue
        length = tabs[1] - name
        data[ptr[count] : ptr[count] + length] = text[name : tabs[1]]
        relation[i] = intern_last(slots, ptr, data, count, length)
        count += relation[i] == count
        # the weight is the last value of the JSON object
        if text[end - 1] != 125:
            continue
        digits = end - 1
        while digits > tabs[3] and (text[digits - 1] == 46 or 48 <= text[digits - 1] <= 57):
            digits -= 1
        if digits - len(of_weight) <= tabs[3] or not _begins(text, digits - len(of_weight), digits, of_weight):
            continue
        weight[i] = _number(text, digits, end - 1)
        if weight[i] < 0:
            continue
        head_start, head_end = _concept(text, head_start, head_end, len(language), published)
        tail_start, tail_end = _concept(text, tail_start, tail_end, len(language), published)
        if head_start == head_end or tail_start == tail_end:
            continue
        if not (_is_plain(text, head_start, head_end) and _is_plain(text, tail_start, tail_end)):
            continue
        spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3] = head_start, head_end, tail_start, tail_end
        if alphabetic and not (_is_alphabetic(text, head_start, head_end) and _is_alphabetic(text, tail_start, tail_end)):
            status[i] = NOT_ALPHABETIC
        else:
            status[i] = USABLE
    return count


_TOGETHER = 64  # names looked up side by side: in a large graph each waits for memory, so they wait together


@kernel
def _write_name(text: Array, start: int, end: int, data: Array, at: int) -> int:
    """A concept's name, lower-cased, with underscores for spaces, written at ``at``; where it ends."""
    first = at
    gap = False
    for j in range(start, end):
        byte = text[j]
        if _is_space(byte):
            gap = at > first
            continue
        if gap:
            data[at] = _UNDERSCORE
            at += 1
            gap = False
        data[at] = byte + 32 if 65 <= byte <= 90 else byte
        at += 1
    return at


@kernel
def _same(data: Array, one: int, other: int, length: int) -> bool:
    for i in range(length):  # noqa: SIM110 (compiled)
        if data[one + i] != data[other + i]:
            return False
    return True


@kernel
def intern_ends(
    text: Array, spans: Array, swapped: Array, slots: Array, ptr: Array, data: Array, count: int, head: Array, tail: Array
) -> int:
    """Number the concepts of every row, head before tail (after swapping). Returns the number of names known now."""
    mask = np.uint64(len(slots) - 1)
    place = np.empty(_TOGETHER, np.uint64)
    bounds, likely, first = np.empty(_TOGETHER + 1, np.int64), np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, np.int64)
    for begin in range(0, len(spans), _TOGETHER // 2):
        names = 2 * min(_TOGETHER // 2, len(spans) - begin)
        bounds[0] = ptr[count]
        for k in range(names):
            row = begin + k // 2
            end = 1 - k % 2 if swapped[row] else k % 2
            bounds[k + 1] = _write_name(text, spans[row, 2 * end], spans[row, 2 * end + 1], data, bounds[k])
            place[k] = text_crc(data, bounds[k], bounds[k + 1]) & mask
        # one array after the other, for all names: none of these look-ups waits for another
        for k in range(names):
            likely[k] = np.int64(slots[place[k]] & np.uint64(0xFFFFFFFF)) - 1
        for k in range(names):
            first[k] = -1
            if likely[k] >= 0 and ptr[likely[k] + 1] - ptr[likely[k]] == bounds[k + 1] - bounds[k]:
                first[k] = ptr[likely[k]]
        for k in range(names):
            if first[k] >= 0 and data[first[k]] != data[bounds[k]]:
                first[k] = -1
        for k in range(names):
            start, length = bounds[k], bounds[k + 1] - bounds[k]
            number = likely[k] if first[k] >= 0 and _same(data, first[k], start, length) else -1
            if number < 0:  # new, or not in the first place of the table
                free = ptr[count]
                for j in range(length):
                    data[free + j] = data[start + j]
                number = intern_last(slots, ptr, data, count, length)
                count += number == count
            if k % 2 == 0:
                head[begin + k // 2] = number
            else:
                tail[begin + k // 2] = number
    return count
