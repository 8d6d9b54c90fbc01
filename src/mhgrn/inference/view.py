"""A question's part of the graph, as plain data for a picture."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from mhgrn.encoders.base import GraphEncoder
from mhgrn.explain import WalkDistribution, attends_to_walks
from mhgrn.inference.asked import stored_fact, triples
from mhgrn.inference.batch import Read
from mhgrn.kg.extend import ExtendedGraph
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.sentences import fact_sentence, label
from mhgrn.subgraphs.extract import ANSWER, QUESTION

MOST_NODES = 200
MOST_EDGES = 600

Edge = tuple[int, int, int]  # concept, relation, concept


def view_of(read: Read, q: int, facts: Sequence[Fact], encoder: GraphEncoder, first_head: bool) -> dict[str, Any]:
    """The union of the subgraphs of a question's choices, as JSON values.

    - ``nodes``: ``name``, ``label``, ``role`` (question, choice or between) and ``choices``: for a concept of choices the numbers
      of these choices, for others those of the choices whose subgraphs have it;
    - ``edges``: ``head`` and ``tail`` (numbers of nodes), ``relation``, ``sentence``, and whether the fact was ``added``;
    - ``left_out``: how many nodes and edges are not shown.

    Nodes and edges of the shown facts come first, then the concepts of the question and the choices, then the most attended.
    """
    graph = read.knowledge.graph
    roles: dict[int, str] = {}
    owners: defaultdict[int, set[int]] = defaultdict(set)
    edges: dict[Edge, float] = {}
    for choice, statement in enumerate(range(read.first[q], read.first[q + 1])):
        subgraph = read.subgraphs[statement]
        concepts = np.asarray(subgraph.concepts).tolist()
        for concept, kind in zip(concepts, np.asarray(subgraph.types).tolist(), strict=True):
            if kind == ANSWER and roles.get(concept) != "choice":
                roles[concept], owners[concept] = "choice", set()
            elif kind == QUESTION:
                roles.setdefault(concept, "question")
                roles[concept] = "question" if roles[concept] == "between" else roles[concept]
            else:
                roles.setdefault(concept, "between")
            if kind == ANSWER or roles[concept] != "choice":
                owners[concept].add(choice)
        columns = (np.asarray(column).tolist() for column in (subgraph.head, subgraph.relation, subgraph.tail))
        edges |= {(concepts[h], r, concepts[t]): 0.0 for h, r, t in zip(*columns, strict=True)} | edges
        for edge, use in _uses(read, statement, encoder, first_head).items():
            edges[edge] = edges.get(edge, 0.0) + use
    shown = {_edge(graph, fact) for fact in facts}
    attended: defaultdict[int, float] = defaultdict(float)
    for (head, _, tail), use in edges.items():
        attended[head] += use
        attended[tail] += use
    on_path = {concept for head, _, tail in shown for concept in (head, tail)}
    order = sorted(roles, key=lambda c: (c not in on_path, roles[c] == "between", -attended[c], c))
    place = {concept: number for number, concept in enumerate(order[:MOST_NODES])}
    among = [edge for edge in edges if edge[0] in place and edge[2] in place]
    kept = sorted(among, key=lambda edge: (edge not in shown, -edges[edge], edge))[:MOST_EDGES]
    added = added_edges(graph)
    return {
        "nodes": [
            {"name": graph.name(c), "label": label(graph.name(c)), "role": roles[c], "choices": sorted(owners[c])}
            | ({} if graph.labels is None else {"id": graph.identifier(c)})
            for c in place
        ],
        "edges": [
            {
                "head": place[edge[0]],
                "relation": graph.schema.relations[edge[1]].name,
                "tail": place[edge[2]],
                "sentence": fact_sentence(graph.schema, _named(graph, edge)),
                "added": edge in added,
            }
            for edge in kept
        ],
        "left_out": {"nodes": len(roles) - len(place), "edges": len(edges) - len(kept)},
    }


def _uses(read: Read, statement: int, encoder: GraphEncoder, first_head: bool) -> dict[Edge, float]:
    """The expected number of uses of each fact of a statement's graph, if the model attends to walks."""
    if not encoder.uses_graph or not attends_to_walks(read.encoding) or not len(read.subgraphs[statement].head):
        return {}
    batch = read.batch
    marginals = WalkDistribution.of(read.encoding, batch, statement, first_head).edge_marginals()
    (source, target), half = batch.edge_index[:, marginals.edges].tolist(), batch.num_relations // 2
    concepts, uses = batch.concepts.tolist(), defaultdict[Edge, float](float)
    for a, b, r, use in zip(source, target, batch.edge_type[marginals.edges].tolist(), marginals.uses.tolist(), strict=True):
        head, tail = (a, b) if r < half else (b, a)
        uses[concepts[head], r % half, concepts[tail]] += use
    return uses


def _edge(graph: KnowledgeGraph, fact: Fact) -> Edge:
    return graph.id(fact.head), [relation.name for relation in graph.schema.relations].index(fact.relation), graph.id(fact.tail)


def _named(graph: KnowledgeGraph, edge: Edge) -> Fact:
    return Fact(graph.name(edge[0]), graph.schema.relations[edge[1]].name, graph.name(edge[2]))


def added_edges(graph: KnowledgeGraph) -> set[Edge]:
    """The facts that were added to the graph for this question."""
    if not isinstance(graph, ExtendedGraph):
        return set()
    base = graph.base
    found = {triple for fact in graph.added for triple in triples(graph, stored_fact(graph, fact))}
    return {edge for edge in found if max(edge[0], edge[2]) >= len(base) or not base.holds(*_named(graph, edge))}
