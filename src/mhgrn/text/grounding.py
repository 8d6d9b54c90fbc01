"""Which concepts of a graph a text mentions: a look-up of lemma n-grams, with the recipe's rules for what to keep."""

from functools import lru_cache
from typing import NamedTuple

from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.text.lemmas import BLACKLIST, LONGEST, STOP_WORDS, lemma, lemmatise, tokenise

KEPT = 3  # concepts kept for one span of text, the shortest names first


class Mentions(NamedTuple):
    """Concepts of one statement by number, sorted: a concept on both sides is an answer concept."""

    question: list[int]
    answer: list[int]


class Grounder:
    """Finds a graph's concepts in texts. Ties are broken by length, then text: the same graph always gives the same.

    >>> graph = KnowledgeGraph.from_facts([("child", "AtLocation", "classroom"), ("desk", "AtLocation", "furniture_store")])
    >>> Grounder(graph).concepts("Children sat at their desks in a furniture store.")
    ['child', 'desk', 'furniture_store']
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        self._with_pattern = lru_cache(maxsize=1 << 20)(self._names_with_pattern)
        self._choice = lru_cache(maxsize=1 << 16)(self._answer_side)

    def _names_with_pattern(self, lemmas: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.graph.name(c) for c in self.graph.with_pattern(lemmas))

    def concepts(self, text: str, answer: str | None = None) -> list[str]:
        """The concepts that ``text`` mentions; spans that are exactly ``answer`` are passed over."""
        words = tokenise(text)
        lemmas = [lemma(word) for word in words]
        passed = _occurrences(words, tokenise(answer)) if answer else set()
        spans: dict[tuple[str, ...], set[str]] = {}
        for size in range(1, LONGEST + 1):
            for start in range(len(words) - size + 1):
                if (start, start + size) in passed:
                    continue
                found = self._with_pattern(tuple(lemmas[start : start + size]))
                if found:
                    spans.setdefault(tuple(words[start : start + size]), set()).update(found)
        kept: set[str] = set()
        for span, names in spans.items():
            kept |= _choose(span, names)
        return sorted(kept)

    def _vocabulary_words(self, text: str) -> list[str]:
        """The last resort: every word whose lemma is a concept, and the text itself if it is one."""
        candidates = {*lemmatise(text), concept_name(text)}
        return sorted(name for name in candidates if self.graph.find(name) is not None)

    def _answer_side(self, choice: str) -> frozenset[str]:
        return frozenset(self.concepts(choice) or self._vocabulary_words(choice))

    def mentions(self, statement: str, choice: str) -> Mentions:
        """The question's and the choice's concepts in a statement. Either may be empty."""
        answer = self._choice(choice)
        question = set(self.concepts(statement, choice)) - answer or set(self._vocabulary_words(statement)) - answer
        kept = {
            "question": [c for c in _without_variants(question) if not any(w in STOP_WORDS for w in tokenise(c))],
            "answer": [c for c in _without_variants(answer) if not all(w in STOP_WORDS for w in tokenise(c))],
        }
        numbers = {side: {n for c in names if (n := self.graph.find(c)) is not None} for side, names in kept.items()}
        return Mentions(sorted(numbers["question"] - numbers["answer"]), sorted(numbers["answer"]))


def _occurrences(words: list[str], part: list[str]) -> set[tuple[int, int]]:
    size = len(part)
    return {(i, i + size) for i in range(len(words) - size + 1) if words[i : i + size] == part} if size else set()


def _choose(span: tuple[str, ...], names: set[str]) -> set[str]:
    """The shortest few of a span's concepts, by their lemma where that is among them; and the one the span spells out."""
    candidates = names | {lemma(name) for name in names if "_" not in name}
    shortest = sorted(candidates, key=lambda name: (len(name), name))[:KEPT]
    kept = set()
    for name in shortest:
        if name not in BLACKLIST:
            root = "_".join(lemmatise(name))
            kept.add(root if root in shortest else name)
    spelled = "_".join(span)
    if spelled in candidates:
        kept.add(spelled)
    return kept


def _without_variants(names: set[str] | frozenset[str]) -> list[str]:
    """Without "baker" where "bak" is, or "bake" where "bak" is: endings that lemmatising left."""
    return [n for n in sorted(names) if not (n.endswith("er") and n[:-2] in names) and not (n.endswith("e") and n[:-1] in names)]
