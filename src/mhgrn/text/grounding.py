"""Which concepts of a graph a text mentions: a look-up of lemma n-grams, and rules for what to keep (docs/grounding.md)."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from mhgrn.kg.graph import KnowledgeGraph, concept_name
from mhgrn.text.lemmas import BLACKLIST, DETERMINERS, LONGEST, STOP_WORDS, lemma, lemmatise, respelt, tokenise

KEPT = 3  # concepts kept for one span of text, the shortest names first

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
        self._with_words = lru_cache(maxsize=1 << 20)(self._names_with_words)
        self._choice = lru_cache(maxsize=1 << 16)(self._answer_side)

    def _names_with_words(self, words: Words) -> frozenset[str]:
        """The concepts with the lemmas of ``words``, or where there are none, with those of another spelling."""
        lemmas = tuple(map(lemma, words))
        found = self.graph.with_pattern(lemmas)
        if not found and not self.published and (others := tuple(map(respelt, lemmas))) != lemmas:
            found = self.graph.with_pattern(others)
        return frozenset(self.graph.name(c) for c in found)

    def concepts(self, text: str, answer: str | None = None) -> list[str]:
        """The concepts that ``text`` mentions; spans that are exactly ``answer`` are passed over.

        With ``published`` a lemma that is no concept may be among them; :meth:`mentions` drops it.
        """
        words = tokenise(text)
        passed = tuple(_without_outer_marks(tokenise(answer or "")))
        spans: dict[Words, dict[Words, frozenset[str]]] = {}
        for start, end, key in _spans(words, with_gaps=not self.published):
            span = tuple(words[start:end])
            if span != passed and (found := self._with_words(key)):
                spans.setdefault(span, {})[key] = found
        kept: set[str] = set()
        for by_key in spans.values():
            kept.update(self._chosen(by_key))
        return sorted(kept)

    def _chosen(self, by_key: dict[Words, frozenset[str]]) -> Iterable[str]:
        """The shortest few of a span's concepts, by their lemma where that is among them; and those its words spell out."""
        names = frozenset().union(*by_key.values())
        roots = {lemma(words[0]) for name in names if len(words := tokenise(name)) == 1}
        if not self.published:  # a lemma that is no concept would take a concept's place and then be dropped
            roots = {root for root in roots if self._is_concept(root)}
        candidates = names | roots
        shortest = sorted(candidates, key=lambda name: (len(name), name))[:KEPT]
        kept = set()
        for name in shortest:
            if name not in BLACKLIST:
                root = "_".join(lemmatise(name))
                kept.add(root if root in shortest else name)
        kept |= {name for name in candidates if tuple(tokenise(name)) in by_key}
        return kept if self.published else _without_variants(kept)

    def _is_concept(self, name: str) -> bool:
        return self.graph.find(name) is not None

    def _vocabulary_words(self, text: str) -> list[str]:
        """The last resort: every word that is a concept, by its lemma or as it is, and the text itself if it is one."""
        words = tokenise(text)
        candidates = {concept_name(text), "_".join(_without_outer_marks(words))}
        candidates.update(root if self._is_concept(root := lemma(word)) else word for word in words)
        return sorted(filter(self._is_concept, candidates))

    def _answer_side(self, choice: str) -> tuple[frozenset[str], frozenset[str]]:
        """The choice's concepts, and those with the last resort where there are none."""
        found = frozenset(self.concepts(choice))
        return found, found or frozenset(self._vocabulary_words(choice))

    def mentions(self, statement: str, choice: str) -> Mentions:
        """The question's and the choice's concepts in a statement. Either may be empty."""
        found, answer = self._choice(choice)
        question = frozenset(self.concepts(statement, choice)) - found or frozenset(self._vocabulary_words(statement))
        too_empty = any if self.published else all
        numbers = [
            {
                number
                for name in (_without_variants(names) if self.published else names)
                if not empty(word in STOP_WORDS for word in tokenise(name)) and (number := self.graph.find(name)) is not None
            }
            for names, empty in ((question, too_empty), (answer, all))
        ]
        return Mentions(sorted(numbers[0] - numbers[1]), sorted(numbers[1]))


def _spans(words: list[str], with_gaps: bool) -> Iterator[tuple[int, int, Words]]:
    """Start, end and key of every span: its one to four words; with gaps also those left when articles inside are passed over."""
    for size in range(1, LONGEST + 1):
        for start in range(len(words) - size + 1):
            yield start, start + size, tuple(words[start : start + size])
    if with_gaps:
        places = [i for i, word in enumerate(words) if word not in DETERMINERS]
        for size in range(2, LONGEST + 1):
            for first in range(len(places) - size + 1):
                inner = places[first : first + size]
                if inner[-1] - inner[0] >= size:
                    yield inner[0], inner[-1] + 1, tuple(words[i] for i in inner)


def _without_outer_marks(words: list[str]) -> list[str]:
    """Without the full stop or quotation marks that a statement may have stripped from a choice."""
    places = [i for i, word in enumerate(words) if any(character.isalnum() for character in word)]
    return words[places[0] : places[-1] + 1] if places else []


def _without_variants(names: Iterable[str]) -> list[str]:
    """Without "higher" where "high" is, or "bathe" where "bath" is: endings that lemmatising left."""
    names = set(names)
    return [n for n in sorted(names) if not (n.endswith("er") and n[:-2] in names) and not (n.endswith("e") and n[:-1] in names)]
