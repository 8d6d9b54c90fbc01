"""Which concepts of a graph a text mentions: a look-up of lemma n-grams, and rules for what to keep (docs/grounding.md)."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.kg.spelling import one_edit_away
from mhgrn.text.lemmas import BLACKLIST, DETERMINERS, LONGEST, STOP_WORDS, respelt, tokenise

KEPT = 3  # concepts kept for one span of text, the shortest names first
SHORTEST_MISSPELT = 5  # letters; shorter words are a letter away from too many

Words = tuple[str, ...]


class Mentions(NamedTuple):
    """Concepts of one statement by number, sorted: a concept on both sides is an answer concept."""

    question: list[int]
    answer: list[int]


class Grounder:
    """Finds a graph's concepts in texts. Ties are broken by length, then text: the same graph always gives the same.

    ``published`` follows the published rules to the letter: articles are not passed over, no other spelling is tried, lemmas that
    are no concepts take part; a concept of the question is dropped for any stop word in it, and one of either side for a concept
    from elsewhere in the text that it lengthens.

    >>> graph = KnowledgeGraph.from_facts([("child", "CapableOf", "ride_bike"), ("desk", "AtLocation", "furniture_store")])
    >>> Grounder(graph).concepts("Children who ride a bike to a furniture store")
    ['child', 'furniture_store', 'ride_bike']
    """

    def __init__(self, graph: KnowledgeGraph, published: bool = False) -> None:
        self.graph = graph
        self.published = published
        # texts share most of their spans, statements of a question nearly all
        self._lemma = lru_cache(maxsize=1 << 18)(graph.lemma)
        self._other_lemma = lru_cache(maxsize=1 << 18)(self._lemma_in_other_spelling)
        self._is_odd = lru_cache(maxsize=1 << 18)(self._may_be_another_word)
        self._may_be_concept = lru_cache(maxsize=1 << 20)(self._pair_may_be_concept)
        self._may_begin = lru_cache(maxsize=1 << 20)(self._may_begin_pattern)
        self._kept = lru_cache(maxsize=1 << 20)(self._kept_of_span)
        self._meant = lru_cache(maxsize=1 << 16)(self._meant_by)
        self._choice = lru_cache(maxsize=1 << 16)(self._answer_side)
        self._number = lru_cache(maxsize=1 << 20)(self._number_and_emptiness)

    def concepts(self, text: str, answer: str | None = None) -> list[str]:
        """The concepts that ``text`` mentions; spans that are exactly ``answer`` are passed over.

        With ``published`` a lemma that is no concept may be among them; :meth:`mentions` drops it.
        """
        spans = self._spans(tokenise(text))
        if answer:
            spans.discard(tuple(_without_outer_marks(tokenise(answer))))
        return sorted({name for kept in map(self._kept, spans) for name in kept})

    def _spans(self, words: list[str]) -> set[Words]:
        return _spans(words, self._may_be_concept, self._may_begin, with_gaps=not self.published)

    def _pair_may_be_concept(self, first: str, second: str) -> bool:
        """Whether two words are worth looking up."""
        if self._is_odd(first) or self._is_odd(second) or self.graph.is_pattern(f"{self._lemma(first)} {self._lemma(second)}"):
            return True
        return not self.published and self.graph.knows_word(first + second)

    def _may_begin_pattern(self, first: str, second: str) -> bool:
        """Whether a span of more words that begins with these two is worth looking up."""
        return self._is_odd(first) or self._is_odd(second) or self.graph.begins_pattern(self._lemma(first), self._lemma(second))

    def _kept_of_span(self, span: Words) -> tuple[str, ...]:
        """The shortest few of a span's concepts, by their lemma where that is among them; and those its words spell out."""
        readings = _readings(span, with_gaps=not self.published)
        names = {name for reading in readings for name in self._names(reading)}
        if not names:
            return ()
        roots = {self.graph.lemma(words[0]) for name in names if len(words := tokenise(name)) == 1}
        if not self.published:  # a lemma that is no concept would take a concept's place and then be dropped
            roots = {root for root in roots if self._is_concept(root)}
        candidates = names | roots
        shortest = sorted(candidates, key=lambda name: (len(name), name))[:KEPT]
        kept = set()
        for name in shortest:
            if name not in BLACKLIST:
                root = "_".join(map(self.graph.lemma, tokenise(name)))
                kept.add(root if root in shortest else name)
        kept |= {name for name in candidates if tuple(tokenise(name)) in readings}
        return tuple(kept if self.published else _without_variants(kept))

    def _names(self, words: Words) -> list[str]:
        """The concepts with the lemmas of ``words``, and those that other ways of writing the words find."""
        graph = self.graph
        lemmas = tuple(map(self._lemma, words))
        found = graph.with_pattern(lemmas)
        if not self.published:
            is_odd = any(map(self._is_odd, words))
            if is_odd and not found and (others := tuple(map(self._other_lemma, words))) != lemmas:
                found = graph.with_pattern(others)
            if len(words) == 2:  # written as one: a salt shaker is a saltshaker
                found = found + graph.with_pattern((graph.lemma("".join(words)),))
            if is_odd and self._are_obscure(found):
                found = found + self._misspelt(words, lemmas)
        return [graph.name(concept) for concept in found]

    def _lemma_in_other_spelling(self, word: str) -> str:
        return self.graph.lemma(respelt(self._lemma(word)))

    def _may_be_another_word(self, word: str) -> bool:
        """Whether a word may have to be read as another, which is rare."""
        return not self.published and (self._other_lemma(word) != self._lemma(word) or bool(self._meant(word)))

    def _are_obscure(self, concepts: list[int]) -> bool:
        """Whether no more than one fact is known of all of them: people's graphs hold people's misspellings."""
        return sum(len(self.graph.neighbours(concept)) for concept in concepts) <= 1

    def _misspelt(self, words: Words, lemmas: Words) -> list[int]:
        """The concepts that are found if the one word among these that is none is one a letter away; of several such, the most
        connected."""
        places = [place for place, word in enumerate(words) if self._meant(word)]
        if len(places) != 1:
            return []
        before, after = lemmas[: places[0]], lemmas[places[0] + 1 :]
        found = [self.graph.with_pattern((*before, root, *after)) for root in self._meant(words[places[0]])]
        return max(found, key=lambda concepts: sum(len(self.graph.neighbours(c)) for c in concepts), default=[])

    def _meant_by(self, word: str) -> tuple[str, ...]:
        """The lemmas of the graph's words one letter away from what is no word."""
        graph = self.graph
        if len(word) < SHORTEST_MISSPELT or not (word.isascii() and word.isalpha()):
            return ()
        if graph.lists_word(word) or not self._are_obscure(graph.with_pattern((graph.lemma(word),))):
            return ()
        return tuple(sorted({graph.lemma(other) for other in one_edit_away(word) if other != word and graph.knows_word(other)}))

    def _is_concept(self, name: str) -> bool:
        return self.graph.find(name) is not None

    def _vocabulary_words(self, text: str) -> set[str]:
        """The last resort: every word that is a concept, by its lemma or as it is, and the text itself if it is one."""
        words = tokenise(text)
        candidates = {concept_name(text), "_".join(_without_outer_marks(words))}
        candidates.update(root if self._is_concept(root := self.graph.lemma(word)) else word for word in words)
        return set(filter(self._is_concept, candidates))

    def _answer_side(self, choice: str) -> tuple[Words, set[str], set[int]]:
        """The choice's words, its concepts, and the numbers of these, or of those of the last resort where there are none."""
        found = set(self.concepts(choice))
        numbers = self._numbers(found or self._vocabulary_words(choice), drop_any=False)
        return tuple(_without_outer_marks(tokenise(choice))), found, numbers

    def _number_and_emptiness(self, name: str) -> tuple[int | None, bool, bool]:
        """A concept's number, and whether all or any of its words are stop words."""
        stops = [word in STOP_WORDS for word in tokenise(name)]
        return self.graph.find(name), all(stops), any(stops)

    def _numbers(self, names: Iterable[str], drop_any: bool) -> set[int]:
        numbers = set()
        for name in _without_variants(names) if self.published else names:
            number, all_stop, any_stop = self._number(name)
            if number is not None and not (any_stop if drop_any else all_stop):
                numbers.add(number)
        return numbers

    def mentions(self, statement: str, choice: str) -> Mentions:
        """The question's and the choice's concepts in a statement. Either may be empty."""
        return self.all_mentions([statement], [choice])[0]

    def all_mentions(self, statements: Sequence[str], choices: Sequence[str]) -> list[Mentions]:
        """:meth:`mentions` of a question's statements; what they have in common is looked at once."""
        before, after = _common_ends(statements)
        first, last = tokenise(before), tokenise(after)
        kept = {span: found for words in (first, last) for span in self._spans(words) if (found := self._kept(span))}
        names = {name for found in kept.values() for name in found}
        shared = _Shared(kept, names, _nearest(first[::-1])[::-1], _nearest(last))
        inner = (statement[len(before) : len(statement) - len(after)] for statement in statements)
        return [self._mentions(*each, shared) for each in zip(statements, map(tokenise, inner), choices, strict=True)]

    def _mentions(self, statement: str, words: list[str], choice: str, shared: "_Shared") -> Mentions:
        choice_words, found, answer = self._choice(choice)
        names = shared.names
        if choice_words in shared.kept:
            names = {name for span, kept in shared.kept.items() if span != choice_words for name in kept}
        spans = self._spans(shared.before + words + shared.after)
        spans.discard(choice_words)
        question = names.union(*map(self._kept, spans)) - found or self._vocabulary_words(statement)
        return Mentions(sorted(self._numbers(question, drop_any=self.published) - answer), sorted(answer))


class _Shared(NamedTuple):
    """What the statements of a question have in common: which of its spans find what, and the words next to what differs."""

    kept: dict[Words, tuple[str, ...]]
    names: set[str]
    before: list[str]
    after: list[str]


def _common_ends(statements: Sequence[str]) -> tuple[str, str]:
    """What all statements begin with, up to a space, and what all go on with in the end, from a space on."""
    if len(statements) == 1:
        return "", ""
    before = _common_start(statements)
    before = before[: before.rfind(" ") + 1]
    after = _common_start([statement[len(before) :][::-1] for statement in statements])[::-1]
    return before, after[after.find(" ") :] if " " in after else ""


def _common_start(texts: Sequence[str]) -> str:
    one, other = min(texts), max(texts)  # what these two have in common, all between them have
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:same]


def _nearest(words: list[str]) -> list[str]:
    """The words up to the third that is no article."""
    places = [i for i, word in enumerate(words) if word not in DETERMINERS][: LONGEST - 1]
    return words[: places[-1] + 1] if len(places) == LONGEST - 1 else words


Pair = Callable[[str, str], bool]


def _spans(words: list[str], may_be_concept: Pair, may_begin: Pair, with_gaps: bool) -> set[Words]:
    """Every span worth looking up: one to four words in a row; with gaps also more, of which articles inside are passed over."""
    spans: set[Words] = {(word,) for word in words}
    for i, pair in enumerate(pairwise(words)):
        if may_be_concept(*pair):
            spans.add(pair)
        if may_begin(*pair):
            spans.add(tuple(words[i : i + 3]))
            spans.add(tuple(words[i : i + 4]))
    if with_gaps and not DETERMINERS.isdisjoint(words):
        places = [i for i, word in enumerate(words) if word not in DETERMINERS]
        for size in range(2, LONGEST + 1):
            for number, (first, last) in enumerate(zip(places, places[size - 1 :], strict=False)):
                if last - first >= size and (may_be_concept if size == 2 else may_begin)(words[first], words[places[number + 1]]):
                    spans.add(tuple(words[first : last + 1]))
    return spans


def _readings(span: Words, with_gaps: bool) -> set[Words]:
    """How a span may be read: as it stands, and without the articles inside it."""
    readings = {span} if len(span) <= LONGEST else set()
    if with_gaps and span[0] not in DETERMINERS and span[-1] not in DETERMINERS:
        inner = tuple(word for word in span if word not in DETERMINERS)
        if len(inner) <= LONGEST:
            readings.add(inner)
    return readings


def _without_outer_marks(words: list[str]) -> list[str]:
    """Without the full stop or quotation marks that a statement may have stripped from a choice."""
    places = [i for i, word in enumerate(words) if any(character.isalnum() for character in word)]
    return words[places[0] : places[-1] + 1] if places else []


def _without_variants(names: Iterable[str]) -> list[str]:
    """Without "higher" where "high" is, or "bathe" where "bath" is: endings that lemmatising left."""
    names = set(names)
    return [n for n in sorted(names) if not (n.endswith("er") and n[:-2] in names) and not (n.endswith("e") and n[:-1] in names)]
