"""A fact with all that is said about it: sentence, id, number and provenance."""

from typing import Any

from mhgrn.kg.extend import ExtendedGraph
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.sentences import fact_sentence


def stated(graph: KnowledgeGraph, fact: Fact, are_names: bool = False) -> dict[str, Any]:
    """A fact of a graph as JSON values.

    ``fact`` has head, relation and tail; ``id`` is :attr:`Fact.id`; ``number`` is the fact's number in the stored graph, None for a
    fact that was added for one question; ``concepts`` has the ids of head and tail, in a graph with labels; ``provenance`` is there
    if the graph keeps it, and None for a fact without it. The sentence has no articles if concepts ``are_names``.

    >>> fact = Fact("child", "AtLocation", "classroom")
    >>> stated(KnowledgeGraph.from_facts([fact]), fact)["number"]
    0
    """
    base = graph.base if isinstance(graph, ExtendedGraph) else graph
    found: dict[str, Any] = {
        "fact": list(fact),
        "id": fact.id,
        "number": base.number(fact) if base is graph or base.holds(*fact) else None,
        "sentence": fact_sentence(graph.schema, fact, are_names),
    }
    if graph.labels is not None:
        found["concepts"] = [graph.identifier(graph.id(name)) for name in (fact.head, fact.tail)]
    if graph.has_provenance:
        provenance = graph.provenance(fact)
        found["provenance"] = None if provenance is None else provenance.to_dict()
    return found
