"""Evidence for a question: facts and paths of the graph as sentences, ranked, without repetition, within a token budget."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal

from mhgrn.grounding.lemmas import lemma
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.stated import stated
from mhgrn.kg.words import DETERMINERS, PREPOSITIONS
from mhgrn.printing import printable, shortened

HEADING = "Facts from a knowledge graph that may help with the question. Some may not be relevant."
DIGITS = 4  # of scores
ALIKE = 0.8  # share of common words from which on two sentences say the same
FUNCTION_WORDS = DETERMINERS | PREPOSITIONS | {"is", "are", "be", "can"}
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class EvidenceFact:
    """One fact of the evidence.

    Args:
        fact: Head, relation and tail.
        id: See :attr:`Fact.id`.
        number: The fact's number in the graph; None for a fact that is not stored.
        sentence: The fact as a sentence.
        provenance: Where the fact comes from, as JSON values; None if the graph does not know.
        scores: What the score is made of: ``text``, ``walks``, ``effect`` and ``concepts``; see ``docs/evidence.md``.
    """

    fact: Fact
    id: str
    number: int | None
    sentence: str
    provenance: dict[str, Any] | None
    scores: dict[str, float]

    @classmethod
    def of(cls, graph: KnowledgeGraph, fact: Fact, scores: dict[str, float]) -> "EvidenceFact":
        about = stated(graph, fact)
        return cls(fact, about["id"], about["number"], about["sentence"], about.get("provenance"), scores)


@dataclass(frozen=True)
class EvidenceItem:
    """A fact, or the facts of a path, with a score that ranks them."""

    kind: Literal["fact", "path"]
    facts: list[EvidenceFact]
    score: float

    @property
    def text(self) -> str:
        return " ".join(one.sentence for one in self.facts)


@dataclass(frozen=True, repr=False)
class Evidence:
    """Facts and paths for a question, best first. ``print(evidence)`` shows them as text.

    Args:
        question: The question.
        choices: Its choices; None for an open question.
        items: Facts and paths, best first. No fact is repeated.
        budget: The largest number of tokens of :attr:`text`.
        tokens: The number of tokens of :attr:`text`.
        tokenizer: The text encoder whose tokenizer counts them.
        concepts: The concepts of the graph that were found in the question and its choices.
        candidates: How many facts were ranked.
        notes: Remarks, for example that no concept was found.

    >>> print(Evidence("Where?", None, [], 300, 0, "minilm", [], 0, ["the question contains no concept of the graph."]))
    Where?
      0 of 300 tokens, 0 facts ranked
      note: the question contains no concept of the graph.
    """

    question: str
    choices: list[str] | None
    items: list[EvidenceItem]
    budget: int
    tokens: int
    tokenizer: str
    concepts: list[str]
    candidates: int
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[EvidenceItem]:
        return iter(self.items)

    @property
    def facts(self) -> list[Fact]:
        """All facts, best first."""
        return [one.fact for item in self.items for one in item.facts]

    @property
    def text(self) -> str:
        """One line per item. It has at most ``budget`` tokens."""
        return "\n".join(item.text for item in self.items)

    def context(self, provenance: bool = False) -> str:
        """A block of text to put before a question to a chat model: a heading and numbered items. Empty if there are no items.

        The heading and the numbers are not part of the budget.

        Args:
            provenance: Add file and row of the facts, if the graph knows them.
        """
        lines = [f"[{number}] {item.text}{_sources(item) if provenance else ''}" for number, item in enumerate(self.items, start=1)]
        return "\n".join([HEADING, *lines]) if lines else ""

    def to_dict(self) -> dict[str, Any]:
        """The evidence as JSON values."""
        items = [
            {
                "kind": item.kind,
                "score": item.score,
                "text": item.text,
                "facts": [{**asdict(one), "fact": list(one.fact)} for one in item.facts],
            }
            for item in self.items
        ]
        return {**vars(self), "items": items, "text": self.text}

    def __repr__(self) -> str:
        return f"Evidence(question={shortened(self.question)}, items={len(self.items)}, tokens={self.tokens})"

    def __str__(self) -> str:
        lines = [printable(self.question, keep="\n\t")]
        for item in self.items:
            lines.append(f"  {item.score:.2f}  {printable(item.text)}{printable(_sources(item))}")
        lines.append(f"  {self.tokens} of {self.budget} tokens, {self.candidates:,} facts ranked")
        return "\n".join(lines + [f"  note: {printable(note)}" for note in self.notes])


def _sources(item: EvidenceItem) -> str:
    """The files and rows of an item's facts."""
    known = [one.provenance for one in item.facts if one.provenance is not None]
    places = [f"{one['file']}:{one['row']}" for one in known]
    return f" ({', '.join(dict.fromkeys(places))})" if places else ""


def fill(
    items: Sequence[tuple[float, tuple[Fact, ...]]],
    budget: int,
    sentence_of: Callable[[Fact], str],
    count: Callable[[str], int],
) -> list[tuple[float, list[Fact]]]:
    """Choose items, best first, until the budget is used: each with the facts that were not said before.

    Two concepts are joined by one fact only, and no sentence is said that has almost the same words as an earlier one. An item that
    does not fit is skipped; a smaller one may follow.

    Args:
        items: Scores and facts, best first.
        budget: The largest number of tokens.
        sentence_of: Gives the sentence of a fact.
        count: Gives the number of tokens of a text.

    >>> cat, dog = Fact("cat", "IsA", "pet"), Fact("dog", "IsA", "pet")
    >>> fill([(2.0, (cat, dog)), (1.0, (dog,))], 9, lambda fact: fact.head, len)
    [(2.0, [Fact(head='cat', relation='IsA', tail='pet'), Fact(head='dog', relation='IsA', tail='pet')])]
    """
    pairs: set[frozenset[str]] = set()
    said: list[frozenset[str]] = []
    chosen: list[tuple[float, list[Fact]]] = []
    text = ""
    for score, facts in items:
        new: list[Fact] = []
        for fact in facts:
            words, pair = _content(sentence_of(fact)), frozenset((fact.head, fact.tail))
            if pair not in pairs and not any(_are_alike(words, _content(sentence_of(one))) for one in new):
                new += [] if any(_are_alike(words, other) for other in said) else [fact]
        line = " ".join(map(sentence_of, new))
        longer = f"{text}\n{line}" if text else line
        if not new or count(longer) > budget:
            continue
        text = longer
        pairs |= {frozenset((fact.head, fact.tail)) for fact in new}
        said += [_content(sentence_of(fact)) for fact in new]
        chosen.append((score, new))
    return chosen


@lru_cache(1 << 14)
def _content(sentence: str) -> frozenset[str]:
    """The lemmas of the words of a sentence that are not function words."""
    return frozenset(lemma(word) for word in _WORD.findall(sentence.lower()) if word not in FUNCTION_WORDS)


def _are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sentences have almost the same words.

    >>> _are_alike(frozenset("umbrella use keep dry".split()), frozenset("umbrella use help keep dry".split()))
    True
    """
    return len(one & other) >= ALIKE * len(one | other)
