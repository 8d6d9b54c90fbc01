"""Which concepts of a graph a text mentions: a look-up of lemma n-grams, and rules for what to keep (docs/grounding.md)."""

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
SHORTEST_MISSPELT = 5  # letters; shorter words are a letter away from too many
REMEMBERED = 1 << 20  # words and spans; with more, everything is forgotten

Words = tuple[str, ...]
Ints = NDArray[Any]


class Mentions(NamedTuple):
    """Concepts of one statement by number, sorted: a concept on both sides is an answer concept."""

    question: list[int]
    answer: list[int]


class Mentioned(NamedTuple):
    """The concepts of the statements of several questions, one statement after the other: those of its two sides.

    >>> Mentioned.of([[Mentions([3, 5], [4]), Mentions([3], [])]]).concepts.tolist()
    [3, 5, 4, 3]
    """

    question_ptr: Ints  # [questions + 1] the statements of each question
    statement_ptr: Ints  # [statements + 1] the concepts of each statement
    of_question: Ints  # [statements] how many of these are the question's
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
        """For each question those of its statements."""
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
        """The concepts that ``text`` mentions; spans that are exactly ``answer`` are passed over.

        With ``published`` a lemma that is no concept may be among them; :meth:`mentions` drops it.
        """
        spans = self._spans([self._numbered(text)], [self._numbered_answer(answer or "")])
        return sorted(map(self._name, self._kept(spans.number.tolist())))

    def _numbered(self, text: str) -> bytes:
        """A text's words by number, four bytes each. Words do not go beyond a space; what is between two was mostly seen before."""
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
        """The numbers of each text's spans in which concepts may be found, by a pointer to them; a span that equals the text's
        answer is passed over."""
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
        """The words of the spans from one number to another."""
        spans, spelling = self._seen.spans, self._seen.spellings.__getitem__
        bounds = spans.ptr[first : last + 1]
        words = [*map(spelling, spans.data[bounds[0] : bounds[-1]].view(np.int32).tolist())]
        return [tuple(words[start:end]) for start, end in pairwise(((bounds - bounds[0]) // 4).tolist())]

    def _kept_of_span(self, span: Words) -> Iterable[int]:
        """The shortest few of a span's concepts, by their lemma where that is among them; and those its words spell out."""
        seen = self._seen
        readings = _readings(span, with_gaps=not self.published)
        numbers = {number for reading in readings for number in self._numbers(reading)}
        names = set(map(self._name, numbers))
        if not names:
            return ()
        roots = {self._lemma(words[0]) for name in names if len(words := seen.words_of_name[name]) == 1}
        if not self.published:  # a lemma that is no concept would take a concept's place and then be dropped
            roots = {root for root in roots if self._is_concept(root)}
        candidates = names | roots
        if len(candidates) == 1:  # mostly
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
        """The concepts with the lemmas of ``words``, and those that other ways of writing the words find."""
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
        """Whether a word may have to be read as another, which is rare."""
        return not self.published and (self._other_lemma(word) != self._lemma(word) or bool(self._meant(word)))

    def _are_obscure(self, concepts: list[int]) -> bool:
        """Whether no more than one fact is known of all of them: people's graphs hold people's misspellings."""
        return sum(len(self.graph.neighbors(concept)) for concept in concepts) <= 1

    def _misspelt(self, words: Words, lemmas: Words) -> list[int]:
        """The concepts that are found if the one word among these that is none is one a letter away; of several such, the most
        connected."""
        places = [place for place, word in enumerate(words) if self._meant(word)]
        if len(places) != 1:
            return []
        before, after = lemmas[: places[0]], lemmas[places[0] + 1 :]
        found = [self.index.with_pattern((*before, root, *after)) for root in self._meant(words[places[0]])]
        return max(found, key=lambda concepts: sum(len(self.graph.neighbors(c)) for c in concepts), default=[])

    def _meant_by(self, word: str) -> tuple[str, ...]:
        """The lemmas of the graph's words one letter away from what is no word."""
        index = self.index
        if len(word) < SHORTEST_MISSPELT or not (word.isascii() and word.isalpha()):
            return ()
        if index.lists_word(word) or not self._are_obscure(index.with_pattern((index.lemma(word),))):
            return ()
        return tuple(sorted({index.lemma(other) for other in index.words_like(word) if other != word}))

    def _is_concept(self, name: str) -> bool:
        return self._number(name) >= 0

    def _vocabulary_words(self, text: str) -> set[int]:
        """The last resort: every word that is a concept, by its lemma or as it is, and the text itself if it is one."""
        words = tokenize(text)
        candidates = {concept_name(text), "_".join(_without_outer_marks(words))}
        candidates.update(root if self._is_concept(root := self.index.lemma(word)) else word for word in words)
        return set(map(self._number, filter(self._is_concept, candidates)))

    def _number(self, name: str) -> int:
        """A concept's number; a name that is no concept gets one below zero."""
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
        """Without names that are no concepts, that say nothing, or that lengthen others of the side."""
        if self.published:
            numbers = set(map(self._number, _without_variants(map(self._name, numbers))))
            numbers = {number for number in numbers if number >= 0}
        return numbers - (self._seen.any_stop if drop_any else self._seen.all_stop)

    def mentions(self, statement: str, choice: str) -> Mentions:
        """The question's and the choice's concepts in a statement. Either may be empty."""
        return self.mentioned([statement], [choice], [1]).mentions()[0][0]

    def mentioned(self, statements: Sequence[str], choices: Sequence[str], sizes: Sequence[int]) -> Mentioned:
        """:meth:`mentions` of several questions' statements, so many of each; which takes less than one by one."""
        if self._seen.spans.count + len(self._seen.words) > REMEMBERED:
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
        """Remember what choices mention, which were not seen before."""
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
        """The question's concepts in a statement, by all rules."""
        seen = self._seen
        question = self._kept(spans.tolist()) - set(seen.found[answer.number]) or self._vocabulary_words(statement)
        return sorted(self._remaining(question, drop_any=self.published) - set(seen.remaining[answer.number]))

    def _kept(self, spans: Iterable[int]) -> set[int]:
        kept = self._seen.kept
        return {number >> 1 for span in spans for number in kept[span]}


class _Choice(NamedTuple):
    """A choice by number, and its words."""

    number: int
    words: bytes


Key = TypeVar("Key")
Value = TypeVar("Value")


class _Memo(dict[Key, Value]):
    """What a function gave for each argument."""

    def __init__(self, function: Callable[[Key], Value]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: Key) -> Value:
        value = self[key] = self._function(key)
        return value


class _Seen:
    """What a grounder has seen: words, spans of these, names of concepts, choices."""

    def __init__(self, grounder: Grounder) -> None:
        self.parts = _Memo[str, bytes](lambda part: grounder._numbered_words(tokenize(part)))  # between two spaces → its words
        self.words = _Memo[str, int](grounder._number_of_word)
        self.spellings: list[str] = []  # number of a word → the word
        self.spans = Interner()  # of words by number, four bytes each
        self.kept = _RowList("q")  # number of a span → concepts kept of it, doubled, + 1 if all its words are stop words
        self.pairs = PairCache(np.zeros(PAIRS, dtype=np.uint64), np.zeros(PAIRS, dtype=np.uint8))
        self.choices: dict[str, _Choice] = {}
        self.found = _RowList("q")  # number of a choice → its concepts
        self.remaining = _RowList("q")  # of these, or else of those of the last resort, what remains
        self.words_of_name = _Memo[str, Words](lambda name: tuple(tokenize(name)))
        self.numbers: dict[str, int] = {}  # name of a concept → its number; below zero if there is none
        self.names: dict[int, str] = {}
        self.all_stop: set[int] = set()  # concepts all of whose words are stop words
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
    """Rows of numbers one behind the other."""

    def __init__(self, kind: str) -> None:
        self._ptr = array("q", [0])
        self._data = array(kind)

    def add(self, row: Iterable[int]) -> None:
        self._data.extend(row)
        self._ptr.append(len(self._data))

    def __getitem__(self, row: int) -> Sequence[int]:
        return self._data[self._ptr[row] : self._ptr[row + 1]]

    def arrays(self) -> tuple[Ints, Ints]:
        # copies: what is on loan as an array cannot grow, and the compiler may keep its first arguments for a while
        return np.array(self._ptr, dtype=np.int64), np.array(self._data, dtype=self._data.typecode)


def _joined(texts: Sequence[bytes]) -> Texts:
    """Return texts of numbered words as arrays."""
    ptr = np.cumsum([0, *map(len, texts)], dtype=np.int64) // 4
    return Texts(ptr, np.frombuffer(b"".join(texts), dtype=np.int32))


def _readings(span: Words, with_gaps: bool) -> set[Words]:
    """How a span may be read: as it stands, and without the articles inside it."""
    if len(span) <= LONGEST and DETERMINERS.isdisjoint(span):
        return {span}
    readings = {span} if len(span) <= LONGEST else set()
    if with_gaps and span[0] not in DETERMINERS and span[-1] not in DETERMINERS:
        inner = tuple(word for word in span if word not in DETERMINERS)
        if len(inner) <= LONGEST:
            readings.add(inner)
    return readings


def _without_outer_marks(words: list[str]) -> list[str]:
    """Without the full stop or quotation marks that a statement may have stripped from a choice."""
    places = [i for i, word in enumerate(words) if word.isalnum() or any(map(str.isalnum, word))]
    return words[places[0] : places[-1] + 1] if places else []


def _without_variants(names: Iterable[str]) -> list[str]:
    """Without "higher" where "high" is, or "bathe" where "bath" is: endings that lemmatising left."""
    names = set(names)
    return [n for n in sorted(names) if not (n.endswith("er") and n[:-2] in names) and not (n.endswith("e") and n[:-1] in names)]
