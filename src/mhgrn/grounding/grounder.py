"""Grounding: finding the concepts that a text mentions, by lemma n-grams and the rules of docs/grounding.md."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

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
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.interning import Interner
from mhgrn.kg.names import concept_name

KEPT = 3  # concepts kept for one span of text, the shortest names first
SHORTEST_MISSPELT = 5  # letters; a shorter word is one edit away from too many words
CACHED = 1 << 20  # words and spans in the cache; with more, the cache is cleared

Words = tuple[str, ...]
Ints = NDArray[Any]


class Mentions(NamedTuple):
    """The concepts of one statement, by number, sorted. A concept of both sides is an answer concept.

    Args:
        question: Concepts of the question.
        answer: Concepts of the choice.
    """

    question: list[int]
    answer: list[int]


class Mentioned(NamedTuple):
    """The :class:`Mentions` of several questions as arrays. For each statement, the question's concepts come before the answer's.

    >>> Mentioned.of([[Mentions([3, 5], [4]), Mentions([3], [])]]).concepts.tolist()
    [3, 5, 4, 3]
    """

    question_ptr: Ints  # [questions + 1] pointer to the statements of each question
    statement_ptr: Ints  # [statements + 1] pointer to the concepts of each statement
    of_question: Ints  # [statements] number of the question's concepts
    concepts: Ints

    @classmethod
    def of(cls, questions: Sequence[Sequence[Mentions]]) -> Self:
        mentions = [m for question in questions for m in question]
        return cls(
            np.cumsum([0, *map(len, questions)], dtype=np.int64),
            np.cumsum([0, *(len(m.question) + len(m.answer) for m in mentions)], dtype=np.int64),
            np.array([len(m.question) for m in mentions], dtype=np.int64),
            np.array([concept for m in mentions for side in m for concept in side], dtype=np.int64),
        )

    def mentions(self) -> list[list[Mentions]]:
        """Return the mentions of each question's statements."""
        concepts, sides = self.concepts.tolist(), (self.statement_ptr[:-1] + self.of_question).tolist()
        bounds = zip(pairwise(self.statement_ptr.tolist()), sides, strict=True)
        found = [Mentions(concepts[start:middle], concepts[middle:end]) for (start, end), middle in bounds]
        return [found[first:last] for first, last in pairwise(self.question_ptr.tolist())]


class Grounder:
    """Finds the concepts of a graph in texts, by the rules of ``docs/grounding.md``. The result is deterministic.

    A grounder caches the spans of text it has seen. Use one per thread.

    Args:
        graph: The graph whose concepts are looked for.
        published: Follow the published rules exactly. Articles within a span are not skipped, no other spelling is tried, and
            lemmas that are not concepts take part. A question concept is dropped for any stop word in its name. A concept is
            dropped if it lengthens another one of the same side.
        index: The concept index of the graph; by default :meth:`ConceptIndex.of` the graph.

    >>> graph = KnowledgeGraph.from_facts([("child", "CapableOf", "ride_bike"), ("desk", "AtLocation", "furniture_store")])
    >>> Grounder(graph).concepts("Children who ride a bike to a furniture store")
    ['child', 'furniture_store', 'ride_bike']
    >>> Grounder(graph).mentions("A child rides a bike.", "bike")
    Mentions(question=[0, 1], answer=[])
    """

    def __init__(self, graph: KnowledgeGraph, published: bool = False, index: ConceptIndex | None = None) -> None:
        self.graph = graph
        self.index = ConceptIndex.of(graph) if index is None else index
        self.published = published
        self._lemma = lru_cache(maxsize=1 << 18)(self.index.lemma)
        self._other_lemma = lru_cache(maxsize=1 << 18)(self._lemma_in_other_spelling)
        self._is_odd = lru_cache(maxsize=1 << 18)(self._may_be_another_word)
        self._meant = lru_cache(maxsize=1 << 16)(self._meant_by)
        self._seen = _Seen(self)

    def concepts(self, text: str, answer: str | None = None) -> list[str]:
        """Return the names of the concepts that a text mentions.

        With ``published`` the result may contain lemmas that are not concepts; :meth:`mentions` drops them.

        Args:
            text: The text.
            answer: Spans that equal this text are skipped.
        """
        spans = self._spans([self._numbered(text)], [self._numbered_answer(answer or "")])
        return sorted(map(self._name, self._kept(spans.number.tolist())))

    def _numbered(self, text: str) -> bytes:
        """Return the numbers of a text's words, four bytes each. Most parts between two spaces are in the cache."""
        return b"".join(map(self._seen.parts.__getitem__, text.split(" ")))

    def _numbered_answer(self, text: str) -> bytes:
        return self._numbered_words(_without_outer_marks(tokenize(text)))

    def _numbered_words(self, words: Iterable[str]) -> bytes:
        return array("i", map(self._seen.words.__getitem__, words)).tobytes()

    def _number_of_word(self, word: str) -> int:
        lemma = self._lemma(word)
        is_odd = not self.index.arrays_tell_all or self._is_odd(word)
        traits = DETERMINER * (word in DETERMINERS) + ODD * is_odd + FOUND * self.index.is_pattern(lemma)
        return self._seen.add_word(word, lemma, traits)

    def _spans(self, texts: Sequence[bytes], answers: Sequence[bytes]) -> Rows:
        """Return the numbers of each text's spans that may be a concept. A span that equals the text's answer is skipped."""
        seen, spans = self._seen, self._seen.spans
        words = _joined(texts)
        spans.reserve(MOST_SPANS * len(words.data), 4 * MOST_WORDS * len(words.data))
        known = spans.count
        ptr, found, spans.count = find_spans(
            words, _joined(answers), seen.vocabulary(), self.index.tables, self.published, seen.pairs, spans.table, spans.count
        )
        for span in self._words_of(known, spans.count):
            seen.kept.add([2 * number + (number in seen.all_stop) for number in self._kept_of_span(span)])
        return Rows(ptr, found)

    def _words_of(self, first: int, last: int) -> list[Words]:
        """Return the words of spans ``first`` to ``last``."""
        spans, spelling = self._seen.spans, self._seen.spellings.__getitem__
        bounds = spans.ptr[first : last + 1]
        words = [*map(spelling, spans.data[bounds[0] : bounds[-1]].view(np.int32).tolist())]
        return [tuple(words[start:end]) for start, end in pairwise(((bounds - bounds[0]) // 4).tolist())]

    def _kept_of_span(self, span: Words) -> Iterable[int]:
        """Return the shortest few of a span's concepts, by their lemma if that is one of them, and those spelled as the span is."""
        seen = self._seen
        readings = _readings(span, with_gaps=not self.published)
        numbers = {number for reading in readings for number in self._numbers(reading)}
        names = set(map(self._name, numbers))
        if not names:
            return ()
        roots = {self._lemma(words[0]) for name in names if len(words := seen.words_of_name[name]) == 1}
        if not self.published:  # a lemma that is not a concept would replace a concept and then be dropped
            roots = {root for root in roots if self._is_concept(root)}
        candidates = names | roots
        if len(candidates) == 1:  # the usual case
            [name] = names
            return numbers if name not in BLACKLIST or seen.words_of_name[name] in readings else ()
        shortest = sorted(candidates, key=lambda name: (len(name), name))[:KEPT]
        kept = set()
        for name in shortest:
            if name not in BLACKLIST:
                root = "_".join(map(self._lemma, seen.words_of_name[name]))
                kept.add(root if root in shortest else name)
        kept |= {name for name in candidates if seen.words_of_name[name] in readings}
        return map(self._number, kept if self.published else _without_variants(kept))

    def _numbers(self, words: Words) -> list[int]:
        """Return the concepts with the lemmas of ``words``, and those of other spellings of the words."""
        index = self.index
        lemmas = tuple(map(self._lemma, words))
        found = index.with_pattern(lemmas)
        if not self.published:
            is_odd = any(map(self._is_odd, words))
            if is_odd and not found and (others := tuple(map(self._other_lemma, words))) != lemmas:
                found = index.with_pattern(others)
            if len(words) == 2:  # written as one: a salt shaker is a saltshaker
                found = found + index.with_pattern((index.lemma("".join(words)),))
            if is_odd and self._are_obscure(found):
                found = found + self._misspelt(words, lemmas)
        return found

    def _lemma_in_other_spelling(self, word: str) -> str:
        return self.index.lemma(respelt(self._lemma(word)))

    def _may_be_another_word(self, word: str) -> bool:
        """Return whether a word may have to be read as another, which is rare."""
        return not self.published and (self._other_lemma(word) != self._lemma(word) or bool(self._meant(word)))

    def _are_obscure(self, concepts: list[int]) -> bool:
        """Return whether the concepts have at most one fact together, as misspelled names in a graph have."""
        return sum(len(self.graph.neighbors(concept)) for concept in concepts) <= 1

    def _misspelt(self, words: Words, lemmas: Words) -> list[int]:
        """Return the concepts found by replacing the only misspelled word by one that is one edit away; of several readings, the
        one with the most neighbors."""
        places = [place for place, word in enumerate(words) if self._meant(word)]
        if len(places) != 1:
            return []
        before, after = lemmas[: places[0]], lemmas[places[0] + 1 :]
        found = [self.index.with_pattern((*before, root, *after)) for root in self._meant(words[places[0]])]
        return max(found, key=lambda concepts: sum(len(self.graph.neighbors(c)) for c in concepts), default=[])

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

    def _vocabulary_words(self, text: str) -> set[int]:
        """Return the fallback: every word that is a concept, by its lemma or as it is, and the whole text if it is one."""
        words = tokenize(text)
        candidates = {concept_name(text), "_".join(_without_outer_marks(words))}
        candidates.update(root if self._is_concept(root := self.index.lemma(word)) else word for word in words)
        return set(map(self._number, filter(self._is_concept, candidates)))

    def _number(self, name: str) -> int:
        """Return the number of a concept. A name that is not a concept gets a negative number."""
        seen = self._seen
        if (number := seen.numbers.get(name)) is None:
            concept = self.graph.find(name)
            number = -1 - len(seen.numbers) if concept is None else concept
            seen.add_name(name, number)
        return number

    def _name(self, number: int) -> str:
        seen = self._seen
        if (name := seen.names.get(number)) is None:
            name = self.graph.name(number)
            seen.add_name(name, number)
        return name

    def _remaining(self, numbers: set[int], drop_any: bool) -> set[int]:
        """Drop names that are not concepts, that consist of stop words, or that lengthen others of the same side."""
        if self.published:
            numbers = set(map(self._number, _without_variants(map(self._name, numbers))))
            numbers = {number for number in numbers if number >= 0}
        return numbers - (self._seen.any_stop if drop_any else self._seen.all_stop)

    def mentions(self, statement: str, choice: str) -> Mentions:
        """Return the question's and the choice's concepts in a statement. Either may be empty.

        Args:
            statement: The question with the choice filled in.
            choice: The choice.
        """
        return self.mentioned([statement], [choice], [1]).mentions()[0][0]

    def mentioned(self, statements: Sequence[str], choices: Sequence[str], sizes: Sequence[int]) -> Mentioned:
        """Return the :meth:`mentions` of many statements, which is faster than one by one.

        Args:
            statements: The statements of all questions.
            choices: The choice of each statement.
            sizes: The number of statements of each question.
        """
        if self._seen.spans.count + len(self._seen.words) > CACHED:
            self._seen = _Seen(self)
        seen = self._seen
        self._ground_choices(list(dict.fromkeys(choice for choice in choices if choice not in seen.choices)))
        answers = [seen.choices[choice] for choice in choices]
        spans = self._spans(list(map(self._numbered, statements)), [answer.words for answer in answers])
        numbers = np.array([answer.number for answer in answers], dtype=np.int64)
        rows = Rows(*seen.kept.arrays()), numbers, Rows(*seen.found.arrays()), Rows(*seen.remaining.arrays())
        ptr, of_question, concepts, asked = gather_mentions(spans, *rows, self.published)
        if len(places := np.flatnonzero(asked)):
            more = [self._rest(statements[t], spans.number[spans.ptr[t] : spans.ptr[t + 1]], answers[t]) for t in places.tolist()]
            lengths = np.zeros(len(statements), dtype=np.int64)
            lengths[places] = [*map(len, more)]
            concepts = np.insert(concepts, np.repeat(ptr[:-1], lengths), [concept for row in more for concept in row])
            ptr[1:] += np.cumsum(lengths)
            of_question += lengths
        return Mentioned(np.cumsum([0, *sizes], dtype=np.int64), ptr, of_question, concepts)

    def _ground_choices(self, choices: Sequence[str]) -> None:
        """Add the concepts of new choices to the cache."""
        seen = self._seen
        spans = self._spans(list(map(self._numbered, choices)), [b""] * len(choices))
        numbers = spans.number.tolist()
        for choice, (start, end) in zip(choices, pairwise(spans.ptr.tolist()), strict=True):
            found = self._kept(numbers[start:end])
            concepts = self._remaining(found or self._vocabulary_words(choice), drop_any=False)
            seen.choices[choice] = _Choice(len(seen.choices), self._numbered_answer(choice))
            seen.found.add(sorted(found))
            seen.remaining.add(sorted(concepts))

    def _rest(self, statement: str, spans: Ints, answer: "_Choice") -> list[int]:
        """Return the question's concepts in a statement, with the fallback."""
        seen = self._seen
        question = self._kept(spans.tolist()) - set(seen.found[answer.number]) or self._vocabulary_words(statement)
        return sorted(self._remaining(question, drop_any=self.published) - set(seen.remaining[answer.number]))

    def _kept(self, spans: Iterable[int]) -> set[int]:
        kept = self._seen.kept
        return {number >> 1 for span in spans for number in kept[span]}


class _Choice(NamedTuple):
    """The number of a choice, and its words."""

    number: int
    words: bytes


Key = TypeVar("Key")
Value = TypeVar("Value")


class _Memo(dict[Key, Value]):
    """A cache of a function's results."""

    def __init__(self, function: Callable[[Key], Value]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: Key) -> Value:
        value = self[key] = self._function(key)
        return value


class _Seen:
    """The cache of a grounder: words, spans of words, names of concepts, choices."""

    def __init__(self, grounder: Grounder) -> None:
        self.parts = _Memo[str, bytes](lambda part: grounder._numbered_words(tokenize(part)))  # text between two spaces → its words
        self.words = _Memo[str, int](grounder._number_of_word)
        self.spellings: list[str] = []  # number of a word → the word
        self.spans = Interner()  # words by number, four bytes each
        self.kept = _RowList("q")  # number of a span → its concepts, times two, plus 1 if all words are stop words
        self.pairs = PairCache(np.zeros(PAIRS, dtype=np.uint64), np.zeros(PAIRS, dtype=np.uint8))
        self.choices: dict[str, _Choice] = {}
        self.found = _RowList("q")  # number of a choice → its concepts
        self.remaining = _RowList("q")  # number of a choice → its concepts, or those of the fallback, by all rules
        self.words_of_name = _Memo[str, Words](lambda name: tuple(tokenize(name)))
        self.numbers: dict[str, int] = {}  # name of a concept → its number; negative for other names
        self.names: dict[int, str] = {}
        self.all_stop: set[int] = set()  # concepts whose words are all stop words
        self.any_stop: set[int] = set()
        self._traits = array("B")
        self._lemmas = _RowList("B")
        self._texts = _RowList("B")

    def add_name(self, name: str, number: int) -> None:
        self.numbers[name], self.names[number] = number, name
        words = self.words_of_name[name]
        if not STOP_WORDS.isdisjoint(words):
            self.any_stop.add(number)
        if STOP_WORDS.issuperset(words):
            self.all_stop.add(number)

    def add_word(self, word: str, lemma: str, trait: int) -> int:
        number = len(self.spellings)
        self.spellings.append(word)
        self._traits.append(trait)
        self._lemmas.add(lemma.encode())
        self._texts.add(word.encode())
        return number

    def vocabulary(self) -> Vocabulary:
        """Return all words, for kernels."""
        return Vocabulary(np.array(self._traits, dtype=np.uint8), Texts(*self._lemmas.arrays()), Texts(*self._texts.arrays()))


class _RowList:
    """Rows of numbers in one array that grows."""

    def __init__(self, kind: str) -> None:
        self._ptr = array("q", [0])
        self._data = array(kind)

    def add(self, row: Iterable[int]) -> None:
        self._data.extend(row)
        self._ptr.append(len(self._data))

    def __getitem__(self, row: int) -> Sequence[int]:
        return self._data[self._ptr[row] : self._ptr[row + 1]]

    def arrays(self) -> tuple[Ints, Ints]:
        # copies: an exported buffer cannot grow, and numba may keep its first arguments for a while
        return np.array(self._ptr, dtype=np.int64), np.array(self._data, dtype=self._data.typecode)


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
