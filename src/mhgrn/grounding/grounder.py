"""Grounding: finding the concepts that a text mentions, by the rules of docs/grounding.md."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.compiled.pool import Pool
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.matching import Matcher, StatementRows, ranges
from mhgrn.kg.graph import KnowledgeGraph

CACHED = 1 << 26  # bytes that the cache of one thread may have; a larger one is dropped
AT_ONCE = 1 << 20  # characters of the statements that are grounded at once, unless one is longer: bounds the memory

Ints = NDArray[Any]
_NONE = np.empty(0, dtype=np.int64)


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

    Any number of threads may use one grounder. It caches the spans of text it has seen, up to 64 MiB for each thread.

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
        self._matchers = Pool(self._matcher, lambda matcher: matcher.size <= CACHED)

    def _matcher(self) -> Matcher:
        return Matcher(self.graph, self.index, self.published)

    def concepts(self, text: str, answer: str | None = None) -> list[str]:
        """Return the names of the concepts that a text mentions.

        With ``published`` the result may contain lemmas that are not concepts; :meth:`mentions` drops them.

        Args:
            text: The text.
            answer: Spans that equal this text are skipped.
        """
        with self._matchers.taken() as matcher:
            return matcher.names(text, answer or "")

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
        found = [self._rows(statements[a:b], choices[a:b]) for a, b in ranges([*map(len, statements)], AT_ONCE)]
        lengths = [np.diff(rows.ptr) for rows in found]
        return Mentioned(
            np.cumsum([0, *sizes], dtype=np.int64),
            np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64),
            np.concatenate([_NONE, *(rows.of_question for rows in found)]),
            np.concatenate([_NONE, *(rows.concepts for rows in found)]),
        )

    def _rows(self, statements: Sequence[str], choices: Sequence[str]) -> StatementRows:
        with self._matchers.taken() as matcher:
            return matcher.mentioned(statements, choices)
