"""The topics of a question: the concepts that walks start at."""

import re
from typing import NamedTuple

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder
from mhgrn.kg.graph import KnowledgeGraph

PLACEHOLDER = "it"  # what the text encoder reads instead of a marked topic
LONGEST = 16  # words of a name that is looked for
_MARKED = re.compile(r"\[([^\[\]]+)\]")
_WORD = re.compile(r"\S+")


class Topics(NamedTuple):
    """The topics of a question, and its text as the text encoder reads it."""

    concepts: list[int]
    text: str


def marked_names(stem: str) -> list[str]:
    """The names in brackets.

    >>> marked_names("who directed the films that [Joe Thomas] acted in")
    ['Joe Thomas']
    """
    return [name.strip() for name in _MARKED.findall(stem) if name.strip()]


def masked(stem: str) -> str:
    """The question with a placeholder for every name in brackets: its pattern, which many questions share.

    >>> masked("who directed the films that [Joe Thomas] acted in")
    'who directed the films that it acted in'
    """
    return _MARKED.sub(lambda match: PLACEHOLDER if match[1].strip() else match[0], stem)


def plain_text(stem: str) -> str:
    """The question without the brackets of marked names.

    >>> plain_text("who directed the films that [Joe Thomas] acted in")
    'who directed the films that Joe Thomas acted in'
    """
    return _MARKED.sub(lambda match: match[1], stem)


class TopicFinder:
    """Finds the topics of questions.

    Args:
        graph: The graph whose concepts are looked for.
        marks: Whether the questions that a model was trained on mark their topics with brackets. If they do, one name is looked for
            in a question without brackets, and is replaced by a placeholder too. Otherwise all concepts that grounding finds are
            topics, and the text stays as it is.
    """

    def __init__(self, graph: KnowledgeGraph, marks: bool = False) -> None:
        self.graph, self.marks = graph, marks
        self._grounder: Grounder | None = None

    @property
    def grounder(self) -> Grounder:
        if self._grounder is None:
            self._grounder = Grounder(self.graph)
        return self._grounder

    def find(self, stem: str) -> Topics:
        """The topics of a question. A name in brackets that is not a concept raises a ``UserError``; there may be no topic."""
        if names := marked_names(stem):
            return Topics(sorted({self.graph.id(name) for name in names}), masked(stem))
        if self.marks:
            return self._named(stem)
        found = (self.graph.find(name) for name in self.grounder.concepts(stem))
        return Topics(sorted({concept for concept in found if concept is not None}), stem)

    def find_known(self, stem: str) -> Topics:
        """Like :meth:`find`, but names that are not concepts are ignored."""
        try:
            return self.find(stem)
        except UserError:
            return Topics(sorted({c for name in marked_names(stem) for c in self.graph.find_all(name)}), masked(stem))

    def _named(self, stem: str) -> Topics:
        """The longest name of a concept that the text contains, in any case."""
        words = list(_WORD.finditer(stem))
        for length in range(min(LONGEST, len(words)), 0, -1):
            found = []
            for first in range(len(words) - length + 1):
                start, end = words[first].start(), words[first + length - 1].end()
                name = stem[start:end].rstrip("?!.,;:")
                if concepts := self.graph.find_all(name):
                    found.append((-len(name), start, concepts, name))
            if found:
                _, start, concepts, name = min(found)
                return Topics(sorted(concepts), stem[:start] + PLACEHOLDER + stem[start + len(name) :])
        return Topics([], stem)
