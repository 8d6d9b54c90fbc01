"""Suggestions for names that a graph lacks."""

from itertools import islice, product

from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import inflected, lemma, tokenize
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.names import concept_name

_TRIED = 1000  # inflections of a name, at most


def check_concepts(graph: KnowledgeGraph, *names: str) -> None:
    """Raise a :class:`~mhgrn.errors.UserError` for the first name that is not a concept of the graph.

    The message suggests a concept with the same lemmas, or else one that is one edit away.

    >>> check_concepts(KnowledgeGraph.from_facts([("mouse", "IsA", "animal")]), "animal", "mice")
    Traceback (most recent call last):
    mhgrn.errors.UserError: 'mice' is not a concept of the graph. Did you mean mouse?
    """
    for name in names:
        if graph.find(concept_name(name)) is None and (other := _with_same_lemmas(graph, name)):
            raise UserError(f"{graph.lacks(name)} Did you mean {other}?")
        graph.id(name)


def _with_same_lemmas(graph: KnowledgeGraph, name: str) -> str | None:
    roots = [lemma(word) for word in tokenize(name)]
    forms = product(*([root, *sorted(inflected(root))] for root in roots))
    return next((other for words in islice(forms, _TRIED) if graph.find(other := "_".join(words)) is not None), None)
