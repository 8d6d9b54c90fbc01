"""Where the facts that an answer shows come from."""

from collections.abc import Collection, Iterable
from typing import Any

from mhgrn.inference.batch import Decoded
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.printing import printable


def sources_of(graph: KnowledgeGraph, facts: Iterable[Fact]) -> list[dict[str, Any]] | None:
    """The id and the provenance of each fact, once, as JSON values; None if the graph keeps no provenance.

    The provenance of a fact that was added for this question is None.
    """
    if not graph.has_provenance:
        return None
    found = []
    for fact in dict.fromkeys(facts):
        provenance = graph.provenance(fact)
        known = None if provenance is None else provenance.to_dict()
        found.append({"fact": list(fact), "id": fact.id, "provenance": known})
    return found


def shown_facts(decoded: Decoded) -> list[Fact]:
    """The facts of the evidence and of the paths of an answer."""
    carried = [] if decoded.evidence is None else [one.fact for one in decoded.evidence.facts]
    return carried + [fact for path in decoded.paths for fact in path.facts]


def source_lines(sources: list[dict[str, Any]] | None, shown: Collection[Fact]) -> list[str]:
    """Lines of an answer's text: file, row and dataset of each fact that is shown."""
    lines = []
    for one in sources or []:
        if one["provenance"] is not None and Fact(*one["fact"]) in shown:
            head, relation, tail = one["fact"]
            about = one["provenance"]
            dataset = f", {about['dataset']}" if "dataset" in about else ""
            text = f"{head} —{relation}→ {tail}".replace("_", " ")
            lines.append(printable(f"source of {text}: {about['file']}:{about['row']}{dataset}"))
    return lines
