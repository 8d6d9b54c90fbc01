"""The texts by which concepts are found: their names; in a graph with labels, all labels and aliases."""

from mhgrn.grounding.lemmas import LONGEST
from mhgrn.kg.graph import KnowledgeGraph

LONGEST_LABEL = 16  # words of a label that is searched for, at most
_MARKS = ".,;:?!\"'“”‘’()[]"


class Surfaces:
    """Numbered texts and their concepts. In a graph without labels, a text is a name and has the number of its concept.

    Args:
        graph: The graph. The new concepts of an extended graph have the numbers after all labels and aliases.

    >>> surfaces = Surfaces(KnowledgeGraph.from_facts([("child", "IsA", "person")]))
    >>> surfaces.find("person"), surfaces[1], surfaces.concepts(1)
    (1, 'person', [1])
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._names, self._labels = graph.names, graph.labels
        self.are_names = self._labels is None
        self.offset = 0 if self._labels is None else len(self._labels.surfaces) - len(self._labels)  # of new concepts

    def find(self, text: str) -> int | None:
        """Return the number of a text in lower case with underscores, or None."""
        if self._labels is None:
            return self._names.find(text)
        found = self._labels.surfaces.find(text)
        if found is None and (concept := self._names.find(text)) is not None and concept >= len(self._labels):
            return concept + self.offset
        return found

    def __getitem__(self, number: int) -> str:
        if self._labels is None:
            return self._names[number]
        texts = self._labels.surfaces
        return texts[number] if number < len(texts) else self._names[number - self.offset]

    def long_in(self, text: str) -> tuple[int, ...]:
        """Return the labels and aliases in a text that have more words than a pattern. They are found as they are spelled."""
        if self._labels is None:
            return ()
        words, found = text.lower().split(), set[int]()
        for start in range(len(words) - LONGEST):
            first = words[start].lstrip(_MARKS)
            for end in range(start + LONGEST + 1, min(start + LONGEST_LABEL, len(words)) + 1):
                middle, last = words[start + 1 : end - 1], words[end - 1]
                for ending in dict.fromkeys((last, last.rstrip(_MARKS))):
                    if (number := self.find("_".join([first, *middle, ending]))) is not None:
                        found.add(number)
        return tuple(sorted(found))

    def concepts(self, number: int) -> list[int]:
        """Return the concepts of a text, ascending: more than one for a homonym."""
        if self._labels is None:
            return [number]
        return self._labels.concepts_of(number) if number < len(self._labels.surfaces) else [number - self.offset]
