"""Graphs from and to objects in memory: facts, networkx graphs and pandas frames."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_text
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_json
from mhgrn.kg.columns import ROLES, known_columns
from mhgrn.kg.fact_table import FactTable
from mhgrn.kg.label_table import write_labels
from mhgrn.kg.names import concept_name
from mhgrn.kg.reader import BadRow, ImportOptions, Row, RowBlock, table_row
from mhgrn.kg.schema import Schema
from mhgrn.printing import shortened, shown

if TYPE_CHECKING:
    from mhgrn.kg.graph import KnowledgeGraph

_NEEDED = "give tuples of three texts: head, relation, tail"


def facts_graph(facts: Iterable[Any], schema: Schema | None, concepts: Iterable[str] = ()) -> "KnowledgeGraph":
    """Return the graph of facts.

    Args:
        facts: Tuples or mappings of head, relation, tail and perhaps a weight, or a data frame of them.
        schema: The relations of the graph; by default one for each relation name.
        concepts: Names that are numbered first.
    """
    rows = [_row(fact, number) for number, fact in enumerate(_listed(facts), start=1)]
    has_weights = any(len(fields) == 4 for fields, _ in rows)
    table = FactTable(schema, ImportOptions(weights=has_weights))
    table.list_concepts(concepts)
    for _, row in rows:
        if not table.relations.knows(row.relation):
            raise UserError(table.relations.unknown(row.relation))
    table.add(RowBlock.of([row for _, row in rows], table.relations))
    return table.graph({})


def _listed(facts: Any) -> Iterator[Any]:
    if hasattr(facts, "columns") and hasattr(facts, "itertuples"):  # pandas
        return (dict(zip(facts.columns, row, strict=True)) for row in facts.itertuples(index=False, name=None))
    if hasattr(facts, "columns") and hasattr(facts, "iter_rows"):  # polars
        return iter(facts.iter_rows(named=True))
    if isinstance(facts, str | bytes | Mapping) or not isinstance(facts, Iterable):
        raise UserError(f"{shortened(facts)} is not a list of facts; {_NEEDED}, in a list.")
    return iter(facts)


def _row(fact: Any, number: int) -> tuple[Sequence[Any], Row]:
    """Return the fields of a fact, and the fact."""
    fields = fact
    if isinstance(fact, Mapping):
        keys = [str(key) for key in fact]
        places = known_columns(keys, f"fact {number}")
        if places is None:
            raise UserError(
                f"fact {number} has the keys {shown(', '.join(keys))}; the keys are head, relation, tail and, if wanted, weight."
            )
        values = list(fact.values())
        fields = [values[places[role]] for role in ROLES if role in places]
    if isinstance(fields, Iterable) and not isinstance(fields, str | bytes | Set):
        fields = list(fields)
    if not isinstance(fields, list) or len(fields) not in (3, 4) or not all(isinstance(field, str) for field in fields[:3]):
        raise UserError(f"fact {number} is {shortened(fact)}; {_NEEDED}.")
    try:
        for field in fields[:3]:
            field.encode()
        return fields, table_row([str(field) for field in fields])
    except UnicodeEncodeError:
        raise UserError(f"fact {number}, {shortened(fact)}, has half of a surrogate pair.") from None
    except BadRow as problem:
        raise UserError(f"fact {number}, {shortened(fact)}: {problem}.") from None


def networkx_graph(graph: Any, relation: str, weight: str | None, schema: Schema | None) -> "KnowledgeGraph":
    """Return the graph of a networkx graph; see :meth:`KnowledgeGraph.from_networkx`."""
    if not (hasattr(graph, "is_multigraph") and hasattr(graph, "edges") and hasattr(graph, "is_directed")):
        raise UserError(f"{shortened(graph)} is not a graph of networkx; give a DiGraph or a MultiDiGraph.")
    names = {node: concept_name(str(node)) for node in graph.nodes}
    if len(set(names.values())) < len(names) or not all(names.values()):
        seen: dict[str, Any] = {}
        for node, name in names.items():
            if not name or name in seen:
                other = f" and {shortened(seen[name])}" if name else ""
                raise UserError(f"the node {shortened(node)}{other} would have the name {shortened(name)}; rename it.")
            seen[name] = node
    return facts_graph(_edges(graph, names, relation, weight), schema, names.values())


def _edges(graph: Any, names: Mapping[Any, str], relation: str, weight: str | None) -> Iterator[tuple[Any, ...]]:
    for head, tail, attributes in graph.edges(data=True):
        if relation not in attributes:
            known = shown(", ".join(map(str, attributes))) or "none"
            raise UserError(
                f"the edge from {shortened(head)} to {shortened(tail)} has no attribute {shortened(relation)}; it has: {known}. "
                "Name the attribute that holds the relation (relation=...)."
            )
        more = () if weight is None else (attributes.get(weight, 1.0),)
        yield (names[head], str(attributes[relation]), names[tail], *more)
        if not graph.is_directed() and head != tail:
            yield (names[tail], str(attributes[relation]), names[head], *more)


def to_networkx(graph: "KnowledgeGraph") -> Any:
    """Return a ``networkx.MultiDiGraph``; see :meth:`KnowledgeGraph.to_networkx`."""
    try:
        import networkx
    except ImportError:
        raise UserError("to_networkx needs networkx: pip install networkx.") from None
    result = networkx.MultiDiGraph()
    result.add_nodes_from(graph)
    weights = [{}] * graph.fact_count if graph.weight is None else [{"weight": w} for w in graph.weight.tolist()]
    for fact, weight in zip(graph.facts(), weights, strict=True):
        result.add_edge(fact.head, fact.tail, key=fact.relation, relation=fact.relation, **weight)
    return result


def to_pandas(graph: "KnowledgeGraph") -> Any:
    """Return a ``pandas.DataFrame``; see :meth:`KnowledgeGraph.to_pandas`."""
    try:
        import pandas
    except ImportError:
        raise UserError("to_pandas needs pandas: pip install pandas.") from None
    names, relations = list(graph), [relation.name for relation in graph.schema.relations]
    columns = {
        "head": [names[number] for number in graph.heads().tolist()],
        "relation": [relations[number] for number in graph.relation.tolist()],
        "tail": [names[number] for number in graph.tail.tolist()],
    }
    return pandas.DataFrame(columns if graph.weight is None else columns | {"weight": graph.weight.tolist()})


def export(graph: "KnowledgeGraph", folder: Path) -> None:
    """Write a graph as text; see :meth:`KnowledgeGraph.export`."""
    from mhgrn.kg.graph import EXPORTED, EXPORTS, FORMAT

    named = [_written_as(graph.schema, number) for number in range(len(graph.schema))]
    names = [graph.identifier(i) for i in range(len(graph))] if graph.labels else list(graph.names)
    weights = itertools.repeat(None) if graph.weight is None else map(str, graph.weight)
    facts = zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), weights, strict=False)
    with new_folder(folder, EXPORTED, EXPORTS) as partial:
        write_json(partial / EXPORTED, {"format": FORMAT, "fingerprint": graph.fingerprint})
        write_text(partial / "concepts.txt", "".join(f"{name}\n" for name in names))
        write_text(partial / "schema.yaml", graph.schema.to_yaml())
        if graph.labels is not None:
            write_labels(partial / "labels.tsv", graph.labels.all_rows())
        with (partial / "facts.tsv").open("w", encoding="utf-8", newline="") as file:
            file.write("head\trelation\ttail" + ("" if graph.weight is None else "\tweight") + "\n")
            for head, relation, tail, weight in facts:
                member, swapped = named[relation]
                ends = (tail, head) if swapped else (head, tail)
                file.write(f"{names[ends[0]]}\t{member}\t{names[ends[1]]}" + (f"\t{weight}" if weight else "") + "\n")


def _written_as(schema: Schema, relation: int) -> tuple[str, bool]:
    """Return a source relation that is imported as this one, and whether it swaps head and tail (only if all do)."""
    members = schema.relations[relation].members
    member = next((m for m in members if not m.startswith("*")), members[0])
    return member.removeprefix("*"), member.startswith("*")
