"""Merging graphs: the union of their concepts and facts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.kg.label_table import LabelTable
from mhgrn.kg.names import concept_name
from mhgrn.kg.provenance import ROW, provenance_arrays, together
from mhgrn.kg.schema import Relation, Schema
from mhgrn.kg.strings import StringIndex
from mhgrn.progress import track

_ADVICE = "give a schema that says how to merge them (--schema)."


def merge(graphs: Sequence[KnowledgeGraph], schema: Schema | None = None) -> KnowledgeGraph:
    """Merge graphs into one.

    Concepts of the first graph keep their numbers; new ones follow in order. A fact keeps its first weight. Nothing is pruned.
    Concepts are the same if they have the same name; in graphs with labels, if they have the same id. A concept of a graph without
    labels is the one that has its name as id or is the only one with its name as label.

    Args:
        graphs: Two graphs or more.
        schema: The relations of the merged graph. A relation of a graph becomes the one that has its name or has it as a member. By
            default relations with the same name, in any case, are one, in order of first appearance.

    >>> one = KnowledgeGraph.from_facts([("cat", "IsA", "animal")])
    >>> two = KnowledgeGraph.from_facts([("dog", "IsA", "animal"), ("cat", "IsA", "animal"), ("dog", "Likes", "cat")])
    >>> both = merge([one, two])
    >>> [both.name(i) for i in range(len(both))], both.fact_count
    (['cat', 'animal', 'dog'], 3)
    """
    if len(graphs) < 2:
        raise UserError("name two graphs or more to merge.")
    joined = schema or _united(graphs)
    targets = [_targets(graph, label, joined) for graph, label in zip(graphs, _labels(graphs), strict=True)]
    concepts: dict[str, int] = {}
    labelled = [graph for graph in graphs if graph.labels is not None]
    pairs = track(zip(graphs, targets, strict=True), "merging", len(graphs))
    columns = [_columns(graph, joined, *target, _keys(graph, labelled), concepts) for graph, target in pairs]
    head, relation, tail, weight, place = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((relation, tail, head))  # stable: of equal facts that of the first graph comes first
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([column[order[1:]] != column[order[:-1]] for column in (head, relation, tail)], axis=0)
    kept = order[new]
    weights: Any = weight[kept] if any(graph.weight is not None for graph in graphs) else None
    source = {"merged": [graph.fingerprint for graph in graphs]}
    provenance = _provenance(graphs, place[kept], np.repeat(np.arange(len(graphs)), [len(c[0]) for c in columns])[kept])
    names, labels = StringIndex.of(concepts), None
    if labelled:
        table = LabelTable()
        for row in (row for graph in labelled if graph.labels is not None for row in graph.labels.all_rows()):
            table.add(row)
        names, labels = table.finished(names)
    facts = head[kept], relation[kept], tail[kept], weights
    return KnowledgeGraph.from_sorted(names, *facts, joined, source, provenance, labels)


def _keys(graph: KnowledgeGraph, labelled: Sequence[KnowledgeGraph]) -> Iterator[str]:
    """Yield by what concepts are the same in all graphs: their names, or their ids in lower case if a graph has labels."""
    for number, name in enumerate(graph.names):
        if graph.labels is not None and number < len(graph.labels):
            yield graph.labels.keys[number]
            continue
        for other in labelled:
            if (
                other.labels is not None
                and (found := other.labels.find(name)) is not None
                and name in (other.labels.keys[found], concept_name(other.labels.text(found)))
            ):
                yield other.labels.keys[found]
                break
        else:
            yield name


def _provenance(graphs: Sequence[KnowledgeGraph], number: Ints, owner: Ints) -> dict[str, Ints] | None:
    """The provenance of facts, given by their numbers in the graphs that own them; None if no graph has any."""
    arrays = [graph._stored if ROW in graph._stored else None for graph in graphs]
    if not any(arrays):
        return None
    sizes = [graph.fact_count for graph in graphs]
    row, origin, texts = together(arrays, sizes)
    place = np.cumsum([0, *sizes])[owner] + number
    return provenance_arrays(row[place], origin[place], texts)


def _labels(graphs: Iterable[KnowledgeGraph]) -> list[str]:
    return [str(graph.folder) if graph.folder else f"graph {i}" for i, graph in enumerate(graphs, start=1)]


def _united(graphs: Sequence[KnowledgeGraph]) -> Schema:
    """Return the relations of all graphs, one for each name; refuse names that mean different things in two graphs."""
    relations: dict[str, Relation] = {}
    meanings: dict[str, tuple[str, str]] = {}  # member → the relation it is imported as, and the graph
    for graph, label in zip(graphs, _labels(graphs), strict=True):
        for relation in graph.schema.relations:
            known = relations.setdefault(relation.name.lower(), relation)
            if known.symmetric != relation.symmetric:
                one, other = ("symmetric", "not") if relation.symmetric else ("not symmetric", "symmetric")
                raise UserError(f"{relation.name} is {one} in {label} and {other} in an earlier graph; {_ADVICE}")
            for member in relation.members:
                key = member.removeprefix("*")
                meaning = known.name + (" with head and tail swapped" if member.startswith("*") else "")
                before, where = meanings.setdefault(key.lower(), (meaning, label))
                if before != meaning:
                    raise UserError(f"{key} is imported as {before} in {where} and as {meaning} in {label}; {_ADVICE}")
            own = {member.lower() for member in known.members}
            members = (*known.members, *(member for member in relation.members if member.lower() not in own))
            relations[relation.name.lower()] = replace(known, members=members)
    first = graphs[0].schema
    schemas = [graph.schema for graph in graphs]
    united = Schema(
        name=first.name,
        relations=tuple(relations.values()),
        pruned_relations=tuple(dict.fromkeys(relations[r.lower()].name for s in schemas for r in s.pruned_relations)),
        pruned_concepts=tuple(dict.fromkeys(concept for s in schemas for concept in s.pruned_concepts)),
    )
    return united if united == first else replace(united, name="merged")


def _targets(graph: KnowledgeGraph, label: str, joined: Schema) -> tuple[Ints, Ints]:
    """Return for each relation of a graph its number in the merged schema, and whether head and tail are swapped."""
    by_name = {relation.name.lower(): (number, False) for number, relation in enumerate(joined.relations)}
    meaning = joined.lookup | by_name
    used = np.bincount(graph.relation, minlength=len(graph.schema))
    for relation, count in zip(graph.schema.relations, used.tolist(), strict=True):
        if count and relation.name.lower() not in meaning:
            members = {member.removeprefix("*") for r in joined.relations for member in (r.name, *r.members)}
            raise UserError(
                f"the schema {joined.name} lacks the relation {relation.name} of {label} ({count:,} facts)."
                f"{did_you_mean(relation.name, members)}"
            )
    found = [meaning.get(relation.name.lower(), (0, False)) for relation in graph.schema.relations]
    return np.array([number for number, _ in found], dtype=np.int64), np.array([swapped for _, swapped in found], dtype=bool)


def _columns(
    graph: KnowledgeGraph, joined: Schema, number: Ints, swapped: Ints, keys: Iterable[str], concepts: dict[str, int]
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return a graph's facts by the numbers of the merged graph, with their weights and their numbers in the graph.

    The graph's concepts are added to ``concepts``.
    """
    concept = np.array([concepts.setdefault(key, len(concepts)) for key in keys], dtype=np.int64)
    head, tail, swap = concept[graph.heads()], concept[graph.tail], swapped[graph.relation]
    head, tail = np.where(swap, tail, head), np.where(swap, head, tail)
    relation = number[graph.relation]
    weight = np.ones(len(relation), dtype=np.float32) if graph.weight is None else np.asarray(graph.weight)
    both = np.isin(relation, list(joined.symmetric_ids))
    return (
        np.concatenate([head, tail[both]]),
        np.concatenate([relation, relation[both]]),
        np.concatenate([tail, head[both]]),
        np.concatenate([weight, weight[both]]),
        np.concatenate([np.arange(len(relation)), np.flatnonzero(both)]),
    )
