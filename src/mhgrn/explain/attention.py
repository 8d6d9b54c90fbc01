"""Attention as plain data for JSON: every logit and share of the distribution over walks, by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoding
from mhgrn.errors import UserError
from mhgrn.explain.walks import WalkDistribution, attends_to_walks
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.schema import Schema
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION

TYPES = {"question": QUESTION, "answer": ANSWER, "other": OTHER}


def relation_names(schema: Schema) -> list[str]:
    """Return the names of all relations of a batch; reverse relations are marked with ``*``, as in schema files.

    >>> relation_names(Schema.derived(["IsA", "MadeOf"]))
    ['IsA', 'MadeOf', '*IsA', '*MadeOf']
    """
    names = [relation.name for relation in schema.relations]
    return names + [f"*{name}" for name in names]


def attention(
    encoding: GraphEncoding, batch: GraphBatch, statements: Mapping[str, int], graph: KnowledgeGraph, first_head: bool = False
) -> dict[str, Any]:
    """Return the attention of a model to each of some statements.

    Args:
        encoding: the result of a graph encoder that attends to walks.
        batch: the graphs that it encoded.
        statements: number of the graph in the batch, by the name to use for a statement.
        graph: the knowledge graph.
        first_head: use the attention of head 0 instead of the mean of all heads, as the published code does.

    The result has one key, ``statements``, with an entry for each name:

    - ``pooling``: the share of each answer entity, and ``masses``: of walks, no path and the entity itself;
    - ``layers``: for each layer δ (``relations``), τ(r, r') (``turns``, as ``{r: {r': logit}}``) and f (``types``; null where no
      walk may begin; types without nodes are missing), all as logits, parts of log α; with ``mhgrn.relevance_prior`` the logits
      of ``concepts`` that a walk leaves; and for the last layer ``lengths``, for each answer entity the shares of 0 … K hops, 0
      being the entity itself.
    """
    if not attends_to_walks(encoding):
        raise UserError("this model attends to no walks of a graph; there is no attention to show.")
    names = relation_names(graph.schema)
    found: dict[str, Any] = {}
    for statement, number in statements.items():
        walks = WalkDistribution.of(encoding, batch, number, first_head)
        entity = {node: graph.name(int(batch.concepts[node])) for node in walks.pool}
        layers: list[dict[str, Any]] = []
        mine = (batch.batch == number).cpu().numpy()
        concepts = batch.concepts.cpu().numpy()[mine].tolist()
        types = batch.node_type.cpu().numpy()
        for trace in encoding.traces:
            start = trace.weights.start.detach().double().cpu().numpy()
            turn = trace.weights.turn[number] if trace.weights.turn.dim() == 3 else trace.weights.turn
            of_type = {name: start[mine & (types == kind)] for name, kind in TYPES.items()}
            layers.append(
                {
                    "relations": dict(zip(names, _rows(trace.weights.relation)[number], strict=True)),
                    "turns": {a: dict(zip(names, row, strict=True)) for a, row in zip(names, _rows(turn), strict=True)},
                    "types": {name: float(f[0]) if np.isfinite(f[0]) else None for name, f in of_type.items() if len(f)},
                }
            )
            if trace.node_log_weight is not None:
                leave = trace.node_log_weight.detach().double().cpu().numpy()[mine].tolist()
                layers[-1]["concepts"] = {graph.name(c): logit for c, logit in zip(concepts, leave, strict=True)}
        layers[-1]["lengths"] = {entity[node]: shares.tolist() for node, shares in walks.lengths.items()}
        found[statement] = {
            "pooling": {entity[node]: share for node, share in walks.pool.items()},
            "masses": walks.masses,
            "layers": layers,
        }
    return {"statements": found}


def _rows(logits: Tensor) -> list[list[float]]:
    rows: list[list[float]] = logits.detach().double().cpu().tolist()
    return rows
