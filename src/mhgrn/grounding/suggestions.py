"""Suggestions for names that a graph lacks."""

from difflib import get_close_matches
from itertools import islice, product

from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import inflected, lemma, tokenize
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.names import LONGEST, concept_name, one_edit_away
from mhgrn.printing import shown

_TRIED = 1000  # inflections of a name, at most
_COMPARED = 20_000  # names compared letter by letter, at most
_LISTED = 3


def check_concepts(graph: KnowledgeGraph, *names: str) -> None:
    """Raise a :class:`~mhgrn.errors.UserError` for the first name that is not a concept of the graph.

    The message suggests a concept with the same lemmas, or else one that is one edit away, or else some that are similar: the same
    words in another order or spacing, most of the same letters, or a name that begins with this one or has all its words.

    >>> graph = KnowledgeGraph.from_facts([("mouse", "IsA", "animal"), ("cat", "AtLocation", "animal_shelter")])
    >>> check_concepts(graph, "animal", "mice")
    Traceback (most recent call last):
    mhgrn.errors.UserError: 'mice' is not a concept of the graph. Did you mean mouse?
    >>> check_concepts(graph, "shelter")
    Traceback (most recent call last):
    mhgrn.errors.UserError: 'shelter' is not a concept of the graph. Did you mean animal_shelter?
    """
    for name in names:
        stored = concept_name(name)
        if graph.find_one(name) is not None:
            continue
        if len(stored) <= LONGEST:
            if other := _with_same_lemmas(graph, name):
                raise UserError(f"{graph.lacks(name)} Did you mean {shown(other)}?")
            if not any(graph.find(other) is not None for other in one_edit_away(stored)) and (found := _similar(graph, stored)):
                listed = " or ".join(filter(None, [", ".join(map(shown, found[:-1])), shown(found[-1])]))
                raise UserError(f"{graph.lacks(name)} Did you mean {listed}?")
        graph.id(name)


def _with_same_lemmas(graph: KnowledgeGraph, name: str) -> str | None:
    roots = [lemma(word) for word in tokenize(name)]
    forms = product(*([root, *sorted(inflected(root))] for root in roots))
    return next((other for words in islice(forms, _TRIED) if graph.find(other := "_".join(words)) is not None), None)


def _similar(graph: KnowledgeGraph, name: str) -> list[str]:
    """Return the names of a few similar concepts, the most similar first."""
    if len(name) < 2:
        return []
    words, letters = set(name.split("_")), name.replace("_", "")
    same: list[str] = []  # the same words in another order or spacing
    close: list[str] = []  # to be compared letter by letter
    longer: list[str] = []  # begins with the name, or has all its words
    for other in graph.names if graph.labels is None else graph.labels.surfaces:
        if (len(other) == len(name) and set(other.split("_")) == words) or other.replace("_", "") == letters:
            same.append(other)
        elif other.startswith(name) or (name in other and words <= set(other.split("_"))):
            longer.append(other)
        elif other[:2] == name[:2] and abs(len(other) - len(name)) <= 3 and len(close) < _COMPARED:
            close.append(other)
    near = get_close_matches(name, close, n=_LISTED, cutoff=0.75)
    return [*same, *near, *sorted(longer, key=len)][:_LISTED]
