"""Matching spans of texts with the concepts of a graph, by lemma n-grams and the rules of docs/grounding.md."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from sys import getsizeof
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.kernels import (
    DETERMINER,
    FOUND,
    MOST_SPANS,
    MOST_WORDS,
    ODD,
    PAIRS,
    PairCache,
    Rows,
    Texts,
    Vocabulary,
    find_spans,
    gather_mentions,
)
from mhgrn.grounding.lemmas import BLACKLIST, DETERMINERS, LONGEST, STOP_WORDS, respelt, tokenize
from mhgrn.grounding.surfaces import Surfaces
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.interning import Interner
from mhgrn.kg.names import concept_name

KEPT = 3  # concepts kept for one span of text, the shortest names first
SHORTEST_MISSPELT = 5  # letters; a shorter word is one edit away from too many words
AT_ONCE = 1 << 16  # words per call of the kernel, unless one text has more: bounds the memory
ENTRY = 200  # bytes of an entry of a dictionary, about

Words = tuple[str, ...]
Ints = NDArray[Any]


class StatementRows(NamedTuple):
    """The concepts of statements: those of the question, then those of the answer."""

    ptr: Ints  # [statements + 1]
    of_question: Ints  # [statements] number of the question's concepts
    concepts: Ints


class Matcher:
    """Finds the concepts of texts. It caches words, spans and choices, so only one thread at a time may use it.

    Args:
        graph: The graph whose concepts are looked for.
        index: The concept index of the graph.
        published: See :class:`~mhgrn.grounding.grounder.Grounder`.
    """

    def __init__(self, graph: KnowledgeGraph, index: ConceptIndex, published: bool) -> None:
        self.graph, self.index, self.published = graph, index, published
        self._surfaces = Surfaces(graph)
        self._lemma = _Memo(index.lemma)
        self._other_lemma = _Memo(self._lemma_in_other_spelling)
        self._is_odd = _Memo(self._may_be_another_word)
        self._meant = _Memo(self._meant_by)
        self._number_of_word = _Memo(self._add_word)
        self._parts = _Memo(lambda part: self._numbered_words(tokenize(part)))  # text between two spaces → its words
        self._spellings: list[str] = []  # number of a word → the word
        self._traits, self._lemmas, self._texts = _Growing(np.uint8), _GrowingRows(np.uint8), _GrowingRows(np.uint8)  # of words
        self.spans = Interner()  # words by number, four bytes each
        self._kept = _GrowingRows(np.int64)  # number of a span → its concepts, times two, plus 1 if all words are stop words
        self._pairs = PairCache(np.zeros(PAIRS, dtype=np.uint64), np.zeros(PAIRS, dtype=np.uint8))
        self._choices: dict[str, _Choice] = {}
        self._choice_size = 0  # bytes
        self._found = _GrowingRows(np.int64)  # number of a choice → its concepts
        self._remaining = _GrowingRows(np.int64)  # number of a choice → its concepts, or those of the fallback, by all rules
        self._words_of_name = _Memo(lambda name: tuple(tokenize(name)))
        self._numbers: dict[str, int] = {}  # name of a concept → its number; negative for other names
        self._names: dict[int, str] = {}
        self._all_stop: set[int] = set()  # concepts whose words are all stop words
        self._any_stop: set[int] = set()

    @property
    def size(self) -> int:
        """The size of the caches in bytes, about."""
        memos = (self._lemma, self._other_lemma, self._is_odd, self._meant, self._number_of_word, self._parts, self._words_of_name)
        rows = (self._traits, self._lemmas, self._texts, self._kept, self._found, self._remaining)
        spans = self.spans.ptr.nbytes + self.spans.data.nbytes + self.spans.slots.nbytes
        return sum(held.size for held in (*memos, *rows)) + spans + self._choice_size + ENTRY * len(self._numbers)

    def names(self, text: str, answer: str) -> list[str]:
        """Return the names of the concepts of a text. Spans that equal the answer are skipped."""
        spans = self.find_spans([self.numbered(text)], [self._numbered_answer(answer)])
        found = self._kept_of(spans.number.tolist())
        if self._surfaces.are_names:
            return sorted(map(self._name, found))
        skipped = self._surfaces.find(concept_name(answer))
        found = {number for number in found if number >= 0} | {n for n in self._surfaces.long_in(text) if n != skipped}
        return sorted({self.graph.name(concept) for number in found for concept in self._surfaces.concepts(number)})

    def mentioned(self, statements: Sequence[str], choices: Sequence[str]) -> StatementRows:
        """Return the concepts of each statement and of its choice."""
        self._ground_choices(list(dict.fromkeys(choice for choice in choices if choice not in self._choices)))
        answers = [self._choices[choice] for choice in choices]
        spans = self.find_spans(list(map(self.numbered, statements)), [answer.words for answer in answers])
        numbers = np.array([answer.number for answer in answers], dtype=np.int64)
        cached = self._kept.rows(), numbers, self._found.rows(), self._remaining.rows()
        ptr, of_question, concepts, asked = gather_mentions(spans, *cached, self.published)
        if len(places := np.flatnonzero(asked)):
            more = [self._rest(statements[t], spans.number[spans.ptr[t] : spans.ptr[t + 1]], answers[t]) for t in places.tolist()]
            lengths = np.zeros(len(statements), dtype=np.int64)
            lengths[places] = [*map(len, more)]
            concepts = np.insert(concepts, np.repeat(ptr[:-1], lengths), [concept for row in more for concept in row])
            ptr[1:] += np.cumsum(lengths)
            of_question += lengths
        rows = StatementRows(ptr, of_question, concepts)
        return rows if self._surfaces.are_names else self._of_concepts(rows, statements, choices)

    def _of_concepts(self, rows: StatementRows, statements: Sequence[str], choices: Sequence[str]) -> StatementRows:
        """Replace labels and aliases by their concepts, and add those of long ones. A concept of both sides is the answer's."""
        found, of_question = list[list[int]](), list[int]()
        numbers, sizes = rows.concepts.tolist(), rows.of_question.tolist()
        long_in = _Memo(self._surfaces.long_in)
        for (start, end), size, *texts in zip(pairwise(rows.ptr.tolist()), sizes, statements, choices, strict=True):
            parts = numbers[start : start + size], numbers[start + size : end]
            question, answer = (
                {concept for number in (*part, *long_in[text]) for concept in self._surfaces.concepts(number)}
                for part, text in zip(parts, texts, strict=True)
            )
            found.append([*sorted(question - answer), *sorted(answer)])
            of_question.append(len(question - answer))
        return StatementRows(
            np.cumsum([0, *map(len, found)], dtype=np.int64),
            np.array(of_question, dtype=np.int64),
            np.array([concept for row in found for concept in row], dtype=np.int64),
        )

    def numbered(self, text: str) -> bytes:
        """Return the numbers of a text's words, four bytes each. Most parts between two spaces are in the cache."""
        return b"".join(map(self._parts.__getitem__, text.split(" ")))

    def _numbered_answer(self, text: str) -> bytes:
        return self._numbered_words(_without_outer_marks(tokenize(text)))

    def _numbered_words(self, words: Iterable[str]) -> bytes:
        return array("i", map(self._number_of_word.__getitem__, words)).tobytes()

    def _add_word(self, word: str) -> int:
        lemma = self._lemma[word]
        is_odd = self._is_odd[word] or self.index.may_begin_new(word, lemma)
        self._traits.add([DETERMINER * (word in DETERMINERS) + ODD * is_odd + FOUND * self.index.is_pattern(lemma)])
        self._lemmas.add(np.frombuffer(lemma.encode(), dtype=np.uint8))
        self._texts.add(np.frombuffer(word.encode(), dtype=np.uint8))
        self._spellings.append(word)
        return len(self._spellings) - 1

    def find_spans(self, texts: Sequence[bytes], answers: Sequence[bytes]) -> Rows:
        """Return the numbers of each text's spans that may be a concept. A span that equals the text's answer is skipped."""
        parts = [self._find_spans(texts[a:b], answers[a:b]) for a, b in ranges([len(text) // 4 for text in texts], AT_ONCE)]
        if len(parts) == 1:
            return parts[0]
        counts = [np.diff(part.ptr) for part in parts]
        return Rows(
            np.cumsum(np.concatenate([[0], *counts]), dtype=np.int64),
            np.concatenate([np.empty(0, dtype=np.int32), *(part.number for part in parts)]),
        )

    def _find_spans(self, texts: Sequence[bytes], answers: Sequence[bytes]) -> Rows:
        spans, words = self.spans, _joined(texts)
        spans.reserve(MOST_SPANS * len(words.data), 4 * MOST_WORDS * len(words.data))
        known = spans.count
        vocabulary = Vocabulary(self._traits.array(), Texts(*self._lemmas.rows()), Texts(*self._texts.rows()))
        ptr, found, spans.count = find_spans(
            words, _joined(answers), vocabulary, self.index.tables, self.published, self._pairs, spans.table, spans.count
        )
        self.index.raise_if_damaged()
        for span in self.words_of(known, spans.count):
            self._kept.add([2 * number + (number in self._all_stop) for number in self._kept_of_span(span)])
        return Rows(ptr, found)

    def words_of(self, first: int, last: int) -> list[Words]:
        """Return the words of spans ``first`` to ``last``."""
        bounds = self.spans.ptr[first : last + 1]
        words = [*map(self._spellings.__getitem__, self.spans.data[bounds[0] : bounds[-1]].view(np.int32).tolist())]
        return [tuple(words[start:end]) for start, end in pairwise(((bounds - bounds[0]) // 4).tolist())]

    def _kept_of_span(self, span: Words) -> Iterable[int]:
        """Return the shortest few of a span's concepts, by their lemma if that is one of them, and those spelled as the span is."""
        readings = _readings(span, with_gaps=not self.published)
        numbers = {number for reading in readings for number in self._concepts_of(reading)}
        names = set(map(self._name, numbers))
        if not names:
            return ()
        roots = {self._lemma[words[0]] for name in names if len(words := self._words_of_name[name]) == 1}
        if not self.published:  # a lemma that is not a concept would replace a concept and then be dropped
            roots = {root for root in roots if self._is_concept(root)}
        candidates = names | roots
        if len(candidates) == 1:  # the usual case
            [name] = names
            return numbers if name not in BLACKLIST or self._words_of_name[name] in readings else ()
        shortest = sorted(candidates, key=lambda name: (len(name), name))[:KEPT]
        kept = set()
        for name in shortest:
            if name not in BLACKLIST:
                root = "_".join(map(self._lemma.__getitem__, self._words_of_name[name]))
                kept.add(root if root in shortest else name)
        kept |= {name for name in candidates if self._words_of_name[name] in readings}
        return map(self._number, kept if self.published else _without_variants(kept))

    def _concepts_of(self, words: Words) -> list[int]:
        """Return the concepts with the lemmas of ``words``, and those of other spellings of the words."""
        index = self.index
        lemmas = tuple(map(self._lemma.__getitem__, words))
        found = index.with_pattern(lemmas)
        if not self.published:
            is_odd = any(map(self._is_odd.__getitem__, words))
            if is_odd and not found and (others := tuple(map(self._other_lemma.__getitem__, words))) != lemmas:
                found = index.with_pattern(others)
            if len(words) == 2:  # written as one: a salt shaker is a saltshaker
                found = found + index.with_pattern((index.lemma("".join(words)),))
            if is_odd and self._are_obscure(found):
                found = found + self._misspelt(words, lemmas)
        return found

    def _lemma_in_other_spelling(self, word: str) -> str:
        return self.index.lemma(respelt(self._lemma[word]))

    def _may_be_another_word(self, word: str) -> bool:
        """Return whether a word may have to be read as another, which is rare."""
        return not self.published and (self._other_lemma[word] != self._lemma[word] or bool(self._meant[word]))

    def _are_obscure(self, concepts: list[int]) -> bool:
        """Return whether the concepts have at most one fact together, as misspelled names in a graph have."""
        return self._neighbors(concepts) <= 1

    def _neighbors(self, numbers: list[int]) -> int:
        """Return the number of neighbors of the concepts of some texts."""
        return sum(len(self.graph.neighbors(concept)) for number in numbers for concept in self._surfaces.concepts(number))

    def _misspelt(self, words: Words, lemmas: Words) -> list[int]:
        """Return the concepts found by replacing the only misspelled word by one that is one edit away; of several readings, the
        one with the most neighbors."""
        places = [place for place, word in enumerate(words) if self._meant[word]]
        if len(places) != 1:
            return []
        before, after = lemmas[: places[0]], lemmas[places[0] + 1 :]
        found = [self.index.with_pattern((*before, root, *after)) for root in self._meant[words[places[0]]]]
        return max(found, key=self._neighbors, default=[])

    def _meant_by(self, word: str) -> tuple[str, ...]:
        """Return the lemmas of the graph's words that are one edit away from a misspelled word; none for other words."""
        index = self.index
        if len(word) < SHORTEST_MISSPELT or not (word.isascii() and word.isalpha()):
            return ()
        if index.lists_word(word) or not self._are_obscure(index.with_pattern((index.lemma(word),))):
            return ()
        return tuple(sorted({index.lemma(other) for other in index.words_like(word) if other != word}))

    def _is_concept(self, name: str) -> bool:
        return self._number(name) >= 0

    def _number(self, name: str) -> int:
        """Return the number of a concept. A name that is not a concept gets a negative number."""
        if (number := self._numbers.get(name)) is None:
            concept = self._surfaces.find(name)
            number = -1 - len(self._numbers) if concept is None else concept
            self._add_name(name, number)
        return number

    def _name(self, number: int) -> str:
        if (name := self._names.get(number)) is None:
            name = self._surfaces[number]
            self._add_name(name, number)
        return name

    def _add_name(self, name: str, number: int) -> None:
        self._numbers[name], self._names[number] = number, name
        words = self._words_of_name[name]
        if not STOP_WORDS.isdisjoint(words):
            self._any_stop.add(number)
        if STOP_WORDS.issuperset(words):
            self._all_stop.add(number)

    def _ground_choices(self, choices: Sequence[str]) -> None:
        """Add the concepts of new choices to the cache."""
        spans = self.find_spans(list(map(self.numbered, choices)), [b""] * len(choices))
        numbers = spans.number.tolist()
        for choice, (start, end) in zip(choices, pairwise(spans.ptr.tolist()), strict=True):
            found = self._kept_of(numbers[start:end])
            concepts = self._without_dropped(found or self._vocabulary_words(choice), drop_any=False)
            self._choices[choice] = _Choice(len(self._choices), self._numbered_answer(choice))
            self._choice_size += getsizeof(choice) + len(self._choices[choice].words) + ENTRY
            self._found.add(sorted(found))
            self._remaining.add(sorted(concepts))

    def _rest(self, statement: str, spans: Ints, answer: "_Choice") -> list[int]:
        """Return the question's concepts in a statement, with the fallback."""
        question = self._kept_of(spans.tolist()) - set(self._found[answer.number]) or self._vocabulary_words(statement)
        return sorted(self._without_dropped(question, drop_any=self.published) - set(self._remaining[answer.number]))

    def _kept_of(self, spans: Iterable[int]) -> set[int]:
        return {number >> 1 for span in spans for number in self._kept[span]}

    def _without_dropped(self, numbers: set[int], drop_any: bool) -> set[int]:
        """Drop names that are not concepts, that consist of stop words, or that lengthen others of the same side."""
        if self.published:
            numbers = set(map(self._number, _without_variants(map(self._name, numbers))))
            numbers = {number for number in numbers if number >= 0}
        return numbers - (self._any_stop if drop_any else self._all_stop)

    def _vocabulary_words(self, text: str) -> set[int]:
        """Return the fallback: every word that is a concept, by its lemma or as it is, and the whole text if it is one."""
        words = tokenize(text)
        candidates = {concept_name(text), "_".join(_without_outer_marks(words))}
        candidates.update(root if self._is_concept(root := self._lemma[word]) else word for word in words)
        return set(map(self._number, filter(self._is_concept, candidates)))


class _Choice(NamedTuple):
    """The number of a choice, and its words."""

    number: int
    words: bytes


Value = TypeVar("Value")


class _Memo(dict[str, Value]):
    """A cache of a function's results."""

    def __init__(self, function: Callable[[str], Value]) -> None:
        super().__init__()
        self._function = function
        self.size = 0  # bytes, about

    def __missing__(self, key: str) -> Value:
        value = self[key] = self._function(key)
        parts = sum(map(getsizeof, value)) if isinstance(value, tuple) else 0
        self.size += getsizeof(key) + getsizeof(value) + parts + ENTRY
        return value


class _Growing:
    """Numbers in an array that grows."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._data, self._count = np.empty(64, dtype=dtype), 0

    def add(self, numbers: Sequence[int] | Ints) -> int:
        """Append numbers, and return how many there are now."""
        end = self._count + len(numbers)
        if end > len(self._data):
            self._data = np.concatenate([self.array(), np.empty(end, dtype=self._data.dtype)])
        self._data[self._count : end] = numbers
        self._count = end
        return end

    def array(self) -> Ints:
        return self._data[: self._count]

    @property
    def size(self) -> int:
        return self._data.nbytes


class _GrowingRows:
    """Rows of numbers in arrays that grow."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._ptr, self._data = _Growing(np.int64), _Growing(dtype)
        self._ptr.add([0])

    def add(self, row: Sequence[int] | Ints) -> None:
        self._ptr.add([self._data.add(row)])

    def __getitem__(self, row: int) -> list[int]:
        ptr, data = self.rows()
        numbers: list[int] = data[ptr[row] : ptr[row + 1]].tolist()
        return numbers

    def rows(self) -> Rows:
        return Rows(self._ptr.array(), self._data.array())

    @property
    def size(self) -> int:
        return self._ptr.size + self._data.size


def ranges(sizes: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Return consecutive ranges of items that together have at most this size, or that are one item.

    >>> ranges([3, 3, 9, 1], 6)
    [(0, 2), (2, 3), (3, 4)]
    """
    cuts, total = [0], 0
    for number, size in enumerate(sizes):
        if total + size > most and number > cuts[-1]:
            cuts.append(number)
            total = 0
        total += size
    return list(pairwise([*cuts, len(sizes)])) if sizes else []


def _joined(texts: Sequence[bytes]) -> Texts:
    """Return texts of numbered words as arrays."""
    ptr = np.cumsum([0, *map(len, texts)], dtype=np.int64) // 4
    return Texts(ptr, np.frombuffer(b"".join(texts), dtype=np.int32))


def _readings(span: Words, with_gaps: bool) -> set[Words]:
    """Return the readings of a span: as it is, and without the articles inside it."""
    if len(span) <= LONGEST and DETERMINERS.isdisjoint(span):
        return {span}
    readings = {span} if len(span) <= LONGEST else set()
    if with_gaps and span[0] not in DETERMINERS and span[-1] not in DETERMINERS:
        inner = tuple(word for word in span if word not in DETERMINERS)
        if len(inner) <= LONGEST:
            readings.add(inner)
    return readings


def _without_outer_marks(words: list[str]) -> list[str]:
    """Drop outer punctuation, which a statement may have stripped from a choice."""
    places = [i for i, word in enumerate(words) if word.isalnum() or any(map(str.isalnum, word))]
    return words[places[0] : places[-1] + 1] if places else []


def _without_variants(names: Iterable[str]) -> list[str]:
    """Drop "higher" if "high" is there, or "bathe" if "bath" is: endings that lemmatizing leaves."""
    names = set(names)
    return [n for n in sorted(names) if not (n.endswith("er") and n[:-2] in names) and not (n.endswith("e") and n[:-1] in names)]
